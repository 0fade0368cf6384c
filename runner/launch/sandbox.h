#pragma once

/* What the launcher holds of one sandbox, and the steps of its start that are in files of their
 * own. Private to launch/. */

#include <sched.h>
#include <stdbool.h>
#include <sys/types.h>

#include "launch/cgroup.h"
#include "launch/child-table.h"
#include "launch/creator.h"
#include "launch/host-view.h"
#include "launch/idrange.h"
#include "launch/request.h"
#include "launch/volume.h"
#include "policy/net-setup.h"
#include "proto/init-msg.h"

struct err;
struct launch_disk;
struct stat;
struct launcher;
struct mount_attr;

#define KEEP_FILE                                                                                  \
    "keep" /* a file in a kept sandbox's directory, from its creation to its removal */

#define DISK_FILE "disk" /* there too: the disk image, if the sandbox has a disk limit */

enum {
    /* with the NUL; the name of a shipped layer has 128 bytes at most */
    LAUNCH_LAYER_PATH_MAX = 136,
    /* a root directory or writable layer; the image layers; the shipped layers */
    ROOT_MOUNTS_MAX = 4,
    ROOT_SOURCES_MAX = ROOT_MOUNTS_MAX + 3, /* two more for `host`, one for upper and work */
};

/* Links of an intrusive list of sandboxes. */
struct launch_sandbox_link {
    struct launch_sandbox *next, **at; /* at: the pointer that points here; NULL: not in the list */
};

struct launch_sandbox {
    char id[LAUNCH_ID_MAX + 1];
    int dir_fd; /* owned; sandboxes/<id> */
    /* owned; its lock file. Init holds the lock, too: if it is free, no process of the sandbox runs
     */
    int lock_fd;
    struct idrange ids;
    struct cgroup *cgroup; /* owned */
    bool kept;             /* files and ids outlive init */
    bool upper_missing;    /* upper is missing: it cannot be started or read */
    bool failed;           /* the start failed, and the processes were slow to exit */
    /* Owned; its creator. For a kept sandbox that has started it is only on disk, because
     * a fork copies the page tables of all memory here. */
    struct creator *creator;
    bool fuse;      /* it has /dev/fuse, or may have it because it was reattached */
    int pidfd;      /* owned; init's */
    int root_fd;    /* owned; its root mount, held beyond init's exit; else FD_NONE */
    int barrier_fd; /* owned; pipe, closed after root_fd: the job that closes the root last waits */
    pid_t pid;
    struct launch_sandbox_link all, by_id;
    struct launch_sandbox_link joined; /* list of the sandboxes that joined another's network */
    char net_owner[LAUNCH_ID_MAX +
                   1]; /* the sandbox with the network: its own id unless joined; "": none yet */
    struct net_setup *net; /* owned; its own network's state, if it has a link */
    char hostname[LAUNCH_HOSTNAME_MAX + 1];
    char *domain;                         /* owned; of the host name; NULL: none */
    char aliases[LAUNCH_ALIASES_MAX + 1]; /* as in TAG_NET_ALIASES; "": none */
    /* owned; likewise in each network of net->more; NULL: it is in one network at most */
    char (*more_aliases)[LAUNCH_ALIASES_MAX + 1];
    struct launch_host *hosts; /* owned; additional lines of its hosts file */
    uint32_t host_count;
    bool hosts_cut; /* hosts lacks some members of the network; this has been logged */
    /* owned; its hosts file, kept open to rewrite it; FD_NONE outside of named networks */
    int hosts_fd;
    int32_t hosts_lease;  /* the number under which init keeps hosts_fd for the next launcher */
    int32_t resolv_lease; /* likewise for resolv.conf if it follows the host's; else 0 */
    uint32_t terminals;   /* the max= option of its devpts */
};

/* Descriptors with low numbers that a starting child needs until it has an fd table of its own
 * (boot.c): control socket, stage pipe, `tasks` files of v1 cgroups. */
enum { BOOT_SLOTS = 2 + CGROUP_TASKS_MAX };

enum { SANDBOX_BUCKETS = 1024 /* a power of two */, LAUNCH_PENALTIES_MAX = 16 };

/* At most half of the children are volume makers, so the rest stays free for removals. */
_Static_assert(LAUNCH_MAKERS_MAX * 2 <= CHILDREN_MAX, "others wait, too");

