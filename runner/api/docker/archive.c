/* Files in and out of containers as tar archives: GET, HEAD and PUT /containers/{id}/archive.
 * Each is a process of sandbox-shim inside (exec/files.h). A stat precedes an outgoing archive,
 * because Docker describes the path in a header. */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "api/docker/common.h"
#include "api/docker/containers.h"
#include "base/auto.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/err.h"
#include "exec/files.h"
#include "http/reply.h"
#include "http/route-query.h"
#include "policy/policy.h"
#include "proto/file-msg.h"
#include "sandbox/sandbox.h"
#include "sandbox/services.h"
#include "spec/spec.h"

enum { ARGS_MAX = 6, NAME_MAX_BYTES = 255, STAT_MAX = 24 << 10 };

/* Bits of Go's FileMode, as used in that header. */
#define GO_DIR        (1U << 31)
#define GO_LINK       (1U << 27)
#define GO_DEVICE     (1U << 26)
#define GO_PIPE       (1U << 25)
#define GO_SOCKET     (1U << 24)
#define GO_SETUID     (1U << 23)
#define GO_SETGID     (1U << 22)
#define GO_CHARDEVICE (1U << 21)
#define GO_STICKY     (1U << 20)

struct archive_transfer {
    struct http_request *req;
    struct sandbox *s; /* a reference */
    struct file_op *op;
    const char *path; /* absolute; the request's, or: */
    char *own_path;   /* owned */
    char name_arg[sizeof("--name=") + NAME_MAX_BYTES];
    char *header; /* owned: X-Docker-Container-Path-Stat */
    bool directory, started, wanted, head_only;
    bool in, settling; /* in: an upload; settling: waits for the clean-up of the last run */
    bool own_owners;   /* unpacked files belong to root, whatever the archive says */
};

static void archive_free(struct archive_transfer *a)
{
    sandbox_unref(a->s);
    free(a->header);
    free(a->own_path);
    free(a);
}

static void archive_fail(struct archive_transfer *a, const struct err *err)
{
    struct err own = *err;

    if (err->code == -ENOENT)
        (void)err_set(&own, -ENOENT, "Could not find the file %.2000s in container %.255s", a->path,
                      sandbox_name(a->s));
    if (a->started || a->req->gone)
        http_abort(a->req);
    else
        reply_error(a->req, &own);
    archive_free(a);
}

static void on_archive_gone(struct http_request *req)
{
    struct archive_transfer *a = req->data;

    if (a->settling)
        return; /* on_archive_settled frees it */
    if (a->op != NULL)
        file_op_cancel(a->op);
    http_abort(req);
    archive_free(a);
}

static void archive_start_op(struct archive_transfer *a, const char *const *argv,
                             struct file_request request, const struct file_events *events)
{
    struct err err = ERR_NONE;

    request.argv = argv;
    if (request.timeout_ms == 0)
        request.timeout_ms = LIMIT_UNSET;
    if (file_op_start(a->s, &request, events, a, &a->op, &err) < 0)
        archive_fail(a, &err);
}

/* ---- what a path is ---- */

static uint32_t go_mode(const struct file_record *r)
{
    static const struct {
        uint32_t unix_bit, go;
    } bits[] = {{S_ISUID, GO_SETUID}, {S_ISGID, GO_SETGID}, {S_ISVTX, GO_STICKY}};
    uint32_t mode = r->mode & 0777U;

    for (size_t i = 0; i < sizeof(bits) / sizeof(bits[0]); i++)
        if ((r->mode & bits[i].unix_bit) != 0)
            mode |= bits[i].go;
    if (S_ISDIR(r->mode))
        mode |= GO_DIR;
    else if (S_ISLNK(r->mode))
        mode |= GO_LINK;
    else if (S_ISFIFO(r->mode))
        mode |= GO_PIPE;
    else if (S_ISSOCK(r->mode))
        mode |= GO_SOCKET;
    else if (S_ISCHR(r->mode))
        mode |= GO_DEVICE | GO_CHARDEVICE;
    else if (S_ISBLK(r->mode))
        mode |= GO_DEVICE;
    return mode;
}

/* Returns the last component as written: "." of "/a/.". */
static const char *path_last_name(const char *path, size_t *ret_len)
{
    size_t len = strlen(path), start;

    while (len > 1 && path[len - 1] == '/')
        len--;
    start = len;
    while (start > 0 && path[start - 1] != '/')
        start--;
    *ret_len = len - start;
    return path + start;
}

