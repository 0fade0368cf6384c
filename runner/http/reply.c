#include "http/reply.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "http/error.h"
#include "http/route.h"
#include "http/server.h"

static const char type_json[] = "application/json";

/* Sent if even the error's JSON cannot be allocated. */
static const char out_of_memory[] =
    "{\"error\":{\"code\":\"ENOMEM\",\"message\":\"out of memory\",\"errno\":12}}\n";

void reply_json(struct http_request *req, int status, json_t *root)
{
    char *text = root == NULL ? NULL : json_dumps(root, JSON_COMPACT);

    json_decref(root);
    if (text == NULL)
        http_reply(req, 503, NULL, type_json, out_of_memory, sizeof(out_of_memory) - 1);
    else
        http_reply(req, status, NULL, type_json, text, strlen(text));
    free(text);
}

bool reply_json_line(struct http_request *req, json_t *root, const char *line_end)
{
    auto_free char *text = root != NULL ? json_dumps(root, JSON_COMPACT) : NULL;
    size_t len = text != NULL ? strlen(text) : 0, end = strlen(line_end);
    char *whole = text != NULL ? realloc(text, len + end + 1) : NULL;

    json_decref(root);
    if (whole == NULL)
        return false;
    text = whole;
    (void)memcpy(text + len, line_end, end + 1);
    (void)http_write(req, text, len + end);
    return true;
}

void reply_empty(struct http_request *req, int status)
{
    http_reply(req, status, NULL, NULL, NULL, 0);
}

/* number 0 and step NULL are omitted. Messages may quote client input, which need not be UTF-8. */
static json_t *error_encode(const char *code, const char *message, const char *step, int number)
{
    char clean[ERR_MSG_MAX];
    json_t *root;

    root =
        json_pack("{s:{s:s, s:s*, s:s*}}", "error", "code", code, "message", message, "step", step);
    if (root == NULL) {
        size_t n = 0;

        for (; n < sizeof(clean) - 1 && message[n] != '\0'; n++)
            clean[n] = (unsigned char)message[n] < 0x80 ? message[n] : '?';
        clean[n] = '\0';
        root = json_pack("{s:{s:s, s:s*, s:s*}}", "error", "code", code, "message", clean, "step",
                         step);
    }
    if (root != NULL && number != 0)
        (void)json_object_set_new(json_object_get(root, "error"), "errno", json_integer(number));
    return root;
}

static void reply_encoded(struct http_request *req, int status, json_t *root, const char *allow)
{
    const struct http_header headers[] = {{"Allow", allow}, {NULL, NULL}};
    char *text = root == NULL ? NULL : json_dumps(root, JSON_COMPACT);

    json_decref(root);
    http_reply(req, text == NULL ? 503 : status, allow == NULL ? NULL : headers, type_json,
               text == NULL ? out_of_memory : text,
               text == NULL ? sizeof(out_of_memory) - 1 : strlen(text));
    free(text);
}

void reply_failure(struct http_request *req, int status, const char *code, const char *message,
                   const char *allow)
{
    /* Errors of clients may be many, so they are logged at debug only. */
    log_debug("api", "%s %s: %d %s: %s", req->method, req->path, status, code, message);
    reply_encoded(req, status, error_encode(code, message, NULL, 0), allow);
}

void reply_error_step(struct http_request *req, const struct err *err, const char *step)
{
    int status = error_status(err->code), number = err->code < 0 ? -err->code : err->code;
    const char *code = error_name(err->code);

    req->error = err->code;
    log_msg(status >= 500 ? LOG_LEVEL_WARN : LOG_LEVEL_DEBUG, "api", "%s %s: %d %s: %s",
            req->method, req->path, status, code, err->msg);
    if (req->set != NULL && req->set->failure != NULL) {
        req->set->failure(req, status, code, err->msg, NULL);
        return;
    }
    reply_encoded(req, status, error_encode(code, err->msg, step, number), NULL);
}

json_t *reply_encode_error(const struct err *err)
{
    return error_encode(error_name(err->code), err->msg, NULL,
                        err->code < 0 ? -err->code : err->code);
}

void reply_error(struct http_request *req, const struct err *err)
{
    reply_error_step(req, err, NULL);
}

void reply_errorf(struct http_request *req, int code, const char *fmt, ...)
{
    struct err err = {.code = code > 0 ? -code : code};
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(err.msg, sizeof(err.msg), fmt, ap);
    va_end(ap);
    reply_error(req, &err);
}