/* A worker for archives, from its start until work_end (worker.c). */
enum { WORK_CGROUP_MAX = 48 };
struct work {
    char id[LAUNCH_ID_MAX + 1];
    enum launch_work kind;
    int pidfd;             /* owned */
    pid_t pid;             /* 0 once it has been reaped */
    int dir_fd;            /* owned; directory of a new layer, locked; FD_NONE: none */
    int opaque_fd;         /* owned; its reports of opaque directories; FD_NONE: none */
    struct cgroup *cgroup; /* owned; NULL: the host has no cgroups */
    char cgroup_name[2 * WORK_CGROUP_MAX];
    pid_t watcher; /* the process that counts written bytes; 0: none, or reaped */
    pid_t marker;  /* the process that marks opaque directories (layers.c); 0: none, or reaped */
    bool marked;   /* opaque directories are marked */
    struct work *next, **link;
};

/* A process that copies files into a volume (volume-fill.c). */
struct volume_fill {
    pid_t pid;
    int dir_fd, lock_fd; /* owned */
    int source_fd;       /* owned; the lock of the volume that is copied, or FD_NONE */
};

enum { NETWORK_KEY_SIZE = 32 };

struct launcher {
    int state_fd, layers_fd, sandboxes_fd, volumes_fd, ids_fd; /* owned */
    int image_layers_fd;                                       /* owned */
    bool network_keyed;                                        /* network_key is read */
    uint8_t network_key[NETWORK_KEY_SIZE];
    bool volumes_unswept; /* a process held a volume's lock during the sweep: sweep again */
    bool layers_unswept;  /* a process held a new layer's lock during the sweep: sweep again */
    int worker_exe;       /* owned; sealed memfd of the worker's program, or FD_NONE */
    char *cpuinfo;        /* owned; the host's /proc/cpuinfo, NULL until first needed */
    size_t cpuinfo_len;
    struct work *works; /* owned */
    unsigned work_count;
    unsigned work_number;        /* number of the last worker's cgroup */
    struct cgroup_host *cgroups; /* owned */
    struct idrange_avoid *avoid; /* owned */
    size_t avoid_count;
    const struct launch_net_ops *net; /* borrowed; NULL: no networks */
    /* owned; networks of sandboxes that survived the previous launcher (network.c) */
    struct net_survivor *survivors;
    size_t survivor_count;
    int net_turned; /* owned; an eventfd, made by the first query for closed networks; FD_NONE */
    const char *const *bind_prefixes;    /* borrowed from the configuration */
    const char *certificate, *key;       /* borrowed; NULL = none */
    const struct publish_rules *publish; /* borrowed; NULL = none */
    const struct host_rootfs *host;      /* borrowed; NULL = none */
    int skeleton; /* owned; the skeleton that all sandboxes with the root `host` share; FD_NONE */
    uint64_t skeleton_stamp; /* a fingerprint of the skeleton's sources */
    char *state_dir;         /* owned; the path, for reservations */
    /* the supervisor's listening socket, to check that a client's connection came in there */
    struct creator_socket clients;
    int init_exe; /* owned; sealed memfd of init */
    int null_fd;  /* owned; /dev/null */
    int fusectl;  /* owned; an fusectl mount; FD_NONE until first needed */
    /* owned; low fd numbers, open on /dev/null unless a start is under way */
    int boot_slots[BOOT_SLOTS];
    struct launch_sandbox
        *sandboxes; /* owned; this and the next two lines: the registry (sandboxes.c) */
    struct launch_sandbox *by_id[SANDBOX_BUCKETS], *joined;
    uint32_t sandbox_count, terminals_taken;
    struct child_table children;
    int janitor; /* owned; socket to the janitor (janitor.c); FD_NONE: none */
    pid_t janitor_pid;
    bool janitor_fails;   /* a janitor has exited by itself: do not start another */
    unsigned sweeps_left; /* further sweeps, for sandboxes whose lock was held (sweep.c) */
    int64_t sweep_ms;     /* clock_mono_ms of the next sweep */
    struct volume_fill fills[LAUNCH_FILLS_MAX]; /* owned */
    size_t fill_count;
    unsigned volume_makers;  /* volume makers at a time */
    unsigned volume_make_ms; /* time limit of each; 0: no limit */
    uint64_t disk_reserve;   /* bytes of the file system to keep free; 0: a fraction of it */
    struct uid_backoff {
        uid_t uid;
        int64_t until_ms;
        /* uids whose file system has not answered, and until when they get a shorter time-out */
    } uid_backoffs[LAUNCH_PENALTIES_MAX];
    size_t uid_backoff_next;
    uint32_t terminals;    /* of all sandboxes together */
    bool terminals_shared; /* other launchers run on this host */
};

