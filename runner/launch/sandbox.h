#pragma once

/* What the launcher holds of one sandbox, and the steps of its start that have files of their own.
 * Private to launch/. */

#include <sched.h>
#include <stdbool.h>
#include <sys/types.h>

#include "launch/cgroup.h"
#include "launch/creator.h"
#include "launch/host-view.h"
#include "launch/idrange.h"
#include "launch/request.h"
#include "launch/volume.h"
#include "policy/net-box.h"
#include "proto/init-msg.h"

struct err;
struct launch_disk;
struct stat;
struct launcher;
struct mount_attr;

#define KEEP_FILE                                                                                  \
    "keep" /* in the directory of a kept one: there from its whole make to its removal */

#define DISK_FILE "disk" /* there too: the image of its disk, when it has a limit */

enum {
    LAUNCH_LAYER_PATH_MAX = 136, /* with the NUL; a name of a layer of ours has 128 bytes at most */
    ROOT_MOUNTS_MAX = 4,         /* a root directory or writable layer; image layers; our layers */
    ROOT_SOURCES_MAX = ROOT_MOUNTS_MAX + 3, /* the two of `host`, and what upper and work are in */
};

/* A place in a list of the table. */
struct sandbox_link {
    struct sandbox *next, **at; /* at: what points to us; NULL: not in it */
};

struct sandbox {
    char id[LAUNCH_ID_MAX + 1];
    int dir_fd;  /* owned; sandboxes/<id> */
    int lock_fd; /* owned; its lock, which init holds too: free = nobody lives */
    struct idrange ids;
    struct cgroup *cgroup; /* owned */
    bool kept;             /* files and ids outlive init */
    bool ruined;           /* its upper is gone: nothing can be started in it, or be read of it */
    bool failed;           /* its start has, and its processes took their time to end */
    /* Owned; for whom it is made. Of a kept one that has started it is on disk alone: a fork copies
     * the page tables of all that is here. */
    struct creator *creator;
    bool fuse;   /* has /dev/fuse, or may have it: it was adopted */
    int pidfd;   /* owned; init's */
    int root_fd; /* owned; its root, held over init's death; else FD_NONE */
    int gate_fd; /* owned; closed after that: who removes its files waits for it */
    pid_t pid;
    struct sandbox_link all, by_id;
    struct sandbox_link joined; /* of those in the network of another */
    char net_owner[LAUNCH_ID_MAX +
                   1];   /* whose network it has; its own id, as a rule; "": none yet */
    struct net_box *net; /* owned; of its own network, when it has a link */
    char hostname[LAUNCH_HOSTNAME_MAX + 1];
    char aliases[LAUNCH_ALIASES_MAX + 1]; /* as of TAG_NET_ALIASES; "" */
    struct launch_host *hosts;            /* owned; further lines of its hosts file */
    uint32_t host_count;
    bool hosts_cut; /* not all members are in that: the log has said so of its network */
    int hosts_fd;   /* owned; its hosts file, to be written again; FD_NONE outside of named networks
                     */
    int32_t hosts_lease;  /* the number of the same in init, which outlives us */
    int32_t resolv_lease; /* of its resolv.conf, where that follows the host's; 0: it does not */
    uint32_t terminals;   /* the maximum of its devpts */
};

/* Low descriptors for what a child needs until it has a table of its own (boot.c): its socket, its
 * pipe, and the v1 cgroups' files. */
enum { BOOT_SLOTS = 2 + CGROUP_TASKS_MAX };

/* As many as one user may have sandboxes (maxSandboxesPerUser): whoever removes all of theirs at
 * once must not make the launcher remove the rest itself. */
enum { SANDBOX_BUCKETS = 1024 }; /* a power of two */

enum { LAUNCH_REMOVALS_MAX = 256, LAUNCH_PENALTIES_MAX = 16 };

/* Of those, at most half make volumes: the other half is for what else waits. */
_Static_assert(LAUNCH_MAKERS_MAX * 2 <= LAUNCH_REMOVALS_MAX, "others wait, too");

