/*
 * Builds the sandbox from the plan. All of this runs inside the first user namespace, so a bug here
 * has only the rights of the sandbox's own ids. Mounts that need the host's privileges (overlay,
 * device nodes, bind sources) arrive as fds of detached mounts.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <net/if.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "init/exec-table.h"
#include "proto/syscalls.h"

#ifndef MQUEUE_MAGIC
#define MQUEUE_MAGIC 0x19800202 /* from ipc/mqueue.c; no header defines it */
#endif

enum { PATH_BUFFER = 4096, OWN_FILES_MAX = 4 };

/* State shared by the plan's operations. From PLAN_OP_ROOT on the cwd is the new root. */
struct setup_builder {
    struct init *init;
    int mask_dir; /* mount of an empty directory; -1 = not made yet */
    bool mask_attached;
    int mask_file;    /* O_PATH of the null device */
    dev_t own_device; /* device of /dev and the other files of the sandbox itself; 0 = not mounted
                         yet */
    dev_t shm_device;
    ino_t files[OWN_FILES_MAX]; /* inodes of files of own_device that are mounted one by one: those
                                   of /etc */
    unsigned file_count;
};

static uint64_t resolve_flags(uint16_t flags)
{
    /*
     * Lookups never use magic links of /proc and never leave the root. For mounts of the sandbox
     * itself they use no symbolic links at all.
     */
    return RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS |
           ((flags & PLAN_STRICT) ? RESOLVE_NO_SYMLINKS : 0);
}

static int open_target(const char *path, uint16_t flags)
{
    return sys_openat2(AT_FDCWD, path[0] != '\0' ? path : ".", O_PATH | O_CLOEXEC, 0,
                       resolve_flags(flags));
}

/* Creates `name` in the directory `parent`. Returns 0 also if it exists. */
static int make_entry(int parent, const char *name, bool dir)
{
    int fd;

    if (dir)
        return mkdirat(parent, name, 0755) < 0 && errno != EEXIST ? -errno : 0;
    fd = openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0)
        return errno == EEXIST ? 0 : -errno;
    (void)close(fd);
    return 0;
}

/*
 * Opens path below the new root, and creates missing components. Each is created in an opened
 * parent, so a dangling link of the image gives an error, and no directory elsewhere.
 */