/* terminals.c */
enum {
    TERMINALS_MAX = 128, /* per sandbox */
    /* part of the total, reserved so that as many sandboxes can have one each */
    TERMINALS_SINGLES = 1024,
    TERMINALS_PART = 32, /* divisor: each start gets this fraction of the unreserved terminals */
};
/* Returns how many terminals a sandbox gets when `left` remain for all; 0: none remains. Pure. */
uint32_t terminals_share(uint32_t left);
/* configured: the total for all sandboxes. 0: what the host offers, for one of several launchers.
 */
void terminals_open(struct launcher *l, uint32_t configured);
/* Gives s its share, for as long as s is in the launcher's registry. -EAGAIN: none is left. */
int terminals_take(struct launcher *l, struct launch_sandbox *s, struct err *err);
/* Reads the devpts limit of a running sandbox into s->terminals. */
void terminals_find(struct launch_sandbox *s);

/* sandboxes.c. Add a sandbox only when its id, terminals and network are set. */
void launcher_add(struct launcher *l, struct launch_sandbox *s);
void launcher_drop(struct launcher *l, struct launch_sandbox *s);
/* Returns NULL if there is no such sandbox. */
struct launch_sandbox *launcher_find(const struct launcher *l, const char *id);

/* launcher.c */
struct launch_sandbox *sandbox_new(const char *id);
struct cgroup_limits limits_of_request(const struct launch_request *q);
void sandbox_free(struct launch_sandbox *s);
/* end.c: kills every process of the sandbox and waits until they have exited; -ETIMEDOUT. */
enum { SANDBOX_END_MS = 10000 };
int sandbox_end(struct launcher *l, struct launch_sandbox *s, int timeout_ms, struct err *err);
/* Returns true if init has exited; reaps it if it was the launcher's child. */
bool sandbox_ended(const struct launch_sandbox *s);
/* Takes the lock of its id range. The range of a reattached sandbox was locked by init alone, which
 * has exited. */
int sandbox_take_ids(struct launcher *l, struct launch_sandbox *s, struct err *err);
/* Kills the orphans of an init that exited unnoticed: they may be in the middle of a write. Returns
 * 0 if the sandbox has no cgroup. -EAGAIN: some still exit; call again. */
int sandbox_end_orphans(struct launcher *l, const struct launch_sandbox *s, struct err *err);
/* Returns the owner text of a reservation (idrange.h). The caller frees it; NULL on OOM. */
char *sandbox_owner(const struct launcher *l, const char *id);

/*
 * sandbox-dir.c: marks the directory as the top of unrelated hierarchies (FS_TOPDIR_FL), so that
 * ext4 puts its subdirectories into different block groups.
 *
 * In one crowded group, on a file system without a journal, ext4 searches for each of a start's ten
 * inodes among all that were ever used there. That took 8 ms a start on a machine a few thousand
 * sandboxes old.
 */
void sandbox_dirs_spread(int dir_fd);
/* Makes and locks sandboxes/<id> with `upper` (owned by s->ids.base) and `work`. disk: the size of
 * its disk in bytes, which then holds both; the outer `upper` stays empty, and its owner records
 * the id range. -1: no disk. */
int sandbox_dir_make(struct launcher *l, struct launch_sandbox *s, int64_t disk, struct err *err);
/* Opens and locks an existing kept sandbox. -ENOENT; -EBUSY when its processes run. s->ids.base is
 * set from the owner of its upper. Without an upper (s->ruined) it can only be stopped and removed;
 * base is then the reserved range, or 0. */
int sandbox_dir_open(struct launcher *l, struct launch_sandbox *s, struct err *err);
/* sandbox_dir_open without the lock, which init holds. */
int sandbox_dir_peek(struct launcher *l, struct launch_sandbox *s, struct err *err);
/* Returns -EUCLEAN when s->ruined. */
int sandbox_dir_whole(const struct launch_sandbox *s, struct err *err);
/* Takes its lock. -EWOULDBLOCK: another process holds it. Does nothing if the launcher has it. */
int sandbox_dir_lock(struct launch_sandbox *s);
/* Unlocks with LOCK_UN, which works even while a child still has an inherited copy of the fd. */
void sandbox_dir_unlock(struct launch_sandbox *s);
/* The first step of a removal: unmarks a kept sandbox, so that a sweep removes the rest if the
 * launcher is killed. */
