#pragma once

/*
 * Reads the archives embedded in the binary: plain ustar in memory, only as rootfs-builder/ustar.py
 * writes it. It is not meant for archives from outside.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

enum {
    TAR_NAME_MAX = 256,      /* prefix, slash, name */
    TAR_LINK_MAX = 100,      /* target of a link */
    TAR_ENTRIES_MAX = 65536, /* in one archive */
    TAR_OWNER_MAX = 65535,   /* end of a sandbox's id range */
};

enum tar_type { TAR_FILE, TAR_HARDLINK, TAR_SYMLINK, TAR_DIR };

struct tar_entry {
    enum tar_type type;
    mode_t mode; /* permission bits; never setuid or setgid; sticky only on directories */
    uid_t uid;
    gid_t gid;
    int64_t mtime;
    const void *data; /* borrowed from the archive; TAR_FILE only */
    size_t size;
    char
        name[TAR_NAME_MAX + 1]; /* relative; no empty, "." or ".." component, no slash at the end */
    char link[TAR_LINK_MAX + 1]; /* TAR_SYMLINK: any text. TAR_HARDLINK: as name */
};

/* Position in an archive; initialized by TAR_READER. */
struct tar_reader {
    const unsigned char *data; /* borrowed */
    size_t len, pos, entries;
};
#define TAR_READER(archive, length)                                                                \
    {                                                                                              \
        .data = (archive), .len = (length), .pos = 0, .entries = 0                                 \
    }

/*
 * Returns 1 and the next entry; 0 at the proper end; -EBADMSG with the reason otherwise (also if
 * the end is missing). Pure.
 */
int tar_next(struct tar_reader *t, struct tar_entry *ret, struct err *err);

/*
 * Unpacks into an empty directory owned by this user. Entries never follow links or replace files;
 * owners, modes and times are the archive's. Syncs everything below dirfd; the caller syncs dirfd
 * itself. After a failure the entries already unpacked stay. Blocks.
 */
int tar_unpack(int dirfd, const void *data, size_t len, struct err *err);
