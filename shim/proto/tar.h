#pragma once

/*
 * Archives: ustar with pax headers where ustar's fields do not suffice, as in POSIX.1-2001. Used by
 * the shim's file helpers, rind-rootfs and the client's pack and unpack commands.
 *
 * The reader is strict, because an archive may be hostile: checksums, the two blocks at the end,
 * and every number are checked. It refuses an entry that it cannot unpack faithfully, and names it.
 * It reads pax headers (local and global; attributes as star or as libarchive writes them), GNU's
 * long names and base-256 numbers, and old archives without a magic. It refuses multi-volume parts,
 * compressed archives, and sparse files where the caller does not unpack them (tar_in.map).
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
    TAR_XATTRS_MAX = 32,     /* xattrs of an entry */
    TAR_SPARSE_MAX = 16384,  /* pieces of data in a sparse file */
    TAR_ID_MAX = 65535,      /* the highest id of a sandbox */
    TAR_ID_NOBODY = 65534,   /* replaces a larger id; equals the kernel's overflow id */
    TAR_SLACK_MAX = 1 << 20, /* bytes after the end of an archive */
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

/* tar_read gives those that a sandbox can set (tar-xattr.h), and skips others. */
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
    uint64_t size; /* bytes of the contents that follow */
    int64_t mtime;
    uint32_t mtime_ns;
    /*
     * A regular file of real_size bytes, with holes. For tar_put_item: its contents in the archive
     * are GNU's map (format 1.0) and the data between its holes. From tar_read: what tar_read_data
     * gives are the pieces of tar_in.map, one after another.
     */
    bool sparse;
    uint64_t real_size;
    char name[FILE_PATH_MAX + 1];
    char link[FILE_PATH_MAX + 1];
    struct tar_xattr xattrs[TAR_XATTRS_MAX];
    size_t xattr_count;
};

/* ---- reading ---- */

/* Data in a sparse file. */
struct tar_piece {
    uint64_t offset, len;
};

struct tar_in {
    /* Reads up to len bytes, fewer only at EOF; or returns a negative errno. */
    ssize_t (*read)(void *data, void *buf, size_t len);
    void *data;
    uint64_t left, pad; /* remaining bytes of the current contents, and their padding */
    const char *why;    /* after a failure: static text */
    /*
     * Room for TAR_SPARSE_MAX pieces, if the caller unpacks sparse files (GNU's old format and 1.0,
     * which GNU tar and bsdtar write); NULL: they are refused. The pieces of an item are in order,
     * lie within its real_size, and are as long together as its size.
     */
    struct tar_piece *map; /* borrowed */
    size_t map_count;
    char pax[TAR_PAX_MAX + 1];
    /* Global headers set only times and user names, which are not used, so none of their values are
     * kept. */
};

/*
 * Reads the next entry, with its pax headers and long names applied: 1; 0 at the end; -EBADMSG (not
 * an archive, broken, or truncated), -EOPNOTSUPP (an unsupported kind of entry), -E2BIG,
 * -ENAMETOOLONG, or an error of t->read. Skips the rest of the previous contents. item's xattrs
 * point into t: valid until the next call.
 */
int tar_read(struct tar_in *t, struct tar_item *item);
/* Reads the contents of the entry piece by piece; 0 at their end. */
ssize_t tar_read_data(struct tar_in *t, void *buf, size_t len);

/* Checks that a name stays below the top: relative, without "..", not empty. Removes "." and empty
 * components; *ret (room for FILE_PATH_MAX + 1 bytes) is "" for the top itself. -EINVAL. */
int tar_clean_name(const char *name, char *ret);

/* ---- writing ---- */

enum { TAR_HEAD_MAX = TAR_BLOCK * 2 + TAR_PAX_MAX + TAR_BLOCK };

/* Encodes the header of an item, with a pax header before it if necessary. out has room for
 * TAR_HEAD_MAX bytes. Returns the size, a multiple of TAR_BLOCK; -E2BIG when the attributes are too
 * large. A directory's name has no trailing slash. */
ssize_t tar_put_item(uint8_t *out, const struct tar_item *item);
