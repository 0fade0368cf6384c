#pragma once

/* Parses the text of /proc/<pid>/mountinfo, line by line. Pure: opens no file. The text is cut up
 * in place (NULs written, octal escapes decoded), so an entry's strings live as long as the buffer.
 */

#include <stdbool.h>
#include <stddef.h>

/* Bytes of mountinfo that a caller should accept: 20000 mounts of ordinary length. */
enum { MOUNTINFO_TEXT_MAX = 4 << 20 };

struct mountinfo {
    char *rest; /* borrowed: the remaining text */
    size_t left;
    unsigned line; /* number of the last line, from 1 */
};

struct mountinfo_entry {
    unsigned id, parent, major, minor;
    const char *root;        /* the mounted part of the file system: "/" for all of it */
    const char *mount_point; /* absolute; suffixes such as " (deleted)" are kept */
    const char *options;     /* of the mount: "rw,nosuid" */
    const char *fstype;
    const char *source;
    const char *super_options; /* of the file system: "rw,cpu,cpuacct" */
};

/* `text` is modified; text[len] must be NUL. The last line need not end with a newline. */
void mountinfo_init(struct mountinfo *m, char *text, size_t len);

/* Returns 1 with the next mount in *ret; 0 = no more; -EINVAL = line m->line is malformed (for
 * example, it contains a NUL or an escaped one); the next call continues after it. */
int mountinfo_next(struct mountinfo *m, struct mountinfo_entry *ret);

/* Returns true if `name` is one of the comma-separated words of `options`. */
bool mountinfo_has_option(const char *options, const char *name);
