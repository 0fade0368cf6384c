#pragma once

/* Checks a spec against the client policy. */

struct client_policy;
struct err;
struct spec;

/*
 * Returns 0, or -EPERM; err names the refused field: "volumes[0].source: \"/etc\": the client
 * policy allows no volume from there". Unset fields, for which the sandbox's policy counts, are not
 * checked. Paths are compared as text; the launcher follows no symbolic links in them.
 */
int client_check_spec(const struct client_policy *p, const struct spec *s, struct err *err);
/* The part of it that is about limits, swap and weights. */
int client_check_limits(const struct client_policy *p, const struct spec *s, struct err *err);
