#pragma once

/*
 * Named volumes: directories that outlive sandboxes and that several of them see, each with ids of
 * its own range. The launcher keeps them (launch/volume.h); the supervisor has a table of them in
 * memory, with what it has written into each one's record: when and by whom it was made, labels,
 * and whether it is an anonymous one.
 *
 * A volume is filled at its first use: with what the image has at that place (content, owners,
 * modes, xattrs), unless the spec says noCopy or the image has nothing there. What was cut off is
 * filled anew.
 *
 * An anonymous volume belongs to the sandbox whose spec asked for it (a volume without a source)
 * and is removed with it.
 *
 * Everything is asynchronous, on the supervisor's loop; callbacks are called exactly once, never
 * from within the call.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/caller.h"

struct err;
struct sandbox;
struct spec;
struct supervisor;
struct volume_entry;

enum {
    VOLUME_NAME_MAX = 128,
    VOLUME_LABELS_MAX = 64,
    VOLUME_LABELS_BYTES_MAX = 64 << 10, /* bytes of all labels together */
};

/* [A-Za-z0-9][A-Za-z0-9_.-]*, at most VOLUME_NAME_MAX bytes. */
bool volume_name_ok(const char *name);

/* v: NULL when r < 0; borrowed. err explains r < 0 and is valid during the call. */
typedef void (*volume_cb)(void *data, int r, struct volume_entry *v, const struct err *err);

/* A volume to be made. All of it is copied. */
struct volume_wish {
    const char *name;    /* NULL = an anonymous-looking one is chosen (64 hexadecimal digits) */
    char *const *labels; /* "K=V", NULL-terminated; or NULL */
    uint64_t bytes;      /* what it may hold; 0 = the limit volumeBytes */
};

/*
 * Makes it, durable when cb is called. -EEXIST: the name is taken, -EINVAL: it is none; -ERANGE: no
 * such size; -EPERM: larger than volumeBytes, for a limited creator; -EAGAIN, -EUSERS: a limit;
 * -ENOSPC: the disk's reserve.
 */
int volume_create(struct supervisor *sup, const struct volume_wish *wish,
                  const struct caller *creator, volume_cb cb, void *data, struct err *err);

/* By its whole name. Borrowed, valid until the loop goes on; NULL. */
struct volume_entry *volume_find(struct supervisor *sup, const char *name);
struct volume_entry *volume_first(struct supervisor *sup);
struct volume_entry *volume_next(struct volume_entry *v);

const char *volume_name(const struct volume_entry *v);
int64_t volume_created_ms(const struct volume_entry *v);
/* What it may hold; 0: it is not bounded. */
uint64_t volume_bytes(const struct volume_entry *v);
/* "K=V", NULL-terminated; borrowed. */
char *const *volume_labels(const struct volume_entry *v);
/* Made for one sandbox, and removed with it. */
bool volume_is_anonymous(const struct volume_entry *v);
/* Whether it is made and not being removed. */
bool volume_is_ready(const struct volume_entry *v);
/* Sandboxes whose spec names it, stopped ones included; *s is the first, or NULL. */
unsigned volume_users(const struct volume_entry *v, struct sandbox **ret_first);
/* "K=V" or "K"; as sandboxes' filters. */
bool volume_has_label(const struct volume_entry *v, const char *wanted);

/* Whether this uid may see, use and remove it: its maker, or who is not limited. */
bool volume_may_use(const struct volume_entry *v, const struct caller *who);

/* -EBUSY (409) while a sandbox's spec names it. cb's v is NULL always. */
int volume_remove(struct volume_entry *v, volume_cb cb, void *data, struct err *err);

/*
 * Removes those that no sandbox names, that `who` may use and that pass all filters: anonymous
 * ones, or with `all` every one. 1: there are none, and cb is not called. names: of those removed,
 * NULL-terminated, borrowed during the call; those that could not be removed are passed over with a
 * warning in the log. r of cb is 0.
 */
typedef void (*volume_prune_cb)(void *data, int r, char *const *names, const struct err *err);
int volume_prune(struct supervisor *sup, const struct caller *who, bool all, char *const *labels,
                 volume_prune_cb cb, void *data, struct err *err);
