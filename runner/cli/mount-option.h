#pragma once

/* --mount in docker's syntax: type=bind|volume|tmpfs,source=SRC,target=DST,... */

struct err;
struct spec;

/*
 * Adds one mount to the spec. What docker's key asks for and rind does not give is refused by its
 * name. -EINVAL, -ERANGE, -E2BIG, -ENOMEM.
 */
int spec_add_mount(struct spec *spec, const char *text, struct err *err);
