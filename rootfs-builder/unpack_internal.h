#pragma once

/* For the files of unpack*.c only. */

#include <sys/stat.h>
#include <sys/types.h>

#include "dirs.h"
#include "tarball.h"
#include "unpack.h"

struct unpack {
    const struct unpack_options *o; /* borrowed */
    struct tarball *t;              /* borrowed */
    struct unpack_result *result;   /* borrowed */
    int root_fd;                    /* owned */
    struct dirs dirs;

    /* The directory of the entry at hand. It stays for the next entry in it. */
    int parent_fd;                /* owned, O_PATH; FD_NONE: none yet */
    bool parent_setgid;           /* what is made in it gets its group */
    char parent_asked[PATH_ROOM]; /* as entries name it */
    char parent[PATH_ROOM];       /* where that is: through no link */

    bool default_acls; /* there may be directories that change the modes of what is made in them */
};

/* What a directory, or a file that is copied, is like. */
struct facts {
    mode_t mode;
    uid_t uid;
    gid_t gid;
    struct timespec atime, mtime;
};

/* ---- unpack-parent.c ---- */

/* Makes the directory `asked` (clean) the parent, with those above it that are missing. With
 * only_if_there: 0 when something that is no directory stands in the way, or is missing and would
 * have to take such a thing's place; else 1. */
int parent_enter(struct unpack *u, const char *asked, bool only_if_there, struct err *err);
/* The next entry shall look for its parent again: a link or directory has gone. */
void parent_forget(struct unpack *u);
/* Resolves links in `asked` inside the tree. What is missing is taken for a directory. -ELOOP,
 * -ENAMETOOLONG. */
int parent_resolve(const struct unpack *u, const char *asked, char out[PATH_ROOM]);

/* Removes `name` from the parent, with all in it. *ret_whiteout: it was one. -ENOENT when there is
 * none. */
int parent_clear(struct unpack *u, const char *name, bool *ret_whiteout);

/* ---- unpack-lower.c ---- */

/* A directory that the archive has no entry for is like the one below, when there is one. fd: of
 * the new directory, O_RDONLY. */
int lower_copy_directory(struct unpack *u, const char *path, int fd, struct err *err);
/* Copies the file or link `path` (clean, through no link) up into the tree. -ENOENT when there is
 * none; -EPERM when it is neither. Enters another parent. */
int lower_copy_up(struct unpack *u, const char *path, struct err *err);

/* ---- unpack-meta.c ---- */

/* Files and directories by fd, or by name in the parent (fd is FD_NONE). created: it has the
 * permission bits of mode, and our ids. */
int meta_apply(struct unpack *u, int fd, const char *name, const struct facts *facts, bool created,
               struct err *err);
/* A symbolic link in the parent, which has no mode: what sets one follows it. */
int meta_apply_link(const struct unpack *u, const char *name, const struct facts *facts,
                    struct err *err);
/* Attributes of the entry at hand; fd FD_NONE: all of them are left out. */
int meta_xattrs(struct unpack *u, int fd, struct err *err);
/* Attributes of one file to another. */
int meta_copy_xattrs(struct unpack *u, int from_fd, int to_fd, struct err *err);
struct facts meta_of_entry(const struct entry *e);
struct facts meta_of_stat(const struct stat *st);

/* ---- unpack-whiteout.c ---- */

bool is_whiteout(const struct stat *st);
/* An entry whose last component begins with WHITEOUT. */
int whiteout_apply(struct unpack *u, const char *parent, const char *name, struct err *err);
/* Writes the list of opaque directories that are still there. */
int opaque_report(struct unpack *u, struct err *err);

/* ---- unpack.c ---- */

/* One more entry, against the limit. */
int count_entry(struct unpack *u, struct err *err);
/* A file of this size, against the limit. */
int count_size(struct unpack *u, uint64_t size, struct err *err);
