#pragma once

/* Shared by the cgroup_*.c files and their unit tests only. */

#include <stddef.h>
#include <stdint.h>

#include "launch/cgroup.h"

enum {
    CG_HIERARCHIES_MAX = CG_CONTROLLER_MAX + 1, /* every v1 controller, and v2 */
    CG_NOWHERE = -1,
    CG_ID_MAX = 64,
    CG_DEPTH_MAX = 8,    /* levels below a sandbox's directory that its init may make */
    CG_SMALL_MAX = 4096, /* bytes of a control file that is read completely */
};

/* One mounted hierarchy. Made in cgroup-host.c; rind_fd is set by cg_rind_open(). */
struct cg_hierarchy {
    char *path; /* owned: the mount point, for messages */
    int version;
    int root_fd;      /* owned */
    int rind_fd;      /* owned: `rind` below root_fd; FD_NONE until first needed */
    uint32_t has;     /* bit n = controller n lives here */
    uint32_t enabled; /* v2: controllers enabled in rind's cgroup.subtree_control */
    bool all_ready;   /* v1 cpuset: the shared directory `_all` is ready for processes to enter */
};

struct cgroup_host {
    struct cg_hierarchy hier[CG_HIERARCHIES_MAX];
    int count;
    int v2; /* index of the v2 tree, or CG_NOWHERE */
    /* index of the hierarchy that has this controller, or CG_NOWHERE */
    int home[CG_CONTROLLER_MAX];
    uint32_t read_only; /* bit n = controller n is mounted, but read-only */
    bool read_only_v2;  /* the v2 tree is mounted, but read-only */
};

struct cgroup {
    int dir_fd[CG_HIERARCHIES_MAX]; /* owned; FD_NONE where the sandbox has no directory */
    int version[CG_HIERARCHIES_MAX];
    /* as in cgroup_host, but CG_NOWHERE where the sandbox has no directory */
    int home[CG_CONTROLLER_MAX];
    int v2;      /* index, or CG_NOWHERE */
    int exec_fd; /* owned */
    /* owned or FD_NONE; v1 directories only for entering and showing; closed by
     * cgroup_done_starting */
    int seen_fd[CG_HIERARCHIES_MAX];
};

/* Like cgroup_host_open, from this mountinfo text (which is modified; text[len] must be NUL). */
int cg_host_from_mountinfo(char *text, size_t len, struct cgroup_host **ret, struct err *err);

/* Opens `rind` in a hierarchy and keeps the fd in hier->rind_fd; makes the directory if `make`.
 * -ENOENT, with err untouched, when it is missing and `make` is false. -EPERM when it has another
 * owner. */
int cg_rind_open(struct cg_hierarchy *hier, bool make, struct err *err);
/* Closes the fd, after another process has removed the directory. */
void cg_rind_forget(struct cg_hierarchy *hier);

/* Returns -ERANGE for a limit that no kernel accepts. */
int cg_limits_check(const struct cgroup_limits *limits, struct err *err);
/* Returns the controllers that these limits need, as bits. */
uint32_t cg_limits_need(const struct cgroup_limits *limits);
/* Returns the controllers of this host that its weights and wishes would use, as bits. */
uint32_t cg_limits_wish(const struct cgroup_host *h, const struct cgroup_limits *limits);
/* Returns -EOPNOTSUPP, with the remedy in err, when a controller of `need` is unavailable. */
int cg_require(const struct cgroup_host *h, uint32_t need, struct err *err);
/* v2: enables the controllers of `need` for rind's children (cgroup.subtree_control). */
int cg_enable(struct cgroup_host *h, uint32_t need, struct err *err);
/* Writes the limits into the sandbox's directories. update: other limits may be in force there. */
int cg_limits_apply(const struct cgroup_host *h, const struct cgroup *c,
                    const struct cgroup_limits *limits, bool update, struct err *err);
/* v1: a cpuset must have processors and memory nodes before a process can enter it. Gives the
 * directory those of the hierarchy's root. Returns 0 or a negative errno. */
int cg_cpuset_prepare(const struct cg_hierarchy *hier, int dir_fd);

/* As cgroup_controller_name, as hierarchies of this version spell it. */
const char *cg_name(int version, enum cgroup_controller c);
/* cgroup-io.c: rates of disks, and the weight. update: others may be in force. */
int cg_io_apply(const struct cgroup_host *h, const struct cgroup *c,
                const struct cgroup_limits *limits, bool update, struct err *err);
/* True if a limit needs the controller. */
bool cg_io_needed(const struct cgroup_limits *limits);

/* Reads a small control file completely into buf[CG_SMALL_MAX], NUL-terminated. Returns 0 or a
 * negative errno. */
int cg_read(int dirfd, const char *file, char *buf);
/* Writes a number to a control file. Returns 0 or a negative errno. */
int cg_write_number(int dirfd, const char *file, int64_t value);
/* Finds the number after `key ` at the start of a line of text. -ENOENT when there is no such line.
 */
int cg_keyed(const char *text, const char *key, uint64_t *ret);

/* cgroup-move.c, v1: moves all processes of one directory into another, of another hierarchy.
 * -EAGAIN: they fork faster. */
int cg_move_processes(int from_fd, int to_fd, struct err *err);

/* Kills the sandbox's processes by reading cgroup.procs, here and below, until all are empty.
 * -ETIMEDOUT. */
int cg_kill_by_list(const struct cgroup *c, int deadline_ms);
/* Lists processes of the sandbox, at most max, init and its helpers included. Returns their number.
 */
int cg_list(const struct cgroup *c, pid_t *pids, int max);
