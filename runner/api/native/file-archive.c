/* GET …/archive: sends a file or a tree as a tar archive. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/common.h"
#include "api/native/files.h"
#include "http/reply.h"
#include "http/route-query.h"
#include "proto/file-msg.h"
#include "sandbox/sandbox.h"

#define FIELD(key, kind, member, ...)                                                              \
    {                                                                                              \
        .name = (key), .type = (kind), .off = offsetof(struct file_query, member), __VA_ARGS__     \
    }

static const struct query_field fields[] = {
    FIELD("path", QUERY_BYTES, path, .min = 1, .max = FILE_PATH_MAX, .required = true),
    FIELD("user", QUERY_STRING, user, .min = 1, .max = 255),
    FIELD("name", QUERY_BYTES, name, .min = 1, .max = 255),
    FIELD("follow", QUERY_BOOL, follow),
    {0},
};

static bool on_archive_bytes(void *data, const void *bytes, size_t len)
{
    struct file_call *call = data;

    if (!call->started) {
        call->started = true;
        http_start(call->req, 200, NULL, "application/x-tar");
    }
    return http_write(call->req, bytes, len);
}

static void on_archive_drain(struct http_request *req)
{
    struct file_call *call = req->data;

    if (call->op != NULL)
        file_op_resume(call->op);
}

static void on_archive_done(void *data, int r, const struct err *err)
{
    struct file_call *call = data;

    call->op = NULL;
    if (r < 0) {
        file_call_fail(call, err);
        return;
    }
    if (!call->started)
        http_start(call->req, 200, NULL, "application/x-tar");
    http_end(call->req);
    file_call_free(call);
}

void file_get_archive(struct http_request *req)
{
    static const struct file_request request = {
        .stream = FRAME_STREAM_RECORDS, .max_frame = FILE_BATCH_MAX, .raw = true};
    static const struct file_events events = {.on_bytes = on_archive_bytes,
                                              .on_done = on_archive_done};
    struct sandbox *s;
    struct file_call *call = file_call_new(req, fields, "archive", &s);
    struct err err = ERR_NONE;
    char name[300];

    if (call == NULL)
        return;
    call->named = true;
    if (call->q.name != NULL && strchr(call->q.name, '/') != NULL) {
        (void)err_set(&err, -EINVAL, "name: must not hold '/'");
        file_call_fail(call, &err);
        return;
    }
    file_arg(call, "rind-tar-out");
    file_arg(call, call->q.path);
    if (call->q.name != NULL) {
        (void)snprintf(name, sizeof(name), "--name=%s", call->q.name);
        file_arg(call, name);
    }
    file_arg_if(call, call->q.follow, "--follow");
    req->on_drain = on_archive_drain;
    file_call_start(call, s, &request, &events);
}
