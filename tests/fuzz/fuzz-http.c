/*
 * Any bytes on a connection, whole and cut: no crash, nothing left behind, and the same answers
 * however they were cut. The first byte says where to cut and whether the client closes or
 * half-closes.
 */

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "base/buf.h"
#include "base/err.h"
#include "http/reply.h"
#include "http/route.h"
#include "http/server.h"

enum { INPUT_MAX = 2048, ANSWER_MAX = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t streamed;

static void get_echo(struct http_request *req)
{
    http_reply(req, 200, NULL, "text/plain", req->path, strlen(req->path));
}

static void post_body(struct http_request *req)
{
    assert(req->body.len <= req->body.max);
    http_reply(req, 200, NULL, "text/plain", req->body.data, req->body.len);
}

static void on_gone(struct http_request *req)
{
    http_end(req);
}

static void on_stream(struct http_request *req, const char *data, size_t len)
{
    char text[32];
    int n;

    streamed += len;
    if (data != NULL)
        return;
    n = snprintf(text, sizeof(text), "%zu", streamed);
    http_reply(req, 200, NULL, "text/plain", text, (size_t)n);
}

static void post_stream(struct http_request *req)
{
    streamed = 0;
    req->on_gone = on_gone;
    http_body_start(req, on_stream);
}

static void on_raw(struct http_request *req, const char *data, size_t len)
{
    if (data == NULL)
        http_end(req);
    else
        (void)http_write(req, data, len);
}

static void post_upgrade(struct http_request *req)
{
    req->on_gone = on_gone;
    http_upgrade(req, req->upgrade ? "tcp" : NULL, NULL, on_raw);
}

static const struct route routes[] = {
    {"GET", "/a", get_echo, 0, 0},
    {"GET", "/t/{id}/x", get_echo, 0, 0},
    {"POST", "/b", post_body, ROUTE_BODY, 64},
    {"POST", "/s", post_stream, ROUTE_STREAM, 0},
    {"POST", "/u", post_upgrade, ROUTE_BODY | ROUTE_UPGRADE, 0},
    {0},
};
static const struct route_set sets[] = {{.routes = routes}, {0}};

static uv_loop_t loop;
static struct http_server *server;

static void set_up(void)
{
    struct http_config config;
    struct err err = ERR_NONE;

    http_config_init(&config);
    config.max_head = 1024;
    config.max_headers = 16;
    config.max_url = 256;
    config.max_pipeline = 512;
    assert(uv_loop_init(&loop) == 0);
    assert(http_server_new(&loop, &config, sets, &server, &err) == 0);
}

static void turn(int fd, struct buf *b)
{
    char data[4096];
    ssize_t n;

    for (int i = 0; i < 2; i++)
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    while ((n = recv(fd, data, sizeof(data), MSG_DONTWAIT)) > 0)
        assert(buf_append(b, data, (size_t)n) == 0);
}

static void talk(const uint8_t *data, size_t size, size_t piece, bool half, struct buf *b)
{
    struct err err = ERR_NONE;
    int pair[2];

    assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
    assert(http_server_adopt(server, pair[1], &err) == 0);
    while (size > 0) {
        size_t n = size < piece ? size : piece;

        if (send(pair[0], data, n, MSG_NOSIGNAL) < 0)
            break;
        data += n;
        size -= n;
        turn(pair[0], b);
    }
    if (half) {
        (void)shutdown(pair[0], SHUT_WR);
        for (int i = 0; i < 8; i++)
            turn(pair[0], b);
    }
    (void)close(pair[0]);
    for (int i = 0; i < 16 && http_server_connections(server) > 0; i++)
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    assert(http_server_connections(server) == 0);
}

/* The clock may tick between the two, and who sends the body at once is not told to go on. */
static void hide_differences(struct buf *b)
{
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    const size_t n = sizeof(go_on) - 1;
    char *at;

    while (b->data != NULL && (at = memmem(b->data, b->len, go_on, n)) != NULL) {
        (void)memmove(at, at + n, b->len - (size_t)(at - b->data) - n);
        b->len -= n;
    }
    at = b->data;
    while (at != NULL &&
           (at = memmem(at, b->len - (size_t)(at - b->data), "\r\nDate: ", 8)) != NULL) {
        for (at += 8; at < b->data + b->len && *at != '\r'; at++)
            *at = '-';
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf whole = BUF_INIT(ANSWER_MAX), pieces = BUF_INIT(ANSWER_MAX);
    size_t piece;
    bool half;

    if (server == NULL)
        set_up();
    if (size < 1 || size > INPUT_MAX)
        return 0;
    half = (data[0] & 1) != 0;
    piece = 1 + (data[0] >> 1) % 16;
    talk(data + 1, size - 1, size, half, &whole);
    talk(data + 1, size - 1, piece, half, &pieces);
    hide_differences(&whole);
    hide_differences(&pieces);
    assert(whole.len == 0 || memcmp(whole.data, "HTTP/1.1 ", 9) == 0);
    if (half) {
        assert(whole.len == pieces.len);
        assert(whole.len == 0 || memcmp(whole.data, pieces.data, whole.len) == 0);
    }
    buf_done(&whole);
    buf_done(&pieces);
    return 0;
}