/* A worker that has not been forgotten (worker.c). */
enum { WORK_CGROUP_MAX = 48 };
struct work {
    char id[LAUNCH_ID_MAX + 1];
    enum launch_work kind;
    int pidfd;             /* owned */
    pid_t pid;             /* 0 once it has been reaped */
    int dir_fd;            /* owned; of a new layer's directory, which is locked; FD_NONE */
    int opaque_fd;         /* owned; what it says of opaque directories; FD_NONE */
    struct cgroup *cgroup; /* owned; NULL: the host has none */
    char cgroup_name[2 * WORK_CGROUP_MAX];
    pid_t watcher; /* of what it writes; 0: there is none, or it has been reaped */
    pid_t marker;  /* marks opaque directories (layers.c); the same */
    bool marked;   /* that has been done */
    struct work *next;
};

/* A process that fills a volume (volume-fill.c). */
struct volume_fill {
    pid_t pid;
    int dir_fd, lock_fd; /* owned */
    int source_fd;       /* owned; the lock of the volume that it is filled from, or FD_NONE */
};

struct launcher {
    int state_fd, layers_fd, sandboxes_fd, volumes_fd, ids_fd; /* owned */
    int image_layers_fd;                                       /* owned */
    bool volumes_unswept; /* somebody had the volumes' lock when they were to be swept */
    bool layers_unswept;  /* somebody had a half-made layer's lock when it was to be swept */
    int worker_exe;       /* owned; sealed memfd, or FD_NONE */
    char *cpuinfo;        /* owned; the host's, once it was needed */
    size_t cpuinfo_len;
    struct work *works; /* owned */
    unsigned work_count;
    unsigned work_number;        /* of the last worker's cgroup */
    struct cgroup_host *cgroups; /* owned */
    struct idrange_avoid *avoid; /* owned */
    size_t avoid_count;
    const struct launch_net_ops *net; /* borrowed; may be NULL */
    struct net_heir *heirs;           /* owned (network.c) */
    size_t heir_count;
    int net_turned; /* owned; an eventfd, once somebody asks which networks are closed; FD_NONE */
    const char *const *bind_prefixes;    /* borrowed from the configuration */
    const char *certificate, *key;       /* borrowed; NULL = none */
    const struct publish_rules *publish; /* borrowed; NULL = none */
    const struct host_rootfs *host;      /* borrowed; NULL = none */
    int skeleton;                        /* owned; for all sandboxes that show the host; FD_NONE */
    uint64_t skeleton_stamp;             /* of what it was made from */
    char *state_dir;                     /* owned; the path, for reservations */
    struct creator_socket clients;       /* where those who ask connect */
    int init_exe;                        /* owned; sealed memfd of init */
    int null_fd;                         /* owned; /dev/null */
    int fusectl;                         /* owned; a mount of it; FD_NONE until it is needed */
    int boot_slots[BOOT_SLOTS];          /* owned; /dev/null while no start is under way */
    struct sandbox *sandboxes;           /* owned; the table's, as what follows (sandboxes.c) */
    struct sandbox *by_id[SANDBOX_BUCKETS], *joined;
    uint32_t sandbox_count, terminals_taken;
    struct removal {
        pid_t pid;
        int pidfd; /* owned; -1: it is reaped at the next request */
        bool makes_volume;
        char id[LAUNCH_ID_MAX + 1];  /* "": it has opened a source for somebody, say */
    } removals[LAUNCH_REMOVALS_MAX]; /* processes that remove files, to be reaped */
    size_t removal_count;
    int remover; /* owned; to the process that removes small ones, or FD_NONE */
    pid_t remover_pid;
    bool remover_fails;   /* one has ended by itself: no other is started */
    unsigned sweeps_left; /* sweeps to come, for what could not be swept yet (sweep.c) */
    int64_t sweep_ms;     /* clock_mono_ms of the next of them */
    struct volume_fill fills[LAUNCH_FILLS_MAX]; /* owned */
    size_t fill_count;
    unsigned volume_makers;  /* at a time */
    unsigned volume_make_ms; /* for each; 0: as long as it takes */
    uint64_t disk_reserve;   /* bytes of the file system that stay free; 0 = a part of it */
    struct penalty {
        uid_t uid;
        int64_t until_ms;
    } penalties[LAUNCH_PENALTIES_MAX]; /* whose file system has not answered */
    size_t penalty_next;
    uint32_t terminals;    /* of all sandboxes together */
    bool terminals_shared; /* there are other launchers beside us */
};

