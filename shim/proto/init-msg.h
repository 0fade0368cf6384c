#pragma once

/*
 * What init says and hears, in SEQPACKET messages of one fixed layout.
 *
 * While it starts (with the launcher):
 *
 *   init                                        launcher
 *   STAGE(CGROUP_ENTER) its descriptors are its own ->
 *                                           <-  GO and init's program, which it executes
 *   STAGE(ADMIN) where it is asked to: its net namespace is there -> the link is made in it
 *   n, by the pipe at PLAN_STAGE_FD: about to do stage n -> read when it has ended, one way or
 * other
 *                                           <-  GO with the plan and its descriptors
 *   FAIL(n,op,e) stage n, operation op failed -> "step: strerror(e)", kill, reap
 *   READY        namespaces locked, listening -> hand the socket to the supervisor
 *   EOF before READY or FAIL                ->  "died during stage n" + wait status
 *
 * Afterwards (with the supervisor): every exec has an id that the supervisor chose.
 *
 *   EXEC(id) + memfd [+ program] [+ logs] [+ sockets]  ->
 *   <- STARTED(id, pid), or EXEC_FAILED(id, step, errno)
 *   SIGNAL(id, signo), RESIZE(id, rows, cols)          ->
 *   <- EXITED(id, wait status)
 *   COLLECT(id)                                        ->  the exec is forgotten
 *
 * Sockets: a stream socket for each of stdin, stdout and stderr (imsg_streams), or one for a
 * terminal. The supervisor makes the pairs and sends init's ends. init alone has the other ends of
 * the process's pipes and moves the bytes (init/relay.h). The end of a stream is the end of its
 * socket, both ways: the supervisor closes stdin's, or its writing half, and the process sees the
 * end of its input; it closes stdout's, and the process gets SIGPIPE.
 *
 * What a process has written when it ends is moved before EXITED is said, as far as the sockets
 * have room; EXITED with MORE: the rest follows as they are read, and init must live until then.
 * Then the sockets of its outputs are closed. What processes that it has left behind write later
 * is dropped.
 *
 * With PARK the supervisor's ends come with EXEC, too, behind init's. init keeps them, and the
 * status, until COLLECT: so what nobody has read is not lost with a supervisor. One that comes back
 * connects to init's socket, which replaces the old connection, and asks:
 *
 *   LIST                                    ->
 *   <- SLOT(id, pid or status) …, LIST_END
 *   ATTACH(id)                              ->
 *   <- ATTACHED(id, pid) + the parked ends
 *
 * With LOGGED there is no socket but for stdin: init moves what the process says to the log files
 * that came with EXEC, two a stream (struct log_header), behind what they hold.
 *
 * With TIMEOUT init itself kills all of an exec in time, whether a supervisor is there or not.
 * PING asks whether init still answers: the lock of a pipe may keep it waiting.
 *
 * An init outlives an upgrade of rind. There is one version word for all messages; magic, version
 * and type stay where they are for ever. init answers a message of another version by
 * OTHER_VERSION, with its own; the supervisor then says so and ends the sandbox. What init says is
 * checked by its reader: it may have been taken over from inside.
 */

#include <stdint.h>

enum {
    IMSG_MAGIC = 0x4d444e52, /* "RNDM" */
    IMSG_VERSION = 2,
    IMSG_FIXED = 8,        /* bytes at the beginning that are the same in all versions */
    IMSG_FDS_MAX = 8,      /* of EXEC: memfd, program, three sockets and their other ends */
    INIT_EXECS_MAX = 1024, /* execs alive or with an uncollected status, one sandbox */
};

enum imsg_type {
    IMSG_INVALID = 0,
    /* launcher or supervisor to init */
    IMSG_GO,
    IMSG_EXEC,
    IMSG_SIGNAL, /* value: signal; flags: IMSG_WHOLE_EXEC */
    IMSG_COLLECT,
    IMSG_LIST,
    IMSG_ATTACH,
    IMSG_RESIZE, /* rows, cols */
    IMSG_PING,
    /* init to launcher or supervisor */
    IMSG_STAGE = 64,
    IMSG_FAIL,
    IMSG_READY,
    IMSG_STARTED,
    IMSG_EXEC_FAILED,
    IMSG_EXITED,
    IMSG_SLOT, /* value: pid, or the status when flags has IMSG_ENDED */
    IMSG_LIST_END,
    IMSG_ATTACHED,
    IMSG_NO_SLOT, /* answer to ATTACH: no such exec, or nothing is parked */
    IMSG_PONG,
    IMSG_OTHER_VERSION,
    IMSG_MAX
};