int sandbox_dir_forget(struct launch_sandbox *s, struct err *err);
/* bind: a bound socket for init to listen on. connect: a connection to init, once it listens. Both
 * return an fd that the caller owns. */
int sandbox_socket_bind(const struct launch_sandbox *s, struct err *err);
int sandbox_socket_connect(const struct launch_sandbox *s, struct err *err);
/* Returns a pidfd, which the caller owns, of the process that listens at the other end; *ret_pid is
 * its pid. */
int sandbox_socket_peer(int fd, pid_t *ret_pid, struct err *err);
/* clear removes everything in the directory except its lock; it returns 1 when nothing had been
 * written (no file, no disk). remove removes the directory as well. */
int sandbox_dir_clear(struct launcher *l, const char *id, struct err *err);
int sandbox_dir_remove(struct launcher *l, const char *id, struct err *err);

/* sweep.c: schedules repeated sweeps for some time, for directories whose lock is held by a process
 * that is about to exit or was killed. sweep_wait: ms until the next sweep, -1: none. sweep_due:
 * sweeps if it is due. */
void sweep_later(struct launcher *l);
int sweep_wait(const struct launcher *l);
void sweep_due(struct launcher *l);

/* source.c: opens (O_PATH) a host path that a client named, with the creator's rights. *ret_st is
 * its stat, *ret_read_only whether its mount is read-only, so that no caller asks the file system
 * again. SOURCE_MAKE: a missing one is made, as a directory. -ETIMEDOUT: the file system does not
 * answer. */
enum source_flags { SOURCE_WRITE = 1 << 0, SOURCE_MAKE = 1 << 1 };
int source_open(struct launcher *l, const struct creator *c, const char *path, unsigned flags,
                struct stat *ret_st, bool *ret_read_only, struct err *err);
/* source-make.c: makes the missing directories of the path `rest` below root, with the creator's
 * rights, through no symbolic link. state: the path of the state directory. -EPERM: the owner has
 * none made in the system's directories. May block. */
int source_make(const struct creator *c, int root, const char *rest, const char *state);
/* Records that a file system did not answer: this creator's next request gets a shorter time-out.
 */
void source_punish(struct launcher *l, const struct creator *c);

/* A lower layer: a directory below a mount, as an fd and as a path. */
struct root_lower {
    int fd;                           /* owned; O_PATH */
    size_t mount;                     /* index into root_sources.mounts */
    char path[LAUNCH_LAYER_PATH_MAX]; /* relative to that mount; ".": the mount's own root */
};

/*
 * root.c: the detached mounts that an overlay is made of. The overlay has its own clones of them.
 * But unmounting waits for an RCU grace period (30 us on a quiet host, 10 ms on a busy one). So
 * they are given to init, which drops them with its old root. And they are few: all layers of an
 * image, up to a hundred, are below one mount.
 */
struct root_sources {
    int mounts[ROOT_MOUNTS_MAX]; /* owned; detached */
    size_t mount_count;
    struct root_lower lowers[LAUNCH_LAYERS_MAX + 1]; /* top layer first */
    size_t count;
    /* owned; the layers above the others, for the root file system `host` */
    struct host_layers host;
    int own;     /* owned; the mount with upper and work, or FD_NONE */
    bool nosuid; /* set-id bits and file capabilities in it have no effect */
    /* overlayfs's "volatile" option, for files that do not outlive the mount. Unmounting then does
     * not sync the upper's file system, and fsync inside does nothing. */
    bool is_volatile;
};
void root_sources_close(struct root_sources *s);
/* Moves the mounts to ret, which the caller then owns; returns their number. Closing the rest of s
 * does not block. */
int root_sources_give(struct root_sources *s, int ret[ROOT_SOURCES_MAX]);
/* Adds a lower layer at the bottom, which is a mount of its own. Takes ownership of mount_fd. */
int root_add_mount(struct root_sources *s, int mount_fd, struct err *err);
/* Adds the trees of the image's layers, id-mapped to userns_fd; FD_NONE: with their ids on disk. */
int root_add_image_layers(struct launcher *l, const struct launch_request *q, int userns_fd,
                          struct root_sources *s, struct err *err);
