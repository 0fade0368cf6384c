#pragma once

/* Named volumes of `rind run` without a daemon: the same as volume-use.h, by the launcher in this
 * process, which is waited for. */

struct err;
struct launcher;
struct spec;

/* Makes and fills what the spec names. layers, root_fd: as for sandbox_request. */
int volumes_alone(struct launcher *l, const struct spec *spec, const char *const *layers,
                  int root_fd, struct err *err);
/* Removes the anonymous ones. */
void volumes_alone_end(struct launcher *l, const struct spec *spec);
