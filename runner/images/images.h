#pragma once

/*
 * The image service: the store (docs/images.md) and all operations on it. All calls are
 * asynchronous, on the loop of images_new: the supervisor's, or that of `rind images` without a
 * daemon. Files are read and hashed in the thread pool. Archives are read by confined worker
 * processes (image/worker-proto.h), which the launcher starts.
 *
 * Several processes may use the store at once (a daemon, and `rind images` without it). So nothing
 * that another process may change is cached here.
 *
 * An image is named by a reference ("alpine", "ghcr.io/a/b:1", "alpine@sha256:…"), by its id
 * ("sha256:…" of its configuration), or by at least IMAGE_PREFIX_MIN digits of the id.
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

struct client_policy;
struct err;
struct images;
struct launcher_client;
struct spec;
struct supervisor_limits;

enum { IMAGE_PREFIX_MIN = 4 };

/* Most calls take the view of the client that asks (image/store.h): borrowed, and copied. */

struct images_config {
    uv_loop_t *loop;                        /* borrowed */
    struct launcher_client *launcher;       /* borrowed: for workers and layers */
    int dir_fd;                             /* borrowed: the supervisor's tree, with "images" */
    const struct supervisor_limits *limits; /* borrowed */
    const struct client_policy *clients;    /* borrowed; bounds of members' images; NULL = none */
    /* Calls images_used with the spec of every sandbox. */
    void (*each_used)(void *data, struct images *im);
    /* An event: "image_load", "image_tag", "image_untag", "image_remove". owner: uid whose image
     * it is, -1 = the daemon's. May be NULL. */
    void (*on_event)(void *data, const char *type, const char *id, const char *name, int64_t owner);
    void *data;
};

/* Opens the store; blocks briefly. *ret: owned by the caller, for images_close. */
int images_new(const struct images_config *config, struct images **ret, struct err *err);
/*
 * Cancels pending operations; frees im when the loop has run the remaining callbacks. NULL is
 * allowed.
 */
void images_close(struct images *im);
/* May only be called from within each_used. */
void images_used(struct images *im, const struct spec *spec);

/* ---- one image ---- */

/*
 * Called once. The callee frees image; NULL with r < 0. -ENOENT; -ENOTUNIQ: the prefix matches
 * several; -EINVAL; -EUCLEAN: the image is damaged, err says which blob.
 */
typedef void (*image_cb)(void *data, int r, struct image *image, const struct err *err);
/* Called once; err explains r < 0 and is valid during the call. */
typedef void (*images_done_cb)(void *data, int r, const struct err *err);

/* Finds an image. cb is called once, from the loop, unless this call fails. */
int images_find(struct images *im, const struct image_view *view, const char *name, image_cb cb,
                void *data, struct err *err);
/*
 * As images_find, for an image that a sandbox is about to start from. Missing layers (a crash of
 * the host may have lost some) are unpacked again from their blobs first.
 */
int images_ready(struct images *im, const struct image_view *view, const char *name, image_cb cb,
                 void *data, struct err *err);
/* Newest first. The callee frees the list (image_list_free). Damaged images have config NULL. */
typedef void (*image_list_cb)(void *data, int r, struct image **list, size_t count,
                              const struct err *err);
int images_list(struct images *im, const struct image_view *view, image_list_cb cb, void *data,
                struct err *err);

/*
 * Fills what spec leaves unset from the image's configuration, by Docker's rules, and sets
 * spec->image_id. Afterwards spec is the complete spec of a sandbox. Pure. -EINVAL: err names the
 * image's field.
 */
int image_merge(const struct image *image, struct spec *spec, struct err *err);

/* ---- names and removal ---- */

/*
 * Gives the image another name (complete or short; a missing tag is "latest"). An image that had
 * the name loses it.
 */
int images_tag(struct images *im, const struct image_view *view, const char *name,
               const char *new_name, images_done_cb cb, void *data, struct err *err);

/* Result of a removal. Strings are valid during the call. */
struct images_removed {
    const char *const *untagged; /* NULL-terminated; names */
    const char *const *deleted;  /* NULL-terminated; ids of images */
    int64_t bytes;               /* size of the deleted blobs */
};
typedef void (*images_removed_cb)(void *data, int r, const struct images_removed *removed,
                                  const struct err *err);
/*
 * By reference: removes that name, and with the last name the image. By id: removes the image if it
 * has at most one name, or with force. -EBUSY: a sandbox is made from it. With force the layers
 * alone stay until the last such sandbox is removed.
 */
int images_remove(struct images *im, const struct image_view *view, const char *name, bool force,
                  images_removed_cb cb, void *data, struct err *err);
/* Which images a prune may remove. The function runs in the thread pool, and changes nothing. */
struct images_filter {
    bool (*wanted)(const void *data, const struct image *image); /* names and labels are known */
    const void *data;                                            /* borrowed until the callback */
};
/*
 * Removes unused images without a name, with `all` also those with names; then all unused blobs and
 * layers. filter: NULL = every image.
 */
int images_prune(struct images *im, const struct image_view *view, bool all,
                 const struct images_filter *filter, images_removed_cb cb, void *data,
                 struct err *err);
/* Starts a sweep of unused blobs and layers, including incomplete ones of an earlier process. */
void images_sweep_soon(struct images *im);
/* Called when a sandbox has been removed: starts a sweep if sandboxes kept layers alive. */
void images_sandbox_gone(struct images *im);