/* Makes the sandbox's root as a detached overlay mount: layers id-mapped to userns_fd, upper and
 * work of s. Returns the fd. *sources must be empty; it is filled also on failure. */
int root_mount(struct launcher *l, const struct launch_sandbox *s, const struct launch_request *q,
               int userns_fd, struct root_sources *sources, struct err *err);
/* Clones the mount that fd is in, with fd as its root, private, with these attributes. Returns the
 * fd. -EOPNOTSUPP: its file system cannot be id-mapped. */
int mount_clone(int fd, struct mount_attr *attr, const char *what, struct err *err);
/* Adds all lower layers that the sandbox starts with, except a root directory. */
int root_add_layers(struct launcher *l, const struct launch_request *q, uid_t base, int userns_fd,
                    struct root_sources *s, struct err *err);
/* Mounts the sources as one overlay without a writable layer; at least two. Returns the fd. */
int root_mount_lowers(struct root_sources *s, struct err *err);

/* layers.c: opens (O_PATH) the tree of an image layer. */
int layer_open(struct launcher *l, const char *name, struct err *err);
/* Likewise through a mount of the directory of all layers; ret_path is the tree's path in it. */
int layer_open_at(int layers_fd, const char *name, char ret_path[LAUNCH_LAYER_PATH_MAX],
                  struct err *err);
/* Makes and locks the directory of a new layer; the caller owns both fds. */
int layer_make(struct launcher *l, const char *id, int *ret_dir_fd, int *ret_tree_fd,
               struct err *err);
/* Removes a new layer after its worker has exited; in another process if that takes time. */
void layer_discard(struct launcher *l, const char *id);

/* worker.c */
void works_free(struct launcher *l);
struct work *work_find(struct launcher *l, const char *id);
/* Kills and reaps the worker and frees all that is held for it. */
void work_end(struct launcher *l, struct work *w);
/* The exit of a worker that has sent its last message. -EAGAIN: not exited yet, call again. */
int work_over(struct work *w, struct err *err);

/* worker-bounds.c: the cgroup of a worker, with a memory limit. A process that makes one and starts
 * a process in it holds the lock throughout (an owned fd; a forked child has a copy).
 * works_cgroup_sweep removes those left by killed launchers of this state directory. */
int work_cgroup_lock(const struct launcher *l);
int work_cgroup_make(struct launcher *l, struct work *w, int64_t memory, struct err *err);
void work_cgroup_end(struct launcher *l, struct work *w);
void works_cgroup_sweep(struct launcher *l);
/* Starts a process that kills the worker if its unpacker writes more than `most` bytes, or if the
 * host's disk has less than its reserve left. work_unwatch reaps it. */
int work_watch(struct launcher *l, struct work *w, uint64_t most, struct err *err);
void work_unwatch(struct work *w);

/* Properties of a bind source's mount. */
struct volume_kind {
    bool is_dir;
    bool guarded; /* writable, and its owner on the host is the sandbox's user there */
    bool of_root; /* guarded, and its owner or group is root: volume-look.c must search it */
};

/* system-path.c: classifies a bind source by its path. Both paths are absolute, without symbolic
 * links. Pure. */
enum path_kind {
    PATH_ANY = 0,
    /* contains directories of many users: root's files in it never become the sandbox's */
    PATH_SHARED,
    PATH_SYSTEM, /* like PATH_SHARED, and may not be mounted writable; may contain rind's state */
    PATH_STATE,  /* rind's own state: none of it becomes the sandbox's, whatever its owner */
};
enum path_kind path_kind(const char *path, const char *state_dir);

/* Makes a bind source a detached mount with its owner alone mapped to base + the inside ids.
 * Returns the fd. */
int volume_mount(struct launcher *l, const struct launch_sandbox *s, const struct launch_volume *v,
                 struct volume_kind *ret, struct err *err);

/*
 * volume-look.c: searches for programs that the sandbox could change and that would give users of
 * the host their owner's rights: set-id files and files with capabilities. Fill it with
 * volume_look_add, then start it once. finish waits for the result: -EPERM names a file;
 * -ETIMEDOUT: too many files, or the file system does not answer. close kills the search in any
 * state.
 */
