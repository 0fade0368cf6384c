#pragma once

/*
 * What the parts of the floor share: options, the step clock, and helpers. None of these programs
 * has an error path but the exit: a figure from a run that failed is no figure.
 */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    RUNS_MAX = 20000,
    PATHS_MAX = 128,
    LAYERS_MAX = 8,
    IDS = 65536,
    FILTER_MAX = 4096, /* BPF_MAXINSNS */
    LAUNCHER_FD = 3,   /* what floor-init.c finds where */
    INNER_FD = 4,
    FD_FREE = 5,
};

/* Parts that can be left out, to see what each costs. */
#define FEATURES(X)                                                                                \
    X(NET, "net")                                                                                  \
    X(IPC, "ipc")                                                                                  \
    X(UTS, "uts")                                                                                  \
    X(CGROUPNS, "cgroupns")                                                                        \
    X(CGROUPS, "cgroups")                                                                          \
    X(LOCK, "lock") /* the second user and mount namespace */                                      \
    X(SYSFS, "sysfs")                                                                              \
    X(DEV, "dev")                                                                                  \
    X(DEVPTS, "devpts")                                                                            \
    X(SHM, "shm")                                                                                  \
    X(MQUEUE, "mqueue")                                                                            \
    X(MASKS, "masks")                                                                              \
    X(COUNTERS, "counters") /* user.max_* */                                                       \
    X(IDLOCK, "idlock")                                                                            \
    X(IDMAP, "idmap")                                                                              \
    X(SECCOMP, "seccomp")                                                                          \
    X(LO, "lo")

#define FEATURE_ENUM(id, text) FEAT_##id,
enum feature { FEATURES(FEATURE_ENUM) FEAT_MAX };

/* Who makes the overlay: A, in its user namespace, from lowers attached to names (every kernel
 * since 5.15), or L, from fds (6.13; A may not clone mounts that it was handed). */
enum overlay_by { BY_PATHS, BY_LAUNCHER };

struct options {
    unsigned runs;
    bool on[FEAT_MAX];
    const char *state;              /* directory for upper and work: where rind's state would be */
    const char *layers[LAYERS_MAX]; /* top first */
    unsigned layer_count;
    const char *init, *command;
    const char *masked[PATHS_MAX], *read_only[PATHS_MAX];
    unsigned masked_count, read_only_count;
    enum overlay_by overlay_by;
    bool is_volatile;  /* else the overlay's end syncs the whole file system of the upper */
    bool attach_self;  /* v1 cgroups are entered by A, not written to by L */
    unsigned pause_ms; /* before each sandbox, not counted */
    bool mask_shared;  /* directories are masked by one empty directory, not by a tmpfs each */
    bool dev_shared;   /* /dev is a read-only bind of one tmpfs with nodes, not a tmpfs each */
    struct sock_fprog filter;
};
extern struct options opt;

enum cg { CG_MEMORY, CG_PIDS, CG_CPU, CG_V1_MAX };

/* What is made once a run, for all sandboxes. */
struct host {
    int state;           /* opt.state */
    int proc;            /* /proc */
    int init;            /* sealed memfd */
    int v1[CG_V1_MAX];   /* a directory of ours in each v1 hierarchy; -1 where there is none */
    int v2;              /* the same in v2; -1 */
    bool v2_controllers; /* memory, pids and cpu are v2's */
    int dev;             /* detached tmpfs with nodes, for dev_shared */
    char cg_paths[CG_V1_MAX + 1][PATH_MAX];
};
extern struct host host;
void host_prepare(void);
void host_remove(void);

/* Never returns. launcher: the socket to L. tasks: the v1 files to enter by, CG_V1_MAX of them, or
 * -1. */
void outer_main(int launcher, const int *tasks) __attribute__((noreturn));

/* ---- step clock -------------------------------------------------------------------------------
 */

