#pragma once

/*
 * A real server in the test's own loop, and clients that are plain sockets: rig_talk sends, lets
 * the loop turn, and reads until the server closes, rig_expect until a text has come. Everything
 * has a deadline.
 */

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "http/reply.h"
#include "http/route.h"
#include "http/server.h"
#include "tap.h"

enum { RIG_DEADLINE_MS = 20000 };

struct rig {
    uv_loop_t loop;
    struct http_server *server;
    bool closed;
};

static inline double rig_now(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static inline void rig_open(struct rig *rig, const struct http_config *config,
                            const struct route_set *sets)
{
    struct err err = ERR_NONE;

    (void)memset(rig, 0, sizeof(*rig));
    assert(uv_loop_init(&rig->loop) == 0);
    if (http_server_new(&rig->loop, config, sets, &rig->server, &err) < 0) {
        printf("Bail out! %s\n", err.msg);
        (void)fflush(stdout);
        abort();
    }
}

static inline void rig_on_closed(void *data)
{
    ((struct rig *)data)->closed = true;
}

/* Ends the server, and shows that nothing is left in the loop. */
static inline void rig_close(struct rig *rig)
{
    double end = rig_now() + RIG_DEADLINE_MS;

    http_server_close(rig->server, 0, rig_on_closed, rig);
    CHECK(!rig->closed);
    while (!rig->closed && rig_now() < end)
        (void)uv_run(&rig->loop, UV_RUN_NOWAIT);
    CHECK(rig->closed);
    CHECK_INT(uv_loop_close(&rig->loop), 0);
}

/* Lets the loop do what it can without waiting. */
static inline void rig_turn(struct rig *rig)
{
    for (int i = 0; i < 4; i++)
        (void)uv_run(&rig->loop, UV_RUN_NOWAIT);
}

/* A client's end, connected to the server, non-blocking. */
static inline int rig_client(struct rig *rig)
{
    struct err err = ERR_NONE;
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        abort();
    if (http_server_adopt(rig->server, pair[1], &err) < 0)
        printf("# adopt: %s\n", err.msg);
    return pair[0];
}

/* Sends all of it, turning the loop while the socket is full. False: the server does not take it.
 */
static inline bool rig_send(struct rig *rig, int fd, const char *data, size_t len)
{
    double end = rig_now() + RIG_DEADLINE_MS;

    while (len > 0 && rig_now() < end) {
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n > 0) {
            data += n;
            len -= (size_t)n;
        } else if (n < 0 && errno != EAGAIN) {
            return false;
        }
        rig_turn(rig);
    }
    return len == 0;
}

static inline bool rig_text(struct rig *rig, int fd, const char *text)
{
    return rig_send(rig, fd, text, strlen(text));
}

/* Reads what is there now to b. False: the end (or an error). */
static inline bool rig_read(struct rig *rig, int fd, struct buf *b)
{
    char data[65536];
    ssize_t n;

    rig_turn(rig);
    n = recv(fd, data, sizeof(data), MSG_DONTWAIT);
    if (n > 0 && buf_append(b, data, (size_t)n) < 0)
        abort();
    return n > 0 || (n < 0 && errno == EAGAIN);
}

/* Reads until the end. */
static inline bool rig_drain(struct rig *rig, int fd, struct buf *b)
{
    double end = rig_now() + RIG_DEADLINE_MS;

    while (rig_read(rig, fd, b))
        if (rig_now() > end)
            return false;
    return true;
}

/* Reads until `text` has come. */
static inline bool rig_expect(struct rig *rig, int fd, struct buf *b, const char *text)
{
    double end = rig_now() + RIG_DEADLINE_MS;

    while (b->data == NULL || strstr(b->data, text) == NULL) {
        if (!rig_read(rig, fd, b) || rig_now() > end)
            return b->data != NULL && strstr(b->data, text) != NULL;
    }
    return true;
}

/* One client that sends all of it, half-closes, and reads to the end. The caller frees the answer.
 */
static inline char *rig_talk_bytes(struct rig *rig, const char *data, size_t len)
{
    struct buf b = BUF_INIT(64 << 20);
    int fd = rig_client(rig);

    (void)rig_send(rig, fd, data, len); /* a refusal may come before everything was sent */
    (void)shutdown(fd, SHUT_WR);
    if (!rig_drain(rig, fd, &b))
        tap_fail("no end of the answer to %.60s", data);
    (void)close(fd);
    (void)buf_append(&b, "", 0);
    return buf_take(&b, NULL);
}

static inline char *rig_talk(struct rig *rig, const char *text)
{
    return rig_talk_bytes(rig, text, strlen(text));
}

/* The status of the n-th reply in an answer, 0 when there is none. */
static inline int rig_status(const char *answer, int n)
{
    for (; answer != NULL; n--) {
        answer = strstr(answer, "HTTP/1.1 ");
        if (answer == NULL)
            return 0;
        answer += strlen("HTTP/1.1 ");
        if (n == 0)
            return atoi(answer);
    }
    return 0;
}
