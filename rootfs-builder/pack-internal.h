#pragma once

/* Shared by pack*.c only. */

#include <sys/stat.h>

#include "names.h"
#include "pack.h"
#include "proto/tar.h"

struct level {
    struct sorted_names names;
    int fd;          /* owned; FD_NONE: closed while a directory in it is packed */
    size_t path_len; /* length of the directory's path in packer.path */
};

/* A file with more than one name: its inode, and the name under which it was packed. */
struct seen {
    dev_t dev;
    ino_t ino;
    size_t name; /* offset into links.text */
};

struct pack_links {
    struct seen *slots; /* owned */
    size_t slot_count, count;
    char *text; /* owned */
    size_t text_len, text_cap;
};

struct packer {
    const struct pack_options *o; /* borrowed */
    const struct pack_sink *sink; /* borrowed */
    struct pack_result *result;   /* borrowed */
    int root_fd;                  /* owned */
    char path[PATH_ROOM];         /* the current entry, relative to root */
    struct level *levels;         /* owned */
    size_t depth, cap;
    struct opaque opaque;
    struct pack_links links;
    struct tar_item item;
    char xattr_values[TAR_PAX_MAX];
    char xattr_names[TAR_PAX_MAX];
    uint8_t head[TAR_HEAD_MAX];
    uint64_t written; /* bytes of the stream so far */
};

/* ---- pack-links.c ---- */

void links_done(struct pack_links *l);
/* Sets *ret to the name under which the inode has been packed. NULL: not yet; then `name` is
 * recorded. -ENOMEM. */
int links_find(struct pack_links *l, const struct stat *st, const char *name, const char **ret);

/* ---- pack-file.c ---- */

int put_bytes(struct packer *p, const void *bytes, size_t len, struct err *err);
/* Writes the header of p->item. */
int put_item(struct packer *p, struct err *err);
/* Writes header and contents of the regular file; p->item must be complete except for its size. */
int put_file(struct packer *p, int fd, const struct stat *st, struct err *err);