/* terminals.c */
enum {
    TERMINALS_MAX = 128,      /* of a sandbox */
    TERMINALS_SINGLES = 1024, /* kept so that as many sandboxes can have one each */
    TERMINALS_PART = 32,      /* of the others, one in so many goes to each start */
};
/* How many a sandbox gets when so many are left for all; 0: there is none. Pure. */
uint32_t terminals_share(uint32_t left);
/* configured: of all sandboxes; 0: what the host leaves, for a launcher that is one of many. */
void terminals_open(struct launcher *l, uint32_t configured);
/* Gives s its share, for as long as it is in the launcher's list; -EAGAIN: there is none left. */
int terminals_take(struct launcher *l, struct sandbox *s, struct err *err);
/* What one has that runs already. */
void terminals_find(struct sandbox *s);

/* sandboxes.c. A sandbox is added when it has its id, its terminals and its network. */
void launcher_add(struct launcher *l, struct sandbox *s);
void launcher_drop(struct launcher *l, struct sandbox *s);
/* NULL: there is none. */
struct sandbox *launcher_find(const struct launcher *l, const char *id);

/* launcher.c: and what manage.c needs of it. */
struct sandbox *sandbox_new(const char *id);
void sandbox_free(struct sandbox *s);
/* end.c: ends every process of it, and waits so long until they are gone: -ETIMEDOUT. */
enum { SANDBOX_END_MS = 10000 };
int sandbox_end(struct launcher *l, struct sandbox *s, int timeout_ms, struct err *err);
/* Whether init has ended; reaps it when it was our child. */
bool sandbox_ended(const struct sandbox *s);
/* The lock of its range: an adopted one's was only init's, which has ended. */
int sandbox_take_ids(struct launcher *l, struct sandbox *s, struct err *err);
/* Ends what dies with an init that nobody waited for: its processes may be in the middle of a
 * write. Nothing when there is no cgroup; -EAGAIN: they have not gone yet, and it has to be asked
 * again. */
int sandbox_end_leftovers(struct launcher *l, const struct sandbox *s, struct err *err);
/* The owner text of a reservation (idrange.h). Caller frees; NULL on OOM. */
char *sandbox_owner(const struct launcher *l, const char *id);

/*
 * sandbox-dir.c: tells ext4 that the subdirectories have nothing to do with one another. Crowded
 * into one group of blocks, each of the ten inodes that a start takes is looked for among all that
 * were ever used there, where the file system has no journal: 8 ms a start on a machine that is a
 * few thousand sandboxes old.
 */
void sandbox_dirs_spread(int dir_fd);
/* Makes sandboxes/<id> with upper (owned by base) and work, locked. disk: bytes of its disk, which
 * then has the two; its own upper stays empty, and says whose ids they are. -1 = none. */
int sandbox_dir_make(struct launcher *l, struct sandbox *s, int64_t disk, struct err *err);
/*
 * Opens and locks a kept one that exists: -ENOENT, -EBUSY when somebody lives in it. s->ids.base is
 * set from its upper; of one that has none (s->ruined), which is there to be ended and removed,
 * from what is reserved for it, or 0.
 */
int sandbox_dir_open(struct launcher *l, struct sandbox *s, struct err *err);
/* As it is, without the lock, which its init holds. */
int sandbox_dir_peek(struct launcher *l, struct sandbox *s, struct err *err);
/* -EUCLEAN when it is ruined. */
int sandbox_dir_whole(const struct sandbox *s, struct err *err);
/* Its lock, if nobody holds it: -EWOULDBLOCK. Nothing when we have it. */
int sandbox_dir_lock(struct sandbox *s);
/* Lets go of it, also where a process that we have started has not closed its copy yet. */
void sandbox_dir_unlock(struct sandbox *s);
/* The first step of a removal: a kept one is nobody's any more, so that what is left of it when we
 * are killed is swept. */
int sandbox_dir_forget(struct sandbox *s, struct err *err);
/* A bound socket for init to listen on, and a connection to it once it does. Return the fd. */
int sandbox_socket_bind(const struct sandbox *s, struct err *err);
int sandbox_socket_connect(const struct sandbox *s, struct err *err);
/* Who listens at the other end: its pidfd, which is returned, and pid. */
int sandbox_socket_peer(int fd, pid_t *ret_pid, struct err *err);
/* Removes what is in the directory but its lock; and all of it. The first returns 1 when nothing
 * had been written there: no file, no disk. */
