/* Servers for what comes in from the host: HTTP with all that a proxy can spoil, and echoes. One
 * process a connection; each ends with its connection. */

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "payload.h"

enum { HEAD_MAX = 256 << 10, PIECE = 64 << 10 };

static volatile int *go; /* how often /go was asked for; shared */

/* ---- sockets ---- */

static int bound(int type, const char *port, const char *address)
{
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)number(port))};
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)number(port))};
    bool six = strchr(address, ':') != NULL;
    int fd = socket(six ? AF_INET6 : AF_INET, type | SOCK_CLOEXEC, 0), on = 1;

    inet_pton(AF_INET6, address, &v6.sin6_addr);
    inet_pton(AF_INET, address, &v4.sin_addr);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    /* Inherited by its connections: an answer in two parts must not wait for an acknowledgement. */
    if (type == SOCK_STREAM)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (bind(fd, six ? (struct sockaddr *)&v6 : (struct sockaddr *)&v4,
             six ? sizeof(v6) : sizeof(v4)) < 0 ||
        (type == SOCK_STREAM && listen(fd, 4096) < 0))
        return -1;
    puts("listening");
    fflush(stdout);
    return fd;
}

static int serve(int argc, char **argv, void (*one)(int fd))
{
    int listener;

    if (argc < 2)
        return 2;
    signal(SIGCHLD, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    go = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    listener = bound(SOCK_STREAM, argv[1], argc > 2 ? argv[2] : "127.0.0.1");
    if (listener < 0)
        return complain("listen");
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        pid_t pid = fd < 0 ? -1 : fork();

        if (pid == 0) {
            one(fd);
            _exit(0);
        }
        if (fd >= 0)
            close(fd);
    }
}

/* ---- echoes ---- */

static void echo(int fd)
{
    static char data[PIECE];
    ssize_t n;

    while ((n = read(fd, data, sizeof(data))) > 0)
        for (ssize_t at = 0; at < n;) {
            ssize_t m = write(fd, data + at, (size_t)(n - at));

            if (m <= 0)
                return;
            at += m;
        }
    if (n == 0)
        (void)!write(fd, "bye", 3);
}

static int cmd_echo(int argc, char **argv)
{
    return serve(argc, argv, echo);
}

/* Reads everything, answers only then. */
static void late(int fd)
{
    static char data[PIECE];
    char text[64];
    long long total = 0;
    ssize_t n;

    while ((n = read(fd, data, sizeof(data))) > 0)
        total += n;
    nap(0.2);
    (void)!write(fd, text, (size_t)snprintf(text, sizeof(text), "got %lld", total));
}

static int cmd_late(int argc, char **argv)
{
    return serve(argc, argv, late);
}

static int cmd_udp_echo(int argc, char **argv)
{
    static char data[PIECE];
    struct sockaddr_storage from;
    int fd;

    if (argc < 2)
        return 2;
    fd = bound(SOCK_DGRAM, argv[1], argc > 2 ? argv[2] : "127.0.0.1");
    if (fd < 0)
        return complain("bind");
    for (;;) {
        socklen_t len = sizeof(from);
        ssize_t n = recvfrom(fd, data, sizeof(data), 0, (struct sockaddr *)&from, &len);

        if (n >= 0)
            sendto(fd, data, (size_t)n, 0, (struct sockaddr *)&from, len);
    }
}

/* ---- HTTP: reading ---- */

struct conn {
    int fd;
    char in[HEAD_MAX + 1];
    size_t len;
    char head[HEAD_MAX + 1];
};

static struct conn c;

static void out(const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(c.fd, data, len);

        if (n <= 0)
            _exit(0);
        data += n;
        len -= (size_t)n;
    }
}

static void say(const char *text)
{
    out(text, strlen(text));
}

static void more(void)
{
    ssize_t n = c.len < HEAD_MAX ? read(c.fd, c.in + c.len, HEAD_MAX - c.len) : 0;

    if (n <= 0)
        _exit(0);
    c.len += (size_t)n;
    c.in[c.len] = '\0';
}

static void used(size_t n)
{
    memmove(c.in, c.in + n, c.len - n + 1);
    c.len -= n;
}

static void read_head(void)
{
    char *end;

    c.in[c.len] = '\0';
    while ((end = strstr(c.in, "\r\n\r\n")) == NULL)
        more();
    memcpy(c.head, c.in, (size_t)(end + 4 - c.in));
    c.head[end + 4 - c.in] = '\0';
    used((size_t)(end + 4 - c.in));
}

static const char *header(const char *name)
{
    static char value[1024];
    size_t len = strlen(name), n = 0;

    for (char *line = strstr(c.head, "\r\n"); line != NULL; line = strstr(line + 2, "\r\n"))
        if (strncasecmp(line + 2, name, len) == 0 && line[2 + len] == ':') {
            const char *p = line + 3 + len + strspn(line + 3 + len, " ");

            while (p[n] != '\r' && n + 1 < sizeof(value)) {
                value[n] = p[n];
                n++;
            }
            value[n] = '\0';
            return value;
        }
    return NULL;
}