struct volume_look {
    struct {
        int mount;          /* borrowed; the mount that the sandbox gets */
        const char *source; /* borrowed; for messages */
        uid_t uid;          /* on the host, of the sandbox's user */
    } of[LAUNCH_VOLUMES_MAX];
    size_t count;
    pid_t pid;  /* 0: no search runs */
    int answer; /* owned; pipe of the result, or FD_NONE */
    int64_t end_ms;
};
void volume_look_add(struct volume_look *k, int mount, const char *source, uid_t uid);
int volume_look_start(struct launcher *l, struct volume_look *k, struct err *err);
int volume_look_finish(struct launcher *l, const struct creator *c, struct volume_look *k,
                       struct err *err);
void volume_look_close(struct launcher *l, struct volume_look *k);

/* Mounts a root read-only: the image as it is or, with `upper` (whose ids.base is set), that
 * sandbox's upper on top. All files have the ids that volumes have on disk, which userns_fd maps
 * to. Returns the fd. */
int root_mount_read_only(struct launcher *l, const struct creator *creator,
                         const struct launch_request *q, int userns_fd,
                         const struct launch_sandbox *upper, struct err *err);

/* volume-open.c: makes a named volume a detached mount. userns_fd maps IDRANGE_LAYERS to the
 * sandbox's range. Returns the fd. *ret_lock is an fd that init must hold as long as it uses the
 * volume. */
int named_volume_mount(struct launcher *l, const struct launch_sandbox *s,
                       const struct launch_volume *v, int userns_fd, int *ret_lock,
                       struct err *err);
/* Removes what killed launchers have left. */
void volumes_sweep(struct launcher *l);

/* volume-user.c: resolves a user, as image files name it, to inside ids; `root` is the root file
 * system. -ENOENT, -ERANGE. */
int volume_user(const struct launch_sandbox *s, int root, const char *user, uint32_t *ret_uid,
                uint32_t *ret_gid, struct err *err);

/* disk-make.c: writes an ext4 of this size into an empty, sparse file. With a journal it survives a
 * power failure. */
int disk_format(int fd, uint64_t bytes, bool journal, struct err *err);

/* disk.c */
/* Returns the bytes to keep free. */
uint64_t disk_reserve_bytes(const struct launcher *l);
/* Returns 0 if `bytes` may be promised to a new sandbox; -ENOSPC names the limit. */
int disk_check_reserve(const struct launcher *l, uint64_t bytes, struct err *err);
/* Makes a disk image in a sandbox's directory. */
int disk_make(int dir_fd, const char *name, uint64_t bytes, bool journal, struct err *err);
/* Mounts its disk's file system, with upper and work in it, as a detached mount; returns the fd.
 * -ENOENT: it has no disk (err is not set); -EOPNOTSUPP; -EBUSY: it is mounted and stays so. */
int disk_mount(const struct launch_sandbox *s, struct err *err);
/* Mounts the image `name`, which may be mounted elsewhere as well, as a detached mount with these
 * attributes. The root of a new file system is chowned to `owner`. Returns the fd; -EOPNOTSUPP;
 * -EBUSY. */
int disk_attach(int dir_fd, const char *name, uid_t owner, struct mount_attr *attr,
                struct err *err);
/* Opens its upper directory, on a disk or not. Returns the fd. *ret_disk is the mount that contains
 * it, or FD_NONE. Closing *ret_disk unmounts it, so close it after any clones are made. */
int upper_open(const struct launch_sandbox *s, int *ret_disk, struct err *err);
void disk_usage(const struct launch_sandbox *s, struct launch_disk *ret);

/* connect.c: returns an fd of the launcher's current net namespace, or a negative errno. */
int own_net_namespace(struct stat *ret);

/* dev.c: makes the fixed devices, links and mount points of /dev, owned by base; fuse: with
 * /dev/fuse. Returns 0 or a negative errno. The umask must be 0. */
int dev_fill(int dir, uid_t base, bool fuse);

/* fuse.c. Returns 0 if the host has FUSE and its connections can be aborted; else -EOPNOTSUPP. */
int fuse_open(struct launcher *l, struct err *err);
/* Aborts all FUSE connections of the sandbox with this id range (0: unknown, does nothing).
 * Processes that wait for an answer then get an error. */