int sandbox_dir_clear(struct launcher *l, const char *id, struct err *err);
int sandbox_dir_remove(struct launcher *l, const char *id, struct err *err);

/* sweep.c: sweeps again and again for some time, for what somebody holds who ends just now, or was
 * killed. Until the next of these, in ms; -1: there is none. And what is due of it. */
void sweep_later(struct launcher *l);
int sweep_wait(const struct launcher *l);
void sweep_due(struct launcher *l);

/*
 * removal.c: has the files of an ended sandbox, which is locked, removed by another process, its
 * cgroups (if it has any), and its id range given back; false: that cannot be, and the caller does
 * it.
 */
bool removal_start(struct launcher *l, struct sandbox *s, bool cgroups);
/* The same of one that is swept, if it has many. */
bool removal_start_large(struct launcher *l, const struct sandbox *s);
/* For such a process: of all descriptors only these stay, as `first` and so on, and those below:
 * locks of other sandboxes must not be held by it; and its name, and what it does when it is asked
 * to end. */
int removal_keep_only(int *fds, int count, int first);
void removal_become(const char *name, void (*on_stop)(int));
/* For a process that is to end the root that s holds: a pipe whose other end is closed when s has
 * let it go. Returns its end; FD_NONE: there is no root. */
int removal_make_gate(struct sandbox *s);
/* Lets go a held root, last of all: its end costs a sync of the file system below it. */
void removal_close_root(int root, int gate);

/*
 * settle.c: has another process sync what a stop leaves, whose owner text this is, and end the root
 * that s holds. Returns the process's pidfd, which is the caller's; FD_NONE: it cannot be waited
 * for; -EAGAIN: there is none, and the caller does it.
 */
int settle_start(struct launcher *l, struct sandbox *s, const char *owner);

/* remover.c: whether the remover has it. One that was killed is started again. gate: as above. */
bool remover_take(struct launcher *l, const struct sandbox *s, bool cgroups, int gate);
/* Starts the remover, early: until it has closed what it inherits, it holds the launcher's locks.
 * Where that fails, the first removal tries again. */
int remover_start(struct launcher *l);
/* Waits for what the remover has been asked for, and for its end. */
void remover_end(struct launcher *l);
/* The same, and starts another: for who needs the room that files still take which are as good as
 * gone. False: there was nothing to wait for. */
bool remover_settle(struct launcher *l);

/* removal.c. Reaps those that have ended. */
void removal_reap(struct launcher *l);
/* Whether one more child can be kept; and keeps one, of whose failure the log tells if it has an
 * id.
 */
bool removal_has_room(struct launcher *l);
void removal_keep(struct launcher *l, pid_t pid, const char *id);
/* In such a child: of all descriptors only these stay, as `first` and so on, and those below it,
 * because it must not hold locks of other sandboxes. Negative errno. */
int removal_keep_only(int *fds, int count, int first);

/* source.c: opens (O_PATH) what a client names of the host, with the creator's rights, and says
 * what it is: nothing of it needs to be asked again. -ETIMEDOUT: its file system does not answer.
 */
int source_open(struct launcher *l, const struct creator *c, const char *path, bool write,
                struct stat *ret_st, struct err *err);
/* A file system of the creator's has not answered: the next one is not waited for that long. */
void source_punish(struct launcher *l, const struct creator *c);

/* A lower layer: a directory beneath a mount, by descriptor and by name. */
struct root_lower {
    int fd;                           /* owned; O_PATH */
    size_t mount;                     /* in root_sources.mounts */
    char path[LAUNCH_LAYER_PATH_MAX]; /* beneath that; ".": it is the mount's own */
};

/*
 * root.c: the detached mounts that an overlay is made of. The overlay has its own clones of them,
 * but the end of a detached mount waits for an RCU grace period (30 us on a quiet host, 10 ms on a
 * busy one): they are given to init, which lets them go with its old root. And they are few: the
 * layers of an image, which may be a hundred, all lie beneath one.
 */
struct root_sources {
    int mounts[ROOT_MOUNTS_MAX]; /* owned; detached */
    size_t mount_count;
    struct root_lower lowers[LAUNCH_LAYERS_MAX + 1]; /* top first */
    size_t count;
    struct host_layers host; /* owned; above the others; of the root file system `host` */
    int own;                 /* owned; with upper and work, or FD_NONE */
    bool nosuid;             /* no setuid bit and no file capability in it has an effect */
    /* Nothing of it outlives the mount: without the sync of the whole file system of the upper
     * layer that the end of an overlay costs, and without the inside's own. */
    bool is_volatile;
};
void root_sources_close(struct root_sources *s);
/* Moves the mounts to ret, which become the caller's, and says how many; what is left of s is
 * nothing that is waited for. */
