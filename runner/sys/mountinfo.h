#pragma once

/*
 * The text of /proc/<pid>/mountinfo, line by line. Pure: no file is opened here. The text is cut up
 * in place (NULs written, octal escapes undone), so an entry's strings live as long as the buffer.
 */

#include <stdbool.h>
#include <stddef.h>

/* Bytes of mountinfo that a caller should be ready to read: 20000 mounts of ordinary length. */
enum { MOUNTINFO_TEXT_MAX = 4 << 20 };

struct mountinfo {
    char *rest; /* borrowed: what has not been read yet */
    size_t left;
    unsigned line; /* of the entry returned last, from 1 */
};

struct mountinfo_entry {
    unsigned id, parent, major, minor;
    const char *root;        /* what of the file system is mounted: "/" for all of it */
    const char *mount_point; /* absolute; " (deleted)" and the like are left as the kernel says */
    const char *options;     /* of the mount: "rw,nosuid" */
    const char *fstype;
    const char *source;
    const char *super_options; /* of the file system: "rw,cpu,cpuacct" */
};

/* `text` is changed; text[len] is a NUL. The last line need not end with a newline. */
void mountinfo_init(struct mountinfo *m, char *text, size_t len);

/* 1 = *ret holds the next mount, 0 = no more, -EINVAL = the line m->line is not what a kernel
 * writes (an embedded NUL or an escaped one included); the next call goes on after it. */
int mountinfo_next(struct mountinfo *m, struct mountinfo_entry *ret);

/* Whether `name` is one of the comma-separated words of `options`. */
bool mountinfo_has_option(const char *options, const char *name);
