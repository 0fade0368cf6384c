#include "launch/host-view.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/dir.h"
#include "base/err.h"
#include "base/file.h"
#include "launch/creator.h"
#include "policy/host-rootfs.h"
#include "proto/syscalls.h"

enum {
    NOBODY = 65534,
    FILE_MAX = 1 << 20, /* bytes of one copied file */
    TREES_MAX = 256,    /* after expansion of patterns */
    USER = 1000,        /* uid of "user" in passwd below */
};

/* Limits of the tmpfs, because a long list would otherwise take unlimited kernel memory. */
#define SKELETON_SIZE   "16m"
#define SKELETON_INODES "2048"

#define VIEW_ATTR (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)
#define VIEW_MS   (MS_RDONLY | MS_NOSUID | MS_NODEV)

void host_layers_close(struct host_layers *h)
{
    int *const fds[] = {&h->view, &h->skeleton, &h->root};

    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        if (*fds[i] >= 0)
            (void)close(take_fd(fds[i]));
}

/* ---- acting as nobody ---- */

/* True if file modes and owners bind this thread: it has none of the overriding capabilities. */
static bool is_weak(void)
{
    static const cap_value_t strong[] = {CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER};
    cap_t caps = cap_get_proc();
    bool weak = caps != NULL;

    for (size_t i = 0; weak && i < sizeof(strong) / sizeof(strong[0]); i++) {
        cap_flag_value_t value = CAP_SET;

        weak = cap_get_flag(caps, strong[i], CAP_EFFECTIVE, &value) == 0 && value == CAP_CLEAR;
    }
    (void)cap_free(caps);
    return weak;
}

struct weak_call {
    int (*call)(void *);
    void *data;
};

static int call_weak(void *data)
{
    const struct weak_call *w = data;

    return is_weak() ? w->call(w->data) : -EPERM;
}

static int as_nobody(int (*call)(void *), void *data)
{
    struct weak_call w = {.call = call, .data = data};

    return rights_do(NOBODY, NOBODY, NULL, 0, call_weak, &w);
}

/* ---- files made for the sandbox ---- */

/* clang-format off */
static const struct {
    const char *path;
    mode_t mode;
    uid_t owner;
} directories[] = {
    {"etc",        0755,  0},
    {"home",       0755,  0},
    {"home/user",  0755,  USER},
    {"mnt",        0755,  0},
    {"opt",        0755,  0},
    {"root",       0755,  0}, /* readable, because the overlay reads it as nobody, too */
    {"run",        0755,  0},
    {"srv",        0755,  0},
    {"tmp",        01777, 0},
    {"var",        0755,  0},
    {"var/cache",  0755,  0},
    {"var/lib",    0755,  0},
    {"var/log",    0755,  0},
    {"var/spool",  0755,  0},
    {"var/tmp",    01777, 0},
    {"workspace",  0755,  0},
};

static const struct {
    const char *path, *text;
} texts[] = {
    {"etc/passwd",  "root:x:0:0:root:/root:/bin/sh\n"
                    "daemon:x:1:1:daemon:/:/usr/sbin/nologin\n"
                    "bin:x:2:2:bin:/:/usr/sbin/nologin\n"
                    "user:x:1000:1000:user:/home/user:/bin/sh\n"
                    "nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n"},
    {"etc/group",   "root:x:0:\n"
                    "daemon:x:1:\n"
                    "bin:x:2:\n"
                    "tty:x:5:\n"
                    "user:x:1000:\n"
                    "nogroup:x:65534:\n"},
    {"etc/profile", "export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
                    "umask 022\n"},
};
/* clang-format on */

struct skeleton {
    const struct host_rootfs *list;
    int root, view; /* borrowed; owned */
    uid_t base;
    size_t trees;
};

/* Opens the directory that contains path; *ret_name is path's last component. Follows no link: the
 * skeleton has copies of the host's links, whose targets would be resolved outside of it. */
static int open_parent(const struct skeleton *s, const char *path, const char **ret_name)
{
    const char *slash = strrchr(path, '/');
    char parent[PATH_MAX];

    *ret_name = slash != NULL ? slash + 1 : path;
    if (slash == NULL)
        return sys_openat2(s->view, ".", O_PATH | O_DIRECTORY, 0, OPEN_PLAIN);
    (void)snprintf(parent, sizeof(parent), "%.*s", (int)(slash - path), path);
    return sys_openat2(s->view, parent, O_PATH | O_DIRECTORY, 0, OPEN_PLAIN);
}

