#pragma once

/*
 * Reads the archives that the binary carries: plain ustar in memory, and only what
 * rootfs-builder/ustar.py writes. Archives from outside are not for this reader.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

enum {
    TAR_NAME_MAX = 256,      /* prefix, slash, name */
    TAR_LINK_MAX = 100,      /* target of a link */
    TAR_ENTRIES_MAX = 65536, /* in one archive */
    TAR_OWNER_MAX = 65535,   /* a sandbox's id range ends here */
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

/* A position in an archive; make it with TAR_READER. */
struct tar_reader {
    const unsigned char *data; /* borrowed */
    size_t len, pos, entries;
};
#define TAR_READER(archive, length)                                                                \
    {                                                                                              \
        .data = (archive), .len = (length), .pos = 0, .entries = 0                                 \
    }

/* 1 and the next entry; 0 at the archive's proper end; -EBADMSG with the reason for anything else
 * (a missing end included). Pure. */
int tar_next(struct tar_reader *t, struct tar_entry *ret, struct err *err);

/*
 * Unpacks into an empty directory of ours: each entry beneath dirfd, through no link, over nothing
 * that exists, with the archive's owners, modes and times; files and directories below dirfd are on
 * disk when it returns (dirfd itself is the caller's to sync). On failure what was unpacked stays.
 */
int tar_unpack(int dirfd, const void *data, size_t len, struct err *err);
