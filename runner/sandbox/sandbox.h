#pragma once

/*
 * A kept sandbox (docs/states.md). Every function runs on the supervisor's loop, and none blocks.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "sandbox/caller.h"
#include "sandbox/sandbox-states.h"
#include "spec/spec.h"

struct err;
struct exec;
struct launch_process;
struct launch_reply;
struct sandbox;
struct supervisor;

/* Called once, from the loop. err explains r < 0, and is valid during the call. */
typedef void (*sandbox_cb)(void *data, int r, const struct err *err);

/*
 * Creates a sandbox from spec (taken on success) and brings it to CREATED, with `start` to RUNNING.
 * *ret is valid at once, and borrowed. -EEXIST: the name is taken; -EAGAIN, -EUSERS: a limit is
 * reached.
 */
int sandbox_create(struct supervisor *sup, struct spec *spec, const struct caller *creator,
                   bool start, sandbox_cb cb, void *data, struct sandbox **ret, struct err *err);

/*
 * Finds a sandbox by its whole id, for code that has got it from the sandbox. Borrowed; NULL: none.
 * What a client has written is looked up by sandbox_find_for (rights.h).
 */
struct sandbox *sandbox_by_id(struct supervisor *sup, const char *id);
/* Reference count, for callers that use a sandbox after it may have been removed. */
void sandbox_ref(struct sandbox *s);
void sandbox_unref(struct sandbox *s);
struct sandbox *sandbox_first(struct supervisor *sup);
struct sandbox *sandbox_next(struct sandbox *s);

/*
 * The table of states refuses requests that do not fit the state, with -EBUSY (409). If 0 is
 * returned, cb is called later. A start waits for the end of a run whose main process has exited.
 */
int sandbox_start(struct sandbox *s, sandbox_cb cb, void *data, struct err *err);
/*
 * Sends the stop signal, and SIGKILL after timeout_ms (LIMIT_UNSET = the spec's timeout). If the
 * sandbox is stopped already, cb is called from the loop, too.
 */
int sandbox_stop(struct sandbox *s, int64_t timeout_ms, sandbox_cb cb, void *data, struct err *err);
int sandbox_restart(struct sandbox *s, int64_t timeout_ms, sandbox_cb cb, void *data,
                    struct err *err);
/*
 * As above, with this signal for this stop; 0 = the spec's. A later supervisor that continues the
 * stop uses the spec's signal.
 */
int sandbox_stop_by(struct sandbox *s, int signo, int64_t timeout_ms, sandbox_cb cb, void *data,
                    struct err *err);
int sandbox_restart_by(struct sandbox *s, int signo, int64_t timeout_ms, sandbox_cb cb, void *data,
                       struct err *err);
/*
 * Saves the spec that spec_patch has changed, and uses its settings from now on. A pending restart
 * is dropped if the new policy has none. The caller still owns `changed`, which has the old labels
 * afterwards.
 */
int sandbox_update(struct sandbox *s, struct spec *changed, struct err *err);
/*
 * As sandbox_update, and changes the limits of a sandbox that runs if the patch has some. changed:
 * what spec_patch has made of this patch, and the caller has checked.
 */
int sandbox_change(struct sandbox *s, json_t *patch, struct spec *changed, sandbox_cb cb,
                   void *data, struct err *err);
int sandbox_pause(struct sandbox *s, sandbox_cb cb, void *data, struct err *err);
int sandbox_resume(struct sandbox *s, sandbox_cb cb, void *data, struct err *err);
/* Sends a signal to the main process; for SIGKILL the sandbox is thawed first. */
int sandbox_signal(struct sandbox *s, int signo, struct err *err);
/* Removes the sandbox and its files. Without force a running sandbox is refused with -EBUSY. */
int sandbox_remove(struct sandbox *s, bool force, sandbox_cb cb, void *data, struct err *err);
/*
 * Waits for the end of the main process; cb's r is the exit code. Called soon if the sandbox is
 * stopped already. -ENOENT: the sandbox was removed meanwhile.
 */
