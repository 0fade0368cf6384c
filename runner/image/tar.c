/* The reader of the built-in archives, in memory. */

#include "image/tar.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/file.h"
#include "proto/syscalls.h"

enum { BLOCK = 512, CHECKSUM_OFF = 148, CHECKSUM_LEN = 8 };

/* POSIX.1-1988 ustar header. */
struct header {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[CHECKSUM_LEN], type;
    char link[100], magic[6], version[2], uname[32], gname[32], devmajor[8], devminor[8];
    char prefix[155], pad[12];
};
_Static_assert(sizeof(struct header) == BLOCK, "a ustar header is one block");
_Static_assert(offsetof(struct header, checksum) == CHECKSUM_OFF, "ustar layout");

static const struct {
    char flag;
    enum tar_type type;
} types[] = {{'0', TAR_FILE}, {'1', TAR_HARDLINK}, {'2', TAR_SYMLINK}, {'5', TAR_DIR}};

static bool all_zero(const unsigned char *p, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (p[i] != 0)
            return false;
    return true;
}

/*
 * Parses octal digits followed by NULs or spaces. False for anything else, an empty field, and
 * values above max.
 */
static bool parse_octal(const char *field, size_t len, uint64_t max, uint64_t *ret)
{
    uint64_t value = 0;
    size_t i;

    for (i = 0; i < len && field[i] >= '0' && field[i] <= '7'; i++)
        value = value * 8 + (uint64_t)(field[i] - '0'); /* at most 12 digits, 36 bits */
    if (i == 0 || i == len || value > max)
        return false;
    for (; i < len; i++)
        if (field[i] != '\0' && field[i] != ' ')
            return false;
    *ret = value;
    return true;
}

static bool checksum_ok(const unsigned char *block, const struct header *h)
{
    uint64_t want, sum = 0;

    if (!parse_octal(h->checksum, sizeof(h->checksum), UINT32_MAX, &want))
        return false;
    for (size_t i = 0; i < BLOCK; i++)
        sum += i >= CHECKSUM_OFF && i < CHECKSUM_OFF + CHECKSUM_LEN ? ' ' : block[i];
    return sum == want;
}

/* A relative path without empty, "." or ".." components. */
static bool name_ok(const char *name)
{
    for (const char *p = name;; p++) {
        size_t len = strcspn(p, "/");

        if (len == 0 || (len == 1 && p[0] == '.') || (len == 2 && p[0] == '.' && p[1] == '.'))
            return false;
        p += len;
        if (*p == '\0')
            return true;
    }
}

/* Joins prefix/name into ret->name, without a directory's trailing slash. */
static bool read_name(const struct header *h, struct tar_entry *ret)
{
    size_t prefix = strnlen(h->prefix, sizeof(h->prefix));
    size_t name = strnlen(h->name, sizeof(h->name));
    char *p = ret->name;

    if (prefix > 0) {
        (void)memcpy(p, h->prefix, prefix);
        p += prefix;
        *p++ = '/';
    }
    (void)memcpy(p, h->name, name);
    p += name;
    if (ret->type == TAR_DIR && name > 1 && p[-1] == '/')
        p--;
    *p = '\0';
    return name_ok(ret->name);
}

static bool read_link(const struct header *h, struct tar_entry *ret)
{
    size_t len = strnlen(h->link, sizeof(h->link));

    (void)memcpy(ret->link, h->link, len);
    ret->link[len] = '\0';
    if (ret->type == TAR_HARDLINK)
        return name_ok(ret->link);
    return (len > 0) == (ret->type == TAR_SYMLINK);
}

static bool read_type(const struct header *h, struct tar_entry *ret)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (types[i].flag == h->type) {
            ret->type = types[i].type;
            return true;
        }
    return false;
}