int root_sources_give(struct root_sources *s, int ret[ROOT_SOURCES_MAX]);
/* One lower layer more, on the bottom of those that are there, which is a mount by itself. Takes
 * mount_fd. */
int root_add_mount(struct root_sources *s, int mount_fd, struct err *err);
/* The same for the trees of an image's layers, id-mapped to userns_fd; FD_NONE: with the ids that
 * they have on disk. */
int root_add_image_layers(struct launcher *l, const struct launch_request *q, int userns_fd,
                          struct root_sources *s, struct err *err);
/* The sandbox's root as a detached overlay mount: layers idmapped to userns_fd, upper and work of
 * s. Returns the fd. *sources, which is empty, is filled also on failure. */
int root_mount(struct launcher *l, const struct sandbox *s, const struct launch_request *q,
               int userns_fd, struct root_sources *sources, struct err *err);
/* The mount that fd is in, cloned: of fd alone, private, with these attributes. Returns the fd.
 * -EOPNOTSUPP: its file system cannot be id-mapped. */
int mount_clone(int fd, struct mount_attr *attr, const char *what, struct err *err);
/* All of a sandbox's lower layers; as they are started with, but for its root directory. */
int root_add_layers(struct launcher *l, const struct launch_request *q, uid_t base, int userns_fd,
                    struct root_sources *s, struct err *err);
/* The sources as one overlay without a writable layer (two layers at least). Returns the fd. */
int root_mount_lowers(struct root_sources *s, struct err *err);

/* layers.c: the tree of a layer of an image, O_PATH. */
int layer_open(struct launcher *l, const char *name, struct err *err);
/* The same through a mount of the directory of all layers, and its path there. */
int layer_open_at(int layers_fd, const char *name, char ret_path[LAUNCH_LAYER_PATH_MAX],
                  struct err *err);
/* Makes the locked directory of a new one; both fds are the caller's. */
int layer_make(struct launcher *l, const char *id, int *ret_dir_fd, int *ret_tree_fd,
               struct err *err);
/* Removes a new one whose worker has ended, in a process of its own where that takes time. */
void layer_discard(struct launcher *l, const char *id);

/* worker.c */
void works_free(struct launcher *l);
struct work **work_find(struct launcher *l, const char *id);
/* Ends it, reaps it, and lets go of all that is held for it: *at is the next one then. */
void work_end(struct launcher *l, struct work **at);
/* Waits for one that has said its last word; kills one that goes on. */
int work_wait(struct work *w, struct err *err);
/* The same, and does not wait for it: -EAGAIN, and it has to be asked again. */
int work_over(struct work *w, struct err *err);

/*
 * worker-bounds.c: the cgroup of a worker, with so much memory. Whoever makes one and starts a
 * process in it holds the lock (an fd, owned; a fork has a copy) from before until it is in it.
 * Sweep removes those that killed launchers of this state directory have left.
 */
int work_cgroup_lock(const struct launcher *l);
int work_cgroup_make(struct launcher *l, struct work *w, int64_t memory, struct err *err);
void work_cgroup_end(struct launcher *l, struct work *w);
void works_cgroup_sweep(struct launcher *l);
/* A process that ends a worker whose unpacker writes more bytes than that, or that leaves the host
 * less than its reserve of disk. Reaped by work_unwatch. */
int work_watch(struct launcher *l, struct work *w, uint64_t most, struct err *err);
void work_unwatch(struct work *w);

/* What a host directory's mount is, beside its descriptor. */
struct volume_kind {
    bool is_dir;
    bool guarded; /* it can be written, and an owner of the host's is the sandbox's user there */
    bool of_root; /* guarded, and that owner or its group is root: to be looked through */
};

/* system-path.c: what a source is, by its path; both are absolute, without links. Pure. */
enum path_kind {
    PATH_ANY = 0,
    PATH_SHARED, /* directories of many users lie in it: what is root's in it is never the sandbox's
                  */
    PATH_SYSTEM, /* the same, and it is not shared to be written; rind's state may lie in it */
    PATH_STATE,  /* rind's own state: nothing of it is the sandbox's, whoever owns it */
};
enum path_kind path_kind(const char *path, const char *state_dir);