static int path_chown(const struct skeleton *s, int dir, const char *name, uid_t owner)
{
    return fchownat(dir, name, s->base + owner, s->base + owner, AT_SYMLINK_NOFOLLOW) < 0 ? -errno
                                                                                          : 0;
}

/* Makes a directory, readable by everyone whatever the umask is, because the overlay reads it as
 * nobody. Returns 0 also if the path exists. */
static int make_dir(const struct skeleton *s, const char *path, mode_t mode, uid_t owner)
{
    const char *name;
    auto_close int dir = open_parent(s, path, &name);

    if (dir < 0)
        return dir;
    if (mkdirat(dir, name, 0755) < 0)
        return errno == EEXIST ? 0 : -errno;
    if (fchmodat(dir, name, mode, 0) < 0)
        return -errno;
    return path_chown(s, dir, name, owner);
}

/* Makes the missing directories above path. */
static int make_parents(const struct skeleton *s, const char *path)
{
    char part[PATH_MAX];

    for (const char *slash = strchr(path, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        int r;

        (void)memcpy(part, path, (size_t)(slash - path));
        part[slash - path] = '\0';
        r = make_dir(s, part, 0755, 0);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Writes a file unless the path exists: files made for the sandbox take precedence over the host's.
 */
static int write_text(const struct skeleton *s, const char *path, const char *text, size_t len)
{
    const char *name;
    auto_close int dir = open_parent(s, path, &name);
    auto_close int fd = FD_NONE;
    int r;

    if (dir < 0)
        return dir;
    fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0)
        return errno == EEXIST ? 0 : -errno;
    if (fchmod(fd, 0644) < 0)
        return -errno;
    r = len > 0 ? write_all(fd, text, len) : 0;
    return r < 0 ? r : path_chown(s, dir, name, 0);
}

static int make_link(const struct skeleton *s, const char *path, const char *target)
{
    const char *name;
    auto_close int dir = open_parent(s, path, &name);

    if (dir < 0)
        return dir;
    if (symlinkat(target, dir, name) < 0)
        return errno == EEXIST ? 0 : -errno;
    return path_chown(s, dir, name, 0);
}

/* Sets an xattr on a directory of the skeleton that overlayfs reads. */
static int dir_set_xattr(const struct skeleton *s, const char *path, const char *attr,
                         const char *value)
{
    auto_close int fd =
        sys_openat2(s->view, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, OPEN_PLAIN);

    if (fd < 0)
        return fd;
    return fsetxattr(fd, attr, value, strlen(value), 0) < 0 ? -errno : 0;
}

static int make_own(const struct skeleton *s)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < sizeof(directories) / sizeof(directories[0]); i++)
        r = make_dir(s, directories[i].path, directories[i].mode, directories[i].owner);
    for (size_t i = 0; r == 0 && i < sizeof(texts) / sizeof(texts[0]); i++)
        r = write_text(s, texts[i].path, texts[i].text, strlen(texts[i].text));
    return r < 0 ? r : make_link(s, "var/run", "../run");
}

/* ---- files of the host ---- */

/* Opens a path of the host without following links and without crossing into other mounts, which
 * overlayfs does not see. A link in the last component is opened itself. */
static int open_host(const struct skeleton *s, const char *path, int flags, uint64_t resolve)
{
    return sys_openat2(s->root, path, flags | O_NOFOLLOW | O_CLOEXEC, 0, OPEN_PLAIN | resolve);
}

/* True if rind has run out of memory or fds. Any other error leaves out the listed path. */
static bool is_out_of_resources(int code)
{
    return code == -ENOMEM || code == -EMFILE || code == -ENFILE;
}

static int host_copy_link(const struct skeleton *s, int fd, const char *path)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(fd, "", target, sizeof(target) - 1);

    if (n < 0)
        return -errno;
    target[n] = '\0';
    return make_link(s, path, target);
}

/* Makes a directory that redirects to the host's path. In the caller's buffer the path is preceded
 * by a slash: path - 1 is the absolute path in the layer. */
static int dir_redirect(const struct skeleton *s, const char *path)
{
    int r = make_dir(s, path, 0755, 0);

    return r < 0 ? r : dir_set_xattr(s, path, "trusted.overlay.redirect", path - 1);
}

/* Opens a directory or a link; -ENOENT for any other type. */
static int open_tree_of(int root, const char *path, struct stat *st)
{
    auto_close int fd =
        sys_openat2(root, path, O_PATH | O_NOFOLLOW, 0, OPEN_PLAIN | RESOLVE_NO_XDEV);

    if (fd < 0)
        return fd == -ENOTDIR ? -ENOENT : fd;
    if (fstat(fd, st) < 0)
        return -errno;
    return S_ISDIR(st->st_mode) || S_ISLNK(st->st_mode) ? take_fd(&fd) : -ENOENT;
}

