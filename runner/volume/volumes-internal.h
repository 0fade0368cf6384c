#pragma once

/*
 * Shared by volumes.c (the table), volume-record.c (the record), volume-fill.c and volume-use.c
 * (volumes of sandboxes).
 */

#include "volume/volumes.h"

struct buf;
struct supervisor;

enum { VOLUME_OWNER_MAX = 63 };

/* The record that the supervisor stores with a volume. */
struct volume_record {
    int64_t created_ms;
    int64_t creator; /* uid; -1: unknown */
    uint64_t bytes;  /* size limit; 0: none */
    char **labels;   /* owned, NULL-terminated "K=V"; never NULL in an entry */
    char *options;   /* owned; see volume_options; NULL: none */
    char owner[VOLUME_OWNER_MAX +
               1]; /* id of the sandbox that owns an anonymous volume; "": not anonymous */
};
void volume_record_done(struct volume_record *r);
/* Copies and checks labels. */
int volume_record_labels(struct volume_record *r, char *const *labels, struct err *err);
int volume_record_encode(const struct volume_record *r, struct buf *out, struct err *err);
/* An empty text gives a record with unknown values. */
int volume_record_decode(const char *text, size_t len, struct volume_record *ret, struct err *err);
/* 64 hexadecimal digits. */
int volume_random_name(char name[65]);

enum volume_state { VOLUME_MAKING = 0, VOLUME_READY, VOLUME_REMOVING };

struct volume_entry {
    struct volumes *volumes; /* borrowed */
    struct volume_entry *next;
    char name[VOLUME_NAME_MAX + 1];
    struct volume_record record;
    enum volume_state state;
    struct volume_request *waiting; /* requests waiting for its creation */
    struct pidfd_wait *making;      /* owned; waits for the exit of the creating process, or NULL */
    int report;                     /* owned; pipe with that process's report, or FD_NONE */
    int64_t asked_ms;               /* clock_mono_ms when the launcher was asked to create it */
};

struct volumes {
    struct supervisor *sup;             /* borrowed */
    struct volume_entry *first, **last; /* owned */
    unsigned count;
    struct preparation *preparations; /* volume-use.c */
    struct volume_filling *fillings;  /* volume-fill.c */
};

/*
 * Returns the volume of this name, creating it if needed. owner: NULL = not anonymous. As
 * volume_create, but an existing volume is no error.
 */
int volumes_want(struct supervisor *sup, const char *name, const char *owner,
                 const struct caller *creator, volume_cb cb, void *data, struct err *err);
/*
 * Cancels the volumes_want with this data: its callback is not called. False: it does not wait for
 * a creation, and is called.
 */
bool volumes_unwant(struct supervisor *sup, const char *name, const void *data);

/* volume-use.c: fails all preparations with this error. */
void volumes_prepare_end(struct volumes *v, const struct err *why);
/* volume-use.c: frees all preparations without calling them back. */
void volumes_prepare_close(struct volumes *v);

/*
 * volume-fill.c: sends a LAUNCH_VOLUME_FILL request (taken) for a client (borrowed, or -1). cb is
 * called once, never inside the call, unless the filling is dropped or the supervisor stops. ret
 * may be NULL.
 */
struct volume_filling;
int volume_fill(struct supervisor *sup, struct buf *request, int client,
                void (*cb)(void *data, int r, const struct err *err), void *data,
                struct volume_filling **ret, struct err *err);
void volume_fill_drop(struct volume_filling *f);
void volume_fills_close(struct volumes *v);