static int open_or_make(const char *path, uint16_t flags)
{
    char part[PATH_BUFFER];
    int fd, parent;

    fd = open_target(path, flags);
    if (fd != -ENOENT || (flags & (PLAN_MAKE_DIR | PLAN_MAKE_FILE)) == 0)
        return fd;
    if (strlen(path) >= sizeof(part))
        return -ENAMETOOLONG;

    parent = open_target("", flags);
    for (const char *at = path; parent >= 0;) {
        size_t len = strcspn(at, "/");
        bool last = at[len] == '\0';
        const char *name;
        int r;

        /* Each prefix is looked up from the root, so links resolve as in the whole path. */
        (void)memcpy(part, path, (size_t)(at - path) + len);
        part[(size_t)(at - path) + len] = '\0';
        name = part + (at - path);
        fd = open_target(part, flags);
        if (fd == -ENOENT) {
            r = make_entry(parent, name, !last || (flags & PLAN_MAKE_FILE) == 0);
            fd = r < 0 ? r
                       : sys_openat2(parent, name, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0,
                                     RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
        }
        (void)close(parent);
        if (last)
            return fd;
        parent = fd;
        at += len + 1;
    }
    return parent;
}

/*
 * True for files that a client's mount may cover on own_device. A file that an operation has
 * created in /dev, through a link of the image, is not among them.
 */
static bool is_own_file(const struct setup_builder *b, const struct stat *st)
{
    for (unsigned i = 0; i < b->file_count; i++)
        if (b->files[i] == st->st_ino)
            return true;
    return false;
}

/*
 * Checks that a client's mount may be attached at the target. The request's check of names is not
 * enough: an image can have a link to /proc, /sys or /dev.
 */
static int client_target_ok(const struct setup_builder *b, int mount_fd, int target)
{
    struct stat st, mounted;
    struct statfs fs;

    if (fstatfs(target, &fs) < 0 || fstat(target, &st) < 0 || fstat(mount_fd, &mounted) < 0)
        return -errno;
    /* The kernel would return EINVAL, which explains less. */
    if (S_ISDIR(mounted.st_mode) != S_ISDIR(st.st_mode))
        return S_ISDIR(st.st_mode) ? -EISDIR : -ENOTDIR;
    if (fs.f_type == PROC_SUPER_MAGIC || fs.f_type == SYSFS_MAGIC ||
        fs.f_type == DEVPTS_SUPER_MAGIC || fs.f_type == MQUEUE_MAGIC ||
        fs.f_type == CGROUP_SUPER_MAGIC || fs.f_type == CGROUP2_SUPER_MAGIC ||
        st.st_dev == b->shm_device)
        return -EPERM;
    return st.st_dev == b->own_device && !is_own_file(b, &st) ? -EPERM : 0;
}

/* PLAN_STRICT marks mounts of the sandbox itself; all others are the client's. */
static int attach(const struct setup_builder *b, int mount_fd, const char *path, uint16_t flags)
{
    int target, r;

    target = open_or_make(path, flags);
    if (target < 0)
        return target;
    r = (flags & PLAN_STRICT) ? 0 : client_target_ok(b, mount_fd, target);
    if (r == 0)
        r = sys_move_mount(mount_fd, "", target, "",
                           MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
    (void)close(target);
    return r;
}

static int op_root(struct setup_builder *b, const struct plan_op *op)
{
    int fd = PLAN_FD_OPS + op->fd;
    int r;

    (void)b;
    /*
     * "/" is a directory that always exists here. pivot_root needs the new root to be a mount of
     * this namespace.
     */
    r = sys_move_mount(fd, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH);
    if (r < 0)
        return r;
    return fchdir(fd) < 0 ? -errno : 0;
}

/*
 * Remembers the device of a mount that its file system type does not identify: /dev, which arrives
 * ready, and /dev/shm.
 */
static int adopt(dev_t *device, int mount_fd)
{
    struct stat st;

    if (fstat(mount_fd, &st) < 0)
        return -errno;
    *device = st.st_dev;
    return 0;
}

/* Remembers a file that lies on the file system of /dev. */
static int note_file(struct setup_builder *b, int mount_fd)
{
    struct stat st;

    if (fstat(mount_fd, &st) < 0)
        return -errno;
    if (st.st_dev != b->own_device || !S_ISREG(st.st_mode))
        return 0;
    if (b->file_count == OWN_FILES_MAX)
        return -E2BIG;
    b->files[b->file_count++] = st.st_ino;
    return 0;
}

static int op_attach(struct setup_builder *b, const struct plan_op *op)
{
    int fd = PLAN_FD_OPS + op->fd;
    int r;

    r = (op->flags & PLAN_GUARDED) == 0
            ? 0
            : guard_note_volume(&b->init->guard, (uint32_t)(op - b->init->plan.ops), fd);
    if (r == 0)
        r = attach(b, fd, plan_string(&b->init->plan, op->path), op->flags);
    if (r == 0 && (op->flags & PLAN_STRICT) && !(op->flags & PLAN_READY))
        r = adopt(&b->own_device, fd);
    else if (r == 0 && (op->flags & PLAN_MAKE_FILE))
        r = note_file(b, fd);
    (void)close(fd);
    return r;
}

/* "size=64m,mode=1777" -> FSCONFIG_SET_STRING; a word without '=' is a flag. */
static int configure(int fs, const char *options)
{
    char word[128];

    while (*options != '\0') {
        size_t len = strcspn(options, ",");
        char *value;
        int r;

        if (len >= sizeof(word))
            return -ENAMETOOLONG;
        (void)memcpy(word, options, len);
        word[len] = '\0';
        value = strchr(word, '=');
        if (value != NULL) {
            *value++ = '\0';
            r = sys_fsconfig(fs, FSCONFIG_SET_STRING, word, value, 0);
        } else {
            r = sys_fsconfig(fs, FSCONFIG_SET_FLAG, word, NULL, 0);
        }
        if (r < 0)
            return r;
        options += len + (options[len] == ',');
    }
    return sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
}

static int new_mount(const char *type, const char *options, unsigned attr)
{
    int fs, r;

    fs = sys_fsopen(type);
    if (fs < 0)
        return fs;
    /* As in Docker /proc/mounts names the type as the source, and not "none". */
    r = sys_fsconfig(fs, FSCONFIG_SET_STRING, "source", type, 0);
    if (r >= 0)
        r = configure(fs, options);
    if (r >= 0)
        r = sys_fsmount(fs, attr);
    (void)close(fs);
    return r;
}

static int op_fsmount(struct setup_builder *b, const struct plan_op *op)
{
    const struct plan *p = &b->init->plan;
    int fd, r;

    fd = new_mount(plan_string(p, op->text), plan_string(p, op->options), op->attr);
    if (fd < 0)
        return fd;
    r = attach(b, fd, plan_string(p, op->path), op->flags);
    if (r == 0 && (op->flags & PLAN_STRICT) && strcmp(plan_string(p, op->text), "tmpfs") == 0)
        r = adopt(&b->shm_device, fd);
    (void)close(fd);
    return r;
}

static int op_proc(struct setup_builder *b, const struct plan_op *op)
{
    int fd, r;

    init_stage(INIT_STAGE_PROC);
    fd = inner_take_proc(b->init);
    if (fd < 0)
        return fd;
    r = attach(b, fd, plan_string(&b->init->plan, op->path), op->flags);
    (void)close(fd);
    init_stage(INIT_STAGE_MOUNTS);
    return r;
}

static int mask_dir(struct setup_builder *b, int target)
{
    int fd, r;

    if (!b->mask_attached) {
        /*
         * Attached first and cloned afterwards, because older kernels do not clone detached mounts.
         */
        r = sys_move_mount(b->mask_dir, "", target, "",
                           MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
        b->mask_attached = r == 0;
        return r;
    }
    fd = sys_open_tree(b->mask_dir, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
    if (fd < 0)
        return fd;
    r = sys_move_mount(fd, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
    (void)close(fd);
    return r;
}

static bool is_null(const struct stat *st)
{
    return S_ISCHR(st->st_mode) && st->st_rdev == makedev(1, 3);
}

/*
 * Opens the null device of the sandbox's /dev, and checks it: an image cannot replace it by a link
 * to a kernel file.
 */
static int open_null(struct setup_builder *b)
{
    struct stat st;
    int fd;

    if (b->mask_file >= 0)
        return 0;
    fd = open_target("dev/null", PLAN_STRICT);
    if (fd < 0)
        return fd;
    if (fstat(fd, &st) < 0 || !is_null(&st)) {
        (void)close(fd);
        return -ENODEV;
    }
    b->mask_file = fd;
    return 0;
}

static int mask_file(struct setup_builder *b, int target)
{
    struct mount_attr attr = {.attr_set =
                                  MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC};
    int fd, r;

    r = open_null(b);
    if (r < 0)
        return r;
    fd = sys_open_tree(b->mask_file, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
    if (fd < 0)
        return fd;
    r = sys_mount_setattr(fd, "", AT_EMPTY_PATH, &attr);
    if (r == 0)
        r = sys_move_mount(fd, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
    (void)close(fd);
    return r;
}

static int op_mask(struct setup_builder *b, const struct plan_op *op)
{
    struct stat st;
    int target, r;

    b->mask_dir = PLAN_FD_OPS + op->fd;
    target = open_target(plan_string(&b->init->plan, op->path), 0);
    if (target == -ENOENT || target == -ENOTDIR)
        return 0;
    if (target < 0)
        return target;
    if (fstat(target, &st) < 0)
        r = -errno;
    else
        r = S_ISDIR(st.st_mode) ? mask_dir(b, target) : mask_file(b, target);
    (void)close(target);
    return r;
}

static int op_readonly(struct setup_builder *b, const struct plan_op *op)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                                          MOUNT_ATTR_NOEXEC};
    int target, fd, r;

    target = open_target(plan_string(&b->init->plan, op->path), 0);
    if (target == -ENOENT || target == -ENOTDIR)
        return 0;
    if (target < 0)
        return target;
    fd = sys_open_tree(target, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
    r = fd < 0 ? fd : sys_mount_setattr(fd, "", AT_EMPTY_PATH, &attr);
    if (r == 0)
        r = sys_move_mount(fd, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
    if (fd >= 0)
        (void)close(fd);
    (void)close(target);
    return r;
}

static int op_sysctl(struct setup_builder *b, const struct plan_op *op)
{
    const struct plan *p = &b->init->plan;
    const char *text = plan_string(p, op->text);
    size_t len = strlen(text);
    ssize_t n;
    int fd;

    fd = sys_openat2(AT_FDCWD, plan_string(p, op->path), O_WRONLY | O_CLOEXEC, 0,
                     resolve_flags(PLAN_STRICT));
    if (fd < 0)
        return fd == -ENOENT && (op->flags & PLAN_OPTIONAL) ? 0 : fd;
    n = write(fd, text, len);
    if (n < 0)
        n = -errno;
    (void)close(fd);
    return n < 0 ? (int)n : 0;
}

static int op_root_ro(struct setup_builder *b, const struct plan_op *op)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};

    (void)b;
    (void)op;
    return sys_mount_setattr(AT_FDCWD, ".", 0, &attr);
}

/*
 * Attaches a mount that is not needed any more, so that it ends together with the old root. The end
 * of a detached mount waits for an RCU grace period of its own. The old root and all mounts in it
 * wait for one together. /proc is the mount point, because it exists: the inner PID 1 was started
 * with fds from there. The mounts lie on top of each other. Each is made private, because a mount
 * that is shared with the host would show the next one there. If the kernel refuses, the start is
 * only slower.
 */
static int op_discard(struct setup_builder *b, const struct plan_op *op)
{
    struct mount_attr attr = {.propagation = MS_PRIVATE};
    const int fd = PLAN_FD_OPS + op->fd;

    (void)b;
    if (sys_mount_setattr(fd, "", AT_EMPTY_PATH, &attr) == 0)
        (void)sys_move_mount(fd, "", AT_FDCWD, "/proc", MOVE_MOUNT_F_EMPTY_PATH);
    (void)close(fd);
    return 0;
}

static int (*const op_table[PLAN_OP_MAX])(struct setup_builder *, const struct plan_op *) = {
    [PLAN_OP_ROOT] = op_root,     [PLAN_OP_ATTACH] = op_attach,   [PLAN_OP_FSMOUNT] = op_fsmount,
    [PLAN_OP_PROC] = op_proc,     [PLAN_OP_MASK] = op_mask,       [PLAN_OP_READONLY] = op_readonly,
    [PLAN_OP_SYSCTL] = op_sysctl, [PLAN_OP_ROOT_RO] = op_root_ro, [PLAN_OP_DISCARD] = op_discard,
};

static int loopback_up(void)
{
    struct ifreq ifr = {.ifr_name = "lo"};
    int s, r = 0;

    s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (s < 0)
        return -errno;
    if (ioctl(s, SIOCGIFFLAGS, &ifr) < 0)
        r = -errno;
    ifr.ifr_flags = (short)(ifr.ifr_flags | IFF_UP);
    if (r == 0 && ioctl(s, SIOCSIFFLAGS, &ifr) < 0)
        r = -errno;
    (void)close(s);
    return r;
}

static void run_ops(struct init *init)
{
    struct setup_builder b = {.init = init, .mask_dir = -1, .mask_file = -1};
    const struct plan *p = &init->plan;

    init_stage(INIT_STAGE_MOUNTS);
    for (uint32_t i = 0; i < p->header->op_count; i++) {
        int r = op_table[p->ops[i].type](&b, &p->ops[i]);

        if (r < 0)
            init_fail(INIT_STAGE_MOUNTS, (int)i, -r);
    }
    if (b.mask_dir >= 0)
        (void)close(b.mask_dir);
    if (b.mask_file >= 0)
        (void)close(b.mask_file);
}

void setup_namespaces(struct init *init, enum init_net net)
{
    init_stage(INIT_STAGE_PRIVATE);
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        init_fail(INIT_STAGE_PRIVATE, 0, errno);
    /* init is in its cgroups already, so these are the roots of the new cgroup namespace. */
    if (unshare(CLONE_NEWCGROUP) < 0)
        init_fail(INIT_STAGE_CGROUP_NS, 0, errno);
    /*
     * The new namespaces belong to the current user namespace, the first one. The net namespace may
     * be made already, or be another sandbox's.
     */
    if (unshare(CLONE_NEWIPC | CLONE_NEWUTS | (net == INIT_NET_OWN ? CLONE_NEWNET : 0)) < 0)
        init_fail(INIT_STAGE_NAMESPACES, 0, errno);
    if (net == INIT_NET_ADMIN)
        admin_namespaces(init);
}

void setup_mounts(struct init *init)
{
    const struct plan_header *h = init->plan.header;
    const char *hostname = plan_string(&init->plan, h->hostname);
    int r;

    if (h->flags & PLAN_LOOPBACK) {
        r = loopback_up();
        if (r < 0)
            init_fail(INIT_STAGE_LOOPBACK, 0, -r);
    }
    if (sethostname(hostname, strlen(hostname)) < 0)
        init_fail(INIT_STAGE_HOSTNAME, 0, errno);

    /*
     * Before the inner PID 1 exists, so that it inherits the filter, which is expensive to load.
     * The filter allows all of the set-up, and stays across changes of namespaces.
     */
    r = guard_install_baseline(init);
    if (r < 0)
        init_fail(INIT_STAGE_SECCOMP, 0, -r);

    init_stage(INIT_STAGE_INNER);
    exec_cgroup_prepare(init);
    inner_start(init);
    run_ops(init);

    init_stage(INIT_STAGE_PIVOT);
    /*
     * The new root is mounted over the old one, and then the old one is unmounted: nothing of the
     * host stays reachable.
     */
    if (sys_pivot_root(".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        init_fail(INIT_STAGE_PIVOT, 0, errno);
}

void setup_lock(struct init *init)
{
    /* From here on every child of init is created in the inner pid namespace. */
    if (setns(init->inner_pidfd, CLONE_NEWPID) < 0)
        init_fail(INIT_STAGE_ENTER_PID, 0, errno);

    init_stage(INIT_STAGE_LOCK);
    /*
     * The new mount namespace belongs to a less privileged user namespace. That locks every mount
     * in it, with its flags.
     */
    if (init->locked_userns >= 0 && setns(init->locked_userns, CLONE_NEWUSER) < 0)
        init_fail(INIT_STAGE_LOCK, 0, errno);
    if (unshare(CLONE_NEWNS | (init->locked_userns < 0 ? CLONE_NEWUSER : 0)) < 0)
        init_fail(INIT_STAGE_LOCK, 0, errno);
    inner_lock(init);
    if (init->locked_userns >= 0)
        (void)close(init->locked_userns);
    init->locked_userns = -1;
}

/*
 * Opens /dev/null and /dev/pts in the locked namespace. Processes inside get them, so they must not
 * belong to the outer mount namespace. No client's mount can cover them (client_target_ok); their
 * types are checked nevertheless.
 */
static int open_devices(struct init *init)
{
    struct statfs fs;
    struct stat st;

    init->null_fd = open("/dev/null", O_RDWR | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW);
    init->pts_fd = open("/dev/pts", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (init->null_fd < 0 || init->pts_fd < 0 || fstat(init->null_fd, &st) < 0 ||
        fstatfs(init->pts_fd, &fs) < 0)
        return -errno;
    return is_null(&st) && fs.f_type == DEVPTS_SUPER_MAGIC ? 0 : -ENODEV;
}

void setup_confine(struct init *init)
{
    int r, op;

    r = guard_find_mounts(init, &op);
    if (r < 0)
        init_fail(INIT_STAGE_MOUNTS, op, -r);
    r = open_devices(init);
    if (r < 0)
        init_fail(INIT_STAGE_PTS, 0, -r);
    /* fds 0 to 2 were the launcher's null device, a file of the host's tree. */
    for (int fd = 0; fd < 3; fd++)
        if (dup2(init->null_fd, fd) < 0)
            init_fail(INIT_STAGE_PTS, 0, errno);
    r = plan_drop_capabilities(&init->plan);
    if (r < 0)
        init_fail(INIT_STAGE_BOUNDING, 0, -r);
}
