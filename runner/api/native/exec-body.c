#include "api/native/exec-body.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/common.h"
#include "base/auto.h"
#include "base/base64.h"
#include "base/err.h"
#include "base/strtab.h"
#include "http/json-body.h"
#include "http/reply.h"
#include "http/server.h"
#include "json/decode.h"
#include "json/parse.h"
#include "spec/env.h"
#include "spec/signals.h"
#include "spec/spec.h"

enum { INPUT_UTF8 = 0, INPUT_BASE64 };

static const struct strtab modes[] = {{"buffered", EXEC_MODE_BUFFERED},
                                      {"events", EXEC_MODE_EVENTS},
                                      {"stream", EXEC_MODE_STREAM},
                                      {NULL, 0}};
static const struct strtab encodings[] = {
    {"utf8", INPUT_UTF8}, {"base64", INPUT_BASE64}, {NULL, 0}};

/* ---- values ---- */

static int body_refuse_value(struct err *err, int code, const struct jpath *path,
                             const struct err *why)
{
    return json_fail(err, code, path, "%s", why->msg);
}

static int body_set_command(struct exec_body *b, const char *const *argv, const struct jpath *path,
                            struct err *err)
{
    struct err why = ERR_NONE;
    int r;

    if (b->has_command)
        return json_fail(err, -EINVAL, path, "there is a command already: cmd or argv, not both");
    b->has_command = true;
    /* spec_set_command copies the strings: the cast only removes const. */
    r = spec_set_command(b->spec, (char *const *)(uintptr_t)argv, &why);
    return r < 0 ? body_refuse_value(err, r, path, &why) : 0;
}

static int d_cmd(json_t *value, const struct jfield *field, void *dst, const struct jpath *path,
                 struct err *err)
{
    const char *argv[] = {"/bin/sh", "-c", json_string_value(value), NULL};

    (void)field;
    if (!json_is_string(value) || json_string_length(value) == 0)
        return json_fail(err, -EINVAL, path, "must be a string that is not empty");
    return body_set_command(dst, argv, path, err);
}

static int d_argv(json_t *value, const struct jfield *field, void *dst, const struct jpath *path,
                  struct err *err)
{
    auto_free const char **list = NULL;
    size_t count;
    int r;

    (void)field;
    if (json_array_size(value) == 0)
        return json_fail(err, -EINVAL, path, "must be an array of strings that is not empty");
    r = json_borrow_strings(value, SPEC_ARGS_MAX, path, &list, &count, err);
    if (r < 0)
        return r;
    return body_set_command(dst, list, path, err);
}

static int d_env(json_t *value, const struct jfield *field, void *dst, const struct jpath *path,
                 struct err *err)
{
    struct exec_body *b = dst;
    const char *key;
    json_t *element;

    (void)field;
    if (!json_is_object(value))
        return json_fail(err, -EINVAL, path, "must be an object of strings");
    json_object_foreach(value, key, element) {
        struct jpath here = {.up = path, .key = key};
        struct err why = ERR_NONE;
        int r;

        if (key[0] == '\0' || strchr(key, '=') != NULL)
            return json_fail(err, -EINVAL, &here, "a name must not be empty or hold =");
        if (!json_is_string(element))
            return json_fail(err, -EINVAL, &here, "must be a string");
        r = env_put(b->spec, key, strlen(key), json_string_value(element), &why);
        if (r < 0)
            return body_refuse_value(err, r, &here, &why);
    }
    return 0;
}

/* cwd, user: by the command line's parsers. */
static int d_text(json_t *value, const struct jfield *field, void *dst, const struct jpath *path,
                  struct err *err)
{
    struct exec_body *b = dst;
    struct err why = ERR_NONE;
    int r;

    if (!json_is_string(value))
        return json_fail(err, -EINVAL, path, "must be a string");
    r = strcmp(field->name, "cwd") == 0 ? spec_set_workdir(b->spec, json_string_value(value), &why)
                                        : spec_set_user(b->spec, json_string_value(value), &why);
    return r < 0 ? body_refuse_value(err, r, path, &why) : 0;
}

