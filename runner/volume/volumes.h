#pragma once

/*
 * Named volumes: directories that outlive sandboxes. Several sandboxes may mount one, each with its
 * own id range. The launcher stores them (launch/volume.h). The supervisor keeps a table in memory
 * with the record of each: creation time, creator, labels, and whether it is anonymous.
 *
 * At its first use a volume is filled with what the image has at the mount point (content, owners,
 * modes, xattrs), unless the spec says noCopy or the image has nothing there. An interrupted fill
 * is repeated.
 *
 * An anonymous volume belongs to the sandbox whose spec has a volume without a source, and is
 * removed with it.
 *
 * All calls are asynchronous, on the supervisor's loop. Callbacks are called exactly once, never
 * inside the call.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sandbox/caller.h"

struct err;
struct member_scope;
struct member_usage;
struct sandbox;
struct spec;
struct supervisor;
struct volume_entry;
struct volumes;

enum {
    VOLUME_NAME_MAX = 128,
    VOLUME_LABELS_MAX = 64,
    VOLUME_LABELS_BYTES_MAX = 64 << 10, /* bytes of all labels together */
    VOLUME_OPTIONS_MAX = 8 << 10,       /* bytes of the options */
};

/* v: borrowed; NULL when r < 0. err explains r < 0 and is valid during the call. */
typedef void (*volume_cb)(void *data, int r, struct volume_entry *v, const struct err *err);

/* Parameters of a new volume. All are copied. */
struct volume_params {
    const char *name;    /* NULL = a random name (64 hexadecimal digits) */
    char *const *labels; /* "K=V", NULL-terminated; or NULL */
    uint64_t bytes;      /* size limit; 0 = the limit volumeBytes */
    const char *options; /* see volume_options; NULL: none */
};

/*
 * Creates a volume; it is durable when cb is called. -EEXIST: the name is in use; -EINVAL: invalid
 * name; -ERANGE: invalid size; -EPERM: larger than volumeBytes, for a limited creator; -EAGAIN,
 * -EUSERS: a limit; -ENOSPC: the disk's reserve.
 */
int volume_create(struct supervisor *sup, const struct volume_params *params,
                  const struct caller *creator, volume_cb cb, void *data, struct err *err);

/*
 * Finds a volume by its full name; NULL if there is none. Borrowed until control returns to the
 * loop.
 */
struct volume_entry *volume_find(struct supervisor *sup, const char *name);
/* For the part's row: adds the members' volumes and their sizes. */
void volumes_usage(const struct supervisor *sup, const struct member_scope *scope,
                   struct member_usage *add);
struct volume_entry *volume_first(struct supervisor *sup);
struct volume_entry *volume_next(struct volume_entry *v);

const char *volume_name(const struct volume_entry *v);
int64_t volume_created_ms(const struct volume_entry *v);
/* Size limit; 0: none. */
uint64_t volume_bytes(const struct volume_entry *v);
/*
 * Text in which a client has said that the volume stands for another mount (a directory of the
 * host, a tmpfs); NULL: it is a directory of its own. Borrowed. This room does not read it, and
 * refuses such a volume in a spec: what knows the text replaces the volume before.
 */
const char *volume_options(const struct volume_entry *v);
/* True if this user has made it, whatever rights the user has. */
bool volume_is_made_by(const struct volume_entry *v, uid_t uid);
/* "K=V", NULL-terminated; borrowed. */
char *const *volume_labels(const struct volume_entry *v);
/* True if it was created for one sandbox, and is removed with it. */
bool volume_is_anonymous(const struct volume_entry *v);
/* True if it has been created and is not being removed. */
bool volume_is_ready(const struct volume_entry *v);
/*
 * Counts the sandboxes with this volume in their spec, stopped ones included; *ret_first is the
 * first, or NULL.
 */
unsigned volume_users(const struct volume_entry *v, struct sandbox **ret_first);
/* wanted: "K=V" or "K", as in filters of sandboxes. */
bool volume_has_label(const struct volume_entry *v, const char *wanted);

/* True if this user may see, use and remove it: its creator, or a user without limits. */
bool volume_may_use(const struct volume_entry *v, const struct caller *who);

/* As volume_find, for a client: NULL also for a volume that it may not see. */
struct volume_entry *volume_find_for(struct supervisor *sup, const struct caller *who,
                                     const char *name);

/* Removes a volume. -EBUSY: a sandbox's spec names it. cb's v is always NULL. */
int volume_remove(struct volume_entry *v, volume_cb cb, void *data, struct err *err);

/* Docker's mark of a volume that was created without a name; it belongs to no sandbox. */
#define VOLUME_LABEL_ANONYMOUS "com.docker.volume.anonymous"

/*
 * Removes the volumes that no sandbox names, that are `who`'s own and that pass all filters:
 * anonymous ones and those with VOLUME_LABEL_ANONYMOUS, or with `all` every one without
 * volume_options. Returns 1 if there are none; cb is then not called. names: the removed ones,
 * NULL-terminated, borrowed during the call. A failed removal is logged and skipped; r of cb is 0.
 */
typedef void (*volume_prune_cb)(void *data, int r, char *const *names, const struct err *err);
int volume_prune(struct supervisor *sup, const struct caller *who, bool all, char *const *labels,
                 volume_prune_cb cb, void *data, struct err *err);

/* ---- for the supervisor ---- */

int volumes_new(struct supervisor *sup, struct err *err);
/* Takes up those that the launcher has; on_ready waits for that. */
int volumes_load(struct supervisor *sup, struct err *err);
/* Anonymous ones whose sandbox is gone. */
void volumes_remove_orphans(struct supervisor *sup);
void volumes_free(struct volumes *v);
/* Requests that wait for one to be made or filled are told that the daemon stops. */
void volumes_end_waits(struct volumes *v);
