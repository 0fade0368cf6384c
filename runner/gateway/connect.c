#include "gateway/connect.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "gateway/tls-client-hello.h"
#include "http/head.h"

/* ---- writing ---- */

int connect_write(const struct connect_request *c, struct buf *out)
{
    char to[EGRESS_NAME_MAX + 8];
    int r;

    if (c->to->family != 0)
        address_format(c->to, to);
    else
        (void)snprintf(to, sizeof(to), "%s:%u", c->name != NULL ? c->name : "", c->to->port);
    r = buf_printf(out,
                   "CONNECT %s HTTP/1.1\r\nHost: %s\r\nX-Proto: tcp\r\nX-Rind-Protocol: %s\r\n"
                   "X-Rind-Sandbox: %s\r\nX-Forwarded-For: %s\r\n",
                   to, to, c->protocol, c->sandbox, c->client);
    if (r == 0 && c->sni != NULL)
        r = buf_printf(out, "X-Tls-Sni: %s\r\n", c->sni);
    if (r == 0 && c->name != NULL)
        r = buf_printf(out, "X-Hostname: %s\r\n", c->name);
    return r < 0 ? r : buf_append_str(out, "Connection: close\r\n\r\n");
}

/* ---- heads ---- */

static long connect_scan(const char *data, size_t len, struct err *err)
{
    const struct head_limits limits = {
        .bytes = CONNECT_HEAD_MAX, .lines = CONNECT_LINES_MAX, .url = CONNECT_HEAD_MAX};
    struct head_scan s = {.pos = 0};

    return head_scan(&s, data, len, &limits, err);
}

long connect_reply(const char *data, size_t len, int *ret_status, struct err *err)
{
    long n = connect_scan(data, len, err);
    const char *digits = data + sizeof("HTTP/1.x ") - 1;

    if (n <= 0)
        return n;
    if (n < 16 || memcmp(data, "HTTP/1.", 7) != 0 || (data[7] != '0' && data[7] != '1') ||
        data[8] != ' ' || strspn(digits, "0123456789") < 3 ||
        (digits[3] != ' ' && digits[3] != '\r'))
        return err_set(err, -EBADMSG, "an answer that is no HTTP");
    *ret_status = (digits[0] - '0') * 100 + (digits[1] - '0') * 10 + (digits[2] - '0');
    return *ret_status >= 100 ? n : err_set(err, -EBADMSG, "an answer that is no HTTP");
}

/* A first line with an HTTP version counts as HTTP, whatever its method. Other protocols begin
 * with words, too (IRC, SMTP), and lenient servers take odd methods and leading blank lines. */
enum connect_looks connect_look(const char *data, size_t len)
{
    static const char connect[] = "CONNECT ", version[] = " HTTP/";
    const char *end;
    size_t line;

    if (len > 0 && (unsigned char)data[0] == CLIENT_HELLO_FIRST)
        return LOOKS_TLS;
    while (len > 0 && (*data == '\r' || *data == '\n')) {
        data++;
        len--;
    }
    end = memchr(data, '\n', len);
    line = end != NULL ? (size_t)(end - data) : len;
    for (size_t i = 0; i < line; i++)
        if ((unsigned char)data[i] < ' ' && data[i] != '\r' && data[i] != '\t')
            return LOOKS_OTHER;
    if (end == NULL)
        return len >= CONNECT_HEAD_MAX / 2 ? LOOKS_HTTP : LOOKS_UNKNOWN;
    if (memmem(data, line, version, sizeof(version) - 1) == NULL)
        return LOOKS_OTHER;
    return line >= sizeof(connect) - 1 && memcmp(data, connect, sizeof(connect) - 1) == 0
               ? LOOKS_CONNECT
               : LOOKS_HTTP;
}

static bool copy_word(const char *at, size_t len, char *ret, size_t size)
{
    if (len == 0 || len >= size)
        return false;
    (void)memcpy(ret, at, len);
    ret[len] = '\0';
    return true;
}

