#pragma once

/*
 * One process that was started in a sandbox on request. Reference counted: the sandbox holds a
 * reference while the process runs, and an attached client's connection another.
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
    char *const *envp; /* NULL-terminated, or NULL; added to the sandbox's environment, where it
                          replaces variables of the same name */
    const char *user;  /* NULL = the sandbox's user */
    const char *cwd;   /* NULL = the sandbox's working directory */
    bool main;         /* the sandbox's main process (sandbox-main.c only) */
    bool tty;
    uint16_t rows, cols; /* 0 = 24 x 80 */
    bool with_stdin;
    bool combined; /* stderr into stdout */
    bool keep; /* runs on when the last client disconnects, and when the supervisor dies; output and
                  status are kept */
    bool helper;        /* also runs while the sandbox is paused; clients do not see it */
    bool idle;          /* does not count as activity of the sandbox */
    int program_fd;     /* program to execute instead of argv[0], or -1; borrowed */
    int64_t timeout_ms; /* LIMIT_UNSET = none; at the timeout its whole exec cgroup is killed */
    const int *log_fds; /* four segments (init-msg.h) to which init appends the output, instead of
                           sockets; or NULL; borrowed */
    uint32_t log_size;
};
#define EXEC_OPTIONS_NONE                                                                          \
    {                                                                                              \
        .program_fd = -1, .timeout_ms = LIMIT_UNSET                                                \
    }

/*
 * Events, all called from the loop, never inside a call of this module. Any may be NULL. started:
 * the sockets can be taken. failed: execve or a step before it has failed; err names it, and
 * exit_code is 126, 127 or 125. exited: exec_exit_code is valid; unread output may still be in the
 * sockets, which then report their end.
 */
struct exec_events {
    void (*started)(void *data, struct exec *e);
    void (*failed)(void *data, struct exec *e, const struct err *err, int exit_code);
    void (*exited)(void *data, struct exec *e);
};

/*
 * Starts an exec in a sandbox with a running init (sandbox_with_init). The caller owns *ret, a
 * reference.
 */
int exec_start(struct sandbox *s, const struct exec_options *o, const struct exec_events *events,
               void *data, struct exec **ret, struct err *err);
struct exec *exec_ref(struct exec *e);
/* Drops a reference. An exec without references that is not kept is killed with its cgroup. */
void exec_unref(struct exec *e);
/* Calls no more events, because data will be freed; the reference stays. */
void exec_silence(struct exec *e);
/* Sets the listener of a running exec that has none; its sockets are not taken yet. */
void exec_listen(struct exec *e, const struct exec_events *events, void *data);
/*
 * Attaches to a kept exec; -EBUSY if it has a listener. The started event follows, with sockets
 * that continue where the last reader has stopped.
 */
int exec_attach(struct exec *e, const struct exec_events *events, void *data, struct err *err);

/* Lets init forget a kept exec that has ended: its status and output have been taken. */
void exec_collect(struct exec *e);
/*
 * Kills processes that an ended exec has left in its cgroup. init knows a kept exec until it is
 * collected. Without an exec cgroup they cannot be told from other processes.
 */
void exec_kill_left(struct exec *e);
/* Kills the exec if it runs, and lets init forget it, kept or not. */
void exec_discard(struct exec *e);

uint64_t exec_id(const struct exec *e);
/* Returns the pid in the outer pid namespace; 0 before the process runs. */
pid_t exec_pid(const struct exec *e);
enum exec_state exec_get_state(const struct exec *e);
bool exec_is_tty(const struct exec *e);
bool exec_timed_out(const struct exec *e);
/* True if the process was killed with its sandbox. */
bool exec_lost(const struct exec *e);
/* True if the exec runs on without clients and keeps its status for one. */
bool exec_is_kept(const struct exec *e);
bool exec_is_attached(const struct exec *e);
/* True for a main process, a background process and a helper: clients may not attach to it. */
bool exec_is_private(const struct exec *e);
const char *
exec_command(const struct exec *e); /* argv[0]; "" if an earlier supervisor started it */
struct sandbox *exec_sandbox(const struct exec *e);
/* Returns the status as shells report it, or 128 + signal. Valid in EXEC_ENDED. */
int exec_exit_code(const struct exec *e);
int exec_term_signal(const struct exec *e); /* 0 = it exited */

/*
 * Transfers the non-blocking sockets to the caller: stdin, stdout, stderr, -1 where there is none;
 * a terminal has only [0]. An output socket reports its end soon after the end of the process.
 * shutdown(2) on stdin ends the input; on an output it means that the output is not read any more.
 * close(2) has the same effect for an exec that is not kept.
 */
void exec_take_sockets(struct exec *e, int fds[3]);
/*
 * Tells that all output has been read. If the main process has left much output, the sandbox's end
 * waits for this call.
 */
void exec_output_read(struct exec *e);
int exec_signal(struct exec *e, int signo, bool whole_leaf);
/* Sends a signal to its process group; SIGKILL goes to its whole cgroup. */
int exec_signal_group(struct exec *e, int signo);
/* Sets the terminal's size. -ENOTTY: no terminal; -EBUSY: the process does not run yet. */
int exec_resize(struct exec *e, uint16_t rows, uint16_t cols);
/* Finds an exec by id; borrowed. NULL: there is none. */
struct exec *exec_find(struct sandbox *s, uint64_t id);
/* Iterate over a sandbox's execs, private ones included; the newest first. */
struct exec *exec_first(struct sandbox *s);
struct exec *exec_next(const struct exec *e);
