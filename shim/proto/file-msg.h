#pragma once

/*
 * What rind's own commands of sandbox-shim say in the data frames (frame.h), and hear on stdin:
 * encoded by the one side, decoded by the other. Little-endian. The commands are described in
 * shim/README.md.
 *
 * The bytes that the runner decodes come out of a sandbox: a record is checked as a whole, names
 * hold no NUL, and nothing is believed beyond its form.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/frame.h"

enum {
    FILE_RECORD_HEAD = 84,     /* in front of name and target */
    FILE_PATH_MAX = 4095,      /* bytes of a path, a name, a link's target */
    FILE_BATCH_MAX = 64 << 10, /* bytes of one data frame of records */
    FILE_EVENT_HEAD = 12,
    FILE_CHUNK_HEAD = 4, /* u32 length in front of each piece of a file on stdin; 0 = its end */
    FILE_CHUNK_MAX = 64 << 10, /* bytes of a piece */
    FILE_LIST_DEPTH_MAX = 256, /* levels of directories that list, copy and tar enter */
};

enum file_record_flags {
    FILE_SIZE_EXACT = 1 << 0,  /* as many bytes can be read as size says (not so in /proc) */
    FILE_NOT_ENTERED = 1 << 1, /* a directory that is deeper than was asked for */
    FILE_FAILED = 1 << 2,      /* error says why: no facts (all 0), or a directory not entered */
    FILE_TRUNCATED = 1 << 3,   /* the last record: there are more entries than were asked for */
};

/* What stat and list say of a file. Times: seconds, and nanoseconds below 10^9. */
struct file_record {
    enum frame_type type;
    uint8_t flags;  /* enum file_record_flags */
    uint16_t error; /* errno, with FILE_FAILED */
    uint32_t mode;  /* with the type bits */
    uint32_t uid, gid, nlink, rdev_major, rdev_minor;
    uint64_t size, ino;
    int64_t atime, mtime, ctime;
    uint32_t atime_ns, mtime_ns, ctime_ns;
    uint16_t name_len, target_len;
    const char *name;   /* relative to what was asked for; not terminated; may hold '/' */
    const char *target; /* of a symbolic link; not terminated */
};

/* What watch says. */
enum file_event_kind {
    FILE_EVENT_INVALID = 0,
    FILE_EVENT_READY, /* the watch stands: what happens from now on is told */
    FILE_EVENT_CREATE,
    FILE_EVENT_MODIFY, /* written to, or truncated */
    FILE_EVENT_CLOSE,  /* closed after it had been open for writing */
    FILE_EVENT_ATTRIBUTES,
    FILE_EVENT_DELETE,
    FILE_EVENT_MOVED_FROM, /* cookie: the same for both halves */
    FILE_EVENT_MOVED_TO,
    FILE_EVENT_OVERFLOW, /* events were lost */
    FILE_EVENT_GONE,     /* what was watched is: the last event */
    FILE_EVENT_MAX,
};

struct file_event {
    enum file_event_kind kind;
    bool directory;
    uint32_t cookie;
    uint16_t name_len;
    const char *name; /* relative to what is watched; "" for itself; not terminated */
};

/* out has room for FILE_RECORD_HEAD + name_len + target_len bytes. Returns that sum. */
size_t file_put_record(uint8_t *out, const struct file_record *r);
size_t file_put_event(uint8_t *out, const struct file_event *e);
void file_put_chunk(uint8_t out[FILE_CHUNK_HEAD], uint32_t len);
uint32_t file_get_chunk(const uint8_t in[FILE_CHUNK_HEAD]);

/* The record at the front of *at: 1 and *at behind it; 0 at the end; -EPROTO. */
int file_next_record(const uint8_t **at, const uint8_t *end, struct file_record *ret);
int file_next_event(const uint8_t **at, const uint8_t *end, struct file_event *ret);
