#pragma once

/* Whether a client policy allows a spec. */

struct client_policy;
struct err;
struct spec;

/*
 * 0, or -EPERM with the field that is refused: "volumes[0].source: \"/etc\": the client policy
 * allows no volume from there". What a spec leaves to its policy is that policy's. Paths are
 * compared as text: the launcher follows no symbolic link in them.
 */
int client_check_spec(const struct client_policy *p, const struct spec *s, struct err *err);
