/* Owners, modes, times and xattrs of unpacked files, for unpack.c. Runs in B of worker.c. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "unpack-internal.h"
#include "xattrs.h"

enum {
    ID_MAX = 65535,      /* the highest id of a sandbox */
    ID_OVERFLOW = 65534, /* replaces a larger id, as in archives that are copied into a sandbox */
    XATTR_VALUE_MAX = 65536,
    XATTR_LIST_MAX = 65536,
};

struct facts meta_of_stat(const struct stat *st)
{
    return (struct facts){.mode = st->st_mode & 07777,
                          .uid = st->st_uid,
                          .gid = st->st_gid,
                          .atime = st->st_atim,
                          .mtime = st->st_mtim};
}

static unsigned clamp_id(int64_t id)
{
    return id < 0 || id > ID_MAX ? ID_OVERFLOW : (unsigned)id;
}

struct facts meta_of_entry(const struct entry *e)
{
    return (struct facts){.mode = e->mode,
                          .uid = clamp_id(e->uid),
                          .gid = clamp_id(e->gid),
                          .atime = e->atime,
                          .mtime = e->mtime};
}

static int meta_set_owner(const struct unpack *u, int fd, const char *name,
                          const struct facts *facts)
{
    int r = fd >= 0 ? fchown(fd, facts->uid, facts->gid)
                    : fchownat(u->parent_fd, name, facts->uid, facts->gid, AT_SYMLINK_NOFOLLOW);

    return r < 0 ? -errno : 0;
}

static int meta_set_mode(const struct unpack *u, int fd, const char *name,
                         const struct facts *facts)
{
    int r = fd >= 0 ? fchmod(fd, facts->mode) : fchmodat(u->parent_fd, name, facts->mode, 0);

    return r < 0 ? -errno : 0;
}

static int meta_set_times(const struct unpack *u, int fd, const char *name,
                          const struct facts *facts)
{
    const struct timespec times[2] = {facts->atime, facts->mtime};
    int r =
        fd >= 0 ? futimens(fd, times) : utimensat(u->parent_fd, name, times, AT_SYMLINK_NOFOLLOW);

    return r < 0 ? -errno : 0;
}

int meta_apply_link(const struct unpack *u, const char *name, const struct facts *facts,
                    struct err *err)
{
    int r = u->o->keep_owner ? 0 : meta_set_owner(u, FD_NONE, name, facts);

    if (r < 0)
        return err_errno(err, r, "set owner %u:%u", (unsigned)facts->uid, (unsigned)facts->gid);
    r = meta_set_times(u, FD_NONE, name, facts);
    return r < 0 ? err_errno(err, r, "set times") : 0;
}

int meta_apply(struct unpack *u, int fd, const char *name, const struct facts *facts, bool created,
               struct err *err)
{
    bool ours = created && facts->uid == 0 && facts->gid == 0 && !u->parent_setgid;
    /* The owner is set first: chown clears set-id bits. */
    bool as_made = created && (facts->mode & 07000) == 0 && !u->parent_setgid && !u->default_acls;
    int r = 0;

    if (!u->o->keep_owner && !ours)
        r = meta_set_owner(u, fd, name, facts);
    if (r < 0)
        return err_errno(err, r, "set owner %u:%u", (unsigned)facts->uid, (unsigned)facts->gid);
    if (!as_made)
        r = meta_set_mode(u, fd, name, facts);
    if (r < 0)
        return err_errno(err, r, "set mode %04o", (unsigned)facts->mode);
    r = meta_set_times(u, fd, name, facts);
    return r < 0 ? err_errno(err, r, "set times") : 0;
}

/* As containerd: an attribute that the file system does not support is skipped. So are user
 * attributes on links and pipes, where Linux allows none. */
static int meta_set_xattr(struct unpack *u, int fd, const struct xattr *x, struct err *err)
{
    if (!xattr_is_carried(x->name)) {
        u->result->xattrs++;
        return 0;
    }
    if (fsetxattr(fd, x->name, x->value, x->len, 0) < 0) {
        if (errno != EOPNOTSUPP && errno != EPERM)
            return err_errno(err, -errno, "attribute %s", x->name);
        u->result->xattrs++;
        return 0;
    }
    if (strcmp(x->name, "system.posix_acl_default") == 0)
        u->default_acls = true;
    return 0;
}

int meta_xattrs(struct unpack *u, int fd, struct err *err)
{
    struct xattr x;
    int r = 0;

    while (r == 0 && tarball_xattr(u->t, &x)) {
        if (fd >= 0)
            r = meta_set_xattr(u, fd, &x, err);
        else
            u->result->xattrs++;
    }
    return r;
}

int meta_copy_xattrs(struct unpack *u, int from_fd, int to_fd, struct err *err)
{
    char list[XATTR_LIST_MAX], value[XATTR_VALUE_MAX];
    ssize_t len = flistxattr(from_fd, list, sizeof(list));

    if (len < 0)
        return errno == EOPNOTSUPP ? 0 : err_errno(err, -errno, "attributes in a layer below");
    for (const char *name = list; name < list + len; name += strlen(name) + 1) {
        ssize_t n = xattr_is_carried(name) ? fgetxattr(from_fd, name, value, sizeof(value)) : -1;
        int r;

        if (n < 0)
            continue; /* not carried, such as overlayfs's own */
        r = meta_set_xattr(u, to_fd, &(struct xattr){name, value, (size_t)n}, err);
        if (r < 0)
            return r;
    }
    return 0;
}
