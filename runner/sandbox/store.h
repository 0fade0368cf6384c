#pragma once

/*
 * The files of sandboxes in the supervisor's directory (docs/failure.md):
 *
 *     networks/<name>.json
 *     sandboxes/<id>/spec.json state.json exposures.json ports.json processes/<name>.json logs/
 *
 * A save writes a temporary file and renames it before it returns, so a killed supervisor leaves
 * the old content or the new. The two fsyncs needed against a power failure follow in the thread
 * pool; no call waits for a disk. After a power failure the last changes may be missing, or a file
 * may be blank (store_load). Repeated saves of a file are synced once, so no queue can overflow. A
 * removal renames the directory at once, and deletes it in the thread pool.
 *
 * All files are small. Files are read with a size limit, and checked as strictly as input from a
 * client.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "sandbox/sandbox-states.h"

struct err;
struct spec;
struct store;

enum {
    STORE_SPEC_MAX = 16 << 20, /* bytes; argv and env are at most 2 MiB before escapes */
    STORE_STATE_MAX = 4096,    /* bytes */
    STORE_OTHER_MAX =
        1 << 20, /* bytes of exposures.json (1024 entries, names escaped), and of ports.json */
    STORE_PROCESS_MAX = 4 << 20,  /* bytes of one process record */
    STORE_PROCESSES_MAX = 4096,   /* process records of one sandbox; more are an error */
    STORE_NETWORK_MAX = 1 << 20,  /* bytes of one network record */
    STORE_NAME_MAX = 63,          /* bytes of an id or a process's name */
    STORE_RESTARTS_MAX = 1 << 30, /* the count stops there */
};

#define STORE_NO_CREATOR (-1)

struct stored_state {
    enum sandbox_state state;
    int64_t created_ms, started_ms, finished_ms; /* since the epoch; 0 = never */
    int exit_code;                               /* exit code of the last run; -1 = not run yet */
    bool oom_killed;
    unsigned restarts;
    bool wanted;     /* desired state: a client has started it, and not stopped it since */
    int64_t creator; /* uid of the creator; STORE_NO_CREATOR in files of older daemons */
    bool held;       /* paused, or about to be, by a freeze reference while its files are read
                        (freeze-ref.h) */
};

/*
 * Opens the store. dir_fd: the supervisor's directory; borrowed, must outlive the store. Creates
 * missing directories, and deletes the remains of removals.
 */
int store_open(int dir_fd, uv_loop_t *loop, struct store **ret, struct err *err);
/*
 * Closes the store; it frees itself when the last sync or removal has ended in the loop. NULL is
 * allowed.
 */
void store_close(struct store *s);

/*
 * Creates the sandbox's directory if needed. -EINVAL: the id is no file name; else the errno of
 * writing.
 */
int store_save_spec(struct store *s, const char *id, const struct spec *spec, struct err *err);
int store_save_state(struct store *s, const char *id, const struct stored_state *state,
                     struct err *err);
/*
 * Loads spec and state. -ENOENT: no spec; -EINVAL, -ERANGE, -EFBIG …: damaged file. A missing state
 * file means that the creating supervisor was killed: CREATING. In the states CREATING and REMOVING
 * an unreadable spec is returned as NULL. -ENODATA: the state was saved more than once, and is
 * missing. A blank state file (a power failure during a save) is loaded as STOPPED; the sandbox's
 * files are complete.
 */
int store_load(struct store *s, const char *id, struct spec **ret_spec, struct stored_state *ret,
               struct err *err);
/* Removes the sandbox's files; the id is free at once. -ENOENT. */
int store_remove(struct store *s, const char *id, struct err *err);
/*
 * Calls cb for every sandbox that has a directory, damaged or not; other names are skipped. cb may
 * save and remove.
 */
int store_each(struct store *s, void (*cb)(void *data, const char *id), void *data,
               struct err *err);

/* root: borrowed. */
int store_save_exposures(struct store *s, const char *id, const json_t *root, struct err *err);
/* *ret is a new reference. -ENOENT: no such file. */
int store_load_exposures(struct store *s, const char *id, json_t **ret, struct err *err);

/* As the two functions above, for ports.json. */
int store_save_ports(struct store *s, const char *id, const json_t *root, struct err *err);
int store_load_ports(struct store *s, const char *id, json_t **ret, struct err *err);

/*
 * Opens the directory for log files, creating it if needed. Returns an O_DIRECTORY fd owned by the
 * caller.
 */
int store_logs_fd(struct store *s, const char *id, struct err *err);

/* record: borrowed. name: 1 to STORE_NAME_MAX of A-Z a-z 0-9 _ . -, not starting with a dot. */
int store_save_process(struct store *s, const char *id, const char *name, json_t *record,
                       struct err *err);
/* record: borrowed; NULL for a file that cannot be read. */
int store_each_process(struct store *s, const char *id,
                       void (*cb)(void *data, const char *name, json_t *record), void *data,
                       struct err *err);
int store_remove_process(struct store *s, const char *id, const char *name, struct err *err);

/* Records of networks, as for processes. */
int store_save_network(struct store *s, const char *name, const json_t *root, struct err *err);
int store_each_network(struct store *s, void (*cb)(void *data, const char *name, json_t *root),
                       void *data, struct err *err);
int store_remove_network(struct store *s, const char *name, struct err *err);
