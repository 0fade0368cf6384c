#pragma once

/*
 * The files of sandboxes in the supervisor's own tree (docs/supervisor.md):
 *
 *     networks/<name>.json
 *     sandboxes/<id>/spec.json state.json exposures.json ports.json processes/<name>.json logs/
 *
 * A save writes a temporary file and renames it before it returns, so that a supervisor that is
 * killed leaves the old content or the new. The two fsyncs that a power failure asks for follow in
 * the thread pool: nothing here waits for a disk, and of what was changed in the moments before a
 * power failure the old content may be there, or none (store_load). What waits to be synced is one
 * mark a sandbox, however often it was saved, so there is no queue to overflow. Removing moves the
 * directory out of the way at once and deletes it in the thread pool.
 *
 * All files are small; what is read is bounded, and checked as strictly as if a client had sent it.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "core/sandbox-states.h"

struct err;
struct spec;
struct store;

enum {
    STORE_SPEC_MAX = 16 << 20, /* bytes; argv and env are at most 2 MiB before escapes */
    STORE_STATE_MAX = 4096,    /* bytes */
    STORE_OTHER_MAX = 1 << 20, /* bytes; exposures.json (1024 of them, names escaped), ports.json */
    STORE_PROCESS_MAX = 4 << 20,  /* bytes of one process record */
    STORE_PROCESSES_MAX = 4096,   /* records read of one sandbox; more are an error */
    STORE_NETWORK_MAX = 1 << 20,  /* bytes of the record of one */
    STORE_NAME_MAX = 63,          /* bytes of an id or a process's name */
    STORE_RESTARTS_MAX = 1 << 30, /* counted at all */
};

#define STORE_NO_CREATOR (-1)

struct stored_state {
    enum sandbox_state state;
    int64_t created_ms, started_ms, finished_ms; /* since the epoch; 0 = never */
    int exit_code;                               /* of the last run; -1 = none yet */
    bool oom_killed;
    unsigned restarts;
    bool wanted;     /* a client wants it to run: it was started and not stopped since */
    int64_t creator; /* the uid of who made it; STORE_NO_CREATOR in files of older daemons */
    bool held;       /* paused, or about to be, by us while its files are read (hold.h) */
};

/*
 * dir_fd: the supervisor's tree; borrowed, outlives the store. Makes what is missing, deletes what
 * a removal left.
 */
int store_open(int dir_fd, uv_loop_t *loop, struct store **ret, struct err *err);
/* The last sync or removal still runs to its end in the loop; then the store frees itself. NULL is
 * fine. */
void store_close(struct store *s);

/* Makes the sandbox's directory, too. -EINVAL (an id that is no file name), or what writing said.
 */
int store_save_spec(struct store *s, const char *id, const struct spec *spec, struct err *err);
int store_save_state(struct store *s, const char *id, const struct stored_state *state,
                     struct err *err);
/*
 * Both files. -ENOENT when there is no spec; -EINVAL, -ERANGE, -EFBIG … for a garbled one. A state
 * that was never saved is that of a sandbox which was killed while being made: CREATING; then, and
 * in REMOVING, *ret_spec is NULL when it cannot be read. -ENODATA: it was saved, more than once,
 * and is missing. A state of no bytes, or of
 * zeros, is what a power failure leaves of one that was being replaced: STOPPED, its files are
 * whole.
 */
int store_load(struct store *s, const char *id, struct spec **ret_spec, struct stored_state *ret,
               struct err *err);
/* Gone at once and for good under this name; -ENOENT. */
int store_remove(struct store *s, const char *id, struct err *err);
/* Every sandbox that has a directory, garbled or not. cb may save and remove. What is no sandbox is
 * passed over. */
int store_each(struct store *s, void (*cb)(void *data, const char *id), void *data,
               struct err *err);

/* root: borrowed. */
int store_save_exposures(struct store *s, const char *id, const json_t *root, struct err *err);
/* *ret is a new reference. -ENOENT: there is no such file. */
int store_load_exposures(struct store *s, const char *id, json_t **ret, struct err *err);

int store_save_ports(struct store *s, const char *id, const json_t *root, struct err *err);
int store_load_ports(struct store *s, const char *id, json_t **ret, struct err *err);

/* The directory for log files, made when missing: an O_DIRECTORY fd of the caller's. */
int store_logs_fd(struct store *s, const char *id, struct err *err);

/* record: borrowed. name: 1 to STORE_NAME_MAX of A-Z a-z 0-9 _ . - and no dot first. */
int store_save_process(struct store *s, const char *id, const char *name, json_t *record,
                       struct err *err);
/* record: borrowed; NULL for a file that cannot be read. */
int store_each_process(struct store *s, const char *id,
                       void (*cb)(void *data, const char *name, json_t *record), void *data,
                       struct err *err);
int store_remove_process(struct store *s, const char *id, const char *name, struct err *err);

/* As those of processes. */
int store_save_network(struct store *s, const char *name, const json_t *root, struct err *err);
int store_each_network(struct store *s, void (*cb)(void *data, const char *name, json_t *root),
                       void *data, struct err *err);
int store_remove_network(struct store *s, const char *name, struct err *err);