static int archive_make_header(struct archive_transfer *a, const struct file_record *r)
{
    char time[DOCKER_TIME_MAX];
    auto_free char *text = NULL;
    json_t *root;
    size_t len;
    const char *name = path_last_name(a->path, &len);

    docker_time_text(r->mtime * INT64_C(1000000000) + r->mtime_ns, time);
    root = json_pack("{s:s%, s:I, s:I, s:s, s:s%}", "name", len > 0 ? name : "/", len > 0 ? len : 1,
                     "size", (json_int_t)r->size, "mode", (json_int_t)go_mode(r), "mtime", time,
                     "linkTarget", r->target != NULL ? r->target : "", (size_t)r->target_len);
    text = root != NULL ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    if (text == NULL || strlen(text) > STAT_MAX)
        return -ENOMEM;
    a->header = malloc(base64_encoded_size(strlen(text)) + 1);
    if (a->header == NULL)
        return -ENOMEM;
    (void)base64_encode(a->header, text, strlen(text));
    return 0;
}

static void on_stat_frame(void *data, const struct frame *f)
{
    struct archive_transfer *a = data;
    const uint8_t *at = f->data;
    struct file_record r;

    if (a->header != NULL || f->kind != FRAME_DATA ||
        file_next_record(&at, f->data + f->len, &r) != 1)
        return;
    a->directory = S_ISDIR(r.mode);
    (void)archive_make_header(a, &r);
}

static void send_archive(struct archive_transfer *a);

static void on_stat_done(void *data, int r, const struct err *err)
{
    struct archive_transfer *a = data;
    struct err own = ERR_NONE;
    const struct http_header headers[] = {{"X-Docker-Container-Path-Stat", a->header},
                                          {NULL, NULL}};

    a->op = NULL;
    if (r == 0 && a->header == NULL)
        r = err_set(&own, -EPROTO, "stat: the answer cannot be used");
    if (r < 0) {
        archive_fail(a, own.code < 0 ? &own : err);
    } else if (a->head_only) {
        http_reply(a->req, 200, headers, NULL, NULL, 0);
        archive_free(a);
    } else {
        send_archive(a);
    }
}

/* True if the path itself asks for a symlink's target. */
static bool path_follows_link(const char *path)
{
    size_t len = strlen(path);

    return path[len - 1] == '/' || (len >= 2 && strcmp(path + len - 2, "/.") == 0);
}

static void archive_stat(struct archive_transfer *a)
{
    static const struct file_request request = {
        .stream = FRAME_STREAM_RECORDS, .max_frame = FILE_BATCH_MAX, .timeout_ms = FILES_PROMPT_MS};
    static const struct file_events events = {.on_frame = on_stat_frame, .on_done = on_stat_done};
    const char *argv[] = {"rind-stat", a->path, path_follows_link(a->path) ? NULL : "--no-follow",
                          NULL};

    archive_start_op(a, argv, request, &events);
}

/* ---- out ---- */

static bool on_archive_bytes(void *data, const void *bytes, size_t len)
{
    struct archive_transfer *a = data;
    const struct http_header headers[] = {{"X-Docker-Container-Path-Stat", a->header},
                                          {NULL, NULL}};

    if (!a->started) {
        a->started = true;
        http_start(a->req, 200, headers, "application/x-tar");
    }
    return http_write(a->req, bytes, len);
}

static void on_archive_drain(struct http_request *req)
{
    struct archive_transfer *a = req->data;

    if (a->op != NULL)
        file_op_resume(a->op);
}

static void on_archive_sent(void *data, int r, const struct err *err)
{
    struct archive_transfer *a = data;

    a->op = NULL;
    if (r < 0) {
        archive_fail(a, err);
        return;
    }
    if (!a->started)
        (void)on_archive_bytes(a, "", 0);
    http_end(a->req);
    archive_free(a);
}

/* Names entries from the path's last component on, or from "./" if it has none. */
static void send_archive(struct archive_transfer *a)
{
    static const struct file_request request = {
        .stream = FRAME_STREAM_RECORDS, .max_frame = FILE_BATCH_MAX, .raw = true};
    static const struct file_events events = {.on_bytes = on_archive_bytes,
                                              .on_done = on_archive_sent};
    const char *argv[ARGS_MAX] = {"rind-tar-out", a->path};
    size_t argc = 2, len;
    const char *name = path_last_name(a->path, &len);
    bool up = len == 2 && strncmp(name, "..", 2) == 0;

    if (a->directory && len <= NAME_MAX_BYTES) {
        (void)snprintf(a->name_arg, sizeof(a->name_arg), "--name=%.*s",
                       len > 0 && !up ? (int)len : 1, len > 0 && !up ? name : ".");
        argv[argc++] = a->name_arg;
    }
    if (path_follows_link(a->path))
        argv[argc++] = "--follow";
    argv[argc] = NULL;
    a->req->on_drain = on_archive_drain;
    archive_start_op(a, argv, request, &events);
}

/* ---- in ---- */

static void on_archive_body(struct http_request *req, const char *data, size_t len)
{
    struct archive_transfer *a = req->data;

    if (a->op == NULL)
        return;
    if (data == NULL)
        file_op_write_end(a->op);
    else if (file_op_write(a->op, data, len))
        http_body_pause(req);
}