/* A bind source as a detached mount, its owner alone mapped to base + the inside ids. Returns the
 * fd. */
int volume_mount(struct launcher *l, const struct sandbox *s, const struct launch_volume *v,
                 struct volume_kind *ret, struct err *err);

/*
 * volume-look.c: looks for programs that the sandbox could change and that would give users of the
 * host what their owner has: set-id ones, and those with capabilities. Filled by volume_look_add,
 * begun once; finish waits for the answer (-EPERM names a file, -ETIMEDOUT: they are too many, or
 * the file system does not answer), and close ends it, whatever has become of it.
 */
struct volume_look {
    struct {
        int mount;          /* borrowed; as the sandbox gets it */
        const char *source; /* borrowed; for messages */
        uid_t uid;          /* the host's, of the sandbox's user */
    } of[LAUNCH_VOLUMES_MAX];
    size_t count;
    pid_t pid;  /* 0: none is under way */
    int answer; /* owned; or FD_NONE */
    int64_t end_ms;
};
void volume_look_add(struct volume_look *k, int mount, const char *source, uid_t uid);
int volume_look_start(struct launcher *l, struct volume_look *k, struct err *err);
int volume_look_finish(struct launcher *l, const struct creator *c, struct volume_look *k,
                       struct err *err);
void volume_look_close(struct launcher *l, struct volume_look *k);

/*
 * The same without a writable layer: the image as it is; with `upper`, whose base is set, that
 * sandbox's on top of it. All with the ids that volumes have on disk, which userns_fd maps to.
 * Returns the fd.
 */
int root_mount_read_only(struct launcher *l, const struct creator *creator,
                         const struct launch_request *q, int userns_fd, const struct sandbox *upper,
                         struct err *err);

/* volume.c: a named volume as a detached mount. userns_fd maps IDRANGE_LAYERS to the sandbox's
 * range. Returns the fd; *ret_lock is what init has to hold as long as it has it. */
int named_volume_mount(struct launcher *l, const struct sandbox *s, const struct launch_volume *v,
                       int userns_fd, int *ret_lock, struct err *err);
/* What killed launchers have left. */
void volumes_sweep(struct launcher *l);
/* volume-fill.c: takes up what those that fill volumes have done. */
void volume_reap(struct launcher *l);

/*
 * volume-user.c: the inside ids of a user that is named as image files name it, in the root file
 * system `root`. -ENOENT, -ERANGE.
 */
int volume_user(const struct sandbox *s, int root, const char *user, uint32_t *ret_uid,
                uint32_t *ret_gid, struct err *err);

/* disk-make.c: an ext4 of this size in an empty, sparse file. With a journal it outlives a power
 * failure. */
int disk_format(int fd, uint64_t bytes, bool journal, struct err *err);

/* disk.c */
/* The bytes that stay free. */
uint64_t disk_reserve_bytes(const struct launcher *l);
/* Whether so many bytes may be promised to a new sandbox: -ENOSPC names the limit. */
int disk_check_reserve(const struct launcher *l, uint64_t bytes, struct err *err);
/* The image of a disk in a sandbox's directory. */
int disk_make(int dir_fd, const char *name, uint64_t bytes, bool journal, struct err *err);
/* Its file system, with upper and work in it, as a detached mount, whose fd is returned. -ENOENT:
 * it has none (err is not set); -EOPNOTSUPP; -EBUSY: it is mounted, and stays so. */
int disk_mount(const struct sandbox *s, struct err *err);
/* The image `name`, which others may have mounted as well, as a detached mount with these
 * attributes. A new one's root is given to `owner`. Returns the fd; -EOPNOTSUPP; -EBUSY. */
int disk_attach(int dir_fd, const char *name, uid_t owner, struct mount_attr *attr,
                struct err *err);
/* Its upper directory, wherever that is. Returns the fd. *ret_disk, which may become FD_NONE, is
 * the mount that it is in, which ends with that descriptor: to be closed after what is cloned of
 * it. */
int upper_open(const struct sandbox *s, int *ret_disk, struct err *err);
void disk_usage(const struct sandbox *s, struct launch_disk *ret);

