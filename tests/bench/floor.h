#pragma once

/*
 * What the parts of the floor share: options, the step clock, and helpers. None of these programs
 * has an error path but the exit: a figure from a run that failed is no figure.
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    RUNS_MAX = 4000,
    PATHS_MAX = 64,
    PATH_LEN = 128,
    IDS = 65536,
    FILTER_MAX = 4096, /* BPF_MAXINSNS */
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
    X(IDMAP, "idmap")                                                                              \
    X(SECCOMP, "seccomp")                                                                          \
    X(LO, "lo")

#define FEATURE_ENUM(id, text) FEAT_##id,
enum feature { FEATURES(FEATURE_ENUM) FEAT_MAX };

struct filter {
    uint32_t count;
    struct sock_filter insns[FILTER_MAX];
};

/* Flat: L fills it, and A, another program, reads it. */
struct options {
    bool on[FEAT_MAX];
    char command[PATH_LEN];
    char masked[PATHS_MAX][PATH_LEN], read_only[PATHS_MAX][PATH_LEN];
    unsigned masked_count, read_only_count;
    unsigned late_namespaces;   /* clone flags: what A makes, while L makes the root */
    struct filter policy, init; /* the main process's filter; the one that init puts on itself */
};

/* ---- step clock -------------------------------------------------------------------------------
 */

/* clang-format off */
#define STEPS(X)                                                                                   \
    X(L_IDLOCK,     "L id range: open, flock")                                                     \
    X(L_DIRS,       "L mkdir sandbox, upper, work; lock; chown")                                   \
    X(L_CG_MKDIR,   "L cgroups: mkdir")                                                            \
    X(L_CG_LIMITS,  "L cgroups: limits, delegation")                                               \
    X(L_CLONE,      "L clone3")                                                                    \
    X(L_MAPS,       "L id maps, oom_score_adj")                                                    \
    X(L_ATTACH,     "L cgroups: attach (v1, --attach procs)")                                      \
    X(L_LOWER,      "L lowers: open_tree, idmap")                                                  \
    X(L_OVERLAY,    "L overlay")                                                                   \
    X(L_DEV,        "L /dev: tmpfs, nodes, links")                                                 \
    X(L_GO,         "L send fds")                                                                  \
    X(L_LOWER_END,  "L close of what the overlay cloned (while A works)")                          \
    X(L_WAIT_READY, "L wait until init is ready")                                                  \
    X(L_WAIT_EXIT,  "L main process: filter, exec, exit, reaped")                                  \
    X(L_WAIT_GONE,  "L wait until init is gone")                                                   \
    X(L_CG_RMDIR,   "L cgroups: rmdir")                                                            \
    X(L_RMDIRS,     "L remove upper, work, sandbox")                                               \
    X(L_IDUNLOCK,   "L id range: unlink, close")                                                   \
    X(A_START,      "A wait for the maps")                                                         \
    X(A_ATTACH,     "A cgroups: enter (v1, --attach tasks)")                                       \
    X(A_IDS,        "A setresuid")                                                                 \
    X(A_EXEC,       "A exec of init")                                                              \
    X(A_PRIVATE,    "A make / private, unshare cgroup ns")                                         \
    X(A_NAMESPACES, "A unshare net, ipc, uts (--late)")                                            \
    X(A_LO,         "A lo up")                                                                     \
    X(A_HOSTNAME,   "A hostname")                                                                  \
    X(A_FDS,        "A wait for the fds")                                                          \
    X(A_ROOT,       "A attach root, /dev")                                                         \
    X(A_CLONE,      "A clone3 of B (inner pid ns)")                                                \
    X(A_SYSFS,      "A sysfs")                                                                     \
    X(A_DEVPTS,     "A devpts")                                                                    \
    X(A_SHM,        "A shm tmpfs")                                                                 \
    X(A_MQUEUE,     "A mqueue")                                                                    \
    X(A_COUNTERS,   "A user.max_* writes")                                                         \
    X(A_WAIT_PROC,  "A wait for B's /proc")                                                        \
    X(A_MASKS,      "A masks")                                                                     \
    X(A_READ_ONLY,  "A read-only paths")                                                           \
    X(A_SETNS,      "A setns inner pid ns")                                                        \
    X(A_PIVOT,      "A pivot_root")                                                                \
    X(A_UMOUNT,     "A umount old root")                                                           \
    X(A_UNSHARE,    "A unshare second user+mnt ns")                                                \
    X(A_JOIN,       "A wait for B: maps, setns")                                                   \
    X(A_FILTER,     "A init's own filter")                                                         \
    X(B_PROC,       "B proc mount")                                                                \
    X(B_MAPS,       "B second id maps")                                                            \
    X(B_SETNS,      "B setns second user+mnt ns")                                                  \
    X(B_FILTER,     "B no_new_privs, policy filter")
/* clang-format on */

#define STEP_ENUM(id, text) id,
enum step { STEPS(STEP_ENUM) STEP_MAX };

/* One memfd, mapped by L, A and B. */
struct shared {
    struct options opt;
    bool clock_on;
    unsigned row;    /* of the running sandbox */
    int64_t exec_at; /* when A called execve */
    int64_t rows[RUNS_MAX][STEP_MAX];
};
extern struct shared *shared;

/* By agreement between L's child and init. */
enum { LAUNCHER_FD = 3, SHARED_FD = 4, ROOT_FD = 5, DEV_FD = 6, FD_FREE = 7, GO_FDS = 2 };

int64_t clock_now(void);
/* The time since the last step or step_begin of this process was spent on s. No-op when off. */
void step(enum step s);
void step_begin(void);

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

/* One byte to the other side; one byte from it (dies when there is none). */
void tell(int fd);
int heed(int fd);
void poke(int dirfd, const char *path, const char *text);

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
