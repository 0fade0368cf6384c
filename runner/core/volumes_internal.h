#pragma once

/* What the modules of named volumes share: volumes.c (the table), volume-record.c (what is kept of
 * one), volume-use.c (what sandboxes have of them). */

#include "core/volumes.h"

struct buf;
struct supervisor;

enum { VOLUME_OWNER_MAX = 63 };

/* What the supervisor writes into a volume's record, and reads from it again. */
struct volume_record {
    int64_t created_ms;
    int64_t creator;                  /* uid; -1: unknown */
    uint64_t bytes;                   /* what it may hold; 0: it is not bounded */
    char **labels;                    /* owned, NULL-terminated "K=V"; never NULL in an entry */
    char owner[VOLUME_OWNER_MAX + 1]; /* of an anonymous one: the sandbox's id; "": a plain one */
};
void volume_record_done(struct volume_record *r);
/* Copies and checks labels. */
int volume_record_labels(struct volume_record *r, char *const *labels, struct err *err);
int volume_record_encode(const struct volume_record *r, struct buf *out, struct err *err);
/* No bytes are a record of which nothing is known. */
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
    struct volume_request *waiting; /* for it to be made */
    struct death *making;           /* owned; the end of what makes it, or NULL */
    int report;                     /* owned; what that says, or FD_NONE */
    int64_t asked_ms;               /* clock_mono_ms, when the launcher was asked to make it */
};

struct volumes {
    struct supervisor *sup;             /* borrowed */
    struct volume_entry *first, **last; /* owned */
    unsigned count;
    struct preparation *preparations; /* volume-use.c */
    struct volume_filling *fillings;  /* volume-fill.c */
};

/* One of this name, made if there is none, for a sandbox or as asked. owner: NULL = a plain one. As
 * volume_create, but that one that exists is no error. */
int volumes_want(struct supervisor *sup, const char *name, const char *owner,
                 const struct caller *creator, volume_cb cb, void *data, struct err *err);
/* Whoever has asked so with this data no longer waits for it to be made, and is not called. False:
 * it was not waiting for that, and is called. */
bool volumes_unwant(struct supervisor *sup, const char *name, const void *data);

/* volume-use.c: the sandboxes that are under way do not come to be, for this reason. */
void volumes_prepare_end(struct volumes *v, const struct err *why);
/* volume-use.c: lets go of what is under way. */
void volumes_prepare_close(struct volumes *v);

/* volume-fill.c: a request of LAUNCH_VOLUME_FILL (taken), for a client (borrowed, or -1). cb is
 * called once, never from within the call, unless it is dropped or the supervisor stops. ret may be
 * NULL. */
struct volume_filling;
int volume_fill(struct supervisor *sup, struct buf *request, int client,
                void (*cb)(void *data, int r, const struct err *err), void *data,
                struct volume_filling **ret, struct err *err);
void volume_fill_drop(struct volume_filling *f);
void volume_fills_close(struct volumes *v);
