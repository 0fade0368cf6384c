#pragma once

/*
 * rind's own commands of sandbox-shim (shim/README.md), beyond those of the package. They use the
 * same frames, with three differences. Paths are resolved without /proc's magic links (-ELOOP), so
 * that no path means an fd of this process. Files that are read or written must be regular: a FIFO,
 * a socket or a device is -EINVAL, where it could hang. And an error's text names the entry that
 * caused it.
 */

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "files/shim.h"
#include "proto/file-msg.h"

int cmd_stat(char **args);
int cmd_list(char **args);
int cmd_read(char **args);
int cmd_write(char **args);
int cmd_copy(char **args);
int cmd_move(char **args);
int cmd_watch(char **args);
int cmd_tar_out(char **args);
int cmd_tar_in(char **args);

/* ---- own.c: options and errors ---- */

/* An option "--name" (value NULL: a flag) or "--name=number". */
struct cmd_option {
    const char *name; /* with its dashes; NULL ends the table */
    bool *flag;
    uint64_t *value;
    unsigned base; /* 8 or 10 */
    uint64_t max;
    const char **text; /* instead of a number */
};

/* Parses the options; a later one overrides an earlier one. Any other argument is a usage error,
 * which exits. */
void cmd_options(char **args, const struct cmd_option *options);

/* Writes an error frame: "WHAT 'name': text". In a name that is not UTF-8, bytes are %XX; name may
 * be NULL. Returns the exit status. */
int cmd_answer_error(int fd, int code, const char *what, const char *name);

/* Opens a path without magic links; does not block or make it a controlling terminal. Returns the
 * fd or a negative errno. */
int cmd_open(const char *path, int flags, mode_t mode);
/* Opens a directory by a clean path beneath `top`, through no link. */
int cmd_open_beneath(int top, const char *path);
/* Like cmd_open, for a regular file: -EISDIR or -EINVAL for any other. */
int cmd_open_regular(const char *path, int flags, mode_t mode, struct stat *ret);
/* Opens a single name in dirfd, without following it. */
int cmd_open_at(int dirfd, const char *name, int flags, mode_t mode);
/* Returns 0 for a regular file, else -EISDIR or -EINVAL. */
int cmd_regular(const struct stat *st);

/* Returns true if st_size bytes can be read. */
bool cmd_size_exact(int fd, const struct stat *st);
/* Returns true for a pseudo file system (proc, sysfs and so on), which is not copied or archived.
 */
bool cmd_is_pseudo(int fd);

/* Opens the directory of path's last component; *ret_base (NAME_MAX + 1 bytes) is that component,
 * without trailing slashes, "." for the root. *ret_slash (may be NULL): there were trailing
 * slashes, so it must be a directory. */
int cmd_open_parent(const char *path, char *ret_base, bool *ret_slash);

/* Formats ".base.rind-<random>", a temporary name beside base. */
void cmd_temp_name(const char *base, char *ret);

/* Copies the xattrs user.* and security.capability; those that the target or the caller's rights do
 * not allow are skipped. */
void cmd_copy_xattrs(int from, int to);
/* Returns true if rind copies and archives an xattr of this name. */
bool cmd_xattr_carried(const char *name);

/* Reads exactly len bytes; fewer only at EOF. Returns their number or a negative errno. */
ssize_t cmd_read_full(int fd, void *buf, size_t len);

/* Fills a record from st, without name and target. */
void cmd_record(struct file_record *r, const struct stat *st);

/* ---- beside.c: a new file beside an old one ---- */

enum { BESIDE_PATH_MAX = 32 /* bytes of "/proc/self/fd/N" */ };

/* A name that a new file gets when it is complete. */
struct beside {
    int dirfd; /* the directory of the name */
    char base[NAME_MAX + 1];
    char
        temp[NAME_MAX + 1]; /* the new file's name so far; "": none, it vanishes with the process */
};

/* Opens a file without a name in b->dirfd, or with a temporary one if the file system does not
 * support O_TMPFILE. Returns the fd or a negative errno. */
int beside_open(struct beside *b, mode_t mode);
/* Gives the file its name, in one step. exists: an old file has the name and is replaced;
 * exclusive: none is. */
int beside_publish(struct beside *b, int fd, bool exists, bool exclusive);
/* Removes a temporary name. */
void beside_drop(struct beside *b);
/* Formats /proc/self/fd/N; returns its beginning in text. */
char *beside_fd_path(char text[static BESIDE_PATH_MAX], int fd);

/* ---- batch.c: records collected into data frames on an fd ---- */

struct batch {
    int fd;
    size_t len;
    uint8_t data[FILE_BATCH_MAX];
};

/* Writes the frame; exits when it cannot be written. */
void batch_flush(struct batch *b);
void batch_add_record(struct batch *b, const struct file_record *r);
void batch_add_event(struct batch *b, const struct file_event *e);

/* ---- links.c: files with several names, by the first name seen ---- */

enum { LINKS_MAX = 65536 /* remembered; further files are treated as separate ones */ };

struct links {
    size_t count, cap;
    struct link {
        dev_t dev;
        ino_t ino;
        char *path; /* owned */
    } * list;       /* owned; an open hash table */
};

/* Returns the name under which this file was seen before; else NULL, and path is remembered. */
const char *links_seen(struct links *l, const struct stat *st, const char *path);

/* ---- copy.c ---- */

/*
 * Copies a file or a tree, links as links, with modes, owners, times and xattrs. Without root,
 * owners, times and xattrs that are not allowed are skipped. `to` is the exact target. replace:
 * existing files are replaced, existing directories are filled. *ret_what and *ret_path tell what
 * failed.
 */
int copy_tree(int from_dir, const char *from, int to_dir, const char *to, bool replace,
              const char **ret_what, const char **ret_path);

/* ---- walk.c: walks a tree by fds, entry by entry ---- */

enum walk_what { WALK_END = 0, WALK_ENTRY, WALK_LEAVE };

struct walk_level {
    int fd; /* owned */
    size_t path_len, at, have;
    char *buf; /* owned */
};

struct walk {
    unsigned depth;               /* open levels */
    bool kinds_only;              /* set it after walk_init: st needs only the file type */
    char path[FILE_PATH_MAX + 1]; /* the entry's path, relative to the top */
    size_t path_len;
    struct walk_level levels[FILE_LIST_DEPTH_MAX + 1];

    /* The current entry: its stat, or the error. */
    int dirfd;
    const char *name; /* in path */
    struct stat st;
    int error;
};

/* Starts a walk; takes ownership of fd, the top directory. */
void walk_init(struct walk *w, int fd);
/* Returns WALK_ENTRY for the next entry; WALK_LEAVE at the end of an entered directory (path is its
 * own, levels[depth] the one that it was entered from); WALK_END; or a negative errno of reading a
 * directory. Entries that vanish meanwhile are skipped. */
int walk_next(struct walk *w);
/* Continues inside the current entry, a directory, through no link. -ELOOP: too deep. */
int walk_enter(struct walk *w);
/* Leaves the directory entered last, without WALK_LEAVE. */
void walk_leave(struct walk *w);
/* Closes all open fds. */
void walk_done(struct walk *w);
/* Returns the fd of the current directory, which contains the following entries. */
int walk_dir(const struct walk *w);