void fuse_abort(struct launcher *l, uid_t base);
/* Aborts the connections of a sandbox that has just been killed, again and again until it has
 * exited. Does nothing if it never had FUSE. fuse_end forks a process for that and returns;
 * fuse_end_here blocks. */
void fuse_end(struct launcher *l, const struct launch_sandbox *s);
void fuse_end_here(struct launcher *l, const struct launch_sandbox *s);

/* own.c */
enum etc_file { ETC_HOSTS, ETC_HOSTNAME, ETC_RESOLV, ETC_FILES };
enum { ETC_TEXT_MAX = 64 << 10 };
/* Relative to the new root. */
const char *etc_path(enum etc_file file);
/* Mounts of parts of one tmpfs, all owned. Init gets the whole tmpfs as well, because its unmount
 * waits for a grace period like that of root_sources. */
struct own_wants {
    uid_t owner;
    bool fuse;                         /* with /dev/fuse */
    bool read_only;                    /* the sandbox's root, and so the files of /etc */
    const struct buf *texts;           /* contents of the files of /etc, ETC_FILES of them */
    const struct cgroup_view *cgroups; /* the view's parts, which need mount points; or NULL */
    /* The processor lists for /sys/devices/system/cpu/online and /proc/cpuinfo; or NULL. */
    const struct buf *cpus, *cpuinfo;
};
struct own_mounts {
    int whole;          /* the whole tmpfs, not attached anywhere */
    int dev;            /* /dev */
    int mask;           /* an empty directory, read-only */
    int etc[ETC_FILES]; /* with these texts */
    int cgroups;        /* a read-only directory with the mount points; FD_NONE: not wanted */
    int cpus, cpuinfo;  /* read-only files; FD_NONE: not wanted */
};
/* After a failure only ret->whole is valid. ret_hosts_fd and ret_resolv_fd (either may be NULL)
 * receive these files, open for writing. With wants->fuse they can be written
 * only through these. */
int own_mounts(const struct own_wants *wants, struct own_mounts *ret, int *ret_hosts_fd,
               int *ret_resolv_fd, struct err *err);
/* Makes a sysfs mount of this net namespace. A process that joined a net namespace may not mount
 * it. */
int sysfs_mount(int ns, struct err *err);

/* Parses a list such as "0-3,8"; false: it is none, or names more processors than a set holds.
 * Pure. */
bool cpus_parse(const char *text, cpu_set_t *ret);
/* cpus.c. Chooses processors among `of` for a sandbox with this CPU limit (in thousandths; -1:
 * none), spread by the id range's base. Returns false for all of them. Pure. */
bool cpus_choose(const cpu_set_t *of, uid_t base, int64_t millis, cpu_set_t *ret);
/* Appends the records of these processors from the text of a /proc/cpuinfo. -ENODATA: one of them
 * has no record. */
int cpus_info(const char *text, size_t len, const cpu_set_t *set, struct buf *ret);
/* Likewise from the host's /proc/cpuinfo, which is read once. Returns false if the sandbox is to
 * show the host's own. */
bool cpus_info_of_host(struct launcher *l, const cpu_set_t *set, struct buf *ret);
/* Appends the set as sysfs prints it: "0-3,8\n". */
int cpus_list(const cpu_set_t *set, struct buf *ret);

/* idmap.c */
/* Writes "0 base 65536" as the uid map and the gid map of pid. */
int idmap_write(pid_t pid, uid_t base, struct err *err);
/*
 * Makes a user namespace that maps one host uid and gid to two ids of a sandbox, and every other id
 * below IDRANGE_FIRST to itself. Returns its fd.
 *
 * Files with those other ids stay foreign in the sandbox, whose own user namespace maps none of
 * them. But they need some mapping: for a file with an unmapped owner the kernel refuses even
 * unlink and rename (EOVERFLOW). Ids of the pool, which belong to other sandboxes and images, stay
 * unmapped.
 */
int idmap_owner(uid_t host_uid, uid_t to_uid, gid_t host_gid, gid_t to_gid, struct err *err);
/* Makes a user namespace that maps IDRANGE_SIZE ids starting at `from` to those starting at `to`.
 */
int idmap_range(uid_t from, uid_t to, struct err *err);
/* For the directory of image layers: maps IDRANGE_LAYERS to `to`, and 0 to itself, because path
 * lookup fails in a directory with an unmapped owner. No file of a layer's tree has owner 0. */
int idmap_layers(uid_t to, struct err *err);

