/*
 * Unpacked layers of images: `image-layers/<digest>/` below the state directory, which only its
 * owner can access, with
 *
 *     fs/     the tree; its files have the ids from IDRANGE_LAYERS on
 *     bytes   its size as the supervisor has reported it
 *     boot    until it is known to be on disk: the boot id of the host when it was made
 *
 * A layer under its final name is complete: a worker made it as `.tmp-<id>`, and the launcher
 * renamed it. This holds after the death of any process. It holds after a crash of the host only if
 * `boot` has been removed, which a child process does after a sync. A layer with another boot id is
 * removed, and its archive, which is still in the store, is unpacked again.
 *
 * Runs in the launcher.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
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
    LIST_MAX = 64 << 20, /* bytes of the list of layers */
    NICENESS = 10,
    BOOT_ID_MAX = 64,
    /* bytes of a list of opaque directories that is short enough to be handled in the launcher */
    MARK_HERE = 4096,
};

static bool layer_name_ok(const char *name)
{
    return strlen(name) == LAUNCH_LAYER_NAME &&
           strspn(name, "0123456789abcdef") == LAUNCH_LAYER_NAME;
}

static void layer_tmp_name(const char *id, char ret[TMP_NAME_MAX])
{
    (void)snprintf(ret, TMP_NAME_MAX, TMP_PREFIX "%s", id);
}

/* ---- child processes ---- */

/* Runs work(fd, name) in a child that is not waited for. Returns false if there is no child. */
static bool layer_fork_work(struct launcher *l, int fd, const char *name,
                            int (*work)(int fd, const char *name))
{
    pid_t pid;

    if (!child_table_has_room(&l->children))
        return false;
    pid = fork();
    if (pid == 0) {
        child_become("rind-layers", SIG_DFL);
        (void)setpriority(PRIO_PROCESS, 0, NICENESS);
        _exit(child_keep_fds(&fd, 1, 0) < 0 || work(0, name) < 0);
    }
    if (pid < 0)
        return false;
    child_table_add(&l->children, pid, NULL, NULL);
    return true;
}

static int layer_remove_tree(int fd, const char *name)
{
    return rmtree_at(fd, name, RMTREE_ONE_MOUNT);
}

static int layer_sync(int fd, const char *name)
{
    (void)name;
    if (syncfs(fd) < 0)
        return -errno;
    return unlinkat(fd, "boot", 0) < 0 ? -errno : fsync(fd);
}

static void layer_remove_aside(struct launcher *l, const char *name)
{
    if (!layer_fork_work(l, l->image_layers_fd, name, layer_remove_tree))
        (void)layer_remove_tree(l->image_layers_fd, name);
}

/* ---- opening and making ---- */

int layer_open_at(int layers_fd, const char *name, char ret_path[LAUNCH_LAYER_PATH_MAX],
                  struct err *err)
{
    int fd;

    (void)snprintf(ret_path, LAUNCH_LAYER_PATH_MAX, "%.64s/fs", name);
    fd = layer_name_ok(name) ? sys_openat2(layers_fd, ret_path, O_PATH | O_DIRECTORY, 0, OPEN_PLAIN)
                             : -EINVAL;
    return fd < 0 ? err_errno(err, fd, "layer %.64s", name) : fd;
}

int layer_open(struct launcher *l, const char *name, struct err *err)
{
    char path[LAUNCH_LAYER_PATH_MAX];

    return layer_open_at(l->image_layers_fd, name, path, err);
}

