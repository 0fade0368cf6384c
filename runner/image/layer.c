/* Unpacks the built-in layers at first use. Blocks. */

#include "image/layer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/dir.h"
#include "base/err.h"
#include "image/builtin-unpack.h"
#include "image/embed.h"
#include "proto/rmtree.h"

/*
 * A process that unpacks a layer holds an exclusive flock on layers/.lock; other processes wait for
 * it. A temporary directory found by the holder was therefore left by a process that has died, and
 * is removed. The kernel drops the lock of a dead process. If the layer exists, no lock is taken.
 */
#define LAYERS     "layers"
#define LOCK_NAME  ".lock"
#define TMP_PREFIX ".tmp-builtin-"

enum { LAYERS_MODE = 0700, LAYER_MODE = 0755 };

const char *image_builtin_name(enum builtin_layer which)
{
    static const char *const ids[BUILTIN_MAX] = {[BUILTIN_BASE] = embed_base_id,
                                                 [BUILTIN_ROOT] = embed_root_id,
                                                 [BUILTIN_DOCKER] = embed_docker_id};

    return ids[which];
}

static struct blob builtin_archive(enum builtin_layer which)
{
    if (which == BUILTIN_DOCKER)
        return embed_docker();
    return which == BUILTIN_BASE ? embed_base() : embed_root();
}

/*
 * Checks that a directory belongs to this user and has exactly this mode. It detects a state
 * directory that was opened to other users, or replaced.
 */
static int check_dir(int fd, const char *name, mode_t mode, struct err *err)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return err_errno(err, -errno, "%s", name);
    if (st.st_uid != geteuid())
        return err_set(err, -EPERM, "%s: belongs to user %u, not to %u", name, (unsigned)st.st_uid,
                       (unsigned)geteuid());
    if ((st.st_mode & 07777) != mode)
        return err_set(err, -EPERM, "%s: has mode %03o, must have %03o", name,
                       (unsigned)(st.st_mode & 07777), (unsigned)mode);
    return 0;
}

/* Opens a directory that passes check_dir. A missing directory is -ENOENT, without setting err. */
static int open_dir(int dirfd, const char *name, int flags, mode_t mode, int *ret_fd,
                    struct err *err)
{
    auto_close int fd = FD_NONE;
    int r;

