#include "files/cmd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/random.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "proto/syscalls.h"
#include "proto/utf8.h"

enum {
    NAME_SHOWN = 300,
    TEXT_MAX = 64 + NAME_SHOWN + 8 + 128,
    TEMP_BYTES = 8,
    XATTR_NAMES_BYTES = 65536, /* the kernel's limits */
    XATTR_VALUE_BYTES = 65536,
};

#ifndef BPF_FS_MAGIC
#define BPF_FS_MAGIC 0xcafe4a11
#endif
#ifndef CGROUP2_SUPER_MAGIC
#define CGROUP2_SUPER_MAGIC 0x63677270
#endif
#ifndef MQUEUE_MAGIC
#define MQUEUE_MAGIC 0x19800202
#endif

/* ---- options ---- */

static bool parse_number(const char *s, unsigned base, uint64_t max, uint64_t *ret)
{
    uint64_t v = 0;

    if (*s == '\0')
        return false;
    for (; *s != '\0'; s++) {
        unsigned digit = (unsigned)(*s - '0');

        if (digit >= base || v > (UINT64_MAX - digit) / base)
            return false;
        v = v * base + digit;
    }
    *ret = v;
    return v <= max;
}

static bool option_parse(const char *arg, const struct cmd_option *o)
{
    size_t len = strlen(o->name);

    if (strncmp(arg, o->name, len) != 0)
        return false;
    if (o->flag != NULL) {
        *o->flag = true;
        return arg[len] == '\0';
    }
    if (arg[len] != '=')
        return false;
    if (o->text != NULL) {
        *o->text = arg + len + 1;
        return true;
    }
    return parse_number(arg + len + 1, o->base, o->max, o->value);
}

void cmd_options(char **args, const struct cmd_option *options)
{
    for (; *args != NULL; args++) {
        const struct cmd_option *o = options;

        while (o->name != NULL && !option_parse(*args, o))
            o++;
        if (o->name == NULL)
            shim_die("unknown option, or a value out of range");
    }
}

/* ---- errors ---- */

static size_t text_add(char *text, size_t at, const char *s)
{
    while (*s != '\0' && at < TEXT_MAX)
        text[at++] = *s++;
    return at;
}

/* Appends a name. UTF-8 names stay as they are; otherwise, and for control bytes, bytes are %XX. A
 * long name is cut off, to leave room for the reason. */
static size_t text_add_name(char *text, size_t at, const char *name)
{
    static const char hex[] = "0123456789ABCDEF";
    const size_t whole = strlen(name), len = whole < NAME_SHOWN ? whole : NAME_SHOWN;
    const size_t end = at + NAME_SHOWN;
    const bool utf8 = utf8_valid(name, len);
    size_t i = 0;

    for (; i < len && at < end; i++) {
        unsigned char c = (unsigned char)name[i];

        if (c >= 0x20 && c != 0x7f && (c < 0x80 || utf8)) {
            text[at++] = (char)c;
        } else {
            text[at++] = '%';
            text[at++] = hex[c >> 4];
            text[at++] = hex[c & 15];
        }
    }
    return i < whole ? text_add(text, at, "…") : at;
}

int cmd_answer_error(int fd, int code, const char *what, const char *name)
{
    static char text[TEXT_MAX + 1];
    static uint8_t frame[FRAME_HEADER_SIZE + FRAME_CODE_SIZE + TEXT_MAX];
    size_t at = text_add(text, 0, what);
    int n;

    if (name != NULL) {
        at = text_add(text, at, " '");
        at = text_add_name(text, at, name);
        at = text_add(text, at, "'");
    }
    at = text_add(text, at, ": ");
    at = text_add(text, at, strerror(-code));
    text[at] = '\0';
    n = frame_put_error(frame, sizeof(frame), -code, text);
    if (n < 0)
        shim_die_errno(n);
    n = shim_write(fd, frame, (size_t)n);
    if (n < 0)
        shim_die_errno(n);
    return EXIT_ANSWERED;
}

/* ---- files ---- */

/* A guarded sandbox (docs/guard.md) has no openat2. There a magic link of /proc gives access
 * to nothing that the shim's user could not open itself, except the shim's own fds. */
int cmd_open(const char *path, int flags, mode_t mode)
{
    int fd;

    /* openat2 allows few flags with O_PATH. */
    if ((flags & O_PATH) == 0)
        flags |= O_NONBLOCK | O_NOCTTY;
    fd = sys_openat2(AT_FDCWD, path, flags, mode, RESOLVE_NO_MAGICLINKS);
    if (fd != -ENOSYS)
        return fd;
    fd = open(path, flags | O_CLOEXEC, mode);
    return fd < 0 ? -errno : fd;
}

int cmd_open_beneath(int top, const char *path)
{
    char name[NAME_MAX + 1];
    int fd = sys_openat2(top, path, O_RDONLY | O_DIRECTORY, 0, OPEN_PLAIN);

    if (fd != -ENOSYS)
        return fd;
    /* Opens one component after the other, none of which may be a link. */
    for (fd = fcntl(top, F_DUPFD_CLOEXEC, 3); fd >= 0 && *path != '\0';) {
        const size_t len = strcspn(path, "/");
        int next = -ENAMETOOLONG;

        if (len <= NAME_MAX) {
            (void)memcpy(name, path, len);
            name[len] = '\0';
            next = len == 0 || strcmp(name, "..") == 0
                       ? -EINVAL
                       : cmd_open_at(fd, name, O_RDONLY | O_DIRECTORY, 0);
        }
        (void)close(fd);
        fd = next;
        path += len + (path[len] == '/');
    }
    return fd;
}

