#pragma once

/*
 * The audit record: one line of JSON for each request of both APIs that changes something, with the
 * peer's uid and pid, method and route, the object, the result and the time. Refused requests are
 * in it, too.
 *
 * The dispatcher writes it (route_set.replied), and nothing else. A line is made in memory when the
 * reply begins; the thread pool writes lines to files some milliseconds later. So no request waits
 * for a disk. The files are bounded (audit_config.bytes): two, of which the older one goes when the
 * newer one is full. What does not fit into memory, as the disk does not take it, is counted.
 *
 * No contents are in it: neither bodies nor queries, but for the names in audit.c. Whatever bytes a
 * client sends, a line is printable ASCII.
 *
 * Runs in the supervisor's loop thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct audit_log;
struct err;
struct http_request;
struct route_set;

/* ---- what is recorded (audit.c) ---- */

/* Fills in what the record says of the object, before a handler decodes the query. */
void audit_note(struct http_request *req);
/* Adds a member about the object: the id of what the request has made. */
void audit_add(struct http_request *req, const char *key, const char *value);
/* route_set.replied */
void audit_replied(struct http_request *req);
/* True if requests by this method to this route are recorded. Pure. */
bool audit_wants(const char *method, const char *pattern);
/* Appends value as a JSON string of printable ASCII; other characters become \\u escapes, and a
 * long value is cut. Pure. */
int audit_quote(struct buf *b, const char *value);
/* The routes that change nothing, whatever their method; ends with {NULL}. For the test. */
struct audit_quiet {
    const char *method, *pattern;
};
extern const struct audit_quiet audit_quiet[];

/* ---- the files (audit-log.c) ---- */

enum {
    AUDIT_LINE_MAX = 2048,
    AUDIT_PENDING_MAX = 1 << 20, /* bytes of lines that are not written yet */
    AUDIT_FILE_MIN = 16 << 10,
};

struct audit_config {
    void *loop;   /* uv_loop_t */
    int dir_fd;   /* borrowed for the call: the directory `audit` is made in it */
    size_t bytes; /* of the two files together */
};

/* Blocks on disk. */
int audit_log_open(const struct audit_config *config, struct audit_log **ret, struct err *err);
/* Writes what is pending and frees the log, at once or when a job of the thread pool has ended. No
 * reader may be left. NULL is allowed. */
void audit_log_close(struct audit_log *a);
/* Writes what is pending, if no job is about to: for a process that exits at once. Blocks. */
void audit_log_save(struct audit_log *a);
/* The id of a new record: microseconds since the epoch, larger than all before. */
uint64_t audit_log_id(struct audit_log *a);
/* Takes one line, with its newline. */
void audit_log_add(struct audit_log *a, const char *line, size_t len);

/* ---- reading ---- */

/* Where a reader is. The owner keeps it. */
struct audit_reader {
    void (*on_more)(struct audit_reader *r); /* lines were written behind a reader that waits */
    struct audit_reader *next, **link;
    bool gap;        /* files between have gone; the owner resets it */
    int fd;          /* owned; of file `number` */
    uint64_t number; /* of the file */
    int64_t at;      /* offset of the next read */
};

/* Opens the oldest file, or (from_now) the end of the newest. A negative errno. */
int audit_reader_open(struct audit_log *a, struct audit_reader *r, bool from_now);
/* At the end of r's file: true if there is more to read, in this file or the next, which is open
 * then. False: on_more follows. */
bool audit_reader_more(struct audit_log *a, struct audit_reader *r);
void audit_reader_close(struct audit_reader *r);
