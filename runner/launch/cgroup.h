#pragma once

/*
 * Control groups of one sandbox on cgroup v2, v1 and hybrid hosts. Everything rind makes stands
 * below one directory "rind" at the root of each mounted hierarchy; a sandbox has `rind/<id>` in
 * each hierarchy that it needs. On hybrid and v2 hosts the v2 directory's `exec` subtree is handed
 * to the sandbox's init (owned by its uid), which makes one leaf an exec, so that cgroup.kill ends
 * all of an exec.
 *
 * The launcher uses this: no JSON, no loop, bounded reads, paths only beneath hierarchy fds opened
 * once.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/auto.h"

struct err;
struct cgroup_host; /* what this host has: opened once a process */
struct cgroup;      /* one sandbox's directories, as fds */

enum cgroup_controller {
    CG_MEMORY = 0,
    CG_CPU,
    CG_CPUACCT,
    CG_PIDS,
    CG_FREEZER,
    CG_CPUSET, /* of v1, and only shown to the sandbox (cgroup-view.c) */
    CG_CONTROLLER_MAX
};
enum cgroup_mode {
    CG_MODE_INVALID = 0,
    CG_MODE_NONE,
    CG_MODE_V1,
    CG_MODE_HYBRID,
    CG_MODE_V2,
    CG_MODE_MAX
};

struct cgroup_limits {
    int64_t memory_bytes, pids, cpu_millis; /* -1 = none */
};

/* Reads /proc/self/mountinfo and opens the hierarchies: the root is what a mount shows, so that a
 * container's part of a hierarchy will do. What is missing or read-only is remembered, no error. */
int cgroup_host_open(struct cgroup_host **ret, struct err *err);
void cgroup_host_free(struct cgroup_host *h);
DEFINE_AUTO(struct cgroup_host, cgroup_host_free);
enum cgroup_mode cgroup_host_mode(const struct cgroup_host *h);
/* Whether limits of this kind can be enforced, and by which version (1, 2; 0 = not at all). */
int cgroup_host_controller(const struct cgroup_host *h, enum cgroup_controller c);
/* Whether any hierarchy, the v2 tree, or the controller's, is mounted, but read-only only. */
bool cgroup_host_read_only(const struct cgroup_host *h);
bool cgroup_host_read_only_v2(const struct cgroup_host *h);
bool cgroup_host_controller_read_only(const struct cgroup_host *h, enum cgroup_controller c);
/* Whether this process can make cgroups where the controller is: makes one and removes it. Negative
 * errno: it cannot, and err names the directory. The controller has to be there. */
int cgroup_host_try(const struct cgroup_host *h, enum cgroup_controller c, struct err *err);
const char *cgroup_controller_name(enum cgroup_controller c);

/*
 * Makes the directories for `id` (already validated: [a-z0-9-]{1,64}) and sets the limits. A limit
 * that is asked for and cannot be enforced is -EOPNOTSUPP and names the controller and what to do.
 * Swap is counted with memory (v1 memsw, v2 swap.max 0); a kernel without swap accounting is said
 * in the error only when the host has swap. init_uid (host uid) gets the exec subtree;
 * CGROUP_NOBODY (a process that nobody execs into): there is none, and nothing can be made below.
 */
#define CGROUP_NOBODY ((uid_t)-1)
int cgroup_create(struct cgroup_host *h, const char *id, const struct cgroup_limits *limits,
                  uid_t init_uid, struct cgroup **ret, struct err *err);
/* Opens what an earlier process made. -ENOENT when nothing is there. */
int cgroup_open(struct cgroup_host *h, const char *id, struct cgroup **ret, struct err *err);
/* Closes what only a start needs: once its processes are in it, and its view has been opened. */
void cgroup_done_starting(struct cgroup *c);
void cgroup_free(struct cgroup *c); /* closes the fds; removes nothing */
DEFINE_AUTO(struct cgroup, cgroup_free);

/* Of the CPU, beside others that want it too (100 is everybody's), where it is divided by cgroups
 * of v2 already: no limit, so nothing is handed down for it. */
void cgroup_weigh(const struct cgroup *c, unsigned weight);

/* Takes its limit of CPU away: of one that is killed, because to end takes CPU, too. A thousand
 * processes that have a hundredth of one would take minutes for it. */
