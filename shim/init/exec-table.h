#pragma once

/*
 * The table of execs: one slot for each process that init has started, until its exit has been
 * reported and collected.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "init/init.h"
#include "init/relay.h"

enum {
    LOGGED_MAX = 257, /* logged execs of a sandbox: the main process, and 256 others */
    LOG_STREAMS = 2,
};

enum slot_state {
    SLOT_FREE = 0,
    SLOT_STARTING, /* forked; whether execve worked is not known yet: status_fd is open */
    SLOT_RUNNING,
    /* Reaped; status is valid. Stays until COLLECT when it is parked, logged or the main process,
     * and until its reader has taken what the process has written. */
    SLOT_ENDED,
};

/* Messages that wait to be sent to the supervisor, in this order. */
enum slot_tell {
    TELL_STARTED = 1 << 0,
    TELL_FAILED = 1 << 1,
    TELL_EXITED = 1 << 2,
    TELL_ATTACHED = 1 << 3
};

struct slot {
    uint64_t id;
    uint32_t serial; /* distinguishes this use of the slot from earlier ones in events */
    pid_t pid;
    enum slot_state state;
    unsigned tell;
    uint32_t flags; /* enum imsg_flags of its EXEC */
    int status_fd;
    int status_watched;
    int64_t deadline;            /* CLOCK_MONOTONIC ms at which it is killed; 0 = none */
    int status;                  /* of wait(2) */
    struct exec_failure failure; /* when TELL_FAILED */
    struct stdio_relay relays[RELAY_STREAMS];
    int parked[RELAY_STREAMS]; /* the reader's ends of the sockets, with PARK; -1 = none */
    uint32_t exec_cgroup;      /* number of its exec cgroup; 0 = none */
    bool exec_cgroup_killed;   /* a killed cgroup is not used again */
    bool spawn_vm;             /* the process shares init's memory */
    int16_t log;               /* index of its streams, or -1 */
};

/* A logged stream. */
struct log {
    int pipe; /* -1 = the stream has ended */
    int segments[2];
    unsigned current;
    uint64_t start;   /* logical offset at which the current segment begins */
    uint64_t used;    /* data bytes in the current segment */
    uint64_t dropped; /* bytes that found no room */
    uint32_t size;    /* data bytes that a segment takes */
};

enum exec_cgroup_kind { EXEC_CGROUP_USERS, EXEC_CGROUP_HELPERS, EXEC_CGROUP_KINDS };
enum {
    EXEC_CGROUP_WAITING_MAX = 32,
    LEAF_CHECKS_MAX = 4, /* waiting exec cgroups that each new exec checks for emptiness */
};

/* Exec cgroups without an exec; the last released is the last entry. */
struct exec_cgroup_pool {
    uint32_t numbers[EXEC_CGROUP_WAITING_MAX];
    unsigned count;
};

/* spawn-vm.c */
struct spawn_vm {
    bool taken;
    unsigned char *stack; /* NULL before the first */
    const struct plan *plan;
    struct exec_start start;
    struct exec_arena arena;
};

struct table {
    struct init *init;
    int epoll;       /* owned; everything that the loop waits for */
    uint32_t serial; /* serial number of the slot that was taken last */
    struct spawn_vm spawn_vm;
    struct exec_cgroup_pool exec_cgroups[EXEC_CGROUP_KINDS];
    uint32_t exec_cgroup_last; /* last number of an exec cgroup */
    struct slot slots[INIT_EXECS_MAX];
    unsigned used; /* slots at or above this index are free */
    struct log logs[LOGGED_MAX][LOG_STREAMS];
    bool log_used[LOGGED_MAX];
    int sinks[SINKS_MAX]; /* owned; the oldest first */
    unsigned sink_count;
};

void table_init(struct table *t, struct init *init);
struct slot *table_find(struct table *t, uint64_t id);
struct slot *table_by_pid(struct table *t, pid_t pid);
/* Returns a free slot, or NULL. */
struct slot *table_take(struct table *t);
/* Closes every fd of the slot and frees it. */
void table_release(struct table *t, struct slot *s);
/* Begin and end the wait for its status pipe. */
void slot_watch_status(struct table *t, struct slot *s);
void slot_close_status(struct table *t, struct slot *s);
/* True if all of its relays are closed. */
bool slot_is_quiet(const struct slot *s);

/*
 * exec-cgroup.c: the cgroup of an exec, below "u" (users' processes, frozen by a pause) or "h"
 * (helpers).
 */
void exec_cgroup_prepare(const struct init *init);
/* Provides an empty exec cgroup for the slot. Returns its O_PATH fd; -ENODEV without a v2 tree. */
int exec_cgroup_make(struct table *t, struct slot *s);
/* Returns an O_PATH fd of the main process's cgroup; -ENODEV without a v2 tree. */
int exec_cgroup_main(const struct init *init);
int exec_cgroup_kill(struct slot *s);
/* Called when an exec is forgotten: the next exec may use its cgroup once it is empty. */
void exec_cgroup_release(struct table *t, struct slot *s);

struct clone_args;
/*
 * True if the next exec, with a request of this size, can be started in init's memory; else it is
 * forked.
 */
bool spawn_vm_is_free(struct spawn_vm *w, size_t request_size);
/*
 * Starts an exec in init's memory; returns the pid or -errno. The caller can close start's
 * descriptors then. like: clone arguments without a stack.
 */
int spawn_vm_clone(struct spawn_vm *w, const struct plan *plan, const struct exec_start *start,
                   const struct clone_args *like);
/* Called when the process has left init's memory: after its execve or its death. */
void spawn_vm_left(struct spawn_vm *w);

/*
 * start.c: begins an exec from its message and descriptors (init-msg.h); descriptors that it takes
 * become -1. Returns 0, or the step that failed with *ret_error.
 */
enum exec_step start_exec(struct table *t, struct slot *s, const struct imsg *msg, int *fds,
                          int fd_count, int *ret_error);

/* log.c */
int log_open(struct log *log, int pipe_fd, const int segments[2], uint32_t size);
/* Moves all present bytes; returns false at the end of the stream. */
bool log_move(struct log *log);
/* Returns the bytes of the stream so far, dropped ones included. */
static inline uint64_t log_total(const struct log *log)
{
    return log->start + log->used + log->dropped;
}
void log_close(struct log *log);