int host_tree_check(const char *path)
{
    auto_close int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    auto_close int fd = FD_NONE;
    struct stat st;

    if (root < 0)
        return -errno;
    fd = open_tree_of(root, path + 1, &st);
    return fd < 0 ? fd : 0;
}

/* path has no leading slash, but its buffer has one just before it. */
static int share_tree(struct skeleton *s, const char *path)
{
    struct stat st;
    auto_close int fd = open_tree_of(s->root, path, &st);
    int r;

    if (fd == -EXDEV && strcmp(path, "usr") == 0)
        return fd;
    /* A missing tree, one behind a link, and one on another file system are left out; `rind doctor`
     * reports them. */
    if (fd == -ENOENT || fd == -ELOOP || fd == -EXDEV)
        return 0;
    if (fd < 0)
        return fd;
    if (++s->trees > TREES_MAX)
        return -E2BIG;
    r = make_parents(s, path);
    if (r == 0)
        r = S_ISLNK(st.st_mode) ? host_copy_link(s, fd, path) : dir_redirect(s, path);
    return r;
}

/* Shares the trees that match a pattern in the last component, such as "/etc/java*". */
static int share_matches(struct skeleton *s, const char *pattern)
{
    auto_ptr(dir_close) DIR *d = NULL;
    const char *last = strrchr(pattern, '/') + 1;
    const struct dirent *e;
    char path[PATH_MAX];
    int fd, r = 0;

    (void)snprintf(path, sizeof(path), "%.*s", (int)(last - pattern), pattern);
    fd = open_host(s, path + 1, O_RDONLY | O_DIRECTORY, RESOLVE_NO_XDEV);
    if (fd < 0)
        return fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP || fd == -EXDEV ? 0 : fd;
    d = dir_take(fd);
    if (d == NULL)
        return -errno;
    while (r == 0 && (e = dir_next(d)) != NULL) {
        if (fnmatch(last, e->d_name, FNM_PERIOD) != 0)
            continue;
        if (snprintf(path, sizeof(path), "%.*s%s", (int)(last - pattern), pattern, e->d_name) >=
            (int)sizeof(path))
            return -ENAMETOOLONG;
        r = share_tree(s, path + 1);
    }
    return r == 0 ? -errno : r;
}

/* True if on the host a component above path is a link or not a directory. Then the host has no
 * such path, and a directory made in the skeleton would hide the link's target. */
static bool is_behind_link(const struct skeleton *s, const char *path)
{
    char parent[PATH_MAX];
    auto_close int fd = FD_NONE;
    struct stat st;

    (void)snprintf(parent, sizeof(parent), "%.*s", (int)(strrchr(path, '/') - path), path);
    fd = open_host(s, parent, O_PATH, 0);
    if (fd < 0)
        return fd == -ELOOP || fd == -ENOTDIR;
    return fstat(fd, &st) < 0 || !S_ISDIR(st.st_mode);
}

/* Makes a whiteout, even where the host has no file yet. If the skeleton has a directory there
 * itself, it is made opaque. */
