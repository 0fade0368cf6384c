#pragma once

/*
 * Images: the store (docs/images.md) with all that is done to it. Everything is asynchronous and
 * happens on one loop; files are read and hashed in the thread pool; archives are read by confined
 * workers (image/worker-proto.h), which the launcher starts.
 *
 * The store may be worked on by several processes at the same time (a daemon, `rind images` without
 * one): nothing of it is cached here that could be another's next moment.
 *
 * An image is named by a reference ("alpine", "ghcr.io/a/b:1", "alpine@sha256:…"), by its id
 * ("sha256:…" of its configuration) or by at least IMAGE_PREFIX_MIN digits of that.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/auto.h"
#include "image/config.h"
#include "image/reference.h"
#include "image/store.h"

struct err;
struct images;
struct launcher_client;
struct spec;
struct supervisor_limits;

enum { IMAGE_PREFIX_MIN = 4 };

struct images_config {
    uv_loop_t *loop;                        /* borrowed */
    struct launcher_client *launcher;       /* borrowed: for workers and layers */
    int dir_fd;                             /* borrowed: the supervisor's tree, with "images" */
    const struct supervisor_limits *limits; /* borrowed */
    /* Calls images_used with the spec of each sandbox that there is. */
    void (*each_used)(void *data, struct images *im);
    /* Something happened: "image_load", "image_tag", "image_untag", "image_remove". May be NULL. */
    void (*on_event)(void *data, const char *type, const char *id, const char *name);
    void *data;
};

int images_new(const struct images_config *config, struct images **ret, struct err *err);
/* Cancels what is under way; frees when the loop has run the rest. NULL is fine. */
void images_close(struct images *im);
/* Only from within each_used. */
void images_used(struct images *im, const struct spec *spec);

/* ---- one image ---- */

/* Called once. image: the callee's to free; NULL with r < 0. -ENOENT, -ENOTUNIQ (a prefix of
 * several), -EINVAL, -EUCLEAN (it is damaged: err says which blob). */
typedef void (*image_cb)(void *data, int r, struct image *image, const struct err *err);
/* Called once; err explains r < 0 and is valid during the call. */
typedef void (*images_done_cb)(void *data, int r, const struct err *err);

int images_find(struct images *im, const char *name, image_cb cb, void *data, struct err *err);
/* The same, for a sandbox that is to start from it: layers that are not there any more (a host that
 * went down may have lost some) are unpacked again from their blobs first. */
int images_ready(struct images *im, const char *name, image_cb cb, void *data, struct err *err);
/* Newest first. The list is the callee's (image_list_free). Damaged images have config NULL. */
typedef void (*image_list_cb)(void *data, int r, struct image **list, size_t count,
                              const struct err *err);
int images_list(struct images *im, image_list_cb cb, void *data, struct err *err);

/* Puts what the image says beneath what the spec says, in Docker's way: the spec is that of a
 * sandbox from then on, with spec->image_id set. Pure. -EINVAL names the image's field. */
int image_merge(const struct image *image, struct spec *spec, struct err *err);

/* ---- names and removal ---- */

/* Gives the image another name (whole or short; the tag is "latest" where there is none); the name
 * is taken from the image that had it. */
int images_tag(struct images *im, const char *name, const char *new_name, images_done_cb cb,
               void *data, struct err *err);

/* What a removal did. Strings are valid during the call. */
struct images_removed {
    const char *const *untagged; /* NULL-terminated; names */
    const char *const *deleted;  /* NULL-terminated; ids of images */
    int64_t bytes;               /* of blobs that were deleted */
};
typedef void (*images_removed_cb)(void *data, int r, const struct images_removed *removed,
                                  const struct err *err);
/*
 * By a reference: takes that name away, and the image with its last one. By id: the image, when it
 * has one name at most, or with force. -EBUSY: a sandbox is made from it; with force its layers
 * stay until the last such sandbox has gone, and nothing else.
 */
int images_remove(struct images *im, const char *name, bool force, images_removed_cb cb, void *data,
                  struct err *err);
/* Images without a name that nobody uses; with `all` also those with names. And every blob and
 * layer that is nobody's. */
int images_prune(struct images *im, bool all, images_removed_cb cb, void *data, struct err *err);
/* Removes what nobody needs, some time; also what an earlier process has left half made. */
void images_sweep_soon(struct images *im);
/* A sandbox is gone: what only waited for that is removed, some time. */
void images_sandbox_gone(struct images *im);

struct images_usage {
    uint64_t images;
    int64_t blob_bytes, layer_bytes; /* on disk; layers unpacked, as the file system counts them */
};
typedef void (*images_usage_cb)(void *data, int r, const struct images_usage *usage,
                                const struct err *err);