static int layer_make_tree(int dir)
{
    auto_close int fs = FD_NONE;

    /* The lock is taken before a sweep can see the directory. */
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
    layer_tmp_name(id, name);
    while (flock(l->image_layers_fd, LOCK_SH) < 0)
        if (errno != EINTR)
            return err_errno(err, -errno, "lock the directory of layers");
    r = mkdirat(l->image_layers_fd, name, 0700) < 0 ? -errno : 0;
    if (r == 0) {
        dir = openat(l->image_layers_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        r = dir < 0 ? -errno : layer_make_tree(dir);
        if (r < 0)
            (void)layer_remove_tree(l->image_layers_fd, name);
    }
    (void)flock(l->image_layers_fd, LOCK_UN);
    if (r < 0)
        return err_errno(err, r, "make a layer");
    *ret_dir_fd = take_fd(&dir);
    *ret_tree_fd = r;
    return 0;
}

/* Removes a layer that nothing was unpacked into at once, so that its name is free again. */
static bool layer_remove_empty(struct launcher *l, const char *name)
{
    auto_close int dir =
        openat(l->image_layers_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    return dir >= 0 && unlinkat(dir, "fs", AT_REMOVEDIR) == 0 &&
           unlinkat(l->image_layers_fd, name, AT_REMOVEDIR) == 0;
}

void layer_discard(struct launcher *l, const char *id)
{
    char name[TMP_NAME_MAX];

    layer_tmp_name(id, name);
    if (!layer_remove_empty(l, name))
        layer_remove_aside(l, name);
}

/* ---- finishing ---- */

/* Marks the opaque directories that the worker reports, as only the launcher may set the xattr. The
 * worker may be compromised, and the tree is hostile. So each directory is opened beneath the tree
 * and through no link. A false report can only hide files of the layers below. */
static int layer_mark_opaque(int dir_fd, int opaque_fd, struct err *err)
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

static _Noreturn void layer_marker_main(const struct work *w)
{
    enum { DIR_FD, OPAQUE_FD, COUNT };
    int fds[COUNT] = {w->dir_fd, w->opaque_fd}, r;

    child_become("rind-layers", SIG_DFL);
    r = child_keep_fds(fds, COUNT, 0);
    if (r == 0)
        r = layer_mark_opaque(DIR_FD, OPAQUE_FD, NULL);
    _exit(-r < 256 ? -r : EIO); /* the exit status is the errno */
}

/* Marks opaque directories. An image can have so many that it takes seconds, so a child does it:
 * -EAGAIN until that has exited. */
static int layer_mark(struct work *w, struct err *err)
{
    struct stat st;
    int status = 0;

    if (w->marked)
        return 0;
    if (w->marker == 0) {
        if (fstat(w->opaque_fd, &st) == 0 && st.st_size <= MARK_HERE)
            return layer_mark_opaque(w->dir_fd, w->opaque_fd, err);
        w->marker = fork();
        if (w->marker == 0)
            layer_marker_main(w);
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

/* Reads the boot id without its newline. */
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

static int layer_write_file(int dir_fd, const char *name, const char *text)
{
    auto_close int fd =
        openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

    return fd < 0 ? -errno : write_all(fd, text, strlen(text));
}

static int layer_write_info(int dir_fd, int64_t bytes)
{
    char boot[BOOT_ID_MAX], text[32];
    int r = boot_id(boot);

    (void)snprintf(text, sizeof(text), "%lld", (long long)bytes);
    if (r == 0)
        r = layer_write_file(dir_fd, "boot", boot);
    return r < 0 ? r : layer_write_file(dir_fd, "bytes", text);
}

int launcher_layer_commit(struct launcher *l, const struct launch_request *q, struct err *err)
{
    struct work *w = work_find(l, q->id);
    const char *name = q->image_layers[0];
    char tmp[TMP_NAME_MAX];
    int r;

    if (w == NULL || w->kind != LAUNCH_WORK_LAYER)
        return err_set(err, -ENOENT, "no worker %s has made a layer", q->id);
    layer_tmp_name(q->id, tmp);
    r = work_over(w, err); /* the worker has exited: no process can change the tree from here on */
    if (r == 0)
        r = layer_mark(w, err);
    if (r == -EAGAIN)
        return r;
    if (r == 0) {
        r = layer_write_info(w->dir_fd, q->bytes);
        if (r < 0)
            (void)err_errno(err, r, "finish layer %s", name);
    }
    if (r == 0 &&
        renameat2(l->image_layers_fd, tmp, l->image_layers_fd, name, RENAME_NOREPLACE) < 0)
        r = err_errno(err, -errno, "name layer %s", name);
    if (r < 0) {
        work_end(l, w);
        layer_remove_aside(l, tmp);
        return r;
    }
    /* if that fails, the layer is valid until the host reboots */
    (void)layer_fork_work(l, w->dir_fd, name, layer_sync);
    work_end(l, w);
    return 0;
}

int launcher_layer_drop(struct launcher *l, const char *id, struct err *err)
{
    struct work *w = work_find(l, id);
    bool layer;

    if (w == NULL)
        return err_set(err, -ENOENT, "no worker %s", id);
    layer = w->kind == LAUNCH_WORK_LAYER;
    work_end(l, w);
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
    layer_remove_aside(l, tmp);
    return 0;
}

/* ---- listing and sweeping ---- */

static int layers_each(struct launcher *l, int (*one)(void *arg, const char *name), void *arg)
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

struct layers_listing {
    struct launcher *l;
    struct buf text;
};

static int layers_list_one(void *arg, const char *name)
{
    struct layers_listing *list = arg;
    auto_free char *bytes = NULL;
    char path[LAUNCH_LAYER_NAME + 8];
    size_t len = 0;
    int r;

    if (!layer_name_ok(name))
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
    struct layers_listing list = {.l = l, .text = BUF_INIT(LIST_MAX)};
    int r = layers_each(l, layers_list_one, &list), fd = FD_NONE;

    if (r == 0)
        r = fd = memfd_sealed("rind-layers", list.text.data != NULL ? list.text.data : "",
                              list.text.len);
    buf_done(&list.text);
    return r < 0 ? err_errno(err, r, "list layers") : fd;
}

/* True if the process that made the layer has exited: its lock is free. */
static bool layer_is_abandoned(struct launcher *l, const char *name)
{
    auto_close int dir =
        openat(l->image_layers_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    return dir >= 0 && flock(dir, LOCK_EX | LOCK_NB) == 0;
}

static bool layer_is_unsynced(struct launcher *l, const char *name, const char *boot)
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

static int layers_sweep_one(void *arg, const char *name)
{
    struct sweeping *s = arg;

    if (strncmp(name, TMP_PREFIX, strlen(TMP_PREFIX)) == 0) {
        if (layer_is_abandoned(s->l, name))
            layer_remove_aside(s->l, name);
        else
            s->l->layers_unswept = true;
    } else if (layer_name_ok(name) && layer_is_unsynced(s->l, name, s->boot))
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
    (void)layers_each(l, layers_sweep_one, &s);
    (void)flock(l->image_layers_fd, LOCK_UN);
}