/* "METHOD TARGET HTTP/1.x" */
static bool head_request_line(const char *at, size_t len, struct connect_head *h)
{
    const char *space = memchr(at, ' ', len), *second;

    if (space == NULL || !copy_word(at, (size_t)(space - at), h->method, sizeof(h->method)))
        return false;
    second = memchr(space + 1, ' ', len - (size_t)(space + 1 - at));
    if (second == NULL)
        return false;
    /* A target that is too long stays empty: such a request is routed by its Host header. */
    (void)copy_word(space + 1, (size_t)(second - space - 1), h->target, sizeof(h->target));
    return len - (size_t)(second - at) == sizeof(" HTTP/1.1") - 1 &&
           memcmp(second, " HTTP/1.", sizeof(" HTTP/1.") - 1) == 0;
}

static int head_host(const char *at, size_t len, struct connect_head *h)
{
    const char *colon = len > 0 && at[0] != '[' ? memchr(at, ':', len) : NULL;

    if (h->host[0] != '\0')
        return -EBADMSG; /* a second Host header would be ambiguous */
    if (egress_name(at, colon != NULL ? (size_t)(colon - at) : len, h->host) < 0)
        h->host[0] = '\0';
    return 0;
}

static int head_field(const char *at, size_t len, struct connect_head *h)
{
    const char *colon = memchr(at, ':', len), *value, *end = at + len;
    size_t name;

    if (colon == NULL || colon == at)
        return -EBADMSG;
    name = (size_t)(colon - at);
    for (value = colon + 1; value < end && (*value == ' ' || *value == '\t'); value++)
        ;
    while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    len = (size_t)(end - value);
    if (name == 4 && strncasecmp(at, "host", 4) == 0)
        return head_host(value, len, h);
    if (name == 10 && strncasecmp(at, "x-dst-addr", 10) == 0)
        return h->to[0] == '\0' && copy_word(value, len, h->to, sizeof(h->to)) ? 0 : -EBADMSG;
    if (name == 14 && strncasecmp(at, "content-length", 14) == 0) {
        if (len == 0 || len > 9 || strspn(value, "0123456789") < len)
            return -EBADMSG;
        h->length = strtoul(value, NULL, 10);
    }
    if (name == 17 && strncasecmp(at, "transfer-encoding", 17) == 0)
        h->length = SIZE_MAX; /* chunked: a caller that takes bodies must refuse it */
    return 0;
}

long connect_head(const char *data, size_t len, struct connect_head *ret, struct err *err)
{
    struct connect_head h = {.length = 0};
    long n = connect_scan(data, len, err);
    bool first = true;

    if (n <= 0)
        return n;
    for (const char *at = data, *end; at < data + n - 2; at = end + 2, first = false) {
        end = memmem(at, (size_t)(data + n - at), "\r\n", 2);
        if (first ? !head_request_line(at, (size_t)(end - at), &h)
                  : head_field(at, (size_t)(end - at), &h) < 0)
            return err_set(err, -EBADMSG, "a request that is no HTTP");
    }
    *ret = h;
    return n;
}

int connect_target(const char *text, char name[EGRESS_NAME_MAX + 1], struct address *ret)
{
    const char *colon = strrchr(text, ':');
    unsigned long port;

    name[0] = '\0';
    if (address_parse(text, ret) == 0)
        return ret->port != 0 ? 0 : -EINVAL;
    if (colon == NULL || strlen(colon + 1) > 5 || colon[1] == '\0' ||
        strspn(colon + 1, "0123456789") != strlen(colon + 1))
        return -EINVAL;
    port = strtoul(colon + 1, NULL, 10);
    if (port == 0 || port > 65535 || egress_name(text, (size_t)(colon - text), name) < 0)
        return -EINVAL;
    *ret = (struct address){.port = (uint16_t)port};
    return 0;
}
