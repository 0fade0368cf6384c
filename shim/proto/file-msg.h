#pragma once

/*
 * The payloads that rind's own commands of sandbox-shim write into data frames (frame.h) and read
 * from stdin; each side's encoder and the other's decoder. Little-endian. The commands are
 * described in shim/README.md.
 *
 * The bytes that the runner decodes come out of a sandbox and are hostile. A record is checked as a
 * whole, names contain no NUL, and only the form of a value is trusted.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/frame.h"

enum {
    FILE_RECORD_HEAD = 84,     /* bytes before name and target */
    FILE_PATH_MAX = 4095,      /* bytes of a path, a name, or a link's target */
    FILE_BATCH_MAX = 64 << 10, /* bytes of one data frame of records */
    FILE_EVENT_HEAD = 12,
    FILE_CHUNK_HEAD = 4, /* u32 length before each piece of a file on stdin; 0 = end of the file */
    FILE_CHUNK_MAX = 64 << 10, /* bytes of a piece */
    FILE_LIST_DEPTH_MAX = 256, /* depth limit of directories for list, copy and tar */
};

enum file_record_flags {
    FILE_SIZE_EXACT = 1 << 0,  /* size bytes can be read (not so in /proc) */
    FILE_NOT_ENTERED = 1 << 1, /* a directory below the requested depth */
    /* error is the errno; no data (all 0), or a directory that was not entered */
    FILE_FAILED = 1 << 2,
    FILE_TRUNCATED = 1 << 3, /* the last record: there are more entries than requested */
};

/* One file, from stat and list. Times: seconds, and nanoseconds below 10^9. */
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
    const char *name;   /* relative to the requested path; not NUL-terminated; may contain '/' */
    const char *target; /* of a symbolic link; not NUL-terminated */
};

/* Events of watch. */
enum file_event_kind {
    FILE_EVENT_INVALID = 0,
    FILE_EVENT_READY, /* the watch is active: later changes are reported */
    FILE_EVENT_CREATE,
    FILE_EVENT_MODIFY, /* written or truncated */
    FILE_EVENT_CLOSE,  /* closed after being open for writing */
    FILE_EVENT_ATTRIBUTES,
    FILE_EVENT_DELETE,
    FILE_EVENT_MOVED_FROM, /* the cookie connects it with its MOVED_TO */
    FILE_EVENT_MOVED_TO,
    FILE_EVENT_OVERFLOW, /* events were lost */
    FILE_EVENT_GONE,     /* the watched path is gone: the last event */
    FILE_EVENT_MAX,
};

struct file_event {
    enum file_event_kind kind;
    bool directory;
    uint32_t cookie;
    uint16_t name_len;
    const char *name; /* relative to the watched path; "" for itself; not NUL-terminated */
};

/* Encode into out, which has room for the head and the texts. Return the encoded length. */
size_t file_put_record(uint8_t *out, const struct file_record *r);
size_t file_put_event(uint8_t *out, const struct file_event *e);
void file_put_chunk(uint8_t out[FILE_CHUNK_HEAD], uint32_t len);
uint32_t file_get_chunk(const uint8_t in[FILE_CHUNK_HEAD]);

/* Decode the record at *at: 1 and *at advanced, 0 at the end, or -EPROTO. */
int file_next_record(const uint8_t **at, const uint8_t *end, struct file_record *ret);
int file_next_event(const uint8_t **at, const uint8_t *end, struct file_event *ret);
