/*
 * What the audit record says of a request (audit.h). Called by the dispatcher: audit_note when a
 * request is admitted, audit_replied when its reply begins. Runs in the supervisor's loop.
 */
#include "api/audit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "api/native/native.h"
#include "base/clock.h"
#include "http/error.h"
#include "http/route.h"
#include "http/server.h"

enum {
    VALUE_MAX = 96,   /* bytes of a value as the client wrote it; more are cut */
    ESCAPED_MAX = 12, /* bytes of one character: two \u escapes */
};

/* ---- which requests ---- */

/* clang-format off */
const struct audit_quiet audit_quiet[] = {
    {"POST",    "/auth"},
    {"POST",    "/containers/{id}/wait"},
    {"POST",    "/v1/sandboxes/{id}/processes/{process}/wait/exit"},
    {"POST",    "/v1/sandboxes/{id}/processes/{process}/wait/log"},
    {"POST",    "/v1/sandboxes/{id}/processes/{process}/wait/port"},
    /* what a server inside is asked is the sandbox's, as with a preview URL */
    {"POST",    "/v1/sandboxes/{id}/http/{port}/{path*}"},
    {"PUT",     "/v1/sandboxes/{id}/http/{port}/{path*}"},
    {"PATCH",   "/v1/sandboxes/{id}/http/{port}/{path*}"},
    {"DELETE",  "/v1/sandboxes/{id}/http/{port}/{path*}"},
    {NULL, NULL},
};
/* clang-format on */

bool audit_wants(const char *method, const char *pattern)
{
    if (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0 || strcmp(method, "OPTIONS") == 0)
        return false;
    for (const struct audit_quiet *q = audit_quiet; q->method != NULL; q++)
        if (strcmp(q->method, method) == 0 && strcmp(q->pattern, pattern) == 0)
            return false;
    return true;
}

static struct audit_log *log_of(const struct http_request *req)
{
    const struct native *n = req->context;

    if (req->route == NULL || n == NULL || n->audit == NULL ||
        !audit_wants(req->route->method, req->route->pattern))
        return NULL;
    return n->audit;
}

/* ---- text ---- */

/* Decodes one character of UTF-8. Other bytes stand for themselves. */
static unsigned char_take(const char **at)
{
    const unsigned char *s = (const unsigned char *)*at;
    unsigned n = s[0] >= 0xf0 && s[0] < 0xf5 ? 3 : s[0] >= 0xe0 ? 2 : s[0] >= 0xc2 ? 1 : 0;
    unsigned c = n == 3 ? s[0] & 7U : n == 2 ? s[0] & 15U : s[0] & 31U;

    if (s[0] >= 0xf5)
        n = 0;
    for (unsigned i = 1; i <= n; i++) {
        if ((s[i] & 0xc0) != 0x80) {
            n = 0;
            break;
        }
        c = c << 6 | (s[i] & 0x3fU);
    }
    *at += 1 + n;
    return n > 0 ? c : s[0];
}

static int append_char(struct buf *b, unsigned c)
{
    const char plain = (char)c;

    if (c >= 0x20 && c < 0x7f && c != '"' && c != '\\')
        return buf_append(b, &plain, 1);
    if (c < 0x10000)
        return buf_printf(b, "\\u%04x", c);
    c -= 0x10000;
    return buf_printf(b, "\\u%04x\\u%04x", 0xd800 + (c >> 10), 0xdc00 + (c & 0x3ff));
}

int audit_quote(struct buf *b, const char *value)
{
    const char *end = value + strnlen(value, VALUE_MAX);
    int r = buf_append(b, "\"", 1);

    while (r == 0 && value < end)
        r = append_char(b, char_take(&value));
    if (r == 0 && *value != '\0')
        r = buf_append_str(b, "...");
    return r < 0 ? r : buf_append(b, "\"", 1);
}

/* ---- the object ---- */

/* The object's members stand in req->about, without braces: "id":"box","port":"8080". */
static void about_add(struct http_request *req, const char *key, size_t key_len, const char *value)
{
    struct buf b = BUF_INIT(sizeof(req->about) - 1);
    int r = buf_append_str(&b, req->about);

    if (r == 0)
        r = buf_printf(&b, "%s\"%.*s\":", b.len > 0 ? "," : "", (int)key_len, key);
    if (r == 0)
        r = audit_quote(&b, value);
    if (r == 0)
        (void)memcpy(req->about, b.data, b.len + 1);
    buf_done(&b);
}

/* Names of objects that a query may hold. Everything else there may be a secret. */
static const char *const query_names[] = {"name",      "container", "path", "repo",
                                          "fromImage", "tag",       NULL};

static void about_add_query(struct http_request *req)
{
    char value[VALUE_MAX * 3 + 4];

    for (const char *at = req->query; at != NULL && *at != '\0';) {
        size_t len = strcspn(at, "&"), key = strcspn(at, "=&");

        for (const char *const *name = query_names; *name != NULL; name++) {
            if (strlen(*name) != key || strncmp(*name, at, key) != 0 || key == len)
                continue;
            (void)snprintf(value, sizeof(value), "%.*s", (int)(len - key - 1), at + key + 1);
            if (percent_decode(value, value, strlen(value), true) >= 0)
                about_add(req, *name, key, value);
        }
        at += len + (at[len] == '&');
    }
}

void audit_note(struct http_request *req)
{
    if (req->noted || log_of(req) == NULL)
        return;
    req->noted = true;
    for (size_t i = 0; i < req->param_count; i++)
        about_add(req, req->params[i].name, req->params[i].name_len, req->params[i].value);
    about_add_query(req);
}

void audit_add(struct http_request *req, const char *key, const char *value)
{
    if (log_of(req) != NULL)
        about_add(req, key, strlen(key), value);
}

/* ---- the record ---- */

static void put_time(char ret[40], int64_t us)
{
    time_t seconds = (time_t)(us / 1000000);
    char date[24] = "";
    struct tm tm;

    if (gmtime_r(&seconds, &tm) != NULL)
        (void)strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm);
    (void)snprintf(ret, 40, "%s.%06dZ", date, (int)(us % 1000000));
}

static int put_record(struct buf *b, uint64_t id, struct http_request *req)
{
    const struct http_peer *peer = http_peer(req);
    char at[40];
    int r;

    put_time(at, (int64_t)id);
    r = buf_printf(b, "{\"id\":%" PRIu64 ",\"time\":\"%s\"", id, at);
    if (r == 0 && peer->known)
        r = buf_printf(b, ",\"uid\":%u,\"pid\":%d", (unsigned)peer->uid, (int)peer->pid);
    if (r == 0)
        r = buf_printf(b, ",\"method\":\"%s\",\"route\":\"%s\",\"object\":{%s}", req->route->method,
                       req->route->pattern, req->about);
    if (r == 0 && req->lease[0] != '\0')
        r = buf_printf(b, ",\"sandbox\":\"%.23s\"", req->lease);
    if (r == 0 && req->status > 0)
        r = buf_printf(b, ",\"status\":%d", req->status);
    if (r == 0 && (req->error != 0 || req->status >= 400))
        r = buf_printf(b, ",\"error\":\"%s\"",
                       req->error != 0 ? error_name(req->error) : error_reason(req->status));
    return r < 0 ? r : buf_append(b, "}\n", 2);
}

void audit_replied(struct http_request *req)
{
    struct audit_log *a = log_of(req);
    auto_buf struct buf b = BUF_INIT(AUDIT_LINE_MAX);

    if (a == NULL)
        return;
    audit_note(req);
    if (put_record(&b, audit_log_id(a), req) == 0)
        audit_log_add(a, b.data, b.len);
}