/* plan-build.c: encodes the plan into a sealed memfd. Indices count from PLAN_FD_OPS. */
struct plan_mounts {
    uint32_t terminals; /* the max= option of its devpts, at least 1: the kernel takes 0 for none */
    int count;          /* number of fds that init gets for its operations */
    int root, dev;
    int mask; /* mounted on directories to mask them */
    int volumes[LAUNCH_VOLUMES_MAX];
    bool volume_is_dir[LAUNCH_VOLUMES_MAX];
    /* Writable host directories whose owner is the sandbox's user inside. No process inside may
     * give their files set-id bits or capabilities. */
    bool volume_guarded[LAUNCH_VOLUMES_MAX];
    bool has_etc;
    int etc[ETC_FILES];
    bool joined; /* the net namespace is another sandbox's: `sys` is a ready-made mount */
    int sys;
    /* the mounts that init only drops with its old root: the first index, and the number */
    int discards, discard_count;
    bool has_cgroups, has_cpus, has_cpuinfo;
    int cgroups; /* mounted at /sys/fs/cgroup; the parts are mounted below it */
    int cgroup_part_count;
    struct {
        int mount;
        const char *name; /* borrowed */
    } cgroup_parts[CGROUP_VIEW_PARTS_MAX];
    int cpus, cpuinfo; /* files with lists of processors */
};
int plan_build(const struct launch_request *q, const struct plan_mounts *mounts, bool has_cgroup,
               struct err *err);

/* Describes operation `index` of a plan for messages: "mount tmpfs on /x". */
void plan_describe(int plan_fd, int index, char *text, size_t size);

/* boot-feed.c: the state of a start, from init's messages. */
struct boot {
    int plan_fd;    /* borrowed; to describe a failed operation */
    uint32_t stage; /* enum init_stage: the current stage */
    unsigned messages;
};
#define BOOT_INIT(plan)                                                                            \
    {                                                                                              \
        .plan_fd = (plan), .stage = INIT_STAGE_PLAN                                                \
    }
enum boot_want {
    BOOT_MORE = 0, /* wait for the next message */
    BOOT_READY,    /* init is ready */
};
/* Handles one message (len 0 is EOF, which the caller handles). Returns enum boot_want or a
 * negative errno. */
int boot_feed(struct boot *b, const void *data, size_t len, struct err *err);
/* Handles one word of the stage pipe. -EPROTO for an unknown stage. */
int boot_stage(struct boot *b, uint32_t stage, struct err *err);
/* Returns the stage in words; "an unknown step" if it is invalid. */
const char *boot_stage_name(uint32_t stage);

/* boot.c: opens boot_slots. Call it early, while low fd numbers are free. */
int boot_open(struct launcher *l, struct err *err);
/* The launcher's fds to a starting init: control socket and stage pipe. */
struct boot_ends {
    int control, stages; /* owned */
};
struct boot_net {
    bool now;   /* clone it with CLONE_NEWNET; else init unshares it later */
    bool admin; /* init makes a net namespace in any case; boot_await_net waits for it */
    int ns;     /* borrowed; the net namespace to join, or FD_NONE */
};
/* Clones the process that becomes init. It shares the launcher's fd table until boot_await has
 * returned. */
int boot_clone(struct launcher *l, struct launch_sandbox *s, const struct boot_net *net,
               struct boot_ends *ret, struct err *err);
/* Waits until the child has its own fd table. The child then waits for boot_go. */
int boot_await(struct launcher *l, const struct launch_sandbox *s, int control, struct err *err);
/* After the first boot_go: waits until init is in the net namespace that the sandbox administers.
 */
int boot_await_net(const struct launch_sandbox *s, int control, struct err *err);
/* Points boot_slots at /dev/null again. boot_await does it; call this after a failure without it.
 */
void boot_clear(struct launcher *l);
/* Sends a GO with fds: the first makes the child execute fds[0], the second carries the plan
 * (fds[0] arrives at PLAN_FD, and so on). If the process has exited meanwhile, this is no error:
 * boot_follow reports it. */
int boot_go(int control, const int *fds, int count, struct err *err);
/* Follows the start until READY; stages FD_NONE: there is no stage pipe. On failure err names the
 * stage, and the caller must kill and reap init. */
int boot_follow(const struct launch_sandbox *s, const struct boot_ends *ends, int plan_fd,
                struct err *err);
