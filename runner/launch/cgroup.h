#pragma once

/*
 * Cgroups of one sandbox on cgroup v2, v1 and hybrid hosts. All of rind's cgroups are below one
 * directory "rind" at the root of each mounted hierarchy. A sandbox has `rind/<id>` in each
 * hierarchy that it needs. On hybrid and v2 hosts, `rind/<id>/exec` of the v2 tree is delegated to
 * the sandbox's init (chowned to its uid). Init makes one exec cgroup there per exec, so that
 * cgroup.kill ends all processes of an exec.
 *
 * Used by the launcher only: no JSON, no event loop, bounded reads, and paths are resolved only
 * below hierarchy fds that were opened once.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/auto.h"

struct err;
struct cgroup_host; /* hierarchies of this host; opened once per process */
struct cgroup;      /* directories of one sandbox, as fds */

enum cgroup_controller {
    CG_MEMORY = 0,
    CG_CPU,
    CG_CPUACCT,
    CG_PIDS,
    CG_FREEZER,
    CG_CPUSET, /* v1: also shown to sandboxes without a cpuset of their own (cgroup-view.c) */
    CG_IO,     /* v1: blkio */
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

#define CGROUP_SWAP_UNLIMITED INT64_MAX
enum { CGROUP_SHARES_MIN = 2, CGROUP_SHARES_MAX = 262144, CGROUP_CPUSET_MAX = 255 };

enum {
    CGROUP_IO_MAX = 9,
    CGROUP_IO_WEIGHT_MIN = 10,
    CGROUP_IO_WEIGHT_MAX = 1000,
    CGROUP_IO_WEIGHT = 100, /* that of the others */
};
enum cgroup_io_kind {
    CG_IO_READ_BPS,
    CG_IO_WRITE_BPS,
    CG_IO_READ_IOPS,
    CG_IO_WRITE_IOPS,
    CG_IO_KINDS
};
struct cgroup_io {
    unsigned major, minor;       /* of a whole disk */
    uint64_t rates[CG_IO_KINDS]; /* a second; 0 = none */
};

enum cgroup_io_weigher { CG_WEIGHER_NONE = 0, CG_WEIGHER_BFQ, CG_WEIGHER_COST };

struct cgroup_limits {
    int64_t memory_bytes, pids, cpu_millis; /* -1 = none */
    int64_t swap_bytes; /* with memory_bytes: memory and swap together; 0 = memory_bytes */
    /* Weights and wishes, not limits: without their controller they have no effect. 0 = none. */
    int64_t reservation_bytes, cpu_shares;
    const char *cpus, *mems; /* borrowed lists such as "0-3,8"; NULL = all */
    struct cgroup_io io[CGROUP_IO_MAX];
    int io_count;
    int64_t io_weight;                 /* 0 = none */
    enum cgroup_io_weigher io_weigher; /* what weighs the accesses to the disk; with io_weight */
};

/* Returns what weighs the accesses of cgroups to this disk; CG_WEIGHER_NONE: nothing does. */
enum cgroup_io_weigher cgroup_io_weigher(const struct cgroup_host *h, unsigned major,
                                         unsigned minor);

/* Reads /proc/self/mountinfo and opens the hierarchies. A hierarchy's root is the root of its
 * mount, so a container's part of a hierarchy works, too. A missing or read-only hierarchy is
 * remembered and is no error. */
int cgroup_host_open(struct cgroup_host **ret, struct err *err);
void cgroup_host_free(struct cgroup_host *h);
DEFINE_AUTO(struct cgroup_host, cgroup_host_free);
enum cgroup_mode cgroup_host_mode(const struct cgroup_host *h);
/* Returns the cgroup version (1 or 2) that can enforce limits of this controller; 0 if none can. */
int cgroup_host_controller(const struct cgroup_host *h, enum cgroup_controller c);
/* True if any hierarchy is mounted read-only. For the v2 tree and for a controller: if it is
 * mounted read-only and nowhere writable. */
bool cgroup_host_read_only(const struct cgroup_host *h);
bool cgroup_host_read_only_v2(const struct cgroup_host *h);
bool cgroup_host_controller_read_only(const struct cgroup_host *h, enum cgroup_controller c);
/* Checks that this process can make cgroups for the controller, by making and removing one. Returns
 * 0 or a negative errno; err names the directory. The controller must be available. */
int cgroup_host_try(const struct cgroup_host *h, enum cgroup_controller c, struct err *err);
const char *cgroup_controller_name(enum cgroup_controller c);

/*
 * Makes the directories for `id` (already validated: [a-z0-9-]{1,64}) and sets the limits. Returns
 * -EOPNOTSUPP for a requested limit that cannot be enforced; err names the controller and the
 * remedy.
 *
 * Swap is counted with memory (v1 memsw, v2 swap.max 0). A kernel without swap accounting is an
 * error only if the host has swap. init_uid (a host uid) becomes the owner of the exec subtree.
 * With CGROUP_NOBODY (for a process that takes no execs) there is no subtree, and no cgroup can be
 * made below.
 */
#define CGROUP_NOBODY ((uid_t)-1)
int cgroup_create(struct cgroup_host *h, const char *id, const struct cgroup_limits *limits,
                  uid_t init_uid, struct cgroup **ret, struct err *err);
/*
 * Changes the limits of a sandbox that runs; cpu_millis -1 takes that limit away. On v1 a limit of
 * a controller that the sandbox had no limit of makes a directory there, and moves its processes
 * into it: memory that they have used before is not counted. -EAGAIN: they fork faster than they
 * are moved; what is set already stays.
 */
int cgroup_update(struct cgroup_host *h, struct cgroup *c, const char *id,
                  const struct cgroup_limits *limits, struct err *err);
/* Opens directories made by an earlier process. -ENOENT when there are none. */
int cgroup_open(struct cgroup_host *h, const char *id, struct cgroup **ret, struct err *err);
/* Closes the fds that only a start needs. Call it after the processes have entered and
 * cgroup_view_open. */
void cgroup_done_starting(struct cgroup *c);
void cgroup_free(struct cgroup *c); /* closes the fds; removes nothing */
DEFINE_AUTO(struct cgroup, cgroup_free);

/* Sets cpu.weight (100 is the default) where v2 cgroups divide the CPU already. A weight is no
 * limit, so it enables no controller. */
void cgroup_weigh(const struct cgroup *c, unsigned weight);

/* Removes the CPU limit of a sandbox that is being killed: exiting takes CPU, too. A thousand
 * processes with a hundredth of a CPU would take minutes to exit. */
void cgroup_hurry(const struct cgroup *c);

/* Returns an O_DIRECTORY fd of the v2 directory for CLONE_INTO_CGROUP, or -1 when the host has no
 * v2 tree. Borrowed. */
int cgroup_v2_fd(const struct cgroup *c);
/* Returns an O_DIRECTORY fd of the delegated `exec` subtree (v2), or -1. Borrowed. */
int cgroup_exec_fd(const struct cgroup *c);
/* Returns an O_DIRECTORY fd of the cgroup that holds all of the users' processes; the caller closes
 * it. On v2 it holds nothing else; on v1 also init and its helpers. -ENOENT: it has no process yet;
 * -EOPNOTSUPP: there is no such cgroup. */
int cgroup_users_fd(const struct cgroup *c);
/*
 * Entering the v1 directories, which have no clone flag. The process enters by itself, through
 * `tasks` files that root has opened. Moving another process takes a lock against every fork on the
 * host and waits for an RCU grace period (7 to 15 ms).
 *
 * cgroup_open_tasks opens them (the caller closes) and sets *ret_count, which is 0 on a pure v2
 * host. cgroup_enter moves the calling thread, which must be the only one of its process. It makes
 * system calls only. Both return 0 or a negative errno.
 */
enum { CGROUP_TASKS_MAX = CG_CONTROLLER_MAX };
int cgroup_open_tasks(const struct cgroup *c, int fds[CGROUP_TASKS_MAX], int *ret_count,
                      struct err *err);
int cgroup_enter(const int *tasks, int count);

/* Kills every process in the cgroup, frozen or not (by cgroup.kill, or by reading cgroup.procs
 * until it is empty). Waits until they have exited: -ETIMEDOUT after deadline_ms. -EOPNOTSUPP when
 * the sandbox has no directory. */
int cgroup_kill(const struct cgroup *c, int deadline_ms, struct err *err);
/* Sends SIGKILL to every process that is in it now, and waits for none. */
void cgroup_signal_kill(const struct cgroup *c);
/* Records in err which of its processes have not ended, and what the first of them sleeps in;
 * returns code. c may be NULL. Asks no process and no file system. */
int cgroup_explain(const struct cgroup *c, int code, struct err *err);
/* Freezes or thaws the users' processes. Waits 10 ms at most. -EAGAIN when a process
 * has not stopped yet, for example while it waits for a file system; the caller retries or thaws.
 */
int cgroup_freeze(const struct cgroup *c, bool freeze, struct err *err);
/* Returns 1 if cgroup_freeze has frozen it, 0 if not, or a negative errno. */
int cgroup_frozen(const struct cgroup *c);
/* The number of OOM kills in this cgroup so far; 0 without a memory controller. */
int cgroup_oom_kills(const struct cgroup *c, uint64_t *ret);

/* A figure without a counter is 0: memory and pids are counted only where they are limited. */
struct cgroup_stats {
    uint64_t memory_bytes, memory_peak_bytes, cpu_usec, pids;
};
int cgroup_stats(const struct cgroup *c, struct cgroup_stats *ret, struct err *err);

/* cgroup-view.c: the sandbox's view as detached read-only mounts, owned by the caller. whole: the
 * only part is mounted at /sys/fs/cgroup itself. Otherwise each part is mounted under its name in a
 * directory there. */
#define CGROUP_EXEC    "exec"    /* the delegated subtree, in a sandbox's v2 directory */
#define CGROUP_UNIFIED "unified" /* where v2 is mounted beside v1 */
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

/* Removes every directory of `id` in every hierarchy, children first; -EBUSY while processes are in
 * it. Missing directories are fine. */
int cgroup_remove(struct cgroup_host *h, const char *id, struct err *err);
/* rmdirs every directory without an exec subtree whose name begins with `prefix` and that has no
 * process. Kills nothing. */
void cgroup_sweep(struct cgroup_host *h, const char *prefix);