static bool read_numbers(const struct header *h, struct tar_entry *ret)
{
    uint64_t mode, uid, gid, size, mtime;
    uint64_t mode_max = ret->type == TAR_DIR || ret->type == TAR_SYMLINK ? 01777 : 0777;

    if (!parse_octal(h->mode, sizeof(h->mode), mode_max, &mode) ||
        !parse_octal(h->uid, sizeof(h->uid), TAR_OWNER_MAX, &uid) ||
        !parse_octal(h->gid, sizeof(h->gid), TAR_OWNER_MAX, &gid) ||
        !parse_octal(h->size, sizeof(h->size), ret->type == TAR_FILE ? UINT32_MAX : 0, &size) ||
        !parse_octal(h->mtime, sizeof(h->mtime), INT64_MAX, &mtime))
        return false;
    ret->mode = (mode_t)mode;
    ret->uid = (uid_t)uid;
    ret->gid = (gid_t)gid;
    ret->size = (size_t)size;
    ret->mtime = (int64_t)mtime;
    return true;
}

/* Decodes a header block into *ret. Returns NULL, or what is wrong with it. */
static const char *read_header(const unsigned char *block, struct tar_entry *ret)
{
    struct header h;

    (void)memcpy(&h, block, sizeof(h));
    if (memcmp(h.magic, "ustar", sizeof(h.magic)) != 0 || memcmp(h.version, "00", 2) != 0)
        return "not a ustar header";
    if (!checksum_ok(block, &h))
        return "wrong header checksum";
    if (!read_type(&h, ret))
        return "a type of entry other than file, directory and link";
    if (!read_name(&h, ret))
        return "a name that is not a plain relative path";
    if (!read_link(&h, ret))
        return "a wrong link target";
    if (!read_numbers(&h, ret))
        return "a mode, owner, size or time out of range";
    return NULL;
}

int tar_next(struct tar_reader *t, struct tar_entry *ret, struct err *err)
{
    struct tar_entry e;
    const char *wrong;
    size_t left, padded;

    left = t->len - t->pos;
    if (left < BLOCK)
        return err_set(err, -EBADMSG, "archive: ends without an end mark");
    if (all_zero(t->data + t->pos, BLOCK)) {
        if (left < (size_t)2 * BLOCK || !all_zero(t->data + t->pos, left))
            return err_set(err, -EBADMSG, "archive: the end mark is not the end");
        return 0;
    }
    if (t->entries >= TAR_ENTRIES_MAX)
        return err_set(err, -EBADMSG, "archive: more than %d entries", TAR_ENTRIES_MAX);

    wrong = read_header(t->data + t->pos, &e);
    if (wrong != NULL)
        return err_set(err, -EBADMSG, "archive: entry %zu: %s", t->entries, wrong);
    left -= BLOCK;
    padded = (e.size + BLOCK - 1) / BLOCK * BLOCK;
    if (padded > left)
        return err_set(err, -EBADMSG, "archive: %s: cut short", e.name);
    e.data = t->data + t->pos + BLOCK;
    if (!all_zero((const unsigned char *)e.data + e.size, padded - e.size))
        return err_set(err, -EBADMSG, "archive: %s: padding is not zero", e.name);

    t->pos += BLOCK + padded;
    t->entries++;
    *ret = e;
    return 1;
}

/* The place of an entry: its parent directory and its last component. */
struct place {
    int dirfd;        /* borrowed; the destination */
    int parent;       /* dirfd, or owned: place_done closes it */
    const char *last; /* borrowed from the entry */
};

static int place_find(int dirfd, const char *name, struct place *ret)
{
    const char *slash = strrchr(name, '/');
    char parent[TAR_NAME_MAX + 1];
    int fd;

    if (slash == NULL) {
        *ret = (struct place){.dirfd = dirfd, .parent = dirfd, .last = name};
        return 0;
    }
    (void)memcpy(parent, name, (size_t)(slash - name));
    parent[slash - name] = '\0';
    fd = sys_openat2(dirfd, parent, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0, OPEN_PLAIN);
    if (fd < 0)
        return fd;
    *ret = (struct place){.dirfd = dirfd, .parent = fd, .last = slash + 1};
    return 0;
}

