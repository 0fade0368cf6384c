#pragma once

/*
 * What init says and hears, in SEQPACKET messages of one fixed layout.
 *
 * While it starts (with the launcher):
 *
 *   init                                        launcher
 *   STAGE(n)     about to do stage n        ->  remember n
 *   NEED_MAPS    the locked namespace exists ->  write its id maps
 *                                           <-  GO
 *   FAIL(n,op,e) stage n, operation op failed -> "step: strerror(e)", kill, reap
 *   READY        namespaces locked, listening -> hand the socket to the supervisor
 *   EOF before READY or FAIL                ->  "died during stage n" + wait status
 *
 * Afterwards (with the supervisor): every exec has an id that the supervisor chose.
 *
 *   EXEC(id) + memfd [exec.h]               ->
 *   <- STARTED(id, pid) + stdin, stdout, stderr ends (or the pty master)   or   EXEC_FAILED(id,
 * step, errno) SIGNAL(id, signo), RESIZE(id, rows, cols)  ->
 *   <- EXITED(id, wait status)
 *
 * An init outlives an upgrade of rind: a message's meaning never changes, a new one gets a new
 * number. What init says is checked by its reader: it may have been taken over from inside.
 */

#include <stdint.h>

enum {
    IMSG_MAGIC = 0x4d444e52, /* "RNDM" */
    IMSG_VERSION = 1,
    IMSG_FDS_MAX = 3,
    INIT_EXECS_MAX = 1024, /* execs alive or with an uncollected status, one sandbox */
};

enum imsg_type {
    IMSG_INVALID = 0,
    /* launcher or supervisor to init */
    IMSG_GO,
    IMSG_EXEC,
    IMSG_SIGNAL, /* value: signal; flags: IMSG_WHOLE_EXEC */
    IMSG_RESIZE,
    /* init to launcher or supervisor */
    IMSG_STAGE = 64,
    IMSG_FAIL,
    IMSG_NEED_MAPS,
    IMSG_READY,
    IMSG_STARTED,
    IMSG_EXEC_FAILED,
    IMSG_EXITED,
    IMSG_MAX
};

enum imsg_flags {
    IMSG_MAIN = 1 << 0,       /* EXEC: the sandbox's main process */
    IMSG_TTY = 1 << 1,        /* EXEC: a pty of rows x cols */
    IMSG_STDIN = 1 << 2,      /* EXEC: stdin is a pipe (else /dev/null) */
    IMSG_COMBINED = 1 << 3,   /* EXEC: stderr goes where stdout goes */
    IMSG_WHOLE_EXEC = 1 << 4, /* SIGNAL: every process of the exec's cgroup leaf (SIGKILL only) */
    IMSG_MAKE_CWD = 1 << 5,   /* EXEC: make the working directory when it is missing */
};

/* Stages of the start, for STAGE and FAIL; names in boot.c of the launcher. */
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
    INIT_STAGE_SECCOMP,    /* init's own filter */
    INIT_STAGE_LOOP,
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
    int32_t value;  /* SIGNAL: number; STARTED: pid in the outer namespace; EXITED: status as of
                       wait(2); FAIL: operation index */
    int32_t error;  /* errno, positive */
    uint32_t step;  /* enum init_stage or enum exec_step */
    uint32_t flags; /* enum imsg_flags */
    uint16_t rows, cols;
    uint32_t reserved;
};

_Static_assert(sizeof(struct imsg) == 40, "imsg is a wire format");

/*
 * The memfd of EXEC: struct exec_header, then the strings: argv, then the environment, then user,
 * then cwd, each NUL-terminated, exactly filling size.
 */
enum {
    EXEC_MAGIC = 0x45444e52, /* "RNDE" */
    EXEC_SIZE_MAX = 4 << 20, /* bytes */
    EXEC_STRINGS_MAX = 131072,
};

struct exec_header {
    uint32_t magic;
    uint32_t size; /* header and strings */
    uint32_t argc; /* at least 1 */
    uint32_t envc;
    uint32_t rlimit_count, reserved; /* plan_rlimit follows the header; lowers what the plan set */
};

_Static_assert(sizeof(struct exec_header) == 24, "exec_header is a wire format");
