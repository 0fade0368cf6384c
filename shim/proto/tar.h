#pragma once

/*
 * Archives: ustar with pax headers where ustar's fields do not suffice, as POSIX.1-2001 has them.
 *
 * The reader is strict, because whoever made an archive may be hostile: checksums, the two blocks
 * at the end, and every number are checked; what it does not know how to unpack faithfully it
 * refuses with the entry's name. It reads pax headers (local and global), GNU's long names and
 * base-256 numbers, and old archives without a magic; it refuses sparse files, multi-volume parts
 * and everything compressed.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/file-msg.h"

enum {
    TAR_BLOCK = 512,
    TAR_RECORD = 10240,      /* archives end on a multiple of this */
    TAR_PAX_MAX = 256 << 10, /* bytes of one pax header */
    TAR_XATTRS_MAX = 32,     /* of one entry */
    TAR_ID_MAX = 65535,      /* a sandbox's ids end here */
    TAR_ID_NOBODY = 65534,   /* what a larger one becomes, as the kernel's overflow id */
    TAR_SLACK_MAX = 1 << 20, /* bytes behind the end of an archive */
};

enum tar_kind {
    TAR_KIND_INVALID = 0,
    TAR_REGULAR,
    TAR_HARD_LINK,
    TAR_SYMBOLIC,
    TAR_CHARACTER,
    TAR_BLOCK_DEVICE,
    TAR_DIRECTORY,
    TAR_PIPE,
};

struct tar_xattr {
    const char *name;  /* terminated */
    const void *value; /* not terminated */
    size_t len;
};

struct tar_item {
    enum tar_kind kind;
    uint32_t mode;     /* 07777 */
    uint32_t uid, gid; /* as in the archive, clamped by tar_read to TAR_ID_NOBODY */
    uint32_t dev_major, dev_minor;
    uint64_t size; /* of the contents that follow */
    int64_t mtime;
    uint32_t mtime_ns;
    bool sparse; /* for tar_put_item: a regular file of real_size bytes, whose contents in the
                    archive are GNU's map (format 1.0) and what lies between its holes */
    uint64_t real_size;
    char name[FILE_PATH_MAX + 1];
    char link[FILE_PATH_MAX + 1];
    struct tar_xattr xattrs[TAR_XATTRS_MAX];
    size_t xattr_count;
};

/* ---- reading ---- */

struct tar_in {
    /* Up to len bytes, fewer only at the end; negative errno. */
    ssize_t (*read)(void *data, void *buf, size_t len);
    void *data;
    uint64_t left, pad; /* of the contents at hand */
    const char *why;    /* after a failure: static text */
    char pax[TAR_PAX_MAX + 1];
    /* What global headers have set for all that follows: only times and names of users, which are
     * not used; so nothing is kept. */
};

/*
 * The next entry, with pax headers and long names put in: 1; 0 at the end; -EBADMSG (no archive,
 * broken, ended early), -EOPNOTSUPP (a kind of entry or attribute that is not for us), -E2BIG,
 * -ENAMETOOLONG, or what read said. Skips what is left of the contents before. item's xattrs point
 * into t: valid until the next call.
 */
int tar_read(struct tar_in *t, struct tar_item *item);
/* The contents of the entry, piece by piece; 0 at their end. */
ssize_t tar_read_data(struct tar_in *t, void *buf, size_t len);

/*
 * Whether name is one that stays beneath: relative, without "..", not empty. "." and empty
 * components are left out of *ret (room for FILE_PATH_MAX + 1 bytes), which is "" for the top
 * itself. -EINVAL.
 */
int tar_clean_name(const char *name, char *ret);

/* ---- writing ---- */

enum { TAR_HEAD_MAX = TAR_BLOCK * 2 + TAR_PAX_MAX + TAR_BLOCK };

/*
 * The header of an item, with a pax header in front where it needs one: out has room for
 * TAR_HEAD_MAX bytes. Returns the size, a multiple of TAR_BLOCK; -E2BIG when attributes are too
 * large. A directory's name has no slash at its end.
 */
ssize_t tar_put_item(uint8_t *out, const struct tar_item *item);