static void place_done(struct place *p)
{
    if (p->parent != p->dirfd)
        (void)close(p->parent);
}

static int set_attributes(int fd, const struct tar_entry *e)
{
    struct timespec times[2] = {{.tv_sec = e->mtime}, {.tv_sec = e->mtime}};

    /* chown clears mode bits, so chmod follows. */
    if (fchown(fd, e->uid, e->gid) < 0 || fchmod(fd, e->mode) < 0 || futimens(fd, times) < 0)
        return -errno;
    return 0;
}

static int make_file(const struct place *p, const struct tar_entry *e)
{
    auto_close int fd = FD_NONE;
    int r;

    fd = openat(p->parent, p->last, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    r = write_all(fd, e->data, e->size);
    return r < 0 ? r : set_attributes(fd, e);
}

static int make_symlink(const struct place *p, const struct tar_entry *e)
{
    struct timespec times[2] = {{.tv_sec = e->mtime}, {.tv_sec = e->mtime}};

    if (symlinkat(e->link, p->parent, p->last) < 0 ||
        fchownat(p->parent, p->last, e->uid, e->gid, AT_SYMLINK_NOFOLLOW) < 0 ||
        utimensat(p->parent, p->last, times, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    return 0;
}

static int make_hardlink(const struct place *p, const struct tar_entry *e)
{
    struct place from;
    struct stat st;
    int r;

    r = place_find(p->dirfd, e->link, &from);
    if (r < 0)
        return r;
    if (fstatat(from.parent, from.last, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        (S_ISREG(st.st_mode) && linkat(from.parent, from.last, p->parent, p->last, 0) < 0))
        r = -errno;
    else if (!S_ISREG(st.st_mode))
        r = -EINVAL;
    place_done(&from);
    return r;
}

/* finish_entry sets the final mode, when the directory is complete. */
static int make_dir(const struct place *p, const struct tar_entry *e)
{
    (void)e;
    return mkdirat(p->parent, p->last, 0700) < 0 ? -errno : 0;
}

static int make_entry(int dirfd, const struct tar_entry *e)
{
    static int (*const makers[])(const struct place *, const struct tar_entry *) = {
        [TAR_FILE] = make_file,
        [TAR_HARDLINK] = make_hardlink,
        [TAR_SYMLINK] = make_symlink,
        [TAR_DIR] = make_dir,
    };
    struct place p;
    int r;

    r = place_find(dirfd, e->name, &p);
    if (r < 0)
        return r;
    r = makers[e->type](&p, e);
    place_done(&p);
    return r;
}

/*
 * Second pass: sets directories' attributes, and syncs everything. The first fsync writes most of
 * the data.
 */
static int finish_entry(int dirfd, const struct tar_entry *e)
{
    auto_close int fd = FD_NONE;
    int r;

    if (e->type != TAR_FILE && e->type != TAR_DIR)
        return 0;
    fd = sys_openat2(dirfd, e->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0, OPEN_PLAIN);
    if (fd < 0)
        return fd;
    if (e->type == TAR_DIR) {
        r = set_attributes(fd, e);
        if (r < 0)
            return r;
    }
    return fsync(fd) < 0 ? -errno : 0;
}

int tar_unpack(int dirfd, const void *data, size_t len, struct err *err)
{
    static int (*const passes[])(int, const struct tar_entry *) = {make_entry, finish_entry};

    for (size_t i = 0; i < sizeof(passes) / sizeof(passes[0]); i++) {
        struct tar_reader t = TAR_READER(data, len);
        struct tar_entry e = {.name = ""};
        int r;

        while ((r = tar_next(&t, &e, err)) > 0) {
            int failed = passes[i](dirfd, &e);

            if (failed < 0)
                return err_errno(err, failed, "%s", e.name);
        }
        if (r < 0)
            return r;
    }
    return 0;
}