/* connect.c: the net namespace that we are in. Returns an fd of it, or a negative errno. */
int own_net_namespace(struct stat *ret);

/* dev.c: the fixed devices, links and mount points of /dev, owned by base; fuse: with /dev/fuse.
 * 0 or a negative errno. Wants a umask of 0. */
int dev_fill(int dir, uid_t base, bool fuse);

/* fuse.c. Whether the host has FUSE, and its connections can be ended: else -EOPNOTSUPP. */
int fuse_open(struct launcher *l, struct err *err);
/* Aborts all connections of the sandbox with this id range (0: none is known): who waits for an
 * answer goes on with an error. */
void fuse_abort(struct launcher *l, uid_t base);
/* The same of one that has just been killed, until it is gone; nothing when it never had any. By a
 * process that nobody waits for; here. */
void fuse_end(struct launcher *l, const struct sandbox *s);
void fuse_end_here(struct launcher *l, const struct sandbox *s);

/* own.c */
enum etc_file { ETC_HOSTS, ETC_HOSTNAME, ETC_RESOLV, ETC_FILES };
enum { ETC_TEXT_MAX = 64 << 10 };
/* Relative to the new root. */
const char *etc_path(enum etc_file file);
/* Mounts of parts of one file system in memory, all owned. Init gets the whole as well, whose end
 * is waited for, like that of root_sources. */
struct own_wants {
    uid_t owner;
    bool fuse;                         /* with /dev/fuse */
    const struct buf *texts;           /* of the files of /etc, ETC_FILES of them */
    const struct cgroup_view *cgroups; /* its parts need mount points; or NULL */
    /* The lists of processors for /sys/devices/system/cpu/online and /proc/cpuinfo; or NULL. */
    const struct buf *cpus, *cpuinfo;
};
struct own_mounts {
    int whole;          /* attached nowhere */
    int dev;            /* /dev */
    int mask;           /* an empty directory, read-only */
    int etc[ETC_FILES]; /* with these texts */
    int cgroups;       /* a directory with the mount points, read-only; FD_NONE: none were wanted */
    int cpus, cpuinfo; /* the files, read-only; FD_NONE: one was not wanted */
};
/* *ret->whole is there after a failure, too, and no other. ret_hosts_fd and ret_resolv_fd (may be
 * NULL): these files, open for writing; with fuse only so. */
int own_mounts(const struct own_wants *wants, struct own_mounts *ret, int *ret_hosts_fd,
               int *ret_resolv_fd, struct err *err);
/* /sys of the net namespace that pidfd's process is in: who joins it may not mount that. */
int sysfs_mount(int pidfd, struct err *err);

/* cpus.c. Which of the processors `of` a sandbox with this limit (thousandths of one; -1: none) and
 * the ids from base on is started on. False: on all of them. Pure. */
bool cpus_choose(const cpu_set_t *of, uid_t base, int64_t millis, cpu_set_t *ret);
/* The records of these in the text of a /proc/cpuinfo. -ENODATA: it does not have one for each. */
int cpus_info(const char *text, size_t len, const cpu_set_t *set, struct buf *ret);
/* The same of the host's, which is read once. False: the sandbox shows the host's own. */
bool cpus_info_of_host(struct launcher *l, const cpu_set_t *set, struct buf *ret);
/* "0-3,8" and a line end, as sysfs lists them. */
int cpus_list(const cpu_set_t *set, struct buf *ret);

/* idmap.c */
/* Writes "0 base 65536" as the uid and gid map of pid. */
int idmap_write(pid_t pid, uid_t base, struct err *err);
/*
 * A user namespace that maps one host uid and gid to two of a sandbox's, and every other id below
 * IDRANGE_FIRST to itself. Those stay foreign in the sandbox, whose own user namespace has none of
 * them, but they are ids: of a file whose owner has none the kernel refuses also what needs rights
 * over its directory alone (EOVERFLOW of unlink and rename). Ids of the pool, which are other
 * sandboxes' and images', stay without. Returns its fd.
 */
int idmap_owner(uid_t host_uid, uid_t to_uid, gid_t host_gid, gid_t to_gid, struct err *err);
/* One that maps IDRANGE_SIZE ids each, from `from` on to those from `to` on. */
int idmap_range(uid_t from, uid_t to, struct err *err);
/* For the directory of images' layers: IDRANGE_LAYERS to `to`, and 0 to itself, because we can only
 * walk through directories whose owner the map has. No file of a layer's tree is 0's. */
