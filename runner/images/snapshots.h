#pragma once

/*
 * Snapshots of sandboxes (docs/images.md): of a whole sandbox, as an image with the sandbox's image
 * as its parent; or of one directory, as a named volume. A running sandbox is paused while its
 * files are read, and resumed right after. A paused, stopped or created sandbox is read as it is.
 * Mounted volumes and directories are not included.
 *
 * File owners are stored with the ids inside the sandbox, so equal files give equal layers,
 * whatever the id range.
 */

#include <stdbool.h>

#include "images/images.h"
#include "sandbox/sandbox.h"
#include "volume/volumes.h"

struct snapshot_options {
    const char *name;             /* name of the new image, or NULL */
    const char *message, *author; /* each may be NULL */
    const char *const *changes;   /* NULL-terminated, as for images_import; or NULL */
    bool no_pause;
};

/*
 * The callee of cb frees the image. -EBUSY: by state; -EOPNOTSUPP: the sandbox's root is a
 * directory of the host.
 */
int sandbox_snapshot(struct sandbox *s, const struct image_view *view,
                     const struct snapshot_options *o, image_cb cb, void *data, struct err *err);

/*
 * Makes a volume with the contents of `dir`, an absolute path inside. name: NULL = a random name.
 * Labels record the origin. -EEXIST, limits: as volume_create; -ENOENT: no such directory.
 */
int sandbox_snapshot_dir(struct sandbox *s, const char *dir, const char *name,
                         const struct caller *creator, volume_cb cb, void *data, struct err *err);

/* Returns 0 if the sandbox's files can be copied; -EBUSY: by state; -ENOENT. */
int sandbox_check_readable(const struct sandbox *s, struct err *err);
