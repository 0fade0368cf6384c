/* PUT of a file, and of an archive to unpack: the body is passed to the process piece by piece. */

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

static const struct query_field write_fields[] = {
    FIELD("path", QUERY_BYTES, path, .min = 1, .max = FILE_PATH_MAX, .required = true),
    FIELD("user", QUERY_STRING, user, .min = 1, .max = 255),
    FIELD("mode", QUERY_STRING, mode, .min = 1, .max = 5),
    FIELD("atomic", QUERY_BOOL, atomic),
    FIELD("inPlace", QUERY_BOOL, in_place),
    FIELD("append", QUERY_BOOL, append),
    FIELD("exclusive", QUERY_BOOL, exclusive),
    {0},
};

static const struct query_field archive_fields[] = {
    FIELD("path", QUERY_BYTES, path, .min = 1, .max = FILE_PATH_MAX, .required = true),
    FIELD("user", QUERY_STRING, user, .min = 1, .max = 255),
    FIELD("owners", QUERY_BOOL, owners),
    {0},
};

static void on_write_body(struct http_request *req, const char *data, size_t len)
{
    struct file_call *call = req->data;

    if (call->op == NULL)
        return;
    if (data == NULL)
        file_op_write_end(call->op);
    else if (file_op_write(call->op, data, len))
        http_body_pause(req);
}

static void on_write_drain(void *data)
{
    struct file_call *call = data;

    http_body_resume(call->req);
}

/* The file is open: only now the client's bytes are requested. */
static void on_write_frame(void *data, const struct frame *f)
{
    struct file_call *call = data;

    if (f->kind != FRAME_DATA || call->found)
        return;
    call->found = true;
    http_body_start(call->req, on_write_body);
}

static const struct file_events events = {
    .on_frame = on_write_frame, .on_drain = on_write_drain, .on_done = file_done_empty};

/* "0644": only octal digits. */
static int query_check_mode(const char *mode, struct err *err)
{
    size_t len = mode == NULL ? 0 : strspn(mode, "01234567");

    if (mode == NULL || ((len < 5 || mode[0] == '0') && mode[len] == '\0'))
        return 0;
    return err_set(err, -EINVAL, "mode: must be octal digits, at most 7777");
}

void file_put(struct http_request *req)
{
    static const struct file_request request = {
        .stream = FRAME_STREAM_RECORDS, .max_frame = FILE_BATCH_MAX, .input = true, .pieces = true};
    struct sandbox *s;
    struct file_call *call = file_call_new(req, write_fields, "write", &s);
    struct err err = ERR_NONE;

    if (call == NULL)
        return;
    call->named = true;
    if (query_check_mode(call->q.mode, &err) == 0 && call->q.atomic &&
        (call->q.append || call->q.in_place))
        (void)err_set(&err, -EINVAL, "%s: cannot be had together with atomic",
                      call->q.append ? "append" : "inPlace");
    if (err.code < 0) {
        file_call_fail(call, &err);
        return;
    }
    file_arg(call, "rind-write");
    file_arg(call, call->q.path);
    if (call->q.mode != NULL) {
        (void)snprintf(call->text[0], FILE_TEXT_MAX, "--mode=%s", call->q.mode);
        file_arg(call, call->text[0]);
    }
    file_arg_if(call, call->q.atomic, "--atomic");
    file_arg_if(call, call->q.in_place, "--in-place");
    file_arg_if(call, call->q.append, "--append");
    file_arg_if(call, call->q.exclusive, "--exclusive");
    file_call_start(call, s, &request, &events);
}

void file_put_archive(struct http_request *req)
{
    static const struct file_request request = {
        .stream = FRAME_STREAM_RECORDS, .max_frame = FILE_BATCH_MAX, .input = true};
    struct sandbox *s;
    struct file_call *call = file_call_new(req, archive_fields, "unpack", &s);

    if (call == NULL)
        return;
    call->named = true;
    file_arg(call, "rind-tar-in");
    file_arg(call, call->q.path);
    file_arg_if(call, !call->q.owners, "--no-owners");
    file_call_start(call, s, &request, &events);
}
