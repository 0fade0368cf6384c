#pragma once

/*
 * What the file resources share: one request, one operation of sandbox-shim (core/files.h).
 *
 * Paths and names are bytes. In URLs they are percent-encoded as everything else there. In JSON a
 * name is a string as far as it is UTF-8; one that is not has U+FFFD for what cannot be said, and
 * beside it `<key>Encoded`, percent-encoded, which names it exactly and can be put into a URL.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/http.h"
#include "api/route.h"
#include "core/files.h"

struct err;
struct file_event;
struct file_record;
struct native;
struct query_field;
struct sandbox;
struct sse;

enum { FILE_ARGS_MAX = 10, FILE_TEXT_MAX = 32 };

/* What the queries of all operations may say; each takes some of it. */
struct file_query {
    const char *path, *from, *to, *user, *mode, *name;
    bool recursive, force, follow, hidden, atomic, append, exclusive, replace, owners;
    int64_t depth, max_entries, offset, length;
};

/* One request; req->data. Freed with its answer. */
struct file_call {
    struct http_request *req;
    struct file_op *op; /* NULL before it starts and after it is over */
    struct file_query q;
    const char *step; /* of an error: the operation's name; static */
    bool named;       /* messages of the shim name the path already */
    bool started;     /* the reply has begun: an error can only break it off */
    bool idle;        /* nothing waits for the operation: the body is still to come */

    const char *argv[FILE_ARGS_MAX + 1];
    unsigned argc;
    char text[4][FILE_TEXT_MAX]; /* options with numbers */
    unsigned text_count;

    /* The operation's own. */
    int64_t range_from, range_to; /* of a Range header; -1 = not said */
    bool has_range, found;
    int64_t length; /* bytes of the body, -1 = not known */
    struct buf out; /* list: JSON that was not sent yet */
    uint64_t count;
    bool truncated;
    struct sse *sse;
    struct native *watching; /* counted against maxWatchers */
};

/* The sandbox and a call with defaults and the query decoded; NULL: answered. fields: of struct
 * file_query. Paths must be absolute. */
struct file_call *file_call_new(struct http_request *req, const struct query_field *fields,
                                const char *step, struct sandbox **ret);
void file_call_free(struct file_call *call);

/* Arguments of the command; strings are borrowed until file_call_start. */
void file_arg(struct file_call *call, const char *arg);
void file_arg_if(struct file_call *call, bool on, const char *flag);
void file_arg_number(struct file_call *call, const char *name, uint64_t value);

/* Starts it, or answers and frees the call. */
void file_call_start(struct file_call *call, struct sandbox *s, const struct file_request *request,
                     const struct file_events *events);
/* on_done of operations that answer 204, or the error. data: the call. */
void file_done_empty(void *data, int r, const struct err *err);
/* The error, as fits what has been sent; frees the call. */
void file_call_fail(struct file_call *call, const struct err *err);

/* ---- file-json.c ---- */

/* Sets root[key], and root["<key>Encoded"] where it is needed. -ENOMEM. */
int file_set_name(json_t *root, const char *key, const char *name, size_t len);
/* Facts of a record; a new reference, or NULL. */
json_t *file_encode(const struct file_record *r);
json_t *file_encode_event(const struct file_event *e);
/* "created", ... */
const char *file_event_name(const struct file_event *e);
/* Percent-encodes what is no unreserved character of URLs, and no '/'. NULL on OOM. */
char *file_percent_encode(const char *name, size_t len);

/* The handlers of the route table, in files.c. */
http_handler_fn file_get, file_put, file_list, file_watch, file_get_archive, file_put_archive;
