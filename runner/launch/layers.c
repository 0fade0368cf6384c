/*
 * Unpacked layers of images: `image-layers/<digest>/` below the state directory, which is closed to
 * everybody else, with
 *
 *     fs/     the tree; its files carry the ids from IDRANGE_LAYERS on
 *     bytes   what the supervisor says of its size
 *     boot    while it is not known to be on disk: the boot of the host that it was made in
 *
 * A layer that has its name is complete: it was made as `.tmp-<id>` by a worker, and renamed. That
 * holds over the death of every process. Over that of the host it holds as soon as `boot` is gone,
 * which a process of its own sees to; a layer with the `boot` of an earlier one is removed, and its
 * archive, which the store has, is unpacked again.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/dir.h"
#include "base/err.h"
#include "base/file.h"
#include "image/worker-proto.h"
#include "launch/launcher.h"
#include "launch/sandbox.h"
#include "proto/rmtree.h"
#include "proto/syscalls.h"

#define TMP_PREFIX ".tmp-"

enum {
    TMP_NAME_MAX = sizeof(TMP_PREFIX) + LAUNCH_ID_MAX + 1,
    LIST_MAX = 64 << 20, /* bytes of a list of layers */
    NICENESS = 10,
    BOOT_ID_MAX = 64,
    OUT_OF_THE_WAY = 100, /* a number above those that are used below */
    MARK_HERE = 4096,     /* bytes of a list of opaque directories that takes no time */
};

static bool name_ok(const char *name)
{
    return strlen(name) == LAUNCH_LAYER_NAME &&
           strspn(name, "0123456789abcdef") == LAUNCH_LAYER_NAME;
}

static void tmp_name(const char *id, char ret[TMP_NAME_MAX])
{
    (void)snprintf(ret, TMP_NAME_MAX, TMP_PREFIX "%s", id);
}

/* ---- processes of their own ---- */

/* Of all descriptors only this one stays, as 0: locks of others must not be held by us. */
static int keep_only(int fd)
{
    fd = fcntl(fd, F_DUPFD, OUT_OF_THE_WAY);
    if (fd < 0 || dup2(fd, 0) < 0)
        return -errno;
    return sys_close_range(1, ~0U, 0);
}

/* Has work(fd, name) done by a process that nobody waits for. False: it could not be made. */
static bool aside(struct launcher *l, int fd, const char *name,
                  int (*work)(int fd, const char *name))
{
    pid_t pid;

    if (!removal_has_room(l))
        return false;
    pid = fork();
    if (pid == 0) {
        (void)signal(SIGTERM, SIG_DFL);
        (void)signal(SIGINT, SIG_DFL);
        (void)prctl(PR_SET_NAME, "rind-layers");
        (void)setpriority(PRIO_PROCESS, 0, NICENESS);
        _exit(keep_only(fd) < 0 || work(0, name) < 0);
    }
    if (pid < 0)
        return false;
    removal_keep(l, pid, NULL);
    return true;
}

static int remove_tree(int fd, const char *name)
{
    return rmtree_at(fd, name, RMTREE_ONE_MOUNT);
}

static int sync_layer(int fd, const char *name)
{
    (void)name;
    if (syncfs(fd) < 0)
        return -errno;
    return unlinkat(fd, "boot", 0) < 0 ? -errno : fsync(fd);
}

static void remove_aside(struct launcher *l, const char *name)
{
    if (!aside(l, l->image_layers_fd, name, remove_tree))
        (void)remove_tree(l->image_layers_fd, name);
}

/* ---- opening and making ---- */

int layer_open_at(int layers_fd, const char *name, char ret_path[LAUNCH_LAYER_PATH_MAX],
                  struct err *err)
{
    int fd;

    (void)snprintf(ret_path, LAUNCH_LAYER_PATH_MAX, "%.64s/fs", name);
    fd = name_ok(name) ? sys_openat2(layers_fd, ret_path, O_PATH | O_DIRECTORY, 0, OPEN_PLAIN)
                       : -EINVAL;
    return fd < 0 ? err_errno(err, fd, "layer %.64s", name) : fd;
}

