#pragma once

/*
 * init: PID 1 of the outer pid namespace of one sandbox. It builds the sandbox from the plan
 * (setup.c) and enters the locked namespaces. Then it starts, signals and reaps processes in the
 * inner pid namespace on request (loop.c, exec.c). No process inside can see or signal it. It has
 * no parser: the plan and the messages have fixed layouts.
 *
 * Phases, in order, each a function of its own: setup_namespaces, plan_load, setup_mounts,
 * setup_lock, setup_confine, loop. Before the loop every failure is sent as FAIL, and init exits.
 * Once the loop has begun init never exits on an error, because its exit ends the sandbox.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "init/guard.h"
#include "proto/init-msg.h"
#include "proto/plan.h"

struct plan {
    const unsigned char *base; /* the whole plan, mapped read-only */
    const struct plan_header *header;
    const struct plan_op *ops;
    const struct plan_rlimit *rlimits;
    const char *strings;
};

/* The origin of the sandbox's net namespace; init's argument names it. */
enum init_net {
    INIT_NET_OWN = 0, /* init makes one in the outer user namespace */
    INIT_NET_THERE,   /* init is in it already */
    INIT_NET_ADMIN,   /* init makes one that belongs to the locked user namespace */
};

struct init {
    struct plan plan;
    int locked_userns; /* with INIT_NET_ADMIN: made first, entered later; else -1 */
    int inner_pidfd; /* the inner PID 1, which waits for orders until the main process is started */
    pid_t inner_pid;
    int inner_sock; /* SEQPACKET socket to it; -1 once it is the main process */
    int pts_fd;     /* O_PATH of the sandbox's devpts */
    int null_fd;    /* O_RDWR of the sandbox's null device */
    struct guard guard;
};

/*
 * Sends FAIL with the current stage and ends init. error: positive errno; detail: operation index
 * or 0.
 */
void init_fail(enum init_stage stage, int detail, int error) __attribute__((noreturn));
/* Announces a stage. */
void init_stage(enum init_stage stage);
/* Announces a stage in a message, for which the launcher waits. */
void init_tell(enum init_stage stage);
/* Reports READY: the loop begins. */
void init_ready(void);

/*
 * Points *plan into data (aligned to 8) after it has checked every count, offset and field. Returns
 * 0, -EPROTO, or -E2BIG past a limit. Pure.
 */
int plan_check(struct plan *plan, const void *data, size_t size);
/* Waits for the plan and its descriptors, maps and checks it. Fails with INIT_STAGE_PLAN. */
void plan_load(struct plan *plan);
/*
 * Installs the launcher's seccomp baseline on this process; all its children inherit it. Returns 0,
 * with SECCOMP_FILTER_FLAG_NEW_LISTENER a descriptor, or -errno.
 */
int plan_install_baseline(const struct plan *plan, unsigned flags);
/*
 * As plan_install_baseline, for a kernel or host without a listener. Calls that init would decide
 * are then refused (EPERM) on every mount.
 */
int plan_install_baseline_alone(const struct plan *plan);
/*
 * Drops capabilities that the policy does not grant from the bounding set, and empties the ambient
 * set, for all later children. This process keeps its own. A new user namespace begins with all
 * capabilities, so this is called after the locked one is entered. 0 or -errno.
 */
int plan_drop_capabilities(const struct plan *plan);
static inline const char *plan_string(const struct plan *plan, uint32_t offset)
{
    return plan->strings + offset;
}

/* Should: enter every namespace that the launcher's clone has not made. Needs no plan, which the
 * launcher is still making. */
void setup_namespaces(struct init *init, enum init_net net);
/* admin.c. Should: make the user namespace that will be the locked one, with a net namespace in it,
 * and enter the latter. Mustn't: enter the former. */
void admin_namespaces(struct init *init);

/*
 * Should: build the whole mount tree below the new root and make it the root; leave the inner PID 1
 * waiting in its pid namespace. Mustn't: follow a link of the image out of the new root, or leave
 * anything of the host reachable.
 */
void setup_mounts(struct init *init);

/* Should: put init and the inner PID 1 into the second user and mount namespace, which locks every
 * mount and flag. */
void setup_lock(struct init *init);

/* Should: drop what the loop does not need. Mustn't: open anything by a path that processes inside
 * can change, afterwards. */
