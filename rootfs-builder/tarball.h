#pragma once

/*
 * Reading a tar stream, by libarchive: ustar, old and GNU archives, pax headers (global ones are
 * skipped), GNU and pax sparse files. Names are bytes. Whatever libarchive would carry on after
 * with a warning is an error here, but for its failed attempts to turn names into the locale's
 * character set, which does not interest anybody.
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
    int64_t uid, gid;             /* as the archive says */
    uint64_t size;                /* of the contents, holes included; 0 for all but ENTRY_FILE */
    struct timespec atime, mtime; /* atime is mtime when there is none, or an earlier one */
    const char *name;             /* raw; borrowed: until the next call, as all below */
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
    /* Up to len bytes; 0 at the end; negative errno. */
    ssize_t (*read)(void *data, void *buf, size_t len);
    void *data; /* borrowed, for read */
    int error;  /* that read returned, or 0 */
};

/* Bytes go through read(data, …), or come from memory. -ENOMEM. Close it also after a failure. */
int tarball_open(struct tarball *t, ssize_t (*read)(void *data, void *buf, size_t len), void *data,
                 struct err *err);
int tarball_open_memory(struct tarball *t, const void *bytes, size_t len, struct err *err);
void tarball_close(struct tarball *t);

/* 1 with the next entry, 0 at the end of the archive, -EBADMSG for what is no archive, a broken or
 * a truncated one, or what read returned. Contents that nobody asked for are skipped. */
int tarball_next(struct tarball *t, struct entry *ret, struct err *err);

/* The next piece of a file's contents, which starts at *ret_at: 1; 0 at the end. Pieces ascend, and
 * what lies between them is zero; none reaches beyond the entry's size. */
int tarball_data(struct tarball *t, const void **ret, size_t *ret_len, uint64_t *ret_at,
                 struct err *err);

/* The entry's attributes, one after the other; false at the end. */
bool tarball_xattr(struct tarball *t, struct xattr *ret);

/* Reads what is left behind the end of the archive (any bytes), so that who writes sees no error,
 * and all of it is hashed. */
int tarball_drain(struct tarball *t, struct err *err);
