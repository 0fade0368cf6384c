/* Named volumes on disk (volume.h): opening, locking, listing, removing, mounting. Runs in the
 * launcher. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/dir.h"
#include "base/err.h"
#include "base/file.h"
#include "launch/launcher.h"
#include "launch/volume-internal.h"
#include "launch/volume.h"
#include "proto/syscalls.h"

enum { VOLUME_LIST_MAX = 16 << 20 /* bytes of all names */ };

bool launch_volume_name_ok(const char *name)
{
    static const char accepted[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    size_t len = strlen(name);

    return len >= 1 && len <= LAUNCH_VOLUME_NAME_MAX && strspn(name, accepted) == len &&
           strchr("_.-", name[0]) == NULL;
}

/* ---- opening ---- */

int volume_open(const struct launcher *l, const char *name, struct err *err)
{
    int fd = sys_openat2(l->volumes_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, OPEN_PLAIN);

    return fd == -ENOENT ? err_set(err, fd, "volume '%s': there is none of this name", name)
           : fd < 0      ? err_errno(err, fd, "volume '%s'", name)
                         : fd;
}

int volume_lock(int dir_fd, const char *name, bool alone, struct err *err)
{
    auto_close int fd = openat(dir_fd, VOLUME_LOCK, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0)
        return err_errno(err, -errno, "volume '%s'", name);
    if (flock(fd, (alone ? LOCK_EX : LOCK_SH) | LOCK_NB) == 0)
        return take_fd(&fd);
    if (errno != EWOULDBLOCK)
        return err_errno(err, -errno, "volume '%s'", name);
    return err_set(err, -EBUSY, "volume '%s' is %s", name,
                   alone ? "in use" : "being filled or removed");
}

int volume_check(int dir_fd, const char *name, const struct creator *who, struct err *err)
{
    struct creator maker;
    int r;

    if (who->kind == CREATOR_OWNER)
        return 0;
    r = creator_load(dir_fd, VOLUME_KEEP, &maker, err);
    if (r < 0)
        return err_wrap(err, r, "volume '%s'", name);
    if (who->kind == CREATOR_CLIENT && maker.kind == CREATOR_CLIENT && maker.uid == who->uid)
        return 0;
    return err_set(err, -EPERM, "volume '%s' is another user's", name);
}

/* ---- requests ---- */

int launcher_volume_write(struct launcher *l, const struct launch_request *q, struct err *err)
{
    auto_close int dir = volume_open(l, q->volume_name, err);

    return dir < 0 ? dir : file_replace_at(dir, VOLUME_META, q->meta, q->meta_len, 0600, err);
}

int launcher_volume_read(struct launcher *l, const char *name, struct err *err)
{
    auto_close int dir = volume_open(l, name, err);
    auto_free char *text = NULL;
    size_t len = 0;
    int r;

    if (dir < 0)
        return dir;
    r = file_read_at(dir, VOLUME_META, LAUNCH_META_MAX, &text, &len, err);
    if (r < 0)
        return err_wrap(err, r, "volume '%s'", name);
    r = memfd_sealed("rind-volume", text, len);
    return r < 0 ? err_errno(err, r, "volume '%s'", name) : r;
}

int launcher_volume_remove(struct launcher *l, const char *name, struct err *err)
{
    auto_close int dir = volume_open(l, name, err);
    auto_close int lock = FD_NONE;
    int r;

    if (dir < 0)
        return dir;
    lock = volume_lock(dir, name, true, err);
    if (lock < 0)
        return lock;
    r = volume_hide(l, l->volumes_fd, name, err);
    if (r == 0)
        volumes_remove_hidden(l);
    return r;
}

int launcher_volume_list(struct launcher *l, struct err *err)
{
    auto_buf struct buf names = BUF_INIT(VOLUME_LIST_MAX);
    auto_ptr(dir_close) DIR *d = dir_open(l->volumes_fd, ".");
    const struct dirent *e;
    int r = 0;

    if (d == NULL)
        return err_errno(err, -errno, "read the volumes");
    while (r == 0 && (e = dir_next(d)) != NULL)
        if (launch_volume_name_ok(e->d_name))
            r = buf_append(&names, e->d_name, strlen(e->d_name) + 1);
    if (r == 0)
        r = memfd_sealed("rind-volumes", names.len > 0 ? names.data : "", names.len);
    return r < 0 ? err_errno(err, r, "list the volumes") : r;
}

/* ---- mounting ---- */

bool volume_has_disk(int dir_fd)
{
    return faccessat(dir_fd, VOLUME_DISK, F_OK, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
}

bool volume_has_contents(int dir_fd)
{
    return faccessat(dir_fd, VOLUME_DATA, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
           volume_has_disk(dir_fd);
}

int volume_data_mount(int dir_fd, const char *name, struct mount_attr *attr, struct err *err)
{
    auto_close int data = FD_NONE;
    int r;

    if (volume_has_disk(dir_fd)) {
        r = disk_attach(dir_fd, VOLUME_DISK, IDRANGE_LAYERS, attr, err);
        return r < 0 ? err_wrap(err, r, "volume '%s'", name) : r;
    }
    data = sys_openat2(dir_fd, VOLUME_DATA, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0, OPEN_PLAIN);
    if (data < 0)
        return err_errno(err, data, "volume '%s'", name);
    r = mount_clone(data, attr, name, err);
    return r < 0 ? err_wrap(err, r, "volume") : r;
}

/* Makes an empty data/ if there is none. */
static int volume_make_data(int dir_fd, struct err *err)
{
    if (faccessat(dir_fd, VOLUME_DATA, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return 0;
    if ((mkdirat(dir_fd, VOLUME_NEW, 0755) < 0 && errno != EEXIST) ||
        fchmodat(dir_fd, VOLUME_NEW, 0755, 0) < 0 ||
        fchownat(dir_fd, VOLUME_NEW, IDRANGE_LAYERS, IDRANGE_LAYERS, AT_SYMLINK_NOFOLLOW) < 0 ||
        renameat(dir_fd, VOLUME_NEW, dir_fd, VOLUME_DATA) < 0)
        return err_errno(err, -errno, "make the directory of a volume");
    return 0;
}

/* A volume with a disk is filled before its first use or never: its contents are not checked for
 * that. */
static int volume_mark_used(int dir_fd, struct err *err)
{
    int fd = openat(dir_fd, VOLUME_FILLED, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    if (fd < 0)
        return err_errno(err, -errno, "volume: mark it as used");
    (void)close(fd);
    return 0;
}

int named_volume_mount(struct launcher *l, const struct launch_sandbox *s,
                       const struct launch_volume *v, int userns_fd, int *ret_lock, struct err *err)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
                              .userns_fd = (uint64_t)(unsigned)userns_fd};
    auto_close int dir = volume_open(l, v->source, err);
    auto_close int lock = FD_NONE;
    int r = dir < 0 ? dir : volume_check(dir, v->source, s->creator, err);

    if (r < 0)
        return r;
    lock = volume_lock(dir, v->source, false, err);
    if (lock < 0)
        return lock;
    r = volume_has_disk(dir) ? volume_mark_used(dir, err) : volume_make_data(dir, err);
    if (r < 0)
        return r;
    if (v->read_only)
        attr.attr_set |= MOUNT_ATTR_RDONLY;
    r = volume_data_mount(dir, v->source, &attr, err);
    if (r >= 0)
        *ret_lock = take_fd(&lock);
    return r;
}