static int path_hide(const struct skeleton *s, const char *path)
{
    const char *name;
    auto_close int dir = FD_NONE;
    struct stat st;
    int r;

    if (is_behind_link(s, path))
        return 0;
    r = make_parents(s, path);
    if (r < 0)
        return r;
    dir = open_parent(s, path, &name);
    if (dir < 0)
        return dir;
    if (mknodat(dir, name, S_IFCHR, 0) == 0)
        return 0;
    if (errno != EEXIST || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    return S_ISDIR(st.st_mode) ? dir_set_xattr(s, path, "trusted.overlay.opaque", "y") : 0;
}

/* The listed files, opened as nobody: an fd or a negative errno each. */
struct host_files {
    const struct skeleton *s;
    int fds[HOST_ROOTFS_LIST_MAX]; /* owned */
    size_t count;
};

static int open_files(void *data)
{
    struct host_files *f = data;

    for (char **p = f->s->list->files; *p != NULL && f->count < HOST_ROOTFS_LIST_MAX; p++)
        f->fds[f->count++] = open_host(f->s, *p + 1, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
    return 0;
}

/* Copies a regular file that everyone may read and that is at most FILE_MAX long. */
static int host_copy_text(const struct skeleton *s, int fd, const char *path)
{
    auto_free char *text = NULL;
    struct stat st;
    size_t len = 0;
    int r;

    if (fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return 0;
    r = file_read_fd(fd, FILE_MAX, &text, &len, NULL);
    if (r < 0)
        return is_out_of_resources(r) ? r : 0;
    r = make_parents(s, path);
    return r < 0 ? r : write_text(s, path, text, len);
}

/* fd: the file opened as nobody, or a negative errno. A link is copied as a link. A missing or
 * unreadable file is left out. */
static int host_copy_file(const struct skeleton *s, int fd, const char *path)
{
    auto_close int link = FD_NONE;
    struct stat st;
    int r;

    if (fd >= 0)
        return host_copy_text(s, fd, path);
    if (fd != -ELOOP)
        return is_out_of_resources(fd) ? fd : 0;
    link = open_host(s, path, O_PATH, 0);
    if (link < 0 || fstat(link, &st) < 0 || !S_ISLNK(st.st_mode))
        return is_out_of_resources(link) ? link : 0;
    r = make_parents(s, path);
    return r < 0 ? r : host_copy_link(s, link, path);
}

static int host_copy_files(const struct skeleton *s, const char **ret_failed)
{
    struct host_files files = {.s = s};
    int r = as_nobody(open_files, &files);

    for (size_t i = 0; i < files.count; i++) {
        if (r == 0) {
            *ret_failed = s->list->files[i];
            r = host_copy_file(s, files.fds[i], *ret_failed + 1);
        }
        if (files.fds[i] >= 0)
            (void)close(files.fds[i]);
    }
    return r;
}

static int skeleton_error(struct err *err, int code, const char *path)
{
    if (code == -EXDEV)
        return err_set(err, code,
                       "root file system host: '%s' is a mount of its own; rind can show only what "
                       "is on the file system of /",
                       path);
    if (code == -E2BIG)
        return err_set(err, code, "root file system host: '%s': more than %d trees", path,
                       TREES_MAX);
    return err_errno(err, code, "root file system host: '%s'", path);
}

static int make_shared(struct skeleton *s, struct err *err)
{
    const char *failed = "/etc";
    int r;

    /* Whiteouts come first: nothing else can be made at a hidden path. */
    for (char **p = s->list->hidden; *p != NULL; p++) {
        r = path_hide(s, *p + 1);
        if (r < 0)
            return skeleton_error(err, r, *p);
    }
    for (char **p = s->list->trees; *p != NULL; p++) {
        r = strchr(*p, '*') != NULL ? share_matches(s, *p) : share_tree(s, *p + 1);
        if (r < 0)
            return skeleton_error(err, r, *p);
    }
    r = host_copy_files(s, &failed);
    return r < 0 ? skeleton_error(err, r, failed) : 0;
}

static int make_tmpfs(void)
{
    auto_close int fs = sys_fsopen("tmpfs");
    int r = fs < 0 ? fs : 0;

    if (r == 0)
        r = sys_fsconfig(fs, FSCONFIG_SET_STRING, "size", SKELETON_SIZE, 0);
    if (r == 0)
        r = sys_fsconfig(fs, FSCONFIG_SET_STRING, "nr_inodes", SKELETON_INODES, 0);
    if (r == 0)
        r = sys_fsconfig(fs, FSCONFIG_SET_STRING, "mode", "0755", 0);
    if (r == 0)
        r = sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
    return r < 0 ? r : sys_fsmount(fs, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
}

/* The view is opaque: a directory of this name in the host's root does not show through. */
static int open_view(int skeleton, uid_t base)
{
    auto_close int fd = FD_NONE;

    if (mkdirat(skeleton, HOST_VIEW, 0755) < 0)
        return -errno;
    fd = openat(skeleton, HOST_VIEW, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fchmod(fd, 0755) < 0 || fchown(fd, base, base) < 0 ||
        fsetxattr(fd, "trusted.overlay.opaque", "y", 1, 0) < 0)
        return -errno;
    return take_fd(&fd);
}

int host_skeleton_make(const struct host_rootfs *list, int root, uid_t base, struct err *err)
{
    struct skeleton s = {.list = list, .root = root, .view = FD_NONE, .base = base};
    auto_close int mnt = make_tmpfs();
    auto_close int view = FD_NONE;
    int r;

    if (mnt < 0)
        return err_errno(err, mnt, "root file system host: mount tmpfs");
    view = open_view(mnt, base);
    s.view = view;
    r = view < 0 ? view : make_own(&s);
    if (r < 0)
        return err_errno(err, r, "root file system host: make its skeleton");
    r = make_shared(&s, err);
    return r < 0 ? r : take_fd(&mnt);
}

/* FNV-1a. */
static void hash_add(uint64_t *hash, uint64_t value)
{
    for (int i = 0; i < 64; i += 8)
        *hash = (*hash ^ ((value >> i) & 0xff)) * 0x100000001b3;
}

/* Adds a path's stat to the hash; for a pattern, that of the directory that it is matched in. */
static void hash_add_path(uint64_t *hash, int root, const char *path)
{
    const char *star = strchr(path, '*');
    struct stat st;
    char dir[PATH_MAX];
    int r;

    (void)snprintf(dir, sizeof(dir), "%.*s",
                   star != NULL ? (int)(strrchr(path, '/') - path) : (int)strlen(path), path);
    r = fstatat(root, dir[0] != '\0' ? dir + 1 : ".", &st, AT_SYMLINK_NOFOLLOW);
    hash_add(hash, r < 0 ? (uint64_t)errno : 0);
    if (r < 0)
        return;
    hash_add(hash, st.st_dev);
    hash_add(hash, st.st_ino);
    hash_add(hash, st.st_mode);
    hash_add(hash, (uint64_t)st.st_size);
    hash_add(hash, (uint64_t)st.st_ctim.tv_sec);
    hash_add(hash, (uint64_t)st.st_ctim.tv_nsec);
}

/* Adds the directories above path to the hash, as a changed one can make the path reachable or not.
 */
static void hash_add_parents(uint64_t *hash, int root, const char *path)
{
    char part[PATH_MAX];

    for (const char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        struct stat st = {.st_mode = 0};

        (void)snprintf(part, sizeof(part), "%.*s", (int)(slash - path - 1), path + 1);
        (void)fstatat(root, part, &st, AT_SYMLINK_NOFOLLOW);
        hash_add(hash, st.st_dev);
        hash_add(hash, st.st_ino);
        hash_add(hash, st.st_mode);
    }
}

/* Most paths in the lists have the parent of their predecessor, which is hashed already. */
static bool has_same_parent(const char *a, const char *b)
{
    const size_t len = (size_t)(strrchr(a, '/') - a);

    return len == (size_t)(strrchr(b, '/') - b) && strncmp(a, b, len) == 0;
}

uint64_t host_skeleton_stamp(const struct host_rootfs *list, int root)
{
    char *const *const lists[] = {list->trees, list->hidden, list->files};
    uint64_t hash = 0xcbf29ce484222325;
    const char *last = "/";

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        for (char *const *p = lists[i]; *p != NULL; p++) {
            if (!has_same_parent(*p, last))
                hash_add_parents(&hash, root, *p);
            hash_add_path(&hash, root, *p);
            last = *p;
        }
    return hash;
}

/* ---- the overlay ---- */

/* The kernel saves the credentials of the thread that creates an overlay, and checks its accesses
 * to the layers with them. */
static int create_fs(void *data)
{
    return sys_fsconfig(*(int *)data, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
}

int host_view_by_fd(struct host_layers *h)
{
    auto_close int fs = sys_fsopen("overlay");
    int r = fs < 0 ? fs : 0;

    if (r == 0)
        r = sys_fsconfig(fs, FSCONFIG_SET_FD, "lowerdir+", NULL, h->skeleton);
    if (r == 0)
        r = sys_fsconfig(fs, FSCONFIG_SET_FD, "lowerdir+", NULL, h->root);
    if (r == 0)
        r = sys_fsconfig(fs, FSCONFIG_SET_STRING, "redirect_dir", "follow", 0);
    if (r == 0)
        r = sys_fsconfig(fs, FSCONFIG_SET_STRING, "metacopy", "off", 0);
    if (r == 0)
        r = as_nobody(create_fs, &fs);
    if (r < 0)
        return r;
    h->view = sys_fsmount(fs, VIEW_ATTR);
    if (h->view < 0)
        return h->view;
    r = openat(h->view, HOST_VIEW, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return r < 0 ? -errno : r;
}

static int mount_named(void *data)
{
    const char *const *at = data;

    return mount("overlay", *at, "overlay", VIEW_MS,
                 "redirect_dir=follow,metacopy=off,lowerdir=hs:hr") < 0
               ? -errno
               : 0;
}

int host_view_staged(struct host_layers *h, const char *at)
{
    int r;

    if (mkdir("hs", 0755) < 0 || mkdir("hr", 0755) < 0 || mkdir(at, 0755) < 0)
        return -errno;
    r = sys_move_mount(h->skeleton, "", AT_FDCWD, "hs", MOVE_MOUNT_F_EMPTY_PATH);
    if (r == 0)
        r = sys_move_mount(h->root, "", AT_FDCWD, "hr", MOVE_MOUNT_F_EMPTY_PATH);
    return r < 0 ? r : as_nobody(mount_named, &at);
}