#define STEPS(X)                                                                                   \
    X(L_IDLOCK, "L id range: open, flock")                                                         \
    X(L_DIRS, "L mkdir sandbox, upper, work; chown")                                               \
    X(L_CG_MKDIR, "L cgroups: mkdir")                                                              \
    X(L_CG_LIMITS, "L cgroups: limits, delegation")                                                \
    X(L_CLONE, "L clone3")                                                                         \
    X(L_MAPS, "L id maps")                                                                         \
    X(L_ATTACH, "L cgroups: attach (v1)")                                                          \
    X(L_LOWER, "L lower: open_tree, idmap")                                                        \
    X(L_OVERLAY, "L overlay (when made by L), send fds")                                           \
    X(L_WAIT_READY, "L wait until init runs")                                                      \
    X(L_WAIT_EXIT, "L main process: exec, exit, reaped")                                           \
    X(L_WAIT_GONE, "L wait until A is gone")                                                       \
    X(L_CG_RMDIR, "L cgroups: rmdir")                                                              \
    X(L_RMDIRS, "L remove upper, work, sandbox")                                                   \
    X(L_IDUNLOCK, "L id range: unlink, close")                                                     \
    X(A_START, "A wait for maps and cgroup")                                                       \
    X(A_ATTACH_CG, "A cgroups: enter (v1)")                                                        \
    X(A_IDS, "A setresuid, unshare cgroup ns")                                                     \
    X(A_COUNTERS, "A user.max_* writes")                                                           \
    X(A_PRIVATE, "A make / private")                                                               \
    X(A_FDS, "A wait for layer fds")                                                               \
    X(A_ATTACH, "A attach lowers")                                                                 \
    X(A_OVERLAY, "A overlay mount, attach")                                                        \
    X(A_CLONE, "A clone3 of B (inner pid ns)")                                                     \
    X(A_SYSFS, "A sysfs")                                                                          \
    X(A_DEV, "A /dev tmpfs")                                                                       \
    X(A_NODES, "A /dev nodes, links")                                                              \
    X(A_DEVPTS, "A devpts")                                                                        \
    X(A_SHM, "A shm tmpfs")                                                                        \
    X(A_MQUEUE, "A mqueue")                                                                        \
    X(A_HOSTNAME, "A hostname, rlimits")                                                           \
    X(A_LO, "A lo up")                                                                             \
    X(A_WAIT_PROC, "A wait for B's /proc")                                                         \
    X(A_MASKS, "A masks")                                                                          \
    X(A_READ_ONLY, "A read-only paths")                                                            \
    X(A_SETNS, "A setns inner pid ns")                                                             \
    X(A_PIVOT, "A pivot_root")                                                                     \
    X(A_UMOUNT, "A umount old root")                                                               \
    X(A_UNSHARE, "A unshare second user+mnt ns")                                                   \
    X(A_JOIN, "A wait for B: maps, setns")                                                         \
    X(B_PROC, "B proc mount")                                                                      \
    X(B_MAPS, "B second id maps")                                                                  \
    X(B_SETNS, "B setns second user+mnt ns")                                                       \
    X(B_SECCOMP, "B no_new_privs, seccomp filter")

#define STEP_ENUM(id, text) id,
enum step { STEPS(STEP_ENUM) STEP_MAX };

int64_t clock_now(void);
/* Turns the step clock on, for opt.runs rows shared by L, A and B. */
void steps_open(void);
/* Row of all that follows, in this process and those it clones. */
void steps_row(unsigned row);
void step_begin(void);
/* The time since the last step or step_begin of this process was spent on s. No-op when off. */
void step(enum step s);
void steps_report(void);

/* ---- helpers ----------------------------------------------------------------------------------
 */

__attribute__((noreturn, format(printf, 1, 2))) void die(const char *fmt, ...);

#define MUST(call)                                                                                 \
    __extension__({                                                                                \
        long must_ = (long)(call);                                                                 \
        if (must_ < 0)                                                                             \
            die("%s:%d: %s", __FILE__, __LINE__, #call);                                           \
        (int)must_;                                                                                \
    })

enum { LAYER_NAME = 3 };
/* "l0" to "l9": where a lower layer is attached. */
void layer_name(char ret[LAYER_NAME], unsigned i);

/* One byte to the other side; one byte from it (dies when there is none). */
void tell(int fd);
int heed(int fd);
void poke(int dirfd, const char *path, const char *text);
void send_fds(int sock, const int *fds, unsigned count);
void receive_fds(int sock, int *ret_fds, unsigned count);

int fs_new(const char *type);
void fs_set(int fs, const char *key, const char *value);
/* Consumes fs. */
int fs_mount(int fs, unsigned attr);
int tmpfs_new(const char *size, const char *mode, unsigned attr);
/* path "": of the fd itself. */
int tree_clone(int dirfd, const char *path);
void tree_attr(int tree, uint64_t set, int userns);
/* -1 when there is no such path. As rind must: the image may hold links. */
int open_beneath(int root, const char *path);
/* Consumes both. */
void tree_put_on(int tree, int at);
/* Consumes tree. */
void tree_put(int tree, int root, const char *path);

enum { NODES = 6 };
struct node {
    const char *name;
    unsigned major, minor;
};
extern const struct node nodes[NODES];
void make_dev_links(int dev);