void setup_confine(struct init *init);

/* Serves requests, and starts, signals and reaps processes. Never returns. */
_Noreturn void loop_run(struct init *init);

/* exec.c: one process */
/* Memory for data that is read on the way to an execve. */
struct exec_arena {
    unsigned char *base; /* aligned to a page, EXEC_ARENA_SIZE bytes */
    size_t used;
};
enum {
    EXEC_FILE_MAX = 1 << 20, /* bytes of the image's passwd and of its group file */
    /* Room for the request, its lists, passwd, and group twice. Untouched pages cost nothing. */
    EXEC_ARENA_SIZE = EXEC_SIZE_MAX +
                      (2 * EXEC_STRINGS_MAX + EXEC_GROUPS_MAX + 8) * (int)sizeof(char *) +
                      3 * EXEC_FILE_MAX + 4096,
};
struct exec_start {
    int request_fd; /* sealed memfd: exec_header and strings */
    size_t request_size;
    int program_fd;           /* program to execute instead of argv[0], or -1 */
    int stdio[3];             /* the child's ends */
    int status_fd;            /* {step, errno} is written to it on failure; closed by execve */
    uint32_t flags;           /* enum imsg_flags */
    struct exec_arena *arena; /* NULL: the child does not share memory, and maps an arena itself */
};
struct exec_failure {
    uint32_t step;
    int32_t error;
};
/* exec-parse.c */
/* The header of a request of `size` bytes (aligned to 8), once every field of it is checked; 0 or
 * -EPROTO. */
int exec_request_header(const void *data, size_t size, const struct exec_header **ret);
struct exec_strings {
    char **argv, **envp; /* NULL-terminated; envp has room for one more */
    const char *user, *cwd;
    char **groups; /* NULL-terminated */
};
/*
 * Finds the request's strings; list has room for EXEC_LIST(h) pointers. Extra bytes are refused
 * with -EPROTO.
 */
#define EXEC_LIST(h) ((size_t)(h)->argc + (h)->envc + (h)->group_count + 4)
int exec_request_strings(char *data, const struct exec_header *h, char **list,
                         struct exec_strings *ret);

/* Gives this process capabilities with capset(2). Returns 0 or a positive errno. */
int exec_set_caps(uint64_t permitted, uint64_t effective);

/*
 * spawn-vm.c: true if a change of ids would open the memory of this process to other processes of
 * these ids.
 */
bool spawn_vm_ids_open_memory(void);

/*
 * Runs in the child: becomes the process, or reports and exits. It has all rights of the sandbox's
 * root, so it trusts neither files nor strings. It may share init's memory (spawn-vm.c); there it
 * writes only to the arena and its stack.
 */
_Noreturn void exec_child(const struct plan *plan, const struct exec_start *start);

/* maps.c: writes the maps of a new user namespace, by O_PATH of /proc/<a process in it>. The caller
 * must be in the first user namespace, with every capability there; the host's root is refused. 0
 * or -errno. */
int init_write_maps(int proc);

/* inner.c: the inner PID 1 */
/* Clones the inner PID 1; sets inner_* of init. */
void inner_start(struct init *init);
/* Receives the /proc mount that the inner PID 1 has made. */
int inner_take_proc(const struct init *init);
/* Has the inner PID 1 enter init's namespaces, and waits until it has. */
void inner_lock(const struct init *init);

/*
 * Turns the inner PID 1 into the main process. The caller closes its copies of the descriptors;
 * inner_sock is closed afterwards.
 */
int inner_run(struct init *init, const struct exec_start *start);

/* wire.c: SEQPACKET with descriptors. */
int wire_send(int sock, const void *data, size_t len, const int *fds, int fd_count);
/* Returns the length, 0 on EOF, or -errno; excess or truncated descriptors are closed and -EPROTO
 * returned. */
int wire_recv(int sock, void *data, size_t len, int *fds, int fd_max, int *ret_fd_count);

/* text.c: builds a string in the caller's memory; printf would be a third of init's size. */
struct text {
    char *data; /* NUL-terminated */
    size_t len, size;
    bool full; /* a part did not fit */
};
struct text text_begin(char *data, size_t size);
void text_add(struct text *t, const char *s, size_t len);
void text_add_str(struct text *t, const char *s);
void text_add_number(struct text *t, uint32_t n);
