#pragma once

/* For the files of this module and its unit tests only. */

#include <stddef.h>
#include <stdint.h>

#include "launch/cgroup.h"

enum {
    CG_HIERARCHIES_MAX = CG_CONTROLLER_MAX + 1, /* each v1 controller by itself, and v2 */
    CG_NOWHERE = -1,
    CG_ID_MAX = 64,
    CG_DEPTH_MAX = 8,    /* levels below a sandbox's directory that its init may make */
    CG_SMALL_MAX = 4096, /* bytes of a control file that we read whole */
};

/* One mounted hierarchy. Made in cgroup_host.c; rind_fd in cgroup_host_rind(). */
struct cg_hierarchy {
    char *path; /* owned: the mount point, for messages */
    int version;
    int root_fd;      /* owned */
    int rind_fd;      /* owned: `rind` below it, FD_NONE until it is needed */
    uint32_t has;     /* bit n = controller n lives here */
    uint32_t enabled; /* v2: what has been handed down to rind's children */
    bool all_ready;   /* cpuset of v1: what all sandboxes are in can be entered */
};

struct cgroup_host {
    struct cg_hierarchy hier[CG_HIERARCHIES_MAX];
    int count;
    int v2;                      /* index of the v2 tree, or CG_NOWHERE */
    int home[CG_CONTROLLER_MAX]; /* index of the hierarchy that does this job, or CG_NOWHERE */
    uint32_t read_only;          /* bit n = controller n is mounted, but read-only */
    bool read_only_v2;           /* the v2 tree is mounted, but read-only */
};

struct cgroup {
    int dir_fd[CG_HIERARCHIES_MAX]; /* owned; FD_NONE where the sandbox has no directory */
    int version[CG_HIERARCHIES_MAX];
    int home[CG_CONTROLLER_MAX]; /* as in the host, but CG_NOWHERE where there is no directory */
    int v2;                      /* index, or CG_NOWHERE */
    int exec_fd;                 /* owned */
    /* owned; of v1, only to be entered and shown (cgroup_done_starting closes them); FD_NONE */
    int seen_fd[CG_HIERARCHIES_MAX];
};

/* cgroup_host_open on this mountinfo text (changed; text[len] is a NUL). */
int cg_host_from_mountinfo(char *text, size_t len, struct cgroup_host **ret, struct err *err);

/*
 * Opens `rind` in a hierarchy, making it when `make`, and keeps the fd in the hierarchy. -ENOENT
 * without err text when it is not there and was not to be made; -EPERM when it is somebody else's.
 */
int cg_rind_open(struct cg_hierarchy *hier, bool make, struct err *err);
/* Forgets the fd: somebody has removed the directory under us. */
void cg_rind_forget(struct cg_hierarchy *hier);

/* -ERANGE for a limit that no kernel takes. */
int cg_limits_check(const struct cgroup_limits *limits, struct err *err);
/* Which controllers these limits need. */
uint32_t cg_limits_need(const struct cgroup_limits *limits);
/* -EOPNOTSUPP and what to do when a controller of `need` is nowhere. */
int cg_require(const struct cgroup_host *h, uint32_t need, struct err *err);
/* v2: hands the controllers of `need` that live there down to rind's children. */
int cg_enable(struct cgroup_host *h, uint32_t need, struct err *err);
/* Writes the limits into the sandbox's directories. */
int cg_limits_apply(const struct cgroup_host *h, const struct cgroup *c,
                    const struct cgroup_limits *limits, struct err *err);

/* Reads a small control file whole into buf[CG_SMALL_MAX], NUL-terminated. Negative errno. */
int cg_read(int dirfd, const char *file, char *buf);
/* Negative errno. */
int cg_write_number(int dirfd, const char *file, int64_t value);
/* The number behind `key ` at the start of a line of text. -ENOENT when there is no such line. */
int cg_keyed(const char *text, const char *key, uint64_t *ret);

/* Ends the sandbox's processes by reading cgroup.procs until it is empty, below it, too.
 * -ETIMEDOUT. */
int cg_kill_by_list(const struct cgroup *c, int deadline_ms);
