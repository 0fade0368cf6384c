#pragma once

/* A kept sandbox: docs/states.md. Everything is asynchronous and happens on the supervisor's
 * loop. */

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

/* Called once; err explains r < 0 and is valid during the call. */
typedef void (*sandbox_cb)(void *data, int r, const struct err *err);

/*
 * Makes a sandbox from spec (taken on success) and brings it to CREATED; with `start` to RUNNING.
 * *ret is there at once, borrowed. -EEXIST: the name is taken; -EAGAIN, -EUSERS: a limit.
 */
int sandbox_create(struct supervisor *sup, struct spec *spec, const struct caller *creator,
                   bool start, sandbox_cb cb, void *data, struct sandbox **ret, struct err *err);

/* By id, unique id prefix of at least four characters, or name. Borrowed; NULL. */
struct sandbox *sandbox_find(struct supervisor *sup, const char *id_or_name);
/* The same, with the reason: -ENOENT, or -ENOTUNIQ for a prefix of several ids. */
int sandbox_lookup(struct supervisor *sup, const char *id_or_name, struct sandbox **ret,
                   struct err *err);
/* Counted, for callers that look at a sandbox after it may have been removed. */
void sandbox_ref(struct sandbox *s);
void sandbox_unref(struct sandbox *s);
struct sandbox *sandbox_first(struct supervisor *sup);
struct sandbox *sandbox_next(struct sandbox *s);

/* The state table refuses with -EBUSY (409) what does not fit; `cb` follows when 0 is returned. A
 * run that has ended and is being cleared away is waited for. */
int sandbox_start(struct sandbox *s, sandbox_cb cb, void *data, struct err *err);
/* The stop signal, and SIGKILL after timeout_ms (LIMIT_UNSET = the spec's). 0 at once, cb called
 * later, when it is stopped already. */
int sandbox_stop(struct sandbox *s, int64_t timeout_ms, sandbox_cb cb, void *data, struct err *err);
int sandbox_restart(struct sandbox *s, int64_t timeout_ms, sandbox_cb cb, void *data,
                    struct err *err);
/* The same by another signal than the spec's this once; 0 = the spec's. A supervisor that takes up
 * a stop which its predecessor began uses the spec's. */
int sandbox_stop_by(struct sandbox *s, int signo, int64_t timeout_ms, sandbox_cb cb, void *data,
                    struct err *err);
int sandbox_restart_by(struct sandbox *s, int signo, int64_t timeout_ms, sandbox_cb cb, void *data,
                       struct err *err);
/*
 * Puts what spec_patch has made of its spec into effect, when it is on disk: what happens from now
 * on goes by it, and a restart that was due does not come when there are to be none. changed stays
 * the caller's, in parts.
 */
int sandbox_update(struct sandbox *s, struct spec *changed, struct err *err);
int sandbox_pause(struct sandbox *s, sandbox_cb cb, void *data, struct err *err);
int sandbox_resume(struct sandbox *s, sandbox_cb cb, void *data, struct err *err);
/* To the main process; thaws first when it is SIGKILL. */
int sandbox_signal(struct sandbox *s, int signo, struct err *err);
/* Removes it with its files. Without force a running one is -EBUSY. */
int sandbox_remove(struct sandbox *s, bool force, sandbox_cb cb, void *data, struct err *err);
/* When the main process has ended (cb with r = exit code), or at once when it is stopped; -ENOENT
 * when it was removed meanwhile. */
int sandbox_wait(struct sandbox *s, sandbox_cb cb, void *data, struct err *err);
/* When the main process ends the next time, whether it has run before or not. */
int sandbox_wait_next(struct sandbox *s, sandbox_cb cb, void *data, struct err *err);
/* Once it is gone: cb with 0, whichever request removes it. */
int sandbox_wait_removed(struct sandbox *s, sandbox_cb cb, void *data, struct err *err);
/* Whether cb will not be called any more; else it is on its way. */
bool sandbox_wait_cancel(struct sandbox *s, void *data);
/* Another name, durable when 0 is returned. -EEXIST: it is taken; -EINVAL: it is none. */
int sandbox_rename(struct sandbox *s, const char *name, struct err *err);
/* Sees to it that init runs, also in a stopped sandbox (a helper init, which ends after it was
 * idle). cb may follow at once from the loop. */
int sandbox_with_init(struct sandbox *s, sandbox_cb cb, void *data, struct err *err);
/* Once nothing runs in it any more, or at once when that is so; with auto-remove, and nothing to
 * restart it, once it is removed. For callers that have seen its main process end. */
int sandbox_when_over(struct sandbox *s, sandbox_cb cb, void *data, struct err *err);
/* The size of the main process's terminal, now and at its next start; 0 = 24 x 80. */
void sandbox_set_size(struct sandbox *s, uint16_t rows, uint16_t cols);
/* The main process, while there is one; borrowed. */
struct exec *sandbox_main(const struct sandbox *s);
/* Whether the main process talks to an attached client, rather than to a log. */
bool sandbox_is_attachable(const struct sandbox *s);
/* The launcher's counters; cb2 gets the reply. */
int sandbox_stats(struct sandbox *s,
                  void (*cb)(void *data, int r, const struct launch_reply *reply,
                             const struct err *err),
                  void *data, struct err *err);
/*
 * Lists its processes, as the launcher finds them from outside. -EBUSY: it has no init. cb: list is
 * valid during the call; errors of the launcher's.
 */
typedef void (*sandbox_processes_cb)(void *data, int r, const struct launch_process *list,
                                     size_t count, const struct err *err);
int sandbox_processes(struct sandbox *s, sandbox_processes_cb cb, void *data, struct err *err);
/* A client used it: restarts its inactivity timer. */
void sandbox_touch(struct sandbox *s);

const char *sandbox_id(const struct sandbox *s);
enum { SANDBOX_SHORT_ID = 12 /* digits of it that Docker's clients are shown */ };
const char *sandbox_name(const struct sandbox *s);
const struct spec *sandbox_spec(const struct sandbox *s);
/* The uid of the client that made it, or -1 where an older daemon has not written it down. */
int64_t sandbox_made_by(const struct sandbox *s);
/* What clients see: never SANDBOX_GONE. */
enum sandbox_state sandbox_get_state(const struct sandbox *s);
struct supervisor *sandbox_supervisor(const struct sandbox *s);

/* Facts that inspect shows beside the spec. */
struct sandbox_info {
    int64_t created_ms, started_ms, finished_ms; /* since the epoch; 0 = never */
    int exit_code;                               /* of the last run; -1 = none yet */
    bool oom_killed;
    bool timed_out;  /* the last run was ended by the hard timeout */
    bool restarting; /* it has ended, and a restart is due */
    pid_t pid;       /* of the main process, as init sees it; 0 */
    unsigned restarts;
    const char *error;           /* why the last start failed, or "" */
    const struct net_place *net; /* NULL: it has no addresses, or does not run */
    const char *net_closed;      /* why nothing reaches it nor leaves it; NULL: it is open */
};
void sandbox_get_info(const struct sandbox *s, struct sandbox_info *ret);
/* Its limits: the policy's, and those of its spec. */
struct limits sandbox_limits(const struct sandbox *s);