int idmap_layers(uid_t to, struct err *err);

/* plan-build.c: the plan as a sealed memfd. Indices count from PLAN_FD_OPS. */
struct plan_mounts {
    uint32_t terminals; /* the maximum of its devpts, at least 1: the kernel takes 0 for none */
    int count;          /* descriptors that init gets for its operations */
    int root, dev;
    int mask; /* what directories are masked by */
    int volumes[LAUNCH_VOLUMES_MAX];
    bool volume_is_dir[LAUNCH_VOLUMES_MAX];
    /* Host directories that can be written and whose owner the sandbox's user is there: nothing
     * inside may give a file of theirs set-id bits or capabilities. */
    bool volume_guarded[LAUNCH_VOLUMES_MAX];
    bool has_etc;
    int etc[ETC_FILES];
    bool joined; /* the net namespace is another's: sys is ready made */
    int sys;
    int discards, discard_count; /* the first of those that only made others */
    bool has_cgroups, has_cpus, has_cpuinfo;
    int cgroups; /* what goes to /sys/fs/cgroup; the parts go below it */
    int cgroup_part_count;
    struct {
        int mount;
        const char *name; /* borrowed */
    } cgroup_parts[CGROUP_VIEW_PARTS_MAX];
    int cpus, cpuinfo; /* of processors */
};
int plan_build(const struct launch_request *q, const struct plan_mounts *mounts, bool has_cgroup,
               struct err *err);

/* What operation `index` of a plan does, for messages: "mount tmpfs on /x". */
void plan_describe(int plan_fd, int index, char *text, size_t size);

/* boot-feed.c: what init's messages add up to. */
struct boot {
    int plan_fd;    /* borrowed; for the words of a failure */
    uint32_t stage; /* enum init_stage: what is under way */
    unsigned messages;
};
#define BOOT_INIT(plan)                                                                            \
    {                                                                                              \
        .plan_fd = (plan), .stage = INIT_STAGE_PLAN                                                \
    }
enum boot_want {
    BOOT_MORE = 0, /* nothing but the next message */
    BOOT_READY,    /* it is init now */
};
/* One message (never of length 0: that is the end). Returns enum boot_want or a negative errno. */
int boot_feed(struct boot *b, const void *data, size_t len, struct err *err);
/* One word of the pipe: 0, or -EPROTO for what is no stage. */
int boot_stage(struct boot *b, uint32_t stage, struct err *err);
/* In words; "an unknown step" for what is none. */
const char *boot_stage_name(uint32_t stage);

/* boot.c: opens boot_slots, early, while low numbers are free. */
int boot_open(struct launcher *l, struct err *err);
/* The launcher's ends of what connects it with a starting init. */
struct boot_ends {
    int control, stages; /* owned */
};
struct boot_net {
    bool now;   /* its net namespace is there from the first moment; else init makes it */
    bool admin; /* init makes it in any case, and boot_await_net tells when */
    int pidfd;  /* whose net namespace it gets, or FD_NONE */
};
/* Clones what becomes init. It shares our descriptors until boot_await has returned. */
int boot_clone(struct launcher *l, struct sandbox *s, const struct boot_net *net,
               struct boot_ends *ret, struct err *err);
/* Waits for it to have descriptors of its own; it waits for boot_go then. */
int boot_await(struct launcher *l, const struct sandbox *s, int control, struct err *err);
/* After it has been let go on the first time: waits until it is in the net namespace that it makes
 * to be administered from inside. */
int boot_await_net(const struct sandbox *s, int control, struct err *err);
/* Lets go of what boot_clone has put into boot_slots; after a failure, without boot_await. */
void boot_clear(struct launcher *l);
/*
 * Lets it go on: the first time to execute fds[0], the second time with its plan: fds[0] arrives at
 * PLAN_FD, and so on. A process that has ended meanwhile is no failure yet, but boot_follow's.
 */
int boot_go(int control, const int *fds, int count, struct err *err);
/* Follows its start to READY; stages: FD_NONE = none are told. On failure err names the stage; init
 * is still to be killed and reaped. */
int boot_follow(const struct sandbox *s, const struct boot_ends *ends, int plan_fd,
                struct err *err);