enum imsg_flags {
    IMSG_MAIN = 1 << 0,       /* EXEC: the sandbox's main process */
    IMSG_TTY = 1 << 1,        /* EXEC: a pty of rows x cols */
    IMSG_STDIN = 1 << 2,      /* EXEC: stdin is a pipe (else /dev/null) */
    IMSG_COMBINED = 1 << 3,   /* EXEC: stderr goes where stdout goes */
    IMSG_WHOLE_EXEC = 1 << 4, /* SIGNAL: every process of the exec's cgroup leaf (SIGKILL only) */
    IMSG_MAKE_CWD = 1 << 5,   /* EXEC: make the working directory when it is missing */
    IMSG_PARK = 1 << 6,       /* EXEC: keep the other ends of the sockets, and the status */
    IMSG_LOGGED = 1 << 7,     /* EXEC: init writes stdout and stderr to the log segments */
    IMSG_PROGRAM = 1 << 8,    /* EXEC: the program is the second descriptor, not argv[0] */
    IMSG_HELPER = 1 << 9,     /* EXEC: works while the sandbox is paused */
    IMSG_ENDED = 1 << 10,     /* SLOT: the process has ended */
    IMSG_GROUP = 1 << 11,     /* SIGNAL: its process group */
    IMSG_TIMEOUT = 1 << 12,   /* EXEC: value and error are its time (imsg_time) */
    IMSG_TIMED_OUT = 1 << 13, /* EXITED, SLOT: it was killed because its time was over */
    IMSG_UNSURE = 1 << 14,    /* SLOT: STARTED or EXEC_FAILED is still to come */
    IMSG_IDLE = 1 << 15,      /* EXEC: no activity of the sandbox; for the supervisor alone, which
                                 finds it in SLOT again */
    IMSG_MORE = 1 << 16,      /* EXITED: output is still in its pipes, for want of room */
};

/* Stages of the start, for the pipe (a uint32_t each) and FAIL; names in boot.c of the launcher. A
 * message each would wake the launcher ten times for what it only needs when init dies silently. */
enum init_stage {
    INIT_STAGE_INVALID = 0,
    INIT_STAGE_PLAN,      /* read and check the plan */
    INIT_STAGE_PRIVATE,   /* make mount propagation private */
    INIT_STAGE_CGROUP_NS, /* own cgroup namespace */
    INIT_STAGE_LOOPBACK,  /* lo up */
    INIT_STAGE_HOSTNAME,
    INIT_STAGE_INNER,      /* clone the inner PID 1 */
    INIT_STAGE_PROC,       /* /proc of the inner pid namespace */
    INIT_STAGE_MOUNTS,     /* plan operations; detail = index */
    INIT_STAGE_PIVOT,      /* pivot_root, detach the old root */
    INIT_STAGE_ENTER_PID,  /* setns to the inner pid namespace */
    INIT_STAGE_LOCK,       /* second user and mount namespace */
    INIT_STAGE_INNER_LOCK, /* the inner PID 1 enters it */
    INIT_STAGE_PTS,        /* the devpts descriptor */
    INIT_STAGE_SECCOMP,    /* the seccomp floor */
    INIT_STAGE_LOOP,
    INIT_STAGE_CGROUP_ENTER, /* the first of all: before it is init, into its v1 cgroups */
    INIT_STAGE_NAMESPACES,   /* net, ipc, uts */
    INIT_STAGE_BOUNDING,     /* the bounding set, of init itself */
    INIT_STAGE_ADMIN,        /* a net namespace of the locked user namespace */
    INIT_STAGE_MAX
};

