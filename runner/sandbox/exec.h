#pragma once

/*
 * One process started in a sandbox by request. Counted references: the sandbox holds one while the
 * process runs, a client's connection another while it is attached.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "policy/policy.h"

struct err;
struct exec;
struct sandbox;

enum exec_state {
    EXEC_INVALID = 0,
    EXEC_STARTING,
    EXEC_RUNNING,
    EXEC_ENDED,
    EXEC_FAILED,
    EXEC_STATE_MAX
};

struct exec_options {
    char *const *argv; /* NULL-terminated, at least one; copied */
    char *const *envp; /* NULL-terminated, or NULL: added to the sandbox's own environment,
                          replacing same names */
    const char *user;  /* NULL = the sandbox's user */
    const char *cwd;   /* NULL = the sandbox's working directory */
    bool main;         /* the sandbox's main process (sandbox-main.c only) */
    bool tty;
    uint16_t rows, cols; /* 0 = 24 x 80 */
    bool with_stdin;
    bool combined; /* stderr into stdout */
    bool keep;   /* goes on when the last client lets go, and over a supervisor's death; its output
                    and status wait */
    bool helper; /* works while the sandbox is paused; not shown to clients */
    bool idle;   /* that it runs does not count as activity of the sandbox */
    int program_fd;     /* executed instead of argv[0], or -1; borrowed */
    int64_t timeout_ms; /* LIMIT_UNSET = none: then its whole cgroup leaf is killed */
    const int *log_fds; /* four segments (init-msg.h) that init writes to, behind what they hold,
                           instead of to sockets; or NULL; borrowed */
    uint32_t log_size;
};
#define EXEC_OPTIONS_NONE                                                                          \
    {                                                                                              \
        .program_fd = -1, .timeout_ms = LIMIT_UNSET                                                \
    }

/*
 * All are called from the loop, never from within a call of this module. Any may be NULL. started:
 * the sockets can be taken. failed: execve or a step before it did not work; err names it,
 * exit_code is 126, 127 or 125. exited: exec_exit_code is valid; unread output may still be in the
 * sockets, which end behind it.
 */
struct exec_events {
    void (*started)(void *data, struct exec *e);
    void (*failed)(void *data, struct exec *e, const struct err *err, int exit_code);
    void (*exited)(void *data, struct exec *e);
};

/* Starts it in a sandbox whose init runs (sandbox_with_init). *ret is a reference of the caller's.
 */
int exec_start(struct sandbox *s, const struct exec_options *o, const struct exec_events *events,
               void *data, struct exec **ret, struct err *err);
struct exec *exec_ref(struct exec *e);
/* Drops a reference. An exec without references that is not kept is killed with its leaf. */
void exec_unref(struct exec *e);
/* No event is called any more (the data is going away); the reference stays. */
void exec_silence(struct exec *e);
/* Listens to one that runs and that has no listener; its sockets are to be taken. */
void exec_listen(struct exec *e, const struct exec_events *events, void *data);
/* Listens again, to an exec that was kept: fails with -EBUSY when it has a listener. The started
 * event follows, with sockets that go on where the last reader has stopped. */
int exec_attach(struct exec *e, const struct exec_events *events, void *data, struct err *err);

/* A kept exec that has ended: its status and output have been taken, init can forget it. */
void exec_collect(struct exec *e);
/* Kills what an ended exec has left running in its cgroup leaf: init knows a kept one until it is
 * collected. Without a cgroup of its own an exec's processes cannot be told from others. */
void exec_kill_left(struct exec *e);
/* Kills it if it runs, and lets init forget it, kept or not. */
void exec_discard(struct exec *e);

uint64_t exec_id(const struct exec *e);
/* As init sees it (in the outer pid namespace); 0 before it runs. */
pid_t exec_pid(const struct exec *e);
enum exec_state exec_get_state(const struct exec *e);
bool exec_is_tty(const struct exec *e);
bool exec_timed_out(const struct exec *e);
/* Whether it was killed with its sandbox. */
bool exec_lost(const struct exec *e);
/* Goes on without clients, and waits with its status for one. */
bool exec_is_kept(const struct exec *e);
bool exec_is_attached(const struct exec *e);
/* A main process, a background process or a helper: not a client's to attach to. */
bool exec_is_private(const struct exec *e);
const char *
exec_command(const struct exec *e); /* argv[0]; "" when an earlier supervisor started it */
struct sandbox *exec_sandbox(const struct exec *e);
/* The status as shells report it, or 128+signal. Valid in EXEC_ENDED. */
int exec_exit_code(const struct exec *e);
int exec_term_signal(const struct exec *e); /* 0 = it exited */

/*
 * Gives the sockets away (non-blocking): stdin, stdout, stderr, -1 where there is none; of a
 * terminal [0] alone. The end of an output's is its end, soon after the process's. A shutdown(2)
 * of stdin's ends the input; one of an output's says that it is not read any more. To close one
 * does the same for an exec that is not kept.
 */
void exec_take_sockets(struct exec *e, int fds[3]);
/* All of its output has been read: a sandbox waits for that with its end, if its main process has
 * left much. */
void exec_output_read(struct exec *e);
int exec_signal(struct exec *e, int signo, bool whole_leaf);
/* To its process group; SIGKILL to everything in its leaf. */
int exec_signal_group(struct exec *e, int signo);
/* A terminal's size: -ENOTTY; -EBUSY before it runs. */
int exec_resize(struct exec *e, uint16_t rows, uint16_t cols);
/* By id; borrowed. NULL when there is none (any more). */
struct exec *exec_find(struct sandbox *s, uint64_t id);
/* Iterate over a sandbox's execs, private ones included; the newest first. */
struct exec *exec_first(struct sandbox *s);
struct exec *exec_next(const struct exec *e);