void cgroup_hurry(const struct cgroup *c);

/* O_DIRECTORY fd of the v2 directory for CLONE_INTO_CGROUP, or -1 when the host has no v2 tree.
 * Borrowed. */
int cgroup_v2_fd(const struct cgroup *c);
/* O_DIRECTORY fd of the delegated `exec` subtree (v2), or -1. Borrowed. */
int cgroup_exec_fd(const struct cgroup *c);
/* O_DIRECTORY fd of what all of the users' processes are in, the caller's: of v2 nobody else is; of
 * v1 also init and what helps it. -ENOENT: nobody is in it; -EOPNOTSUPP: there is none. */
int cgroup_users_fd(const struct cgroup *c);
/*
 * Entering the v1 directories, which have no clone flag. They are entered by the process itself,
 * through `tasks` files that root has opened: a process that moves another takes a lock against
 * every fork on the host, and waits for a whole RCU grace period for it (7 to 15 ms).
 * cgroup_open_tasks opens them (the caller closes) and sets *ret_count, 0 on a pure v2 host.
 * cgroup_enter moves the calling thread, which must be its process's only one; system calls alone;
 * 0 or a negative errno.
 */
enum { CGROUP_TASKS_MAX = CG_CONTROLLER_MAX };
int cgroup_open_tasks(const struct cgroup *c, int fds[CGROUP_TASKS_MAX], int *ret_count,
                      struct err *err);
int cgroup_enter(const int *tasks, int count);

/* Ends every process in it, frozen or not (cgroup.kill, or by reading cgroup.procs until empty),
 * and waits until they are gone; -ETIMEDOUT after deadline_ms. -EOPNOTSUPP when it has no
 * directory. */
int cgroup_kill(const struct cgroup *c, int deadline_ms, struct err *err);
/* Sends SIGKILL to every process that is in it now, and waits for none. */
void cgroup_signal_kill(const struct cgroup *c);
/* Stops all, or lets them run. Never waits for long: -EAGAIN when one has not followed yet, such as
 * a process that waits for a file system; then it is asked again, or let run. */
int cgroup_freeze(const struct cgroup *c, bool freeze, struct err *err);
/* Whether it is frozen by cgroup_freeze: 1, 0, or a negative errno. */
int cgroup_frozen(const struct cgroup *c);
/* Processes that the memory controller has killed in it so far; 0 when there is no memory
 * controller. */
int cgroup_oom_kills(const struct cgroup *c, uint64_t *ret);

/* A figure that nothing counts here is 0: memory and pids are counted where they are limited. */
struct cgroup_stats {
    uint64_t memory_bytes, memory_peak_bytes, cpu_usec, pids;
};
int cgroup_stats(const struct cgroup *c, struct cgroup_stats *ret, struct err *err);

/*
 * cgroup-view.c: what the sandbox sees of it, as detached read-only mounts, which are the caller's.
 * whole: the one part is /sys/fs/cgroup itself; otherwise each goes on its name in a directory
 * there.
 */
#define CGROUP_EXEC    "exec"    /* the delegated subtree, in a sandbox's v2 directory */
#define CGROUP_UNIFIED "unified" /* the name of v2 beside v1 */
enum { CGROUP_VIEW_NAME_MAX = 64, CGROUP_VIEW_PARTS_MAX = CG_CONTROLLER_MAX + 1 };
struct cgroup_view {
    bool whole;
    int count;
    struct cgroup_view_part {
        int fd; /* owned */
        char name[CGROUP_VIEW_NAME_MAX];
    } parts[CGROUP_VIEW_PARTS_MAX];
};
int cgroup_view_open(struct cgroup_host *h, const struct cgroup *c, struct cgroup_view *ret,
                     struct err *err);
void cgroup_view_close(struct cgroup_view *view);

/* rmdir of every directory of `id` in every hierarchy, leaves first; -EBUSY while processes live.
 * Missing ones are fine. */
int cgroup_remove(struct cgroup_host *h, const char *id, struct err *err);
/* rmdir of every directory, of those without an exec subtree, whose name begins so and in which no
 * process is left; nothing is ended. */
void cgroup_sweep(struct cgroup_host *h, const char *prefix);
