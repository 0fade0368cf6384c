#pragma once

/*
 * Snapshots of sandboxes (docs/images.md): of all of one, as an image whose parent is its image; of
 * one directory, as a named volume; and clones. A sandbox that runs is paused while its files are
 * read, and goes on as soon as they have been; one that is paused, stopped or created is read as it
 * is. What is mounted into it is not part of it.
 *
 * Ids are those of the inside: the same files make the same layer, whatever range they were in.
 */

#include <stdbool.h>

#include "core/images.h"
#include "core/sandbox.h"
#include "core/volumes.h"

struct snapshot_options {
    const char *name;             /* of the image, or NULL */
    const char *message, *author; /* or NULL */
    const char *const *changes;   /* NULL-terminated, as images_import's; or NULL */
    bool no_pause;
};

/* cb's image is the callee's. -EBUSY by state; -EOPNOTSUPP: its root is a directory of the host's.
 */
int sandbox_snapshot(struct sandbox *s, const struct snapshot_options *o, image_cb cb, void *data,
                     struct err *err);

/* A new volume with what is in the directory `dir`, an absolute path inside; name: NULL = made up.
 * Its labels say what it is of. -EEXIST, limits: as volume_create; -ENOENT: there is no such
 * directory. */
int sandbox_snapshot_dir(struct sandbox *s, const char *dir, const char *name,
                         const struct caller *creator, volume_cb cb, void *data, struct err *err);

/* Whether its files can be copied: -EBUSY by state, -ENOENT. */
int sandbox_check_readable(const struct sandbox *s, struct err *err);
