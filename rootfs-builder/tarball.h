#pragma once

/* Reads a tar stream with libarchive: ustar, old and GNU archives, pax headers (global ones are
 * skipped), GNU and pax sparse files. Names are bytes. Every warning of libarchive is an error
 * here, except failed conversions of names to the locale's character set, whose result is not used.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

struct archive;
struct archive_entry;
struct err;

enum entry_kind {
    ENTRY_INVALID = 0,
    ENTRY_FILE,
    ENTRY_HARD_LINK,
    ENTRY_SYMBOLIC,
    ENTRY_CHARACTER,
    ENTRY_BLOCK,
    ENTRY_DIRECTORY,
    ENTRY_FIFO,
    ENTRY_OTHER,
};

struct entry {
    enum entry_kind kind;
    mode_t mode;                  /* 07777 */
    int64_t uid, gid;             /* as in the archive */
    uint64_t size;                /* of the contents, with holes; 0 for all but ENTRY_FILE */
    struct timespec atime, mtime; /* atime is mtime if it is missing or earlier */
    const char *name;             /* raw; borrowed: valid until the next call, like all below */
    const char *link;             /* raw target of a link, or "" */
    bool has_xattrs;
};

struct xattr {
    const char *name;
    const void *value;
    size_t len;
};

struct tarball {
    struct archive *archive;     /* owned */
    struct archive_entry *entry; /* borrowed from archive */
    uint8_t *buf;                /* owned */
    /* Reads up to len bytes; 0 at EOF; negative errno. */
    ssize_t (*read)(void *data, void *buf, size_t len);
    void *data; /* borrowed, for read */
    int error;  /* the error that read returned, or 0 */
};

/* Opens a stream that is read through read(data, ...), or bytes in memory. -ENOMEM. Must be closed
 * also after a failure. */
int tarball_open(struct tarball *t, ssize_t (*read)(void *data, void *buf, size_t len), void *data,
                 struct err *err);
int tarball_open_memory(struct tarball *t, const void *bytes, size_t len, struct err *err);
void tarball_close(struct tarball *t);

/* Returns 1 with the next entry; 0 at the end of the archive; -EBADMSG for a broken or truncated
 * archive, or none; or an error of t->read. Skips contents that were not read. */
int tarball_next(struct tarball *t, struct entry *ret, struct err *err);

/* Reads the next piece of a file's contents, which starts at *ret_at: 1; 0 at the end. Pieces are
 * in ascending order, and gaps between them are zeros; none exceeds the entry's size. */
int tarball_data(struct tarball *t, const void **ret, size_t *ret_len, uint64_t *ret_at,
                 struct err *err);

/* Returns the entry's attributes, one by one; false at the end. */
bool tarball_xattr(struct tarball *t, struct xattr *ret);

/* Reads the bytes after the end of the archive, so that the writer gets no EPIPE and all bytes are
 * hashed. */
int tarball_drain(struct tarball *t, struct err *err);
