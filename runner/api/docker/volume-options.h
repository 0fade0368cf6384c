#pragma once

/* Volumes of Docker's driver "local" with options: names for another mount.
 *
 *   type=none, o=bind, device=DIR     a directory of the host
 *   type=tmpfs, o=size=…              a tmpfs, of each container its own
 *
 * A create body that names such a volume is rewritten before it is decoded: to a bind, or to a
 * tmpfs. So the client policy, the checks of binds and the launcher's opening of the directory with
 * the rights of the container's creator apply as they do to a bind. Only the user that made such a
 * volume can use it: the directory was named by that user. */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct err;
struct http_request;
struct sandbox;
struct volume_entry;

/* Reads DriverOpts (borrowed; may be NULL). *ret_text: owned, for volume_params.options, or NULL;
 * *ret_bytes: the size of a volume of its own, or unchanged. -EINVAL, -EOPNOTSUPP. */
int docker_volume_options_read(const char *name, json_t *options, char **ret_text,
                               uint64_t *ret_bytes, struct err *err);
/* Returns the options as given, for inspect; NULL: none. */
json_t *docker_volume_options(const struct volume_entry *v);
/* Rewrites a create body (borrowed, changed). *ret_kept: owned; what inspect shows of it
 * (docker_volumes_keep), or NULL if nothing was rewritten. -EPERM, -EOPNOTSUPP, -ENOMEM. */
int docker_volumes_replace(struct http_request *req, json_t *body, json_t **ret_kept,
                           struct err *err);
/* Puts *ret_kept (may be NULL) into what is kept of the container. False on OOM. */
bool docker_volumes_keep(json_t *kept, json_t *replaced);
/* Returns the volume's name if a mount at target was one; NULL: none. kept: docker_kept's. */
const char *docker_volume_replaced(json_t *kept, const char *target);
/* True if a container's body has named the volume, as docker_volumes_replace saw it. */
bool docker_volume_is_named(const struct sandbox *s, const char *name);