/* One line of the body's framing, with its end. */
static size_t line(char *ret, size_t size)
{
    char *end;
    size_t n;

    while ((end = strstr(c.in, "\r\n")) == NULL)
        more();
    n = (size_t)(end + 2 - c.in);
    snprintf(ret, size, "%.*s", (int)(n - 2), c.in);
    used(n);
    return n;
}

static void pass(long long n, void (*take)(const char *data, size_t len))
{
    while (n > 0) {
        size_t piece;

        if (c.len == 0)
            more();
        piece = (long long)c.len < n ? c.len : (size_t)n;
        take(c.in, piece);
        used(piece);
        n -= (long long)piece;
    }
}

/* The whole body, piece by piece; its trailers as lines. */
static void body(void (*take)(const char *data, size_t len), char *trailers, size_t size)
{
    const char *length = header("Content-Length");
    char text[1024];

    trailers[0] = '\0';
    if (length != NULL) {
        pass(atoll(length), take);
        return;
    }
    if (header("Transfer-Encoding") == NULL)
        return;
    for (;;) {
        line(text, sizeof(text));
        if (strtoll(text, NULL, 16) == 0)
            break;
        pass(strtoll(text, NULL, 16), take);
        line(text, sizeof(text));
    }
    while (line(text, sizeof(text)) > 2)
        snprintf(trailers + strlen(trailers), size - strlen(trailers), "%s\r\n", text);
}

/* ---- HTTP: answers ---- */

static long long counted;

static void count(const char *data, size_t len)
{
    (void)data;
    counted += (long long)len;
}

static void chunk(const char *data, size_t len)
{
    char size[32];

    out(size, (size_t)snprintf(size, sizeof(size), "%zx\r\n", len));
    out(data, len);
    out("\r\n", 2);
}

static void whole(const char *status, const char *text, size_t len)
{
    char head[256];

    out(head, (size_t)snprintf(head, sizeof(head), "HTTP/1.1 %s\r\nContent-Length: %zu\r\n\r\n",
                               status, len));
    if (strncmp(c.head, "HEAD ", 5) != 0)
        out(text, len);
}

static void get_echo(void)
{
    char trailers[4096];

    if (header("Expect") != NULL)
        say("HTTP/1.1 100 Continue\r\n\r\n");
    say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    body(chunk, trailers, sizeof(trailers));
    say("0\r\n");
    say(trailers);
    say("\r\n");
}

static void get_count(void)
{
    char trailers[4096], text[64];

    if (header("Expect") != NULL)
        say("HTTP/1.1 100 Continue\r\n\r\n");
    counted = 0;
    body(count, trailers, sizeof(trailers));
    whole("200 OK", text, (size_t)snprintf(text, sizeof(text), "%lld", counted));
}

static void get_events(void)
{
    char text[64];

    say("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n");
    for (int sent = 0; sent < 3;) {
        if (*go > sent)
            out(text, (size_t)snprintf(text, sizeof(text), "data: %d\n\n", ++sent));
        else
            nap(0.005);
    }
    _exit(0);
}

