#include "http.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {
    LINE_LEN = 1024,
    SEND_MAX = 4096,
    FRAME_HEAD = 8,
    CONNECT_TRIES = 2000, /* of 1 ms: a full queue of a listening unix socket is an EAGAIN */
};

void fail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vfprintf(stderr, format, args);
    va_end(args);
    (void)fputc('\n', stderr);
    exit(1);
}

void http_init(struct http *h, const char *path)
{
    h->path = path;
    h->fd = -1;
    h->at = h->end = 0;
}

void http_close(struct http *h)
{
    if (h->fd >= 0)
        (void)close(h->fd);
    h->fd = -1;
    h->at = h->end = 0;
}

static void http_connect(struct http *h)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int tries = 0;

    if (h->fd >= 0)
        return;
    if (strlen(h->path) >= sizeof(name.sun_path))
        fail("%s: too long for a socket's name", h->path);
    (void)strcpy(name.sun_path, h->path);
    h->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    while (connect(h->fd, (struct sockaddr *)&name, sizeof(name)) < 0) {
        if (errno != EAGAIN || ++tries > CONNECT_TRIES)
            fail("connect to %s: %s", h->path, strerror(errno));
        (void)nanosleep(&pause, NULL);
    }
}

static void send_all(struct http *h, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = send(h->fd, data, len, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            fail("send to %s: %s", h->path, strerror(errno));
        data += n;
        len -= (size_t)n;
    }
}

/* Some more bytes; 0 at the end of the connection. */
static size_t receive(struct http *h)
{
    ssize_t n;

    if (h->at == h->end)
        h->at = h->end = 0;
    if (h->end == sizeof(h->in)) {
        (void)memmove(h->in, h->in + h->at, h->end - h->at);
        h->end -= h->at;
        h->at = 0;
    }
    if (h->end == sizeof(h->in))
        fail("%s: a line that does not end", h->path);
    do
        n = recv(h->fd, h->in + h->end, sizeof(h->in) - h->end, 0);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno != ECONNRESET)
        fail("receive from %s: %s", h->path, strerror(errno));
    h->end += n > 0 ? (size_t)n : 0;
    return n > 0 ? (size_t)n : 0;
}

static void read_line(struct http *h, char line[LINE_LEN])
{
    const char *eol;
    size_t len;

    while ((eol = memchr(h->in + h->at, '\n', h->end - h->at)) == NULL)
        if (receive(h) == 0)
            fail("%s: closed within an answer", h->path);
    len = (size_t)(eol - (h->in + h->at));
    if (len >= LINE_LEN)
        fail("%s: a header of %zu bytes", h->path, len);
    (void)memcpy(line, h->in + h->at, len);
    line[len > 0 && line[len - 1] == '\r' ? len - 1 : len] = '\0';
    h->at += len + 1;
}

static void request(struct http *h, const char *method, const char *target, const char *extra,
                    const char *body)
{
    char text[SEND_MAX];
    int n;

    http_connect(h);
    n = snprintf(text, sizeof(text),
                 "%s %s HTTP/1.1\r\nHost: bench\r\n%sContent-Type: application/json\r\n"
                 "Content-Length: %zu\r\n\r\n%s",
                 method, target, extra, body != NULL ? strlen(body) : 0, body != NULL ? body : "");
    if (n >= (int)sizeof(text))
        fail("a request of %d bytes", n);
    send_all(h, text, (size_t)n);
}

struct head {
    int status;
    long long length; /* -1 = chunked */
    int close;
};

static struct head read_head(struct http *h)
{
    struct head head = {.length = 0};
    char line[LINE_LEN];

    read_line(h, line);
    if (sscanf(line, "HTTP/1.1 %d", &head.status) != 1)
        fail("%s: no HTTP: %s", h->path, line);
    for (read_line(h, line); line[0] != '\0'; read_line(h, line)) {
        if (strncasecmp(line, "content-length:", 15) == 0)
            head.length = strtoll(line + 15, NULL, 10);
        else if (strncasecmp(line, "transfer-encoding: chunked", 26) == 0)
            head.length = -1;
        else if (strncasecmp(line, "connection: close", 17) == 0)
            head.close = 1;
    }
    return head;
}