    fd = openat(dirfd, name, flags | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return -ENOENT;
    if (fd < 0) /* ENOTDIR: a symbolic link or a file */
        return err_errno(err, -errno, "%s", name);
    r = check_dir(fd, name, mode, err);
    if (r < 0)
        return r;
    *ret_fd = take_fd(&fd);
    return 0;
}

/* Opens the layers directory, creating it if needed. O_RDONLY, for fsync and readdir. */
static int open_layers(int state_fd, int *ret_fd, struct err *err)
{
    int r;

    r = open_dir(state_fd, LAYERS, O_RDONLY, LAYERS_MODE, ret_fd, err);
    if (r != -ENOENT)
        return r;
    if (mkdirat(state_fd, LAYERS, LAYERS_MODE) < 0 && errno != EEXIST)
        return err_errno(err, -errno, "create %s", LAYERS);
    return open_dir(state_fd, LAYERS, O_RDONLY, LAYERS_MODE, ret_fd, err);
}

static int lock_layers(int layers_fd, int *ret_fd, struct err *err)
{
    auto_close int fd = FD_NONE;

    fd = openat(layers_fd, LOCK_NAME, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_errno(err, -errno, "%s/%s", LAYERS, LOCK_NAME);
    while (flock(fd, LOCK_EX) < 0)
        if (errno != EINTR)
            return err_errno(err, -errno, "lock %s/%s", LAYERS, LOCK_NAME);
    *ret_fd = take_fd(&fd);
    return 0;
}

/* Removes what processes that died have left. The caller holds the lock. */
static int sweep_layers(int layers_fd, struct err *err)
{
    auto_ptr(dir_close) DIR *d = dir_open(layers_fd, ".");
    const struct dirent *e;
    int r = 0;

    if (d == NULL)
        return err_errno(err, -errno, "read %s", LAYERS);
    while (r == 0 && (e = dir_next(d)) != NULL)
        if (strncmp(e->d_name, TMP_PREFIX, strlen(TMP_PREFIX)) == 0)
            r = rmtree_at(layers_fd, e->d_name, RMTREE_ONE_MOUNT);
    if (r == 0)
        r = -errno;
    return r < 0 ? err_errno(err, r, "sweep %s", LAYERS) : 0;
}

static int unpack_into(int layers_fd, const char *tmp, struct blob archive, struct err *err)
{
    auto_close int fd = FD_NONE;
    int r;

    if (mkdirat(layers_fd, tmp, 0700) < 0)
        return err_errno(err, -errno, "create %s", tmp);
    fd = openat(layers_fd, tmp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_errno(err, -errno, "open %s", tmp);
    r = builtin_unpack(fd, archive.data, archive.len, err);
    if (r < 0)
        return r;
    if (fchmod(fd, LAYER_MODE) < 0 || fsync(fd) < 0)
        return err_errno(err, -errno, "finish %s", tmp);
    return 0;
}

/* Unpacks a layer and renames it to its final name. The caller holds the lock. */
static int make_layer(int layers_fd, enum builtin_layer which, struct err *err)
{
    const char *name = image_builtin_name(which);
    char tmp[sizeof(TMP_PREFIX) + 16];
    int r;

    (void)snprintf(tmp, sizeof(tmp), TMP_PREFIX "%d", (int)getpid());
    r = unpack_into(layers_fd, tmp, builtin_archive(which), err);
    if (r == 0 && renameat2(layers_fd, tmp, layers_fd, name, RENAME_NOREPLACE) < 0)
        r = err_errno(err, -errno, "rename to %s", name);
    if (r < 0) {
        (void)rmtree_at(layers_fd, tmp, RMTREE_ONE_MOUNT); /* the next first use sweeps the rest */
        return r;
    }
    if (fsync(layers_fd) < 0)
        return err_errno(err, -errno, "sync %s", LAYERS);
    return 0;
}

static int open_or_make(int layers_fd, enum builtin_layer which, int *ret_fd, struct err *err)
{
    auto_close int lock_fd = FD_NONE;
    const char *name = image_builtin_name(which);
    int r;

    r = open_dir(layers_fd, name, O_PATH, LAYER_MODE, ret_fd, err);
    if (r != -ENOENT)
        return r;
    r = lock_layers(layers_fd, &lock_fd, err);
    if (r < 0)
        return r;
    /* Another process may have unpacked it before the lock was granted. */
    r = open_dir(layers_fd, name, O_PATH, LAYER_MODE, ret_fd, err);
    if (r != -ENOENT)
        return r;
    r = sweep_layers(layers_fd, err);
    if (r < 0)
        return r;
    r = make_layer(layers_fd, which, err);
    if (r < 0)
        return r;
    return open_dir(layers_fd, name, O_PATH, LAYER_MODE, ret_fd, err);
}

int image_default_layers(int state_fd, int *ret_base_fd, int *ret_root_fd, struct err *err)
{
    auto_close int layers_fd = FD_NONE, base = FD_NONE, root = FD_NONE;
    int r;

    r = open_layers(state_fd, &layers_fd, err);
    if (r == 0)
        r = open_or_make(layers_fd, BUILTIN_BASE, &base, err);
    if (r == 0)
        r = open_or_make(layers_fd, BUILTIN_ROOT, &root, err);
    if (r < 0)
        return err_wrap(err, r, "built-in layer");
    *ret_base_fd = take_fd(&base);
    *ret_root_fd = take_fd(&root);
    return 0;
}

int image_docker_layer(int state_fd, struct err *err)
{
    auto_close int layers_fd = FD_NONE, docker = FD_NONE;
    int r;

    r = open_layers(state_fd, &layers_fd, err);
    if (r == 0)
        r = open_or_make(layers_fd, BUILTIN_DOCKER, &docker, err);
    return r < 0 ? err_wrap(err, r, "built-in layer") : 0;
}

void image_builtin_names(bool has_root, bool docker, const char *ret[BUILTIN_NAMES_MAX])
{
    size_t n = 0;

    if (!has_root)
        ret[n++] = image_builtin_name(BUILTIN_ROOT);
    if (docker)
        ret[n++] = image_builtin_name(BUILTIN_DOCKER);
    ret[n++] = image_builtin_name(BUILTIN_BASE);
    ret[n] = NULL;
}