static void get_bytes(long long n)
{
    static char data[PIECE];
    char head[128];

    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (char)('a' + i % 26);
    out(head,
        (size_t)snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Length: %lld\r\n\r\n", n));
    for (; n > 0; n -= (long long)sizeof(data))
        out(data, n < (long long)sizeof(data) ? (size_t)n : sizeof(data));
}

/* ---- WebSocket ---- */

static uint32_t rol(uint32_t x, int n)
{
    return x << n | x >> (32 - n);
}

/* SHA-1 of what fits into two blocks. */
static void sha1(const char *text, size_t len, unsigned char ret[20])
{
    uint32_t h[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0}, w[80];
    unsigned char block[128] = {0};
    size_t blocks = len + 9 > 64 ? 2 : 1;

    memcpy(block, text, len);
    block[len] = 0x80;
    for (int i = 0; i < 8; i++)
        block[blocks * 64 - 1 - (size_t)i] = (unsigned char)((uint64_t)len * 8 >> (8 * i));
    for (size_t b = 0; b < blocks; b++) {
        uint32_t v[5];

        memcpy(v, h, sizeof(v));
        for (int i = 0; i < 16; i++) {
            const unsigned char *p = block + b * 64 + (size_t)i * 4;

            w[i] = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
        }
        for (int i = 16; i < 80; i++)
            w[i] = rol(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
        for (int i = 0; i < 80; i++) {
            uint32_t f = i < 20   ? (v[1] & v[2]) | (~v[1] & v[3])
                         : i < 40 ? v[1] ^ v[2] ^ v[3]
                         : i < 60 ? (v[1] & v[2]) | (v[1] & v[3]) | (v[2] & v[3])
                                  : v[1] ^ v[2] ^ v[3];
            uint32_t k = i < 20   ? 0x5a827999
                         : i < 40 ? 0x6ed9eba1
                         : i < 60 ? 0x8f1bbcdc
                                  : 0xca62c1d6;
            uint32_t t = rol(v[0], 5) + f + v[4] + k + w[i];

            v[4] = v[3];
            v[3] = v[2];
            v[2] = rol(v[1], 30);
            v[1] = v[0];
            v[0] = t;
        }
        for (int i = 0; i < 5; i++)
            h[i] += v[i];
    }
    for (int i = 0; i < 20; i++)
        ret[i] = (unsigned char)(h[i / 4] >> (24 - 8 * (i % 4)));
}

static void accept_key(const char *key, char ret[29])
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    unsigned char digest[21] = {0};
    char text[128];

    snprintf(text, sizeof(text), "%.60s258EAFA5-E914-47DA-95CA-C5AB0DC85B11", key);
    sha1(text, strlen(text), digest);
    for (size_t i = 0; i < 7; i++) {
        const unsigned char *p = digest + i * 3;

        ret[i * 4] = letters[p[0] >> 2];
        ret[i * 4 + 1] = letters[(p[0] & 3) << 4 | p[1] >> 4];
        ret[i * 4 + 2] = letters[(p[1] & 15) << 2 | p[2] >> 6];
        ret[i * 4 + 3] = letters[p[2] & 63];
    }
    ret[27] = '=';
    ret[28] = '\0';
}

/* Frames of up to 64 KiB come back unmasked, a close is answered. */
static void get_websocket(void)
{
    char accepted[29], head[256];

    accept_key(header("Sec-WebSocket-Key") != NULL ? header("Sec-WebSocket-Key") : "", accepted);
    out(head, (size_t)snprintf(head, sizeof(head),
                               "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                               "Connection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n",
                               accepted));
    for (;;) {
        unsigned char *p = (unsigned char *)c.in, mask[4];
        size_t at = 6, len;

        while (c.len < 6)
            more();
        len = p[1] & 127;
        if (len == 126) {
            while (c.len < 8)
                more();
            len = (size_t)p[2] << 8 | p[3];
            at = 8;
        }
        while (c.len < at + len)
            more();
        memcpy(mask, p + at - 4, 4);
        for (size_t i = 0; i < len; i++)
            p[at + i] ^= mask[i % 4];
        p[1] &= 127;
        out(c.in, at - 4);
        out(c.in + at, len);
        if ((p[0] & 15) == 8)
            _exit(0);
        used(at + len);
    }
}

/* ---- HTTP: which ---- */

static void http(int fd)
{
    c.fd = fd;
    for (;;) {
        char path[4096] = "", whole_path[4096];

        read_head();
        sscanf(c.head, "%*s %4095s", path);
        strcpy(whole_path, path);
        path[strcspn(path, "?")] = '\0';
        if (strcmp(path, "/head") == 0) {
            whole("200 OK", c.head, strlen(c.head));
        } else if (strcmp(path, "/echo") == 0) {
            get_echo();
        } else if (strcmp(path, "/count") == 0) {
            get_count();
        } else if (strcmp(path, "/events") == 0) {
            get_events();
        } else if (strcmp(path, "/go") == 0) {
            ++*go;
            whole("200 OK", "gone", 4);
        } else if (strncmp(path, "/bytes/", 7) == 0) {
            get_bytes(atoll(path + 7));
        } else if (strcmp(path, "/ws") == 0) {
            get_websocket();
        } else if (strcmp(path, "/pid") == 0) {
            char text[32];

            whole("200 OK", text, (size_t)snprintf(text, sizeof(text), "%d", (int)getpid()));
        } else if (strcmp(path, "/rude") == 0) {
            say("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd");
        } else if (strcmp(path, "/hang") == 0) {
            nap(1000);
        } else if (strcmp(path, "/drop") == 0) {
            _exit(0);
        } else {
            whole("404 Not Found", whole_path, strlen(whole_path));
        }
    }
}

static int cmd_http(int argc, char **argv)
{
    return serve(argc, argv, http);
}

const struct cmd serve_cmds[] = {
    {"serve-echo", cmd_echo, "PORT [ADDRESS]: sends back what comes, and at its end \"bye\""},
    {"serve-late", cmd_late, "PORT [ADDRESS]: answers when everything has come"},
    {"serve-udp", cmd_udp_echo, "PORT [ADDRESS]"},
    {"serve-http", cmd_http, "PORT [ADDRESS]"},
    {0},
};
