#pragma once

/* Shared by the files that implement images/images.h. */

#include <uv.h>

#include "base/err.h"
#include "image/charge.h"
#include "image/store.h"
#include "image/worker-proto.h"
#include "images/disk-size.h"
#include "images/images.h"
#include "launch/request.h"
#include "sandbox/launcher-client.h"

struct image_names {
    char **list;    /* owned; sorted, NULL-terminated unless empty */
    int64_t *bytes; /* owned; sizes, where they are known; NULL: of none */
    size_t count;
};

struct image_worker;

enum { DISK_SIZES_KEPT = 256, DISK_SIZE_NAME_MAX = 128 };

/* disk-size.c */
struct disk_sizes {
    struct size_job *first, *last; /* queued */
    unsigned queued, running;
    unsigned next_kept;
    struct size_kept {
        char name[DISK_SIZE_NAME_MAX + 1]; /* "": none */
        enum disk_size_kind kind;
        struct disk_size size;
        int64_t counted_ms;
    } kept[DISK_SIZES_KEPT];
};

struct images {
    struct images_config config;
    struct image_store *store; /* owned; used by any thread */
    /* References held by the owner, jobs, workers and loads; im is freed with the last. */
    unsigned busy;
    unsigned loads; /* loads that count against maxImageLoads */
    bool closing;
    bool listed;                /* `present` is complete */
    struct image_names present; /* names of the unpacked layers */
    struct image_names used;    /* ids of images and names of layers that sandboxes use */
    bool sweep_asked;
    unsigned sweeping;            /* removals in progress */
    uv_timer_t retry;             /* delay until the next sweep */
    bool orphans;                 /* sandboxes use layers that no image has any more */
    struct image_worker *workers; /* all running workers, for images_close */
    struct disk_sizes sizes;
};

/* Takes a reference to im. */
void images_hold(struct images *im);
void images_release(struct images *im);
/*
 * As launcher_client_send; -ECANCELED once im is closing, because the launcher's client is freed
 * before the pending operations end.
 */
int images_send(struct images *im, const struct buf *request, launch_cb cb, void *data,
                struct err *err);
/* view: of the client, whose image it is. */
void images_emit(struct images *im, const struct image_view *view, const char *type, const char *id,
                 const char *name);

int image_names_add(struct image_names *n, const char *text); /* keeps it sorted */
int image_names_add_sized(struct image_names *n, const char *text, int64_t bytes);
bool image_names_has(const struct image_names *n, const char *text);

/* Completes a name as the store keeps it, with registry and tag. */
int image_whole_name(const char *name, char ret[REFERENCE_MAX + 1], struct err *err);

/* Takes one of the maxImageLoads slots; released by im->loads--. */
int images_take_slot(struct images *im, struct err *err);

/*
 * The bounds of what a client's images may take, with a copy of the sizes of layers for a job.
 * Empty for the daemon's owner. The caller frees it (image_bounds_done).
 */
int images_bounds(const struct images *im, const struct image_view *view, struct image_bounds *ret,
                  struct err *err);
/* The most that one image of the client may have, packed or unpacked. */
int64_t images_most(const struct images *im, const struct image_view *view);

/* ---- jobs in the thread pool ---- */

/*
 * Embedded in the state of an operation. `work` runs in a pool thread and touches only the job's
 * own data and im->store. `after` then runs on the loop; j->r is the result of `work`.
 */
struct images_job {
    uv_work_t req;
    struct images *im;
    int (*work)(struct images_job *j); /* 0 or a negative errno, with err set */
    void (*after)(struct images_job *j);
    int r;
    struct err err;
};
void job_start(struct images *im, struct images_job *j, int (*work)(struct images_job *),
               void (*after)(struct images_job *));

/* ---- workers ---- */

/*
 * on_msg: ENTRY, STORED, PROGRESS. on_end: exactly once, unless dropped: `done` is the DONE
 * message, or r < 0. A worker of LAUNCH_WORK_LAYER must then be committed or dropped; all others
 * are freed.
 */
struct image_worker_events {
    void (*on_msg)(void *data, const struct worker_msg *m);
    void (*on_end)(void *data, int r, const struct worker_msg *done, const struct err *err);
};
struct image_work {
    enum launch_work kind;
    const char *const *layers;      /* names, topmost first; NULL-terminated; may be NULL */
    const char *const *base_layers; /* built-in layers (TAG_LAYER), likewise */
    const char *sandbox;            /* sandbox id, or NULL */
    const char *volume;             /* name, or NULL */
    struct worker_msg start;        /* WORKER_START */
    int fd;                         /* the archive; taken, also on failure */
};
int image_worker_start(struct images *im, struct image_work *work,
                       const struct image_worker_events *events, void *data,
                       struct image_worker **ret, struct err *err);
/* Answers ENTRY: fd (borrowed) receives the contents; -1 = skip the entry. */
int image_worker_take(struct image_worker *w, int fd, struct err *err);
/* Ends the worker and removes its output; no callback follows. NULL is allowed. */
void image_worker_drop(struct image_worker *w);
/*
 * Commits the tree of a LAUNCH_WORK_LAYER worker under a name, after on_end with DONE; cb follows.
 * Frees w in any case.
 */
int image_worker_commit(struct image_worker *w, const char *name, int64_t bytes, images_done_cb cb,
                        void *data, struct err *err);

/* Calls on_end of every running worker with -ECANCELED. */
void image_workers_end(struct images *im);

/*
 * Fetches the launcher's list of layers into im->present, unless it is there; cb follows from the
 * loop.
 */
int images_list_layers(struct images *im, images_done_cb cb, void *data, struct err *err);

/*
 * Checks a list of changes (images-compose.c) before any work is done; err explains the first
 * invalid one.
 */
int image_changes_check(const char *const *changes, struct err *err);

/* ---- bytes in ---- */

/* First member of every kind of load: an archive of images, or a root file system. */
struct image_load {
    const struct image_load_ops {
        bool (*write)(struct image_load *l, const void *data, size_t len);
        void (*end)(struct image_load *l);
        void (*cancel)(struct image_load *l);
    } * ops;
};

/* ---- unpacking all layers of an image ---- */

struct layering;
/*
 * Unpacks the missing layers of image (borrowed until on_done). open_blob returns an fd of the
 * archive of layer i, to be read from offset 0. Sets of_parents of each layer, and diff_id where it
 * is "". most: bytes of all its layers, unpacked.
 */
struct layering_events {
    int (*open_blob)(void *data, size_t i, struct err *err);
    void (*on_progress)(void *data, const struct image_progress *p); /* may be NULL */
    images_done_cb on_done;
};
int layering_start(struct images *im, struct image *image, int64_t most,
                   const struct layering_events *events, void *data, struct layering **ret,
                   struct err *err);
/* No callback follows. NULL is allowed. */
void layering_cancel(struct layering *l);