static void take(struct http *h, size_t len, size_t *have)
{
    if (*have + len > HTTP_BODY_MAX)
        fail("%s: an answer of more than %d bytes", h->path, HTTP_BODY_MAX);
    while (len > 0) {
        size_t n = h->end - h->at < len ? h->end - h->at : len;

        (void)memcpy(h->body + *have, h->in + h->at, n);
        h->at += n;
        *have += n;
        len -= n;
        if (len > 0 && receive(h) == 0)
            fail("%s: closed within a body", h->path);
    }
}

static void read_body(struct http *h, const struct head *head)
{
    char line[LINE_LEN];
    size_t have = 0, len;

    if (head->length >= 0)
        take(h, (size_t)head->length, &have);
    while (head->length < 0) {
        read_line(h, line);
        len = strtoul(line, NULL, 16);
        take(h, len, &have);
        read_line(h, line);
        if (len == 0)
            break;
    }
    h->body[have] = '\0';
}

int http_ask(struct http *h, const char *method, const char *target, const char *body)
{
    struct head head;

    request(h, method, target, "", body);
    head = read_head(h);
    if (head.status == 204 || head.status == 304)
        h->body[0] = '\0';
    else
        read_body(h, &head);
    if (head.close)
        http_close(h);
    return head.status;
}

void http_upgrade(struct http *h, const char *target, const char *upgrade, const char *body)
{
    char extra[128];
    struct head head;

    (void)snprintf(extra, sizeof(extra), "Connection: Upgrade\r\nUpgrade: %s\r\n", upgrade);
    request(h, "POST", target, extra, body);
    head = read_head(h);
    if (head.status != 101) {
        read_body(h, &head);
        fail("%s: %d %s", target, head.status, h->body);
    }
}

const char *http_frame(struct http *h, int *ret_type, size_t *ret_len, size_t *left)
{
    const char *data;

    if (*left == 0) {
        const unsigned char *f;

        while (h->end - h->at < FRAME_HEAD)
            if (receive(h) == 0) {
                if (h->end != h->at)
                    fail("%s: closed within a frame", h->path);
                return NULL;
            }
        f = (const unsigned char *)h->in + h->at;
        *ret_type = f[0];
        *left = (size_t)f[4] << 24 | (size_t)f[5] << 16 | (size_t)f[6] << 8 | f[7];
        h->at += FRAME_HEAD;
    }
    if (*left > 0 && h->at == h->end && receive(h) == 0)
        fail("%s: closed within a frame", h->path);
    data = h->in + h->at;
    *ret_len = h->end - h->at < *left ? h->end - h->at : *left;
    h->at += *ret_len;
    *left -= *ret_len;
    return data;
}

static const char *find(const struct http *h, const char *key)
{
    char quoted[64];
    const char *at;

    (void)snprintf(quoted, sizeof(quoted), "\"%s\":", key);
    at = strstr(h->body, quoted);
    if (at == NULL)
        fail("%s: no %s in %s", h->path, key, h->body);
    return at + strlen(quoted);
}

void http_string(const struct http *h, const char *key, char *ret, size_t size)
{
    const char *at = find(h, key);
    size_t len = at[0] == '"' ? strcspn(at + 1, "\"") : size;

    if (len >= size)
        fail("%s: %s is no short string in %s", h->path, key, h->body);
    (void)memcpy(ret, at + 1, len);
    ret[len] = '\0';
}

long http_number(const struct http *h, const char *key)
{
    const char *at = find(h, key);
    char *end;
    long n = strtol(at, &end, 10);

    if (end == at)
        fail("%s: %s is no number in %s", h->path, key, h->body);
    return n;
}