static void on_archive_writable(void *data)
{
    http_body_resume(((struct archive_transfer *)data)->req);
}

/* The directory is open: only now the client's bytes are requested. */
static void on_archive_ready(void *data, const struct frame *f)
{
    struct archive_transfer *a = data;

    if (f->kind != FRAME_DATA || a->wanted)
        return;
    a->wanted = true;
    http_body_start(a->req, on_archive_body);
}

static void on_archive_unpacked(void *data, int r, const struct err *err)
{
    struct archive_transfer *a = data;

    a->op = NULL;
    if (r < 0) {
        archive_fail(a, err);
        return;
    }
    http_reply(a->req, 200, NULL, NULL, NULL, 0);
    archive_free(a);
}

static void archive_unpack(struct archive_transfer *a)
{
    static const struct file_request request = {
        .stream = FRAME_STREAM_RECORDS, .max_frame = FILE_BATCH_MAX, .input = true};
    static const struct file_events events = {.on_frame = on_archive_ready,
                                              .on_drain = on_archive_writable,
                                              .on_done = on_archive_unpacked};
    const char *argv[] = {"rind-tar-in", a->path, a->own_owners ? "--no-owners" : NULL, NULL};

    archive_start_op(a, argv, request, &events);
}

/* ---- requests ---- */

struct archive_query {
    const char *path, *no_overwrite, *owners;
};

static const struct query_field fields[] = {
    {.name = "path",
     .type = QUERY_BYTES,
     .off = offsetof(struct archive_query, path),
     .min = 1,
     .max = FILE_PATH_MAX,
     .required = true},
    {.name = "noOverwriteDirNonDir",
     .type = QUERY_STRING,
     .off = offsetof(struct archive_query, no_overwrite),
     .max = 16},
    {.name = "copyUIDGID",
     .type = QUERY_STRING,
     .off = offsetof(struct archive_query, owners),
     .max = 16},
    {0},
};

/* Docker prefixes a path that does not begin with '/'. */
static int archive_set_path(struct archive_transfer *a, const char *path, struct err *err)
{
    a->path = path;
    if (path[0] == '/')
        return 0;
    if (asprintf(&a->own_path, "/%s", path) < 0) {
        a->own_path = NULL;
        return err_errno(err, -ENOMEM, "archive");
    }
    a->path = a->own_path;
    return 0;
}

static struct archive_transfer *archive_new(struct http_request *req, struct archive_query *q)
{
    struct sandbox *s = docker_sandbox(req);
    struct archive_transfer *a = s != NULL ? calloc(1, sizeof(*a)) : NULL;
    struct err err = ERR_NONE;
    int r;

    if (s == NULL)
        return NULL;
    if (a == NULL) {
        reply_errorf(req, -ENOMEM, "out of memory");
        return NULL;
    }
    r = http_query_known(req, fields, q, &err);
    if (r == 0)
        r = archive_set_path(a, q->path, &err);
    if (r < 0) {
        reply_error(req, &err);
        free(a->own_path);
        free(a);
        return NULL;
    }
    a->req = req;
    a->s = s;
    sandbox_ref(s);
    req->data = a;
    req->on_gone = on_archive_gone;
    return a;
}

/* Starts the transfer when the last run's clean-up has ended. */
static void on_archive_settled(void *data, int r, const struct err *err)
{
    struct archive_transfer *a = data;

    (void)r;
    (void)err;
    a->settling = false;
    if (a->req->gone) {
        http_abort(a->req);
        archive_free(a);
    } else if (a->in) {
        archive_unpack(a);
    } else {
        archive_stat(a);
    }
}

static void archive_settle(struct archive_transfer *a)
{
    struct err err = ERR_NONE;

    a->settling = true;
    if (docker_when_settled(a->s, on_archive_settled, a, &err) < 0)
        archive_fail(a, &err);
}

void docker_get_archive(struct http_request *req)
{
    struct archive_query q = {0};
    struct archive_transfer *a = archive_new(req, &q);

    if (a != NULL)
        archive_settle(a);
}

void docker_head_archive(struct http_request *req)
{
    struct archive_query q = {0};
    struct archive_transfer *a = archive_new(req, &q);

    if (a == NULL)
        return;
    a->head_only = true;
    archive_settle(a);
}

void docker_put_archive(struct http_request *req)
{
    struct archive_query q = {0};
    struct archive_transfer *a = archive_new(req, &q);
    const struct spec *spec;
    struct err err = ERR_NONE;

    if (a == NULL)
        return;
    spec = sandbox_spec(a->s);
    a->own_owners = docker_bool(q.owners);
    if (a->own_owners && spec != NULL && spec->user != NULL) {
        (void)err_set(&err, -EOPNOTSUPP, "copyUIDGID: only for containers that run as root");
        archive_fail(a, &err);
        return;
    }
    a->in = true;
    archive_settle(a);
}
