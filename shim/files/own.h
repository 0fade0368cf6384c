#pragma once

/*
 * rind's own commands of sandbox-shim (shim/README.md): what the package's commands do not offer.
 * They speak the same frames, and differ in three things. Paths are resolved without /proc's magic
 * links
 * (-ELOOP), so that no path means a descriptor of this process. Files that are read or written must
 * be regular ones: a FIFO, a socket or a device is -EINVAL instead of a hang. And an error's text
 * names the entry that it is about.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "files/shim.h"
#include "proto/file-msg.h"

int own_cmd_stat(char **args);
int own_cmd_list(char **args);
int own_cmd_read(char **args);
int own_cmd_write(char **args);
int own_cmd_copy(char **args);
int own_cmd_move(char **args);
int own_cmd_watch(char **args);
int own_cmd_tar_out(char **args);
int own_cmd_tar_in(char **args);

/* ---- own.c: options and errors ---- */

/* One "--name" (value NULL: a flag) or "--name=number". */
struct own_option {
    const char *name; /* with its dashes; NULL ends a table */
    bool *flag;
    uint64_t *value;
    unsigned base; /* 8 or 10 */
    uint64_t max;
    const char **text; /* instead of a number */
};

/* Each at most once per its last use; anything else is a usage error. */
void own_options(char **args, const struct own_option *options);

/* An error frame: "WHAT 'name': text", name with what is not plain UTF-8 as %XX; name may be NULL.
 * Returns the exit status. */
int own_answer_error(int fd, int code, const char *what, const char *name);

/* Opens without magic links, never blocks, never gets a controlling terminal. Negative errno. */
int own_open(const char *path, int flags, mode_t mode);
/* A directory by a clean path beneath another, through no link. */
int own_open_beneath(int top, const char *path);
/* As own_open, for a regular file: -EISDIR, -EINVAL for what is none. */
int own_open_regular(const char *path, int flags, mode_t mode, struct stat *ret);
/* Beneath dirfd: a single name, not followed. */
int own_open_at(int dirfd, const char *name, int flags, mode_t mode);
/* -EISDIR, -EINVAL; 0 for a regular file. */
int own_regular(const struct stat *st);

/* Whether as many bytes can be read as stat says. */
bool own_size_exact(int fd, const struct stat *st);
/* A file system of the kernel's own (proc, sysfs, ...): nothing to copy or archive. */
bool own_is_pseudo(int fd);

/*
 * Opens the directory that the last component of path is in; *ret_base (NAME_MAX + 1 bytes) is that
 * component, "." for the root itself, without slashes at its end. *ret_slash (may be NULL): there
 * were some, so that it must be a directory.
 */
int own_open_parent(const char *path, char *ret_base, bool *ret_slash);

/* ".base.rind-<random>": a name beside base. */
void own_temp_name(const char *base, char *ret);

/* Copies what may be copied of extended attributes (user.*, security.capability); what the target
 * or the caller's rights do not allow is left out. */
void own_copy_xattrs(int from, int to);
/* Whether rind carries an attribute of this name. */
bool own_xattr_carried(const char *name);

/* Reads exactly len bytes of stdin; returns fewer only at its end. Negative errno. */
ssize_t own_read_full(int fd, void *buf, size_t len);

/* Facts without name and target. */
void own_record(struct file_record *r, const struct stat *st);

/* ---- batch.c: records collected into data frames on a descriptor ---- */

struct batch {
    int fd;
    size_t len;
    uint8_t data[FILE_BATCH_MAX];
};

/* Ends the process when the frame cannot be sent. */
void batch_flush(struct batch *b);
void batch_add_record(struct batch *b, const struct file_record *r);
void batch_add_event(struct batch *b, const struct file_event *e);

/* ---- links.c: files with several names, by the first one seen ---- */

enum { LINKS_MAX = 65536 /* remembered; a file beyond them is taken for one of its own */ };

struct links {
    size_t count, cap;
    struct link {
        dev_t dev;
        ino_t ino;
        char *path; /* owned */
    } * list;       /* owned; an open hash table */
};

/* The name under which this file was seen before; else NULL, and path is remembered. */
const char *links_seen(struct links *l, const struct stat *st, const char *path);

/* ---- copy.c ---- */

/*
 * Copies a file or a tree, links as links, with modes, owners, times and attributes; what is not
 * allowed of the latter three for a user that is not root is left out. The target is the exact
 * name; replace: files that are there are replaced, directories filled. *ret_what and path say
 * what failed.
 */
int copy_tree(int from_dir, const char *from, int to_dir, const char *to, bool replace,
              const char **ret_what, const char **ret_path);

/* ---- walk.c: a tree, entry by entry, by descriptors ---- */

enum walk_what { WALK_END = 0, WALK_ENTRY, WALK_LEAVE };

struct walk_level {
    int fd; /* owned */
    size_t path_len, at, have;
    char *buf; /* owned */
};

struct walk {
    unsigned depth;               /* levels that are open */
    bool kinds_only;              /* set it behind walk_init: of st, only the kind is asked for */
    char path[FILE_PATH_MAX + 1]; /* of the entry, relative to the top */
    size_t path_len;
    struct walk_level levels[FILE_LIST_DEPTH_MAX + 1];

    /* The entry: what stat said, or error. */
    int dirfd;
    const char *name; /* in path */
    struct stat st;
    int error;
};

/* Takes fd, the top directory. */
void walk_init(struct walk *w, int fd);
/*
 * The next entry, or the end of a directory that was entered (path is then its own; levels[depth]
 * is the one it was entered from), or the end of all; or a negative errno of reading a directory.
 * What vanishes meanwhile is passed over.
 */
int walk_next(struct walk *w);
/* Goes on inside the entry, a directory, through no link. -ELOOP: too deep. */
int walk_enter(struct walk *w);
/* Leaves the directory that was entered last, without WALK_LEAVE. */
void walk_leave(struct walk *w);
/* Closes what is open. */
void walk_done(struct walk *w);
/* The directory at hand: of the entries that follow. */
int walk_dir(const struct walk *w);
