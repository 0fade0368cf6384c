#include "tarball.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "image/worker-proto.h"

enum { BUF_BYTES = 1 << 20, FIELD_BYTES = 100 /* bytes of a name in a header */ };

/*
 * libarchive converts the names of pax headers to the locale's character set. It loses a link's
 * target when the header's own field for it is empty (as Go leaves it when no character of the
 * target is ASCII). So the raw bytes are captured where libarchive passes them to the entry. The
 * linker replaces these two functions (-Wl,--wrap; tests fail if it does not any more). A process
 * has one reader.
 */
struct raw {
    char text[WORKER_PATH_MAX + 2]; /* one byte more than any name may have */
    size_t len;                     /* as in the archive; 0: not set */
};
static struct raw raw_name, raw_link;

struct archive_string_conv;

int __real__archive_entry_copy_pathname_l(struct archive_entry *e, const char *s, size_t len,
                                          struct archive_string_conv *sc);
int __wrap__archive_entry_copy_pathname_l(struct archive_entry *e, const char *s, size_t len,
                                          struct archive_string_conv *sc);
int __real__archive_entry_copy_link_l(struct archive_entry *e, const char *s, size_t len,
                                      struct archive_string_conv *sc);
int __wrap__archive_entry_copy_link_l(struct archive_entry *e, const char *s, size_t len,
                                      struct archive_string_conv *sc);

static void raw_set(struct raw *raw, const char *s, size_t len)
{
    size_t n = len < sizeof(raw->text) - 1 ? len : sizeof(raw->text) - 1;

    if (s == NULL)
        return;
    /* From the header's fixed field, whose rest may be garbage; GNU's long names end with a NUL. */
    if (len == FIELD_BYTES)
        n = len = strnlen(s, len);
    while (len > 0 && s[len - 1] == '\0')
        len--;
    n = n < len ? n : len;
    (void)memcpy(raw->text, s, n);
    raw->text[n] = '\0';
    raw->len = len;
}

int __wrap__archive_entry_copy_pathname_l(struct archive_entry *e, const char *s, size_t len,
                                          struct archive_string_conv *sc)
{
    raw_set(&raw_name, s, len);
    return __real__archive_entry_copy_pathname_l(e, s, len, sc);
}

int __wrap__archive_entry_copy_link_l(struct archive_entry *e, const char *s, size_t len,
                                      struct archive_string_conv *sc)
{
    raw_set(&raw_link, s, len);
    return __real__archive_entry_copy_link_l(e, s, len, sc);
}

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

static int tarball_error(const struct tarball *t, struct err *err)
{
    const char *text = archive_error_string(t->archive);

    if (t->error < 0)
        return err_errno(err, t->error, "read the archive");
    if (archive_errno(t->archive) == ENOMEM)
        return err_set(err, -ENOMEM, "%s", text != NULL ? text : "out of memory");
    return err_set(err, -EBADMSG, "%s", text != NULL ? text : "broken archive");
}

static int tarball_new_reader(struct tarball *t, struct err *err)
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
    r = tarball_new_reader(t, err);
    if (r < 0)
        return r;
    if (archive_read_open(t->archive, t, NULL, on_read, NULL) != ARCHIVE_OK)
        return tarball_error(t, err);
    return 0;
}

int tarball_open_memory(struct tarball *t, const void *bytes, size_t len, struct err *err)
{
    int r;

    *t = (struct tarball){.read = NULL};
    r = tarball_new_reader(t, err);
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

/* A failed conversion to the locale's character set is harmless, as raw bytes are used. */
static bool is_charset_warning(const struct tarball *t)
{
    const char *text = archive_error_string(t->archive);

    return text != NULL && strstr(text, "can't be converted from") != NULL;
}

static enum entry_kind entry_kind_of(struct archive_entry *e)
{
    if (archive_entry_hardlink(e) != NULL)
        return ENTRY_HARD_LINK;
    if (archive_entry_filetype(e) == 0 && raw_link.len > 0)
        return ENTRY_HARD_LINK; /* libarchive has lost its target */
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

/* "-1.25" is a quarter of a second before -1. libarchive returns both numbers as written, which
 * would mean -0.75. */
static struct timespec entry_time(int64_t s, long ns)
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

static void tarball_fill_entry(struct tarball *t, struct entry *ret)
{
    struct archive_entry *e = t->entry;
    const char *name = archive_entry_pathname(e), *link = NULL;

    *ret = (struct entry){.kind = entry_kind_of(e)};
    if (ret->kind == ENTRY_HARD_LINK)
        link = archive_entry_hardlink(e);
    else if (ret->kind == ENTRY_SYMBOLIC)
        link = archive_entry_symlink(e);
    if (raw_name.len > 0)
        name = raw_name.text;
    if (raw_link.len > 0 && (ret->kind == ENTRY_HARD_LINK || ret->kind == ENTRY_SYMBOLIC))
        link = raw_link.text;
    ret->mode = archive_entry_perm(e) & 07777;
    ret->uid = archive_entry_uid(e);
    ret->gid = archive_entry_gid(e);
    ret->size = ret->kind == ENTRY_FILE ? (uint64_t)archive_entry_size(e) : 0;
    ret->mtime = entry_time(archive_entry_mtime(e), archive_entry_mtime_nsec(e));
    ret->atime = archive_entry_atime_is_set(e)
                     ? entry_time(archive_entry_atime(e), archive_entry_atime_nsec(e))
                     : ret->mtime;
    if (ret->atime.tv_sec < ret->mtime.tv_sec)
        ret->atime = ret->mtime;
    ret->name = name != NULL ? name : "";
    ret->link = link != NULL ? link : "";
    ret->has_xattrs = archive_entry_xattr_reset(e) > 0;
}

int tarball_next(struct tarball *t, struct entry *ret, struct err *err)
{
    int r;

    raw_name.len = raw_link.len = 0;
    r = archive_read_next_header(t->archive, &t->entry);
    if (r == ARCHIVE_EOF)
        return 0;
    if (r != ARCHIVE_OK && !(r == ARCHIVE_WARN && is_charset_warning(t)))
        return tarball_error(t, err);
    tarball_fill_entry(t, ret);
    if (ret->kind == ENTRY_SYMBOLIC && ret->link[0] == '\0')
        return err_set(err, -EBADMSG, "%.100s: a link without a target", ret->name);
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
        return tarball_error(t, err);
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