struct images_usage {
    uint64_t images;
    int64_t blob_bytes,
        layer_bytes; /* on disk; layers: unpacked, disk blocks as the file system counts them */
};
typedef void (*images_usage_cb)(void *data, int r, const struct images_usage *usage,
                                const struct err *err);
/* Computes the disk usage; cb is called once, from the loop, unless this call fails. */
int images_usage(struct images *im, const struct image_view *view, images_usage_cb cb, void *data,
                 struct err *err);

/* ---- bytes in ---- */

/* A step of a load, for display. Strings are valid during the call. */
struct image_progress {
    const char *stage;      /* "read", "unpack", "layer" (exists), "image" (exists) */
    const char *id;         /* the layer's diff id, or the image's id, or "" */
    const char *name;       /* stage "image": one of its names, or "" */
    unsigned layer, layers; /* number in this image, from 1; count */
    int64_t done, total;    /* bytes; total 0 = unknown */
};

struct image_load;
/*
 * Callbacks run from the loop, never inside a call of this module. on_drain: after image_load_write
 * returned true. on_done: exactly once, unless cancelled; frees the load. With r < 0 the store
 * holds nothing of the image; images of the archive already reported by on_progress stay.
 */
struct image_load_events {
    void (*on_progress)(void *data, const struct image_progress *p);
    void (*on_drain)(void *data);
    void (*on_done)(void *data, int r, const struct err *err);
};

/*
 * Loads a docker-archive (both forms), or an OCI layout as tar; plain, gzip or zstd. name: replaces
 * the name of the archive's only image, or NULL. -EAGAIN: limit maxImageLoads.
 */
int images_load(struct images *im, const struct image_view *view, const char *name,
                const struct image_load_events *events, void *data, struct image_load **ret,
                struct err *err);
/*
 * Makes an image of one layer, the tar archive of a root file system. name: may be NULL. changes:
 * NULL-terminated, in the syntax of image_config_change; message: for the image's history; both may
 * be NULL.
 */
struct image_import {
    const char *name, *message;
    const char *const *changes;
};
int images_import(struct images *im, const struct image_view *view,
                  const struct image_import *import, const struct image_load_events *events,
                  void *data, struct image_load **ret, struct err *err);
/* Accepts all bytes; true = write no more until on_drain. Bytes after a failure are dropped. */
bool image_load_write(struct image_load *l, const void *data, size_t len);
/* Marks the end of the archive. */
void image_load_end(struct image_load *l);
/* Cancels a load: no callback follows, and everything it has stored is removed. NULL is allowed. */
void image_load_cancel(struct image_load *l);

/* ---- bytes out ---- */

struct image_save;
/* As image_load_events. on_bytes: true = pause until image_save_resume. */
struct image_save_events {
    bool (*on_bytes)(void *data, const void *bytes, size_t len);
    void (*on_done)(void *data, int r, const struct err *err);
};
/*
 * Writes one tar archive of images (NULL-terminated list of names), both OCI layout and
 * docker-archive.
 */
int images_save(struct images *im, const struct image_view *view, const char *const *names,
                const struct image_save_events *events, void *data, struct image_save **ret,
                struct err *err);
/* Writes the image's file system, all layers applied, as one tar archive. */
int images_export(struct images *im, const struct image_view *view, const char *name,
                  const struct image_save_events *events, void *data, struct image_save **ret,
                  struct err *err);
/*
 * Writes a sandbox's file system in its present state as one tar archive. sandbox_id: the full id.
 * -EOPNOTSUPP: its root is a directory of the host.
 */
int images_export_sandbox(struct images *im, const char *sandbox_id, const struct spec *spec,
                          const struct image_save_events *events, void *data,
                          struct image_save **ret, struct err *err);
/*
 * For images/changes.c: lists what the sandbox has changed, as a worker's records
 * (rootfs-builder/changes.h). -EOPNOTSUPP: as images_export_sandbox.
 */
int images_changes_sandbox(struct images *im, const char *sandbox_id, const struct spec *spec,
                           const struct image_save_events *events, void *data,
                           struct image_save **ret, struct err *err);
void image_save_resume(struct image_save *s);
void image_save_cancel(struct image_save *s);

/* ---- composing images (snapshots, imports) ---- */

/*
 * Creates an empty temporary file in the store, for the archive of a layer (tar; plain, gzip or
 * zstd). The callee of cb frees the blob, or gives it to images_compose.
 */
struct image_blob;
typedef void (*image_blob_cb)(void *data, int r, struct image_blob *blob, const struct err *err);
int images_blob_new(struct images *im, image_blob_cb cb, void *data, struct err *err);
int image_blob_fd(const struct image_blob *b); /* borrowed; read and write */
void image_blob_free(struct image_blob *b);    /* removes the file; NULL is allowed */

/*
 * Composes an image: the layers of `parent` (a name or id; NULL = none) and `layer` on top (NULL =
 * none; taken on success, at any file offset). changes, name, message: as for images_import.
 * on_progress may be NULL. cb receives the image.
 */
struct image_compose {
    const char *parent, *name, *message, *author;
    const char *const *changes;
    struct image_blob *layer;
    bool any_parent; /* of a sandbox, which has the image already, whoever sees it */
    void (*on_progress)(void *data, const struct image_progress *p);
};
int images_compose(struct images *im, const struct image_view *view, const struct image_compose *c,
                   image_cb cb, void *data, struct err *err);