int images_usage(struct images *im, images_usage_cb cb, void *data, struct err *err);

/* ---- bytes in ---- */

/* A step of a load, for who shows it. Strings are valid during the call. */
struct image_progress {
    const char *stage;      /* "read", "unpack", "layer" (is there), "image" (is there) */
    const char *id;         /* of the layer (its diff id) or image, or "" */
    const char *name;       /* stage "image": a name that it has now, or "" */
    unsigned layer, layers; /* of this image, from 1 */
    int64_t done, total;    /* bytes; total 0 = not known */
};

struct image_load;
/*
 * All are called from the loop, never from within a call of this module. on_drain: after
 * image_load_write said "pause". on_done: exactly once, unless cancelled; the load is gone
 * afterwards. r < 0: nothing of the image is in the store (of several images, those that were told
 * of by on_progress are).
 */
struct image_load_events {
    void (*on_progress)(void *data, const struct image_progress *p);
    void (*on_drain)(void *data);
    void (*on_done)(void *data, int r, const struct err *err);
};

/* docker-archive (both forms), or OCI layout as tar; plain, gzip or zstd. name: what the only
 * image is called instead of its own name, or NULL. -EAGAIN: limit maxImageLoads. */
int images_load(struct images *im, const char *name, const struct image_load_events *events,
                void *data, struct image_load **ret, struct err *err);
/*
 * One layer, the tar archive of a root file system, becomes an image. name: or NULL. changes:
 * NULL-terminated, as image_config_change has them; message: of its history; both may be NULL.
 * platform NULL = ours.
 */
struct image_import {
    const char *name, *message;
    const char *const *changes;
};
int images_import(struct images *im, const struct image_import *import,
                  const struct image_load_events *events, void *data, struct image_load **ret,
                  struct err *err);
/* Takes all of it; true = write no more until on_drain. What is not wanted any more is dropped. */
bool image_load_write(struct image_load *l, const void *data, size_t len);
/* The end of the archive. */
void image_load_end(struct image_load *l);
/* Nobody wants it any more: no callback follows, and nothing of it stays. */
void image_load_cancel(struct image_load *l);

/* ---- bytes out ---- */

struct image_save;
/* As above. on_bytes: true = no more until image_save_resume. */
struct image_save_events {
    bool (*on_bytes)(void *data, const void *bytes, size_t len);
    void (*on_done)(void *data, int r, const struct err *err);
};
/* One tar archive of images (NULL-terminated list of names) that is an OCI layout and a
 * docker-archive at once. */
int images_save(struct images *im, const char *const *names, const struct image_save_events *events,
                void *data, struct image_save **ret, struct err *err);
/* The image's file system as one tar archive, layers applied. */
int images_export(struct images *im, const char *name, const struct image_save_events *events,
                  void *data, struct image_save **ret, struct err *err);
/* The same of a sandbox, as it is now: sandbox_id is a whole id, spec its spec. -EOPNOTSUPP: its
 * root is a directory of the host's. */
int images_export_sandbox(struct images *im, const char *sandbox_id, const struct spec *spec,
                          const struct image_save_events *events, void *data,
                          struct image_save **ret, struct err *err);
/* What the sandbox has changed of what it was started on, as records of a worker (rootfs-builder/
 * changes.h): for core/changes.h. -EOPNOTSUPP, as above. */
int images_changes_sandbox(struct images *im, const char *sandbox_id, const struct spec *spec,
                           const struct image_save_events *events, void *data,
                           struct image_save **ret, struct err *err);
void image_save_resume(struct image_save *s);
void image_save_cancel(struct image_save *s);

/* ---- for who makes images otherwise (snapshots) ---- */

/* An empty file of the store's own, to be filled with the archive of a layer (tar; plain, gzip or
 * zstd). cb: the callee's to free, or to give to images_compose. */
struct image_blob;
typedef void (*image_blob_cb)(void *data, int r, struct image_blob *blob, const struct err *err);
int images_blob_new(struct images *im, image_blob_cb cb, void *data, struct err *err);
int image_blob_fd(const struct image_blob *b); /* borrowed; read and write */
void image_blob_free(struct image_blob *b);    /* removes it; NULL is fine */

/*
 * A new image: the layers of `parent` (a name or an id; NULL = none) and one more on top, `layer`
 * (NULL = none; taken on success, at any offset). changes, name, message: as with images_import.
 * on_progress may be NULL. cb: the image.
 */
struct image_compose {
    const char *parent, *name, *message, *author;
    const char *const *changes;
    struct image_blob *layer;
    void (*on_progress)(void *data, const struct image_progress *p);
};
int images_compose(struct images *im, const struct image_compose *c, image_cb cb, void *data,
                   struct err *err);
