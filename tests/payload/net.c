/* Connections: out to whatever the test names, and servers to be reached. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "payload.h"

enum { WAIT_MS = 700 /* where the environment has no WAIT_MS */, TEXT_MAX = 128, FLOOD_MAX = 900 };

union any {
    struct sockaddr sa;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static socklen_t address(union any *a, const char *host, int port)
{
    memset(a, 0, sizeof(*a));
    if (inet_pton(AF_INET, host, &a->v4.sin_addr) == 1) {
        a->v4.sin_family = AF_INET;
        a->v4.sin_port = htons((uint16_t)port);
        return sizeof(a->v4);
    }
    if (inet_pton(AF_INET6, host, &a->v6.sin6_addr) != 1)
        return 0;
    a->v6.sin6_family = AF_INET6;
    a->v6.sin6_port = htons((uint16_t)port);
    return sizeof(a->v6);
}

static int readable(int fd, int events)
{
    struct pollfd p = {.fd = fd, .events = (short)events};
    const char *ms = getenv("WAIT_MS");

    return poll(&p, 1, ms != NULL ? atoi(ms) : WAIT_MS);
}

/* What it says first, or why not: an errno's name, "timeout", "silent". */
static void ask(const char *proto, const char *host, int port, char text[TEXT_MAX])
{
    int type = strcmp(proto, "tcp") == 0 ? SOCK_STREAM : SOCK_DGRAM, error = 0;
    socklen_t len = sizeof(error);
    union any a;
    socklen_t size = address(&a, host, port);
    int fd = socket(a.sa.sa_family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    long n;

    if (fd < 0 || (connect(fd, &a.sa, size) < 0 && errno != EINPROGRESS)) {
        snprintf(text, TEXT_MAX, "%s", errno_name(errno));
        if (fd >= 0)
            close(fd);
        return;
    }
    if (type == SOCK_STREAM && readable(fd, POLLOUT) == 0)
        error = ETIMEDOUT;
    else
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
    if (error == 0 && write(fd, "x", 1) < 0)
        error = errno;
    if (error != 0) {
        snprintf(text, TEXT_MAX, "%s", error == ETIMEDOUT ? "timeout" : errno_name(error));
    } else if (readable(fd, POLLIN) == 0) {
        snprintf(text, TEXT_MAX, "silent");
    } else {
        n = read(fd, text, TEXT_MAX - 1);
        if (n < 0)
            snprintf(text, TEXT_MAX, "%s", errno_name(errno));
        else
            text[n] = '\0';
    }
    close(fd);
}

/* "tcp:ADDRESS:PORT"; an IPv6 address as it is: the port is behind the last colon. */
static int cmd_reach(int argc, char **argv)
{
    js_open(NULL, '{');
    for (int i = 1; i < argc; i++) {
        char host[64], text[TEXT_MAX], *proto = argv[i], *rest = strchr(proto, ':');
        const char *port = rest != NULL ? strrchr(rest, ':') : NULL;

        if (port == NULL || port == rest || (size_t)(port - rest) >= sizeof(host))
            return 2;
        memcpy(host, rest + 1, (size_t)(port - rest) - 1);
        host[port - rest - 1] = '\0';
        *rest = '\0';
        ask(proto, host, atoi(port + 1), text);
        *rest = ':';
        js_str(argv[i], text);
    }
    js_close('}');
    putchar('\n');
    return 0;
}

/* Answers every TCP connection to ADDRESS PORT with TEXT, for ever. */
static int cmd_serve(int argc, char **argv)
{
    const int on = 1, off = 0;
    union any a;
    socklen_t size;
    int fd;

    if (argc != 4)
        return 2;
    size = address(&a, argv[1], atoi(argv[2]));
    fd = socket(a.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (a.sa.sa_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    if (fd < 0 || bind(fd, &a.sa, size) < 0 || listen(fd, 64) < 0)
        return complain("listen");
    puts("ready");
    fflush(stdout);
    for (;;) {
        int c = accept(fd, NULL, NULL);

        if (c < 0)
            continue;
        (void)!write(c, argv[3], strlen(argv[3]));
        close(c);
    }
}

/* Sends back what comes, and keeps half-closes: the end of the input is the end of the output. */
static int cmd_echo(int argc, char **argv)
{
    union any a;
    socklen_t size;
    int fd;
    static char data[65536];

    if (argc != 3)
        return 2;
    size = address(&a, argv[1], atoi(argv[2]));
    fd = socket(a.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, &a.sa, size) < 0 || listen(fd, 64) < 0)
        return complain("listen");
    puts("ready");
    fflush(stdout);
    for (;;) {
        int c = accept(fd, NULL, NULL);
        long n;

        while ((n = read(c, data, sizeof(data))) > 0)
            for (long at = 0, done; at < n; at += done)
                if ((done = write(c, data + at, (size_t)(n - at))) < 0)
                    at = done = n;
        (void)!write(c, "end", 3);
        close(c);
    }
}

/* A datagram from each of COUNT sockets to ADDRESS PORT; how many were answered. */
static int cmd_flood(int argc, char **argv)
{
    int count = argc == 4 ? atoi(argv[3]) : 0, fds[FLOOD_MAX], answered = 0, waited = 0;
    union any a;
    socklen_t size;
    char text[TEXT_MAX];

    if (count < 1 || count > FLOOD_MAX)
        return 2;
    size = address(&a, argv[1], atoi(argv[2]));
    for (int i = 0; i < count; i++) {
        fds[i] = socket(a.sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fds[i] < 0 || connect(fds[i], &a.sa, size) < 0)
            return complain("flood");
        (void)send(fds[i], "x", 1, 0);
    }
    for (int i = 0; i < count; i++) {
        /* The kernel says of few datagrams that they were refused: one wait is for all of them. */
        if (!waited && readable(fds[i], POLLIN) == 0)
            waited = 1;
        answered += recv(fds[i], text, sizeof(text), 0) >= 0;
    }
    js_open(NULL, '{');
    js_int("answered", answered);
    js_close('}');
    putchar('\n');
    return 0;
}

/* Connects to ADDRESS PORT without a pause, from its first instruction on, until stdin ends. */
static int cmd_hammer(int argc, char **argv)
{
    union any a;
    socklen_t size;
    long count = 0;

    if (argc != 4)
        return 2;
    size = address(&a, argv[1], atoi(argv[2]));
    for (double end = now() + (double)atoi(argv[3]) / 1000; now() < end; count++) {
        int fd = socket(a.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        (void)connect(fd, &a.sa, size);
        close(fd);
        fd = socket(a.sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        (void)sendto(fd, "x", 1, 0, &a.sa, size);
        close(fd);
    }
    js_open(NULL, '{');
    js_int("count", count);
    js_close('}');
    putchar('\n');
    return 0;
}

const struct cmd net_cmds[] = {
    {"reach", cmd_reach, "tcp|udp:ADDRESS:PORT…"}, {"serve", cmd_serve, "ADDRESS PORT TEXT"},
    {"echo-server", cmd_echo, "ADDRESS PORT"},     {"hammer", cmd_hammer, "ADDRESS PORT MS"},
    {"flood", cmd_flood, "ADDRESS PORT COUNT"},    {0},
};