static int d_stdin(json_t *value, const struct jfield *field, void *dst, const struct jpath *path,
                   struct err *err)
{
    struct exec_body *b = dst;

    (void)field;
    if (!json_is_string(value))
        return json_fail(err, -EINVAL, path, "must be a string");
    if (json_string_length(value) > base64_encoded_size(EXEC_STDIN_MAX))
        return json_fail(err, -E2BIG, path, "more than %d bytes", EXEC_STDIN_MAX);
    b->input = strdup(json_string_value(value));
    b->input_len = json_string_length(value);
    return b->input == NULL ? json_fail(err, -ENOMEM, path, "out of memory") : 0;
}

/* ---- the body ---- */

/* clang-format off */
#define OFF(member) .off = offsetof(struct exec_body, member)
#define COMMON_FIELDS                                                                              \
    {.name = "cmd",           .decode = d_cmd},                                                    \
    {.name = "argv",          .decode = d_argv},                                                   \
    {.name = "env",           .decode = d_env,    .nullable = true},                               \
    {.name = "cwd",           .decode = d_text,   .nullable = true},                               \
    {.name = "user",          .decode = d_text,   .nullable = true},                               \
    {.name = "stdin",         .decode = d_stdin,  .nullable = true},                               \
    {.name = "stdinEncoding", .decode = j_enum,   OFF(input_encoding), .names = encodings},        \
    {.name = "combined",      .decode = j_bool,   OFF(combined)},                                  \
    {.name = "timeoutMs",     .decode = j_int64,  OFF(timeout_ms), .min = 1,                       \
     .max = EXEC_TIMEOUT_MAX, .nullable = true}

static const struct jfield exec_fields[] = {
    COMMON_FIELDS,
    {.name = "mode",           .decode = j_enum,  OFF(mode), .names = modes},
    {.name = "tty",            .decode = j_bool,  OFF(tty)},
    {.name = "rows",           .decode = j_int64, OFF(rows), .min = 1, .max = EXEC_SIDE_MAX},
    {.name = "cols",           .decode = j_int64, OFF(cols), .min = 1, .max = EXEC_SIDE_MAX},
    {.name = "keep",           .decode = j_bool,  OFF(keep)},
    {.name = "own",            .decode = j_bool,  OFF(own)},
    {.name = "detach",         .decode = j_bool,  OFF(detach)},
    {.name = "idle",           .decode = j_bool,  OFF(idle)},
    {.name = "maxOutputBytes", .decode = j_int64, OFF(max_output), .min = 0, .max = INT64_MAX, .nullable = true},
    {0},
};

static const struct jfield process_fields[] = {
    COMMON_FIELDS,
    {.name = "id", .decode = j_string, OFF(id), .min = 1, .max = EXEC_ID_MAX, .nullable = true},
    {0},
};
/* clang-format on */

static int body_decode_input(struct exec_body *b, struct err *err)
{
    int r;

    if (b->input != NULL && b->input_encoding == INPUT_BASE64) {
        r = base64_decode(b->input, b->input, b->input_len, &b->input_len);
        if (r < 0)
            return err_set(err, -EINVAL, "stdin: no base64");
    }
    if (b->input_len > EXEC_STDIN_MAX)
        return err_set(err, -E2BIG, "stdin: more than %d bytes", EXEC_STDIN_MAX);
    return 0;
}

static int body_check(const struct exec_body *b, struct err *err)
{
    if (!b->has_command)
        return err_set(err, -EINVAL, "cmd: missing (or argv)");
    if (b->tty && b->input != NULL)
        return err_set(err, -EINVAL, "stdin: a terminal's is typed, in the stream form");
    if (b->tty && b->combined)
        return err_set(err, -EINVAL, "combined: a terminal has one output anyway");
    if (!b->tty && (b->rows != 0 || b->cols != 0))
        return err_set(err, -EINVAL, "%s: only with tty", b->rows != 0 ? "rows" : "cols");
    if (b->detach && b->own)
        return err_set(err, -EINVAL, "own: a detached exec has no client");
    if (b->detach && b->mode != EXEC_MODE_AUTO)
        return err_set(err, -EINVAL, "mode: a detached exec answers at once");
    if (b->detach && b->input != NULL)
        return err_set(err, -EINVAL, "stdin: not with detach");
    return 0;
}