int cmd_open_at(int dirfd, const char *name, int flags, mode_t mode)
{
    int fd = openat(dirfd, name, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, mode);

    return fd < 0 ? -errno : fd;
}

int cmd_regular(const struct stat *st)
{
    return S_ISREG(st->st_mode) ? 0 : S_ISDIR(st->st_mode) ? -EISDIR : -EINVAL;
}

int cmd_open_regular(const char *path, int flags, mode_t mode, struct stat *ret)
{
    int fd = cmd_open(path, flags, mode), r;

    if (fd == -ENXIO)
        return -EINVAL; /* a socket, or a FIFO without a reader */
    if (fd < 0)
        return fd;
    r = fstat(fd, ret) < 0 ? -errno : cmd_regular(ret);
    if (r == 0)
        return fd;
    (void)close(fd);
    return r;
}

int cmd_open_parent(const char *path, char *ret_base, bool *ret_slash)
{
    static char parent[FILE_PATH_MAX + 1];
    size_t len = strlen(path), at;

    if (len == 0)
        return -ENOENT;
    if (len > FILE_PATH_MAX)
        return -ENAMETOOLONG;
    at = len;
    while (at > 1 && path[at - 1] == '/')
        at--;
    if (ret_slash != NULL)
        *ret_slash = at < len;
    len = at;
    while (at > 0 && path[at - 1] != '/')
        at--;
    if (len - at > NAME_MAX)
        return -ENAMETOOLONG;
    memcpy(ret_base, path + at, len - at);
    ret_base[len - at] = '\0';
    if (ret_base[0] == '\0')
        memcpy(ret_base, ".", 2); /* the root directory */
    memcpy(parent, path, at);
    parent[at] = '\0';
    /* A directory that may be entered is enough: it need not be readable. */
    return cmd_open(at == 0 ? "." : parent, O_PATH | O_DIRECTORY, 0);
}

void cmd_temp_name(const char *base, char *ret)
{
    static const char hex[] = "0123456789abcdef";
    unsigned char bytes[TEMP_BYTES];
    size_t len = strlen(base), at = 0;

    /* a name that is not random merely collides, which is detected */
    (void)!getrandom(bytes, sizeof(bytes), 0);
    if (len > NAME_MAX - 2 * TEMP_BYTES - 7)
        len = NAME_MAX - 2 * TEMP_BYTES - 7;
    ret[at++] = '.';
    memcpy(ret + at, base, len);
    at += len;
    memcpy(ret + at, ".rind-", 6);
    at += 6;
    for (size_t i = 0; i < sizeof(bytes); i++) {
        ret[at++] = hex[bytes[i] >> 4];
        ret[at++] = hex[bytes[i] & 15];
    }
    ret[at] = '\0';
}

bool cmd_xattr_carried(const char *name)
{
    return strncmp(name, "user.", 5) == 0 || strcmp(name, "security.capability") == 0;
}

void cmd_copy_xattrs(int from, int to)
{
    static char names[XATTR_NAMES_BYTES], value[XATTR_VALUE_BYTES];
    ssize_t n = flistxattr(from, names, sizeof(names));

    for (ssize_t at = 0; at < n; at += (ssize_t)strlen(names + at) + 1) {
        ssize_t size;

        if (!cmd_xattr_carried(names + at))
            continue;
        size = fgetxattr(from, names + at, value, sizeof(value));
        if (size >= 0)
            (void)fsetxattr(to, names + at, value, (size_t)size, 0);
    }
}

bool cmd_is_pseudo(int fd)
{
    static const uint32_t magics[] = {PROC_SUPER_MAGIC, SYSFS_MAGIC,        CGROUP_SUPER_MAGIC,
                                      SECURITYFS_MAGIC, DEBUGFS_MAGIC,      TRACEFS_MAGIC,
                                      PSTOREFS_MAGIC,   DEVPTS_SUPER_MAGIC, CGROUP2_SUPER_MAGIC,
                                      BPF_FS_MAGIC,     MQUEUE_MAGIC};
    struct statfs fs;

    if (fstatfs(fd, &fs) < 0)
        return false;
    for (size_t i = 0; i < sizeof(magics) / sizeof(magics[0]); i++)
        if ((uint32_t)fs.f_type == magics[i])
            return true;
    return false;
}

bool cmd_size_exact(int fd, const struct stat *st)
{
    return S_ISREG(st->st_mode) && !cmd_is_pseudo(fd);
}

ssize_t cmd_read_full(int fd, void *buf, size_t len)
{
    size_t have = 0;

    while (have < len) {
        ssize_t n = shim_read(fd, (char *)buf + have, len - have);

        if (n < 0)
            return n;
        if (n == 0)
            break;
        have += (size_t)n;
    }
    return (ssize_t)have;
}

void cmd_record(struct file_record *r, const struct stat *st)
{
    *r = (struct file_record){
        .type = shim_type_of_mode(st->st_mode),
        .mode = st->st_mode,
        .uid = st->st_uid,
        .gid = st->st_gid,
        .nlink = (uint32_t)st->st_nlink,
        .rdev_major = major(st->st_rdev),
        .rdev_minor = minor(st->st_rdev),
        .size = (uint64_t)st->st_size,
        .ino = st->st_ino,
        .atime = st->st_atim.tv_sec,
        .mtime = st->st_mtim.tv_sec,
        .ctime = st->st_ctim.tv_sec,
        .atime_ns = (uint32_t)st->st_atim.tv_nsec,
        .mtime_ns = (uint32_t)st->st_mtim.tv_nsec,
        .ctime_ns = (uint32_t)st->st_ctim.tv_nsec,
    };
}
