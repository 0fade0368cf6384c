#include "gateway/connect.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/number.h"
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

/* Copies a complete head, to be split. Return value as of connect_reply. */
static long connect_copy(const char *data, size_t len, char text[CONNECT_HEAD_MAX + 1],
                         struct err *err)
{
    const struct head_limits limits = {
        .bytes = CONNECT_HEAD_MAX, .lines = CONNECT_LINES_MAX, .url = CONNECT_HEAD_MAX};
    struct head_scan s = {.pos = 0};
    long n = head_scan(&s, data, len, &limits, err);

    if (n > 0) {
        (void)memcpy(text, data, (size_t)n);
        text[n] = '\0';
    }
    return n;
}

long connect_reply(const char *data, size_t len, int *ret_status, struct err *err)
{
    char text[CONNECT_HEAD_MAX + 1];
    const char *reason;
    bool http10;
    long n = connect_copy(data, len, text, err);

    if (n <= 0)
        return n;
    text[strcspn(text, "\r")] = '\0';
    return head_status_line(text, ret_status, &reason, &http10, NULL) == 0
               ? n
               : err_set(err, -EBADMSG, "an answer that is no HTTP");
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

static bool copy_word(const char *text, char *ret, size_t size)
{
    size_t len = strlen(text);

    if (len == 0 || len >= size)
        return false;
    (void)memcpy(ret, text, len + 1);
    return true;
}

static bool head_take_request_line(char *line, struct connect_head *h)
{
    char *target, *version;

    if (!head_split_request(line, &target, &version) ||
        !copy_word(line, h->method, sizeof(h->method)))
        return false;
    /* A target that is too long stays empty: such a request is routed by its Host header. */
    (void)copy_word(target, h->target, sizeof(h->target));
    return strlen(version) == sizeof("HTTP/1.1") - 1 && strncmp(version, "HTTP/1.", 7) == 0;
}

static int head_take_host(const char *host, struct connect_head *h)
{
    size_t len = host[0] != '[' ? strcspn(host, ":") : strlen(host);

    if (h->host[0] != '\0')
        return -EBADMSG; /* a second Host header would be ambiguous */
    if (egress_name(host, len, h->host) < 0)
        h->host[0] = '\0';
    return 0;
}

static int head_take_header(const struct http_header *header, struct connect_head *h)
{
    if (strcasecmp(header->name, "host") == 0)
        return head_take_host(header->value, h);
    if (strcasecmp(header->name, "x-dst-addr") == 0)
        return h->to[0] == '\0' && copy_word(header->value, h->to, sizeof(h->to)) ? 0 : -EBADMSG;
    if (strcasecmp(header->name, "content-length") == 0) {
        int64_t length = number_whole(header->value, 9);

        if (length < 0)
            return -EBADMSG;
        h->length = (size_t)length;
    }
    if (strcasecmp(header->name, "transfer-encoding") == 0)
        h->length = SIZE_MAX; /* chunked: a caller that takes bodies must refuse it */
    return 0;
}

long connect_head(const char *data, size_t len, struct connect_head *ret, struct err *err)
{
    struct http_header headers[CONNECT_LINES_MAX];
    struct connect_head h = {.length = 0};
    char text[CONNECT_HEAD_MAX + 1];
    long n = connect_copy(data, len, text, err);
    size_t count = 0;
    int r;

    if (n <= 0)
        return n;
    r = head_split(text, headers, CONNECT_LINES_MAX, &count, NULL);
    if (r == 0 && !head_take_request_line(text, &h))
        r = -EBADMSG;
    for (size_t i = 0; r == 0 && i < count; i++)
        r = head_take_header(&headers[i], &h);
    if (r < 0)
        return err_set(err, -EBADMSG, "a request that is no HTTP");
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