/* Steps of one exec, for EXEC_FAILED. */
enum exec_step {
    EXEC_STEP_INVALID = 0,
    EXEC_STEP_REQUEST, /* the message or its memfd is not acceptable */
    EXEC_STEP_LIMIT,   /* too many execs */
    EXEC_STEP_STDIO,   /* pipes or pty */
    EXEC_STEP_CGROUP,  /* the exec's cgroup leaf */
    EXEC_STEP_FORK,
    EXEC_STEP_SESSION,
    EXEC_STEP_USER,  /* the user is not known inside */
    EXEC_STEP_GROUP, /* the group is not known inside */
    EXEC_STEP_RLIMIT,
    EXEC_STEP_CAPABILITIES,
    EXEC_STEP_IDS, /* setgroups, setresgid, setresuid */
    EXEC_STEP_CWD,
    EXEC_STEP_SECCOMP,
    EXEC_STEP_EXECVE,
    EXEC_STEP_MAX
};

struct imsg {
    uint32_t magic;
    uint16_t version, type;
    uint64_t id;
    int32_t value;       /* SIGNAL: number; EXEC with TIMEOUT: low half; STARTED: pid in the outer
                            namespace; EXITED: status as of       wait(2); FAIL: operation index */
    int32_t error;       /* errno, positive; EXEC with TIMEOUT: high half */
    uint32_t step;       /* enum init_stage or enum exec_step */
    uint32_t flags;      /* enum imsg_flags */
    uint16_t rows, cols; /* EXEC with TTY, RESIZE */
    uint32_t log_size;   /* EXEC with LOGGED: bytes of one segment */
};

_Static_assert(sizeof(struct imsg) == 40, "imsg is a wire format");

/* Milliseconds that an exec may take, in EXEC with TIMEOUT; never negative. */
static inline void imsg_set_time(struct imsg *msg, int64_t ms)
{
    msg->value = (int32_t)(uint32_t)((uint64_t)ms & 0xffffffffU);
    msg->error = (int32_t)(uint32_t)((uint64_t)ms >> 32);
}

static inline int64_t imsg_time(const struct imsg *msg)
{
    uint64_t ms = (uint64_t)(uint32_t)msg->error << 32 | (uint32_t)msg->value;

    return ms > INT64_MAX / 2 ? INT64_MAX / 2 : (int64_t)ms;
}

/* How many sockets come with EXEC, not counting the parked ends: stdin's, stdout's and stderr's in
 * this order; a terminal's is one. */
static inline int imsg_streams(uint32_t flags)
{
    if (flags & IMSG_TTY)
        return 1;
    return ((flags & IMSG_STDIN) != 0) + ((flags & IMSG_LOGGED) != 0     ? 0
                                          : (flags & IMSG_COMBINED) != 0 ? 1
                                                                         : 2);
}

/*
 * The memfd of EXEC: struct exec_header, then the strings: argv, then the environment, then user,
 * then cwd, then groups, each NUL-terminated, exactly filling size.
 */
enum {
    EXEC_MAGIC = 0x45444e52, /* "RNDE" */
    EXEC_SIZE_MAX = 4 << 20, /* bytes */
    EXEC_STRINGS_MAX = 131072,
    EXEC_GROUPS_MAX = 32,
};

struct exec_header {
    uint32_t magic;
    uint32_t size; /* header and strings */
    uint32_t argc; /* at least 1 */
    uint32_t envc;
    uint32_t rlimit_count; /* plan_rlimit follows the header; lowers what the plan set */
    uint32_t group_count;  /* of groups that it is in beside its user's */
};

_Static_assert(sizeof(struct exec_header) == 24, "exec_header is a wire format");

/*
 * A stream's log is two segment files that init fills in turn: when one is full, the other is
 * emptied and takes over. Each begins with this; its data begins at logical offset `start` of the
 * stream. dropped: bytes that could not be written (no space), since the stream began.
 */
enum {
    LOG_MAGIC = 0x474c4452, /* "RDLG" */
    LOG_SIZE_MIN = 4096,
};
#define LOG_START_MAX (UINT64_C(1) << 53) /* no stream comes as far; JSON's numbers are exact */

struct log_header {
    uint32_t magic, reserved;
    uint64_t start, dropped;
};

_Static_assert(sizeof(struct log_header) == 24, "log_header is a file format");

/* Whether a segment can be placed by it: an init that was taken over may have written anything. */
static inline int log_header_ok(const struct log_header *h)
{
    return h->magic == LOG_MAGIC && h->start <= LOG_START_MAX;
}