int layer_open(struct launcher *l, const char *name, struct err *err)
{
    char path[LAUNCH_LAYER_PATH_MAX];

    return layer_open_at(l->image_layers_fd, name, path, err);
}

static int make_tree(int dir)
{
    auto_close int fs = FD_NONE;

    /* Locked before anybody who sweeps can look at it. */
    if (flock(dir, LOCK_EX | LOCK_NB) < 0 || mkdirat(dir, "fs", 0700) < 0)
        return -errno;
    fs = openat(dir, "fs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fs < 0 || fchmod(fs, 0755) < 0 || fchown(fs, IDRANGE_LAYERS, IDRANGE_LAYERS) < 0)
        return -errno;
    return take_fd(&fs);
}

int layer_make(struct launcher *l, const char *id, int *ret_dir_fd, int *ret_tree_fd,
               struct err *err)
{
    auto_close int dir = FD_NONE;
    char name[TMP_NAME_MAX];
    int r;

    if (l->layers_unswept)
        launcher_layers_sweep(l);
    tmp_name(id, name);
    while (flock(l->image_layers_fd, LOCK_SH) < 0)
        if (errno != EINTR)
            return err_errno(err, -errno, "lock the directory of layers");
    r = mkdirat(l->image_layers_fd, name, 0700) < 0 ? -errno : 0;
    if (r == 0) {
        dir = openat(l->image_layers_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        r = dir < 0 ? -errno : make_tree(dir);
        if (r < 0)
            (void)remove_tree(l->image_layers_fd, name);
    }
    (void)flock(l->image_layers_fd, LOCK_UN);
    if (r < 0)
        return err_errno(err, r, "make a layer");
    *ret_dir_fd = take_fd(&dir);
    *ret_tree_fd = r;
    return 0;
}

/* One into which nothing was unpacked is gone at once, and with it its name. */
static bool remove_empty(struct launcher *l, const char *name)
{
    auto_close int dir =
        openat(l->image_layers_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    return dir >= 0 && unlinkat(dir, "fs", AT_REMOVEDIR) == 0 &&
           unlinkat(l->image_layers_fd, name, AT_REMOVEDIR) == 0;
}

void layer_discard(struct launcher *l, const char *id)
{
    char name[TMP_NAME_MAX];

    tmp_name(id, name);
    if (!remove_empty(l, name))
        remove_aside(l, name);
}

/* ---- finishing ---- */

/*
 * What the worker says of opaque directories, which only we can mark. It is hostile, and so is the
 * tree: each is opened beneath it and through no link, and the worst that a lie does is to hide
 * what lies below this layer.
 */
static int mark_opaque(int dir_fd, int opaque_fd, struct err *err)
{
    auto_close int fs = openat(dir_fd, "fs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    auto_free char *paths = NULL;
    size_t len = 0;
    int r;

    if (fs < 0)
        return err_errno(err, -errno, "finish a layer");
    if (lseek(opaque_fd, 0, SEEK_SET) < 0)
        return err_errno(err, -errno, "opaque directories");
    r = file_read_fd(opaque_fd, WORKER_OPAQUE_MAX, &paths, &len, err);
    if (r < 0)
        return err_wrap(err, r, "opaque directories");
    if (len > 0 && paths[len - 1] != '\0')
        return err_set(err, -EPROTO, "opaque directories: the list is cut");
    for (size_t at = 0; at < len; at += strlen(paths + at) + 1) {
        auto_close int fd =
            sys_openat2(fs, paths + at, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, OPEN_PLAIN);

        if (fd < 0)
            return err_errno(err, fd, "opaque directory '%.128s'", paths + at);
        if (fsetxattr(fd, "trusted.overlay.opaque", "y", 1, 0) < 0)
            return err_errno(err, -errno, "opaque directory '%.128s'", paths + at);
    }
    return 0;
}

static _Noreturn void marker(const struct work *w)
{
    enum { DIR_FD, OPAQUE_FD, COUNT };
    int fds[COUNT] = {w->dir_fd, w->opaque_fd}, r;

    (void)signal(SIGTERM, SIG_DFL);
    (void)signal(SIGINT, SIG_DFL);
    (void)prctl(PR_SET_NAME, "rind-layers");
    r = removal_keep_only(fds, COUNT, 0);
    if (r == 0)
        r = mark_opaque(DIR_FD, OPAQUE_FD, NULL);
    _exit(-r < 256 ? -r : EIO); /* the status is the errno */
}

/* The same; an image can have so many that it takes seconds, by a process of its own: -EAGAIN until
 * that has ended. */
static int mark(struct work *w, struct err *err)
{
    struct stat st;
    int status = 0;

    if (w->marked)
        return 0;
    if (w->marker == 0) {
        if (fstat(w->opaque_fd, &st) == 0 && st.st_size <= MARK_HERE)
            return mark_opaque(w->dir_fd, w->opaque_fd, err);
        w->marker = fork();
        if (w->marker == 0)
            marker(w);
        if (w->marker < 0) {
            w->marker = 0;
            return err_errno(err, -errno, "opaque directories");
        }
        return err_set(err, -EAGAIN, "opaque directories: they are being marked");
    }
    if (waitpid(w->marker, &status, WNOHANG) == 0)
        return err_set(err, -EAGAIN, "opaque directories: they are being marked");
    w->marker = 0;
    w->marked = true;
    if (status == 0)
        return 0;
    return err_errno(err, WIFEXITED(status) ? -WEXITSTATUS(status) : -ECHILD, "opaque directories");
}

/* Without the line's end. */
static int boot_id(char ret[BOOT_ID_MAX])
{
    auto_free char *text = NULL;
    size_t len = 0;
    int fd, r;

    fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    r = file_read_fd(fd, BOOT_ID_MAX - 1, &text, &len, NULL);
    (void)close(fd);
    if (r == 0)
        (void)snprintf(ret, BOOT_ID_MAX, "%.*s", (int)strcspn(text, "\n"), text);
    return r;
}

static int put_file(int dir_fd, const char *name, const char *text)
{
    auto_close int fd =
        openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

    return fd < 0 ? -errno : write_all(fd, text, strlen(text));
}

static int put_facts(int dir_fd, int64_t bytes)
{
    char boot[BOOT_ID_MAX], text[32];
    int r = boot_id(boot);

    (void)snprintf(text, sizeof(text), "%lld", (long long)bytes);
    if (r == 0)
        r = put_file(dir_fd, "boot", boot);
    return r < 0 ? r : put_file(dir_fd, "bytes", text);
}

int launcher_layer_commit(struct launcher *l, const struct launch_request *q, struct err *err)
{
    struct work **at = work_find(l, q->id), *w = *at;
    const char *name = q->image_layers[0];
    char tmp[TMP_NAME_MAX];
    int r;

    if (w == NULL || w->kind != LAUNCH_WORK_LAYER)
        return err_set(err, -ENOENT, "no worker %s has made a layer", q->id);
    tmp_name(q->id, tmp);
    r = work_over(w, err); /* from here on nobody can change the tree */
    if (r == 0)
        r = mark(w, err);
    if (r == -EAGAIN)
        return r;
    if (r == 0) {
        r = put_facts(w->dir_fd, q->bytes);
        if (r < 0)
            (void)err_errno(err, r, "finish layer %s", name);
    }
    if (r == 0 &&
        renameat2(l->image_layers_fd, tmp, l->image_layers_fd, name, RENAME_NOREPLACE) < 0)
        r = err_errno(err, -errno, "name layer %s", name);
    if (r < 0) {
        work_end(l, at);
        remove_aside(l, tmp);
        return r;
    }
    (void)aside(l, w->dir_fd, name, sync_layer); /* else it counts until the host goes down */
    work_end(l, at);
    return 0;
}

int launcher_layer_drop(struct launcher *l, const char *id, struct err *err)
{
    struct work **at = work_find(l, id);
    bool layer;

    if (*at == NULL)
        return err_set(err, -ENOENT, "no worker %s", id);
    layer = (*at)->kind == LAUNCH_WORK_LAYER;
    work_end(l, at);
    if (layer)
        layer_discard(l, id);
    return 0;
}

int launcher_layer_remove(struct launcher *l, const char *name, struct err *err)
{
    char tmp[TMP_NAME_MAX];

    (void)snprintf(tmp, sizeof(tmp), TMP_PREFIX "removed-%.40s", name);
    if (renameat(l->image_layers_fd, name, l->image_layers_fd, tmp) < 0 && errno != ENOTEMPTY &&
        errno != EEXIST)
        return err_errno(err, -errno, "layer %s", name);
    remove_aside(l, tmp);
    return 0;
}

/* ---- all of them ---- */

static int each(struct launcher *l, int (*one)(void *arg, const char *name), void *arg)
{
    auto_ptr(dir_close) DIR *d = dir_open(l->image_layers_fd, ".");
    const struct dirent *e;
    int r = 0;

    if (d == NULL)
        return -errno;
    while (r == 0 && (e = dir_next(d)) != NULL)
        r = one(arg, e->d_name);
    return r == 0 ? -errno : r;
}

struct listing {
    struct launcher *l;
    struct buf text;
};

static int list_one(void *arg, const char *name)
{
    struct listing *list = arg;
    auto_free char *bytes = NULL;
    char path[LAUNCH_LAYER_NAME + 8];
    size_t len = 0;
    int r;

    if (!name_ok(name))
        return 0;
    (void)snprintf(path, sizeof(path), "%s/bytes", name);
    if (file_read_at(list->l->image_layers_fd, path, 32, &bytes, &len, NULL) < 0 ||
        len != strspn(bytes, "0123456789"))
        len = 0;
    r = buf_printf(&list->text, "%s %s", name, len > 0 ? bytes : "0");
    return r < 0 ? r : buf_append(&list->text, "", 1);
}

int launcher_layer_list(struct launcher *l, struct err *err)
{
    struct listing list = {.l = l, .text = BUF_INIT(LIST_MAX)};
    int r = each(l, list_one, &list), fd = FD_NONE;

    if (r == 0)
        r = fd = memfd_sealed("rind-layers", list.text.data != NULL ? list.text.data : "",
                              list.text.len);
    buf_done(&list.text);
    return r < 0 ? err_errno(err, r, "list layers") : fd;
}

/* Whether nobody lives who makes it. */
static bool is_dead(struct launcher *l, const char *name)
{
    auto_close int dir =
        openat(l->image_layers_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    return dir >= 0 && flock(dir, LOCK_EX | LOCK_NB) == 0;
}

static bool is_lost(struct launcher *l, const char *name, const char *boot)
{
    auto_free char *text = NULL;
    char path[LAUNCH_LAYER_NAME + 8];
    size_t len = 0;

    (void)snprintf(path, sizeof(path), "%s/boot", name);
    return file_read_at(l->image_layers_fd, path, BOOT_ID_MAX, &text, &len, NULL) == 0 &&
           strcmp(text, boot) != 0;
}

struct sweeping {
    struct launcher *l;
    char boot[BOOT_ID_MAX];
};

static int sweep_one(void *arg, const char *name)
{
    struct sweeping *s = arg;

    if (strncmp(name, TMP_PREFIX, strlen(TMP_PREFIX)) == 0) {
        if (is_dead(s->l, name))
            remove_aside(s->l, name);
        else
            s->l->layers_unswept = true;
    } else if (name_ok(name) && is_lost(s->l, name, s->boot))
        (void)launcher_layer_remove(s->l, name, NULL);
    return 0;
}

void launcher_layers_sweep(struct launcher *l)
{
    struct sweeping s = {.l = l};

    works_cgroup_sweep(l);
    l->layers_unswept = true;
    if (boot_id(s.boot) < 0 || flock(l->image_layers_fd, LOCK_EX | LOCK_NB) < 0)
        return;
    l->layers_unswept = false;
    (void)each(l, sweep_one, &s);
    (void)flock(l->image_layers_fd, LOCK_UN);
}