int exec_body_read(const struct http_request *req, enum exec_body_kind kind, struct exec_body *ret,
                   struct err *err)
{
    int r;

    *ret = (struct exec_body){.spec = spec_new(), .timeout_ms = LIMIT_UNSET, .max_output = -1};
    if (ret->spec == NULL)
        return err_errno(err, -ENOMEM, "a request");
    r = json_body(req, kind == EXEC_BODY_EXEC ? exec_fields : process_fields, ret, err);
    if (r == 0)
        r = body_decode_input(ret, err);
    return r < 0 ? r : body_check(ret, err);
}

void exec_body_done(struct exec_body *b)
{
    spec_free(b->spec);
    free(b->id);
    free(b->input);
    *b = (struct exec_body){.spec = NULL};
}

void exec_body_options(const struct exec_body *b, struct exec_options *ret)
{
    *ret = (struct exec_options)EXEC_OPTIONS_NONE;
    ret->argv = b->spec->argv;
    ret->envp = b->spec->env;
    ret->user = b->spec->user;
    ret->cwd = b->spec->cwd;
    ret->tty = b->tty;
    ret->rows = (uint16_t)b->rows;
    ret->cols = (uint16_t)b->cols;
    ret->with_stdin = b->input != NULL;
    ret->combined = b->combined;
    ret->keep = b->keep || b->own || b->detach;
    ret->idle = b->idle;
    ret->timeout_ms = b->timeout_ms;
}

/* ---- signals ---- */

static int d_signal(json_t *value, const struct jfield *field, void *dst, const struct jpath *path,
                    struct err *err)
{
    char number[24];
    const char *text = number;
    struct err why = ERR_NONE;
    int r;

    (void)field;
    if (json_is_string(value))
        text = json_string_value(value);
    else if (json_is_integer(value))
        (void)snprintf(number, sizeof(number), "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else
        return json_fail(err, -EINVAL, path, "must be a name or a number");
    r = signal_parse("signal", text, &((struct exec_kill *)dst)->signo, &why);
    return r < 0 ? body_refuse_value(err, r, path, &why) : 0;
}

static const struct jfield kill_fields[] = {
    {.name = "signal", .decode = d_signal},
    {.name = "group", .decode = j_bool, .off = offsetof(struct exec_kill, group)},
    {0},
};

int exec_kill_read(const struct http_request *req, int signo, struct exec_kill *ret,
                   struct err *err)
{
    int r;

    *ret = (struct exec_kill){.signo = signo, .group = true};
    r = json_body(req, kill_fields, ret, err);
    if (r == 0 && ret->signo == 0)
        r = err_set(err, -EINVAL, "signal: missing");
    return r;
}

int exec_body_input(const struct exec_body *body, struct http_request *req, struct buf *ret,
                    struct err *err)
{
    int r = 0;

    *ret = (struct buf){.max = EXEC_STDIN_MAX, .budget = req->body.budget};
    buf_done(&req->body);
    if (body->input != NULL)
        r = buf_append(ret, body->input, body->input_len);
    if (r == -EAGAIN)
        return err_set(err, r, "limit maxBufferedBytes: no room for this stdin now");
    return r < 0 ? err_errno(err, r, "stdin") : 0;
}

void exec_body_post(struct http_request *req, enum exec_body_kind kind,
                    int (*start)(struct http_request *req, struct sandbox *s,
                                 const struct exec_body *body, struct err *err))
{
    struct sandbox *s = api_sandbox(req);
    struct err err = ERR_NONE;
    struct exec_body body;
    int r;

    if (s == NULL)
        return;
    r = exec_body_read(req, kind, &body, &err);
    if (r == 0)
        r = start(req, s, &body, &err);
    exec_body_done(&body);
    if (r < 0)
        reply_error(req, &err);
}
