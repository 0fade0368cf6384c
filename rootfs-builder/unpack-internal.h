#pragma once

/* Shared by unpack*.c only. */

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

    /* The directory of the current entry. It stays open for the next entry in it. */
    int parent_fd;                /* owned, O_PATH; FD_NONE: none yet */
    bool parent_setgid;           /* files made in it get its group */
    char parent_asked[PATH_ROOM]; /* as the entry names it */
    char parent[PATH_ROOM];       /* the parent's path, with links resolved */

    /* some directory has a default ACL, which changes the modes of files made in it */
    bool default_acls;
};

/* The attributes of a directory or file. */
struct facts {
    mode_t mode;
    uid_t uid;
    gid_t gid;
    struct timespec atime, mtime;
};

/* ---- unpack-parent.c ---- */

/* Makes `asked` (a clean path) the parent directory, with missing directories above it. With
 * only_if_there: returns 0 when another type of file is in the way, or when it is missing and would
 * have to replace one; else 1. */
int parent_enter(struct unpack *u, const char *asked, bool only_if_there, struct err *err);
/* Forgets the current parent, after a link or directory was removed: the next entry opens its own.
 */
void parent_forget(struct unpack *u);
/* Resolves links in `asked` inside the tree. Missing components count as directories. -ELOOP,
 * -ENAMETOOLONG. */
int parent_resolve(const struct unpack *u, const char *asked, char out[PATH_ROOM]);

/* Removes `name` from the parent, with everything in it. *ret_whiteout: it was a whiteout. -ENOENT
 * when it does not exist. */
int parent_clear(struct unpack *u, const char *name, bool *ret_whiteout);

/* ---- unpack-lower.c ---- */

/* Copies the attributes of the directory below, if there is one, to a directory without an entry in
 * the archive. fd: of the new directory, O_RDONLY. */
int lower_copy_directory(struct unpack *u, const char *path, int fd, struct err *err);
/* Copies the file or link `path` (clean, through no link) up into the tree. -ENOENT when it does
 * not exist; -EPERM when it is neither. Changes the parent. */
int lower_copy_up(struct unpack *u, const char *path, struct err *err);

/* ---- unpack-meta.c ---- */

/* Sets owner, mode and times by fd, or by name in the parent (fd is FD_NONE). created: it was made
 * with the permission bits of mode and by this process's ids. */
int meta_apply(struct unpack *u, int fd, const char *name, const struct facts *facts, bool created,
               struct err *err);
/* Likewise for a symbolic link in the parent, without a mode: chmod would follow it. */
int meta_apply_link(const struct unpack *u, const char *name, const struct facts *facts,
                    struct err *err);
/* Sets the xattrs of the current entry; fd FD_NONE: skips all of them. */
int meta_xattrs(struct unpack *u, int fd, struct err *err);
/* Copies xattrs from one file to another. */
int meta_copy_xattrs(struct unpack *u, int from_fd, int to_fd, struct err *err);
struct facts meta_of_entry(const struct entry *e);
struct facts meta_of_stat(const struct stat *st);

/* ---- unpack-whiteout.c ---- */

bool is_whiteout(const struct stat *st);
/* Applies an entry whose last component begins with WHITEOUT. */
int whiteout_apply(struct unpack *u, const char *parent, const char *name, struct err *err);
/* Writes the list of opaque directories that still exist. */
int opaque_report(struct unpack *u, struct err *err);

/* ---- unpack.c ---- */

/* Counts one more entry; -E2BIG beyond the limit. */
int count_entry(struct unpack *u, struct err *err);
/* Counts a file of this size; -EFBIG beyond the limit. */
int count_size(struct unpack *u, uint64_t size, struct err *err);
