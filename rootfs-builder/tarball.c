#include "tarball.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

enum { BUF_BYTES = 1 << 20 };

static la_ssize_t on_read(struct archive *a, void *data, const void **ret)
{
    struct tarball *t = data;
    ssize_t n = t->read(t->data, t->buf, BUF_BYTES);

    if (n < 0) {
        t->error = (int)n;
        archive_set_error(a, (int)-n, "read failed");
        return ARCHIVE_FATAL;
    }
    *ret = t->buf;
    return n;
}

static int start(struct tarball *t, struct err *err)
{
    t->archive = archive_read_new();
    if (t->archive == NULL || archive_read_support_format_tar(t->archive) != ARCHIVE_OK ||
        archive_read_support_format_empty(t->archive) != ARCHIVE_OK)
        return err_errno(err, -ENOMEM, "the archive's reader");
    return 0;
}

int tarball_open(struct tarball *t, ssize_t (*read)(void *data, void *buf, size_t len), void *data,
                 struct err *err)
{
    int r;

    *t = (struct tarball){.read = read, .data = data, .buf = malloc(BUF_BYTES)};
    if (t->buf == NULL)
        return err_errno(err, -ENOMEM, "the archive's reader");
    r = start(t, err);
    if (r < 0)
        return r;
    if (archive_read_open(t->archive, t, NULL, on_read, NULL) != ARCHIVE_OK)
        return err_set(err, t->error < 0 ? t->error : -EBADMSG, "%s",
                       archive_error_string(t->archive));
    return 0;
}

int tarball_open_memory(struct tarball *t, const void *bytes, size_t len, struct err *err)
{
    int r;

    *t = (struct tarball){.read = NULL};
    r = start(t, err);
    if (r < 0)
        return r;
    if (archive_read_open_memory(t->archive, bytes, len) != ARCHIVE_OK)
        return err_set(err, -EBADMSG, "%s", archive_error_string(t->archive));
    return 0;
}

void tarball_close(struct tarball *t)
{
    if (t->archive != NULL)
        (void)archive_read_free(t->archive);
    free(t->buf);
    *t = (struct tarball){.read = NULL};
}

static int failure(const struct tarball *t, struct err *err)
{
    const char *text = archive_error_string(t->archive);

    if (t->error < 0)
        return err_errno(err, t->error, "read the archive");
    if (archive_errno(t->archive) == ENOMEM)
        return err_set(err, -ENOMEM, "%s", text != NULL ? text : "out of memory");
    return err_set(err, -EBADMSG, "%s", text != NULL ? text : "broken archive");
}

/* libarchive keeps the bytes of a name that it cannot convert, which is all that we want. */
static bool only_a_character_set(const struct tarball *t)
{
    const char *text = archive_error_string(t->archive);

    return text != NULL && strstr(text, "can't be converted from") != NULL;
}

static enum entry_kind kind_of(struct archive_entry *e)
{
    if (archive_entry_hardlink(e) != NULL)
        return ENTRY_HARD_LINK;
    switch (archive_entry_filetype(e)) {
    case AE_IFREG:
        return ENTRY_FILE;
    case AE_IFLNK:
        return ENTRY_SYMBOLIC;
    case AE_IFCHR:
        return ENTRY_CHARACTER;
    case AE_IFBLK:
        return ENTRY_BLOCK;
    case AE_IFDIR:
        return ENTRY_DIRECTORY;
    case AE_IFIFO:
        return ENTRY_FIFO;
    default:
        return ENTRY_OTHER;
    }
}

/* "-1.25" is a quarter before -1; libarchive gives both numbers as they are written, so that they
 * would mean -0.75. */
static struct timespec time_of(int64_t s, long ns)
{
    struct timespec t = {.tv_sec = s, .tv_nsec = ns};

    if (t.tv_nsec < 0 || t.tv_nsec > 999999999)
        t.tv_nsec = 0;
    if (s < 0 && t.tv_nsec > 0) {
        t.tv_sec--;
        t.tv_nsec = 1000000000 - t.tv_nsec;
    }
    return t;
}

static void fill(struct tarball *t, struct entry *ret)
{
    struct archive_entry *e = t->entry;
    const char *name = archive_entry_pathname(e), *link = NULL;

    *ret = (struct entry){.kind = kind_of(e)};
    if (ret->kind == ENTRY_HARD_LINK)
        link = archive_entry_hardlink(e);
    else if (ret->kind == ENTRY_SYMBOLIC)
        link = archive_entry_symlink(e);
    ret->mode = archive_entry_perm(e) & 07777;
    ret->uid = archive_entry_uid(e);
    ret->gid = archive_entry_gid(e);
    ret->size = ret->kind == ENTRY_FILE ? (uint64_t)archive_entry_size(e) : 0;
    ret->mtime = time_of(archive_entry_mtime(e), archive_entry_mtime_nsec(e));
    ret->atime = archive_entry_atime_is_set(e)
                     ? time_of(archive_entry_atime(e), archive_entry_atime_nsec(e))
                     : ret->mtime;
    if (ret->atime.tv_sec < ret->mtime.tv_sec)
        ret->atime = ret->mtime;
    ret->name = name != NULL ? name : "";
    ret->link = link != NULL ? link : "";
    ret->has_xattrs = archive_entry_xattr_reset(e) > 0;
}

int tarball_next(struct tarball *t, struct entry *ret, struct err *err)
{
    int r = archive_read_next_header(t->archive, &t->entry);

    if (r == ARCHIVE_EOF)
        return 0;
    if (r != ARCHIVE_OK && !(r == ARCHIVE_WARN && only_a_character_set(t)))
        return failure(t, err);
    fill(t, ret);
    return 1;
}

int tarball_data(struct tarball *t, const void **ret, size_t *ret_len, uint64_t *ret_at,
                 struct err *err)
{
    la_int64_t at = 0;
    int r;

    do
        r = archive_read_data_block(t->archive, ret, ret_len, &at);
    while (r == ARCHIVE_OK && *ret_len == 0);
    if (r == ARCHIVE_EOF)
        return 0;
    if (r != ARCHIVE_OK || at < 0)
        return failure(t, err);
    *ret_at = (uint64_t)at;
    return 1;
}

bool tarball_xattr(struct tarball *t, struct xattr *ret)
{
    return archive_entry_xattr_next(t->entry, &ret->name, &ret->value, &ret->len) == ARCHIVE_OK;
}

int tarball_drain(struct tarball *t, struct err *err)
{
    ssize_t n = 1;

    while (t->read != NULL && n > 0)
        n = t->read(t->data, t->buf, BUF_BYTES);
    return n < 0 ? err_errno(err, (int)n, "read behind the archive") : 0;
}
