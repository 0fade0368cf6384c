#pragma once

/* What the files of core/images.h share. */

#include <uv.h>

#include "base/err.h"
#include "core/images.h"
#include "core/launcher-client.h"
#include "image/store.h"
#include "image/worker-proto.h"
#include "launch/request.h"

struct image_names {
    char **list; /* owned; sorted, NULL-terminated once there is one */
    size_t count;
};

struct image_worker;

struct images {
    struct images_config config;
    struct image_store *store; /* owned; used by any thread */
    unsigned busy;             /* jobs, workers and loads: it is freed after the last */
    unsigned loads;            /* that count against maxImageLoads */
    bool closing;
    bool listed;                /* present says what there is */
    struct image_names present; /* names of the layers that are unpacked */
    struct image_names used;    /* ids of images and names of layers that sandboxes have */
    bool sweep_asked;
    unsigned sweeping;            /* removals under way */
    uv_timer_t retry;             /* of a sweep that is owed */
    bool orphans;                 /* sandboxes have layers that no image has any more */
    struct image_worker *workers; /* all that are under way, for images_close */
};

/* Keeps im from being freed. */
void images_hold(struct images *im);
void images_release(struct images *im);
/* As launcher_client_send; -ECANCELED once it is being closed: the launcher's client goes before
 * what is still under way here. */
int images_send(struct images *im, const struct buf *request, launch_cb cb, void *data,
                struct err *err);
void images_emit(struct images *im, const char *type, const char *id, const char *name);

int image_names_add(struct image_names *n, const char *text); /* keeps it sorted */
void image_names_drop(struct image_names *n, const char *text);
bool image_names_has(const struct image_names *n, const char *text);
void image_names_done(struct image_names *n);

/* A name as the store has it: whole, with a tag. */
int image_whole_name(const char *name, char ret[REFERENCE_MAX + 1], struct err *err);

/* One of maxImageLoads, to be given back by im->loads--. */
int images_take_slot(struct images *im, struct err *err);

/* ---- jobs in the thread pool ---- */

/*
 * Embedded in what is to be done. work runs in another thread and touches nothing but what the job
 * owns and im->store; after runs on the loop, with what work has returned.
 */
struct job {
    uv_work_t req;
    struct images *im;
    int (*work)(struct job *j); /* 0 or a negative errno, in err, too */
    void (*after)(struct job *j);
    int r;
    struct err err;
};
void job_start(struct images *im, struct job *j, int (*work)(struct job *),
               void (*after)(struct job *));

/* ---- workers ---- */

/*
 * on_msg: ENTRY, STORED, PROGRESS. on_end: exactly once, unless it was dropped: DONE (done is it),
 * or r < 0. A worker of LAUNCH_WORK_LAYER must then be committed or dropped;
 * others are gone.
 */
struct image_worker_events {
    void (*on_msg)(void *data, const struct worker_msg *m);
    void (*on_end)(void *data, int r, const struct worker_msg *done, const struct err *err);
};
struct image_work {
    enum launch_work kind;
    const char *const *layers;      /* names, top first; NULL-terminated; may be NULL */
    const char *const *base_layers; /* the same of built-in ones (TAG_LAYER) */
    const char *sandbox;            /* or NULL */
    struct worker_msg start;        /* WORKER_START */
    int fd;                         /* of the archive; taken, also on failure */
};
int image_worker_start(struct images *im, struct image_work *work,
                       const struct image_worker_events *events, void *data,
                       struct image_worker **ret, struct err *err);
/* Answers ENTRY: fd (borrowed) is where it is to be written, -1 = not wanted. */
int image_worker_take(struct image_worker *w, int fd, struct err *err);
/* Ends it, with what it has made; no callback follows. NULL is fine. */
void image_worker_drop(struct image_worker *w);
/* Of LAUNCH_WORK_LAYER after on_end with DONE: its tree gets that name; cb follows. w is gone. */
int image_worker_commit(struct image_worker *w, const char *name, int64_t bytes, images_done_cb cb,
                        void *data, struct err *err);

/* Each that runs ends with -ECANCELED. */
void image_workers_end(struct images *im);

/* The launcher's list of layers into im->present, if it is not there yet; cb follows from the loop.
 */
int images_list_layers(struct images *im, images_done_cb cb, void *data, struct err *err);

/* Whether all of these can be made (images-compose.c): what is wrong is told before anything is
 * done. */
int image_changes_check(const char *const *changes, struct err *err);

/* ---- bytes in ---- */

/* Begins every struct image_load: of an archive of images, or of a root file system. */
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
 * Unpacks the layers of image (borrowed until cb) that are not there. open_blob gives an fd of the
 * archive of layer i, to be read from its beginning. Sets of_parents of each layer. A layer whose
 * diff_id is "" gets it.
 */
struct layering_events {
    int (*open_blob)(void *data, size_t i, struct err *err);
    void (*on_progress)(void *data, const struct image_progress *p); /* may be NULL */
    images_done_cb on_done;
};
int layering_start(struct images *im, struct image *image, const struct layering_events *events,
                   void *data, struct layering **ret, struct err *err);
/* No callback follows. NULL is fine. */
void layering_cancel(struct layering *l);
