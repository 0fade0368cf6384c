#pragma once

/*
 * Tests of kernel features by trying them. A probe runs in a forked child of its own (probe_try),
 * so that everything it unshares, mounts or changes is undone when it exits. It returns 0 (or a
 * value) or the negative errno of the first failed call. The caller decides what a result means for
 * rind.
 *
 * The child runs ordinary C, so only single-threaded processes may call probe_try.
 */

#include <stdbool.h>
#include <sys/types.h>

struct probe_env {
    const char *dir; /* the directory to probe; some probes need the scratch layout below */
    bool privileged; /* has CAP_SYS_ADMIN; without it a probe first enters a user namespace */
    long number;     /* a parameter: a CLONE_NEW* flag, a user id and so on */
    const char *text;
};

typedef int probe_fn(const struct probe_env *env);

enum { PROBE_TIMEOUT_MS = 3000 };

/* Runs fn in a child and blocks until it is done. -ETIMEDOUT when it took longer, -ECHILD when it
 * died without a result. */
int probe_try(probe_fn *fn, const struct probe_env *env, int timeout_ms);

/* Returns true if the calling process has CAP_SYS_ADMIN in its user namespace. */
bool probe_privileged(void);

/* The probes. Call them only through probe_try. */
probe_fn probe_namespace;  /* unshare(number) */
probe_fn probe_user_drop;  /* as uid 65534: a user namespace, and then a mount namespace in it */
probe_fn probe_id_map;     /* a child's user namespace gets the ids number..number+65535 */
probe_fn probe_seccomp;    /* loads a filter, and has the actions that rind uses */
probe_fn probe_pidfd;      /* clone3, pidfd_open, pidfd_send_signal, waitid(P_PIDFD) */
probe_fn probe_memfd_exec; /* a sealed memfd, marked executable, can be executed */
probe_fn probe_openat2;    /* openat2 with RESOLVE_IN_ROOT */
probe_fn probe_close_range;
probe_fn probe_core_sched; /* a core scheduling cookie; -ENODEV: no core has two threads in use */
probe_fn probe_mount_api;  /* fsopen, fsconfig, fsmount, mount_setattr */
probe_fn probe_fs;         /* a new instance of the file system `text`, in own namespaces */
probe_fn probe_proc;       /* a new /proc in new user, mount, and pid namespaces */
probe_fn probe_sysfs;      /* a new /sys in new user, mount, and net namespaces */
probe_fn probe_fuse;       /* /dev/fuse opens, and can be mounted */
probe_fn probe_disk;       /* loop devices are available, and ext4 can be mounted */
probe_fn probe_xattrs;     /* trusted.* and user.* attributes in the scratch directory `dir` */
probe_fn probe_idmap;      /* an idmapped clone of `dir`, ids from number on */
probe_fn probe_overlay;    /* overlay in the scratch directory `dir`, and a write to it */
probe_fn probe_overlay_idmap; /* likewise with the lower layer idmapped, ids from number on */
probe_fn probe_overlay_user;  /* likewise inside a user namespace */
probe_fn probe_veth;          /* a veth pair in a new net namespace */
probe_fn probe_nftables;      /* a table, with its acknowledgement, in a new net namespace */
probe_fn probe_redirect;      /* a nat chain with a redirect rule, likewise */
probe_fn probe_frames;        /* a chain for frames that arrive at an interface, likewise */

/* Makes a scratch directory for the overlay probes in dir: lower/ (with the file f), upper/, work/,
 * merged/, mapped/. Returns its path (the caller frees it), or NULL and a negative errno in
 * *ret_errno. Removes scratch directories of killed processes first. */
char *probe_scratch_make(const char *dir, int *ret_errno);
/* Removes it with everything in it. path may be NULL. */
void probe_scratch_remove(const char *path);
