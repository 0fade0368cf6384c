#pragma once

/* Shared by the file resources: each request is one operation of sandbox-shim (exec/files.h).
 *
 * Paths and names are bytes. URLs percent-encode them. In JSON a name is a string if it is
 * UTF-8; otherwise invalid bytes are replaced by U+FFFD, and `<key>Encoded` beside it holds the
 * exact name, percent-encoded, for use in a URL.
 *
 * Runs in the supervisor's loop thread. */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "exec/files.h"
#include "http/route.h"
#include "http/server.h"

struct err;
struct file_event;
struct file_record;
struct native;
struct query_field;
struct sandbox;
struct sse;

enum { FILE_ARGS_MAX = 10, FILE_TEXT_MAX = 32 };

/* The query parameters of all operations; each accepts some of them. */
struct file_query {
    const char *path, *from, *to, *user, *mode, *name;
    bool recursive, force, follow, hidden, atomic, in_place, append, exclusive, replace, owners;
    int64_t depth, max_entries, offset, length;
};

/* A request; req->data. Freed with its answer. */
struct file_call {
    struct http_request *req;
    struct file_op *op; /* NULL before the start and after the end */
    struct file_query q;
    const char *step; /* for errors: the operation's name; static */
    bool named;       /* the shim's messages already contain the path */
    bool started;     /* the reply has begun: an error can only break it off */
    bool idle;        /* the operation is not waited for: the body is still to come */

    const char *argv[FILE_ARGS_MAX + 1];
    unsigned argc;
    char text[4][FILE_TEXT_MAX]; /* options with numbers */
    unsigned text_count;

    /* For the operation. */
    int64_t range_from, range_to; /* of a Range header; -1 = not given */
    bool has_range, found;
    int64_t length; /* bytes of the body, -1 = unknown */
    struct buf out; /* list: unsent JSON */
    uint64_t count;
    bool truncated;
    struct sse *sse;
    struct native *watching; /* counted against maxWatchers */
};

/* Returns a call with the sandbox looked up and the query decoded over defaults; NULL: answered.
 * fields: of struct file_query. Paths must be absolute. */
struct file_call *file_call_new(struct http_request *req, const struct query_field *fields,
                                const char *step, struct sandbox **ret);
void file_call_free(struct file_call *call);

/* Append arguments to the command; strings are borrowed until file_call_start. */
void file_arg(struct file_call *call, const char *arg);
void file_arg_if(struct file_call *call, bool on, const char *flag);
void file_arg_number(struct file_call *call, const char *name, uint64_t value);

/* Starts the operation, or answers the error and frees the call. */
void file_call_start(struct file_call *call, struct sandbox *s, const struct file_request *request,
                     const struct file_events *events);
/* on_done of operations that answer 204 or the error. data: the call. */
void file_done_empty(void *data, int r, const struct err *err);
/* Sends the error, depending on what was sent already; frees the call. */
void file_call_fail(struct file_call *call, const struct err *err);

/* ---- file-json.c ---- */

/* Sets root[key], and root["<key>Encoded"] if needed. -ENOMEM. */
int file_set_name(json_t *root, const char *key, const char *name, size_t len);
/* Encodes a record; a new reference, or NULL on OOM. */
json_t *file_encode(const struct file_record *r);
json_t *file_encode_event(const struct file_event *e);
/* "created", ... */
const char *file_event_name(const struct file_event *e);
/* Percent-encodes all bytes but '/' and the unreserved characters of URLs. The caller frees the
 * result; NULL on OOM. */
char *file_percent_encode(const char *name, size_t len);

/* The handlers of the route table, in files.c. */
http_handler_fn file_get, file_put, file_list, file_watch, file_get_archive, file_put_archive;