int sandbox_wait(struct sandbox *s, sandbox_cb cb, void *data, struct err *err);
/* Waits for the next end of the main process, whether it has run before or not. */
int sandbox_wait_next(struct sandbox *s, sandbox_cb cb, void *data, struct err *err);
/* Waits for the removal, by whichever request; cb's r is 0. */
int sandbox_wait_removed(struct sandbox *s, sandbox_cb cb, void *data, struct err *err);
/* Cancels waits with this data. True: cb will not be called; false: cb is about to be called. */
bool sandbox_wait_cancel(struct sandbox *s, void *data);
/*
 * Renames the sandbox, and saves the name before it returns 0. -EEXIST: the name is taken; -EINVAL:
 * the name is invalid.
 */
int sandbox_rename(struct sandbox *s, const char *name, struct err *err);
/*
 * Starts an init if none runs, also in a stopped sandbox (a helper init, which ends when it is
 * idle). cb is called from the loop.
 */
int sandbox_with_init(struct sandbox *s, sandbox_cb cb, void *data, struct err *err);
/*
 * Waits until the run is over. With auto-remove, and without a restart policy, it waits for the
 * removal. For callers that have seen the main process end.
 */
int sandbox_when_over(struct sandbox *s, sandbox_cb cb, void *data, struct err *err);
/* Sets the terminal size of the main process, now and for its next start; 0 = 24 x 80. */
void sandbox_set_size(struct sandbox *s, uint16_t rows, uint16_t cols);
/* Returns the main process, borrowed; NULL if none runs. */
struct exec *sandbox_main(const struct sandbox *s);
/* True if the main process uses sockets to an attached client, and no log. */
bool sandbox_is_attachable(const struct sandbox *s);
/* Requests the launcher's counters; cb gets the reply. */
int sandbox_stats(struct sandbox *s,
                  void (*cb)(void *data, int r, const struct launch_reply *reply,
                             const struct err *err),
                  void *data, struct err *err);
/*
 * Lists the sandbox's processes, as the launcher sees them from outside. -EBUSY: no init runs. list
 * is valid during cb; errors are the launcher's.
 */
typedef void (*sandbox_processes_cb)(void *data, int r, const struct launch_process *list,
                                     size_t count, const struct err *err);
int sandbox_processes(struct sandbox *s, sandbox_processes_cb cb, void *data, struct err *err);
/* Restarts the inactivity timer, because a client has used the sandbox. */
void sandbox_touch(struct sandbox *s);

const char *sandbox_id(const struct sandbox *s);
enum { SANDBOX_SHORT_ID = 12 /* digits of the id that Docker clients see */ };
const char *sandbox_name(const struct sandbox *s);
const struct spec *sandbox_spec(const struct sandbox *s);
/* Returns the uid of the client that created it, or -1 if an older daemon has not saved it. */
int64_t sandbox_made_by(const struct sandbox *s);
/* Returns the state as clients see it, never SANDBOX_GONE. */
enum sandbox_state sandbox_get_state(const struct sandbox *s);
struct supervisor *sandbox_supervisor(const struct sandbox *s);

/* What inspect shows beside the spec. */
struct sandbox_info {
    int64_t created_ms, started_ms, finished_ms; /* since the epoch; 0 = never */
    int exit_code;                               /* exit code of the last run; -1 = none yet */
    bool oom_killed;
    bool timed_out;  /* the last run was ended by the hard timeout */
    bool restarting; /* the run has ended, and a restart is due */
    bool lingers;    /* it has not ended in time; error says what it waits for */
    pid_t pid;       /* pid of the main process in the outer pid namespace; 0 = none */
    unsigned restarts;
    const char *error;           /* the error of the last start, or "" */
    const struct net_place *net; /* NULL: no addresses, or it does not run */
    bool disk_held;              /* frozen while the host's disk is nearly full (disk-watch.h) */
    const char *net_closed;      /* reason why its link is down; NULL: the link is up */
};
void sandbox_get_info(const struct sandbox *s, struct sandbox_info *ret);
/*
 * Returns the limits that are in force at its next start, and in inspect: what its spec asks, else
 * the policy's, and for a sandbox of a member of the group never more than the client policy has.
 */
struct limits sandbox_limits(const struct sandbox *s);
/* The client policy's bounds of its limits; NULL: its maker has none. Borrowed. */
const struct limits *sandbox_most(const struct sandbox *s);
