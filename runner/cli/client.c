/* The blocking HTTP client for the daemon's API, over its unix socket. */

#include "cli/client.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "http/client-reply.h"
#include "json/parse.h"

enum {
    HEAD_MAX = 20 << 10, /* bytes of a request head */
    LOST = -ECONNRESET,
    ERRNO_MAX = 4095, /* MAX_ERRNO of the kernel */
};

struct client {
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
    int fd;    /* owned; FD_NONE: not connected */
    bool used; /* a request has been sent on it */
    struct reply reply;
    size_t body_at; /* bytes of reply.body already read by the caller */
    char in[REPLY_FEED_MAX];
    size_t in_at, in_len; /* received, and not parsed yet */
    int exit_code;
    int watched; /* borrowed, or FD_NONE */
    int (*on_watched)(void *data, struct err *err);
    void *watched_data;
};

bool client_is_lost(int code)
{
    return code == LOST || code == -EPIPE;
}

/* ---- connection ---- */

static int explain_connect_error(const char *path, int code, struct err *err)
{
    if (code == -ENOENT || code == -ECONNREFUSED)
        return err_set(err, code,
                       "no daemon answers at %s; start one with `rind serve`, or name its socket "
                       "with --socket",
                       path);
    if (code == -EACCES || code == -EPERM)
        return err_set(err, code,
                       "%s: permission denied; the daemon is for its owner, root, and members of "
                       "the group rind",
                       path);
    return err_errno(err, code, "connect to the daemon at %s", path);
}

static int connect_to(const char *path, struct err *err)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int r;

    if (fd < 0)
        return err_errno(err, -errno, "socket");
    (void)snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
    do
        r = connect(fd, (const struct sockaddr *)(const void *)&addr, sizeof(addr));
    while (r < 0 && errno == EINTR);
    if (r < 0)
        return explain_connect_error(path, -errno, err);
    return take_fd(&fd);
}

int client_open(const char *socket, struct client **ret, struct err *err)
{
    struct client *c;
    int fd;

    if (strlen(socket) >= sizeof(c->path))
        return err_set(err, -ENAMETOOLONG, "%.64s...: a socket's path has at most %zu bytes",
                       socket, sizeof(c->path) - 1);
    fd = connect_to(socket, err);
    if (fd < 0)
        return fd;
    c = calloc(1, sizeof(*c));
    if (c == NULL) {
        (void)close(fd);
        return err_errno(err, -ENOMEM, "client");
    }
    (void)snprintf(c->path, sizeof(c->path), "%s", socket);
    c->fd = fd;
    c->watched = FD_NONE;
    *ret = c;
    return 0;
}

static void client_disconnect(struct client *c)
{
    if (c->fd >= 0)
        (void)close(take_fd(&c->fd));
    c->used = false;
    c->in_at = c->in_len = 0;
}

int client_adopt(int fd, struct client **ret, struct err *err)
{
    struct client *c = calloc(1, sizeof(*c));

    if (c == NULL) {
        (void)close(fd);
        return err_errno(err, -ENOMEM, "client");
    }
    c->fd = fd;
    c->watched = FD_NONE;
    *ret = c;
    return 0;
}

void client_close(struct client *c)
{
    if (c == NULL)
        return;
    client_disconnect(c);
    reply_done(&c->reply);
    free(c);
}

static int send_all(struct client *c, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = send(c->fd, data, len, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

void client_watch(struct client *c, int fd, int (*ready)(void *data, struct err *err), void *data)
{
    c->watched = fd;
    c->on_watched = ready;
    c->watched_data = data;
}

/* Waits until data has arrived on the connection. */
static int wait_answer(struct client *c, struct err *err)
{
    struct pollfd p[] = {{.fd = c->fd, .events = POLLIN}, {.fd = c->watched, .events = POLLIN}};
    int r = 0;

    while (r == 0 && c->watched >= 0 && p[0].revents == 0) {
        if (poll(p, 2, -1) < 0 && errno != EINTR)
            return err_errno(err, -errno, "poll");
        if (p[1].revents != 0)
            r = c->on_watched(c->watched_data, err);
    }
    return r;
}

/* Returns at once if unparsed data is left. 0 at the end of the connection. */
static ssize_t client_receive(struct client *c)
{
    ssize_t n;

    if (c->in_at < c->in_len)
        return 1;
    c->in_at = c->in_len = 0;
    do
        n = recv(c->fd, c->in, sizeof(c->in), 0);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    c->in_len = (size_t)n;
    return n;
}

/* ---- requests ---- */

static int make_head(struct buf *b, const struct client_request *rq, size_t len)
{
    int r = buf_printf(b, "%s %s HTTP/1.1\r\nHost: rind\r\nUser-Agent: rind/%s\r\n", rq->method,
                       rq->target, RIND_VERSION);

    if (r == 0 && (rq->flags & CLIENT_UPGRADE) != 0)
        r = buf_append_str(b, "Connection: Upgrade\r\nUpgrade: rind-exec\r\n");
    if (r == 0 && (rq->flags & CLIENT_EVENTS) != 0)
        r = buf_append_str(b, "Accept: text/event-stream\r\n");
    if (r == 0 && rq->last_id != NULL)
        r = buf_printf(b, "Last-Event-ID: %s\r\n", rq->last_id);
    if (r == 0 && (rq->flags & CLIENT_CHUNKED) != 0)
        r = buf_printf(b, "Content-Type: %s\r\nTransfer-Encoding: chunked\r\n", rq->type);
    else if (r == 0 && rq->json != NULL)
        r = buf_printf(b, "Content-Type: application/json\r\nContent-Length: %zu\r\n", len);
    return r < 0 ? r : buf_append(b, "\r\n", 2);
}

/* True if the daemon has closed an idle connection (or sent data on it). */
static bool is_stale(const struct client *c)
{
    struct pollfd p = {.fd = c->fd, .events = POLLIN};

    return poll(&p, 1, 0) > 0;
}

static int client_reconnect(struct client *c, struct err *err)
{
    int fd;

    if (c->path[0] == '\0') /* adopted: the socket cannot be connected again */
        return c->fd >= 0 ? 0 : err_set(err, -ECONNRESET, "the connection has ended");

    if (c->fd >= 0 && !(c->used && (!c->reply.keep_alive || is_stale(c))))
        return 0;
    client_disconnect(c);
    fd = connect_to(c->path, err);
    if (fd < 0)
        return fd;
    c->fd = fd;
    return 0;
}

static int send_request(struct client *c, const struct client_request *rq, struct err *err)
{
    auto_buf struct buf head = BUF_INIT(HEAD_MAX);
    auto_free char *text = rq->json != NULL ? json_dumps(rq->json, JSON_COMPACT) : NULL;
    int r;

    if (rq->json != NULL && text == NULL)
        return err_errno(err, -ENOMEM, "a request");
    r = make_head(&head, rq, text != NULL ? strlen(text) : 0);
    if (r < 0)
        return err_errno(err, r, "a request");
    r = client_reconnect(c, err);
    if (r < 0)
        return r;
    reply_begin(&c->reply);
    c->body_at = 0;
    c->exit_code = 0;
    r = send_all(c, head.data, head.len);
    if (r == 0 && text != NULL)
        r = send_all(c, text, strlen(text));
    c->used = true;
    /* If the daemon answered and closed early (a limit), the answer says why. */
    return r < 0 && !client_is_lost(r) ? err_errno(err, r, "send to the daemon") : 0;
}

int client_send(struct client *c, const struct client_request *request, struct err *err)
{
    int r = send_request(c, request, err);

    json_decref(request->json);
    return r;
}

bool client_wait(struct client *c)
{
    struct pollfd p = {.fd = c->fd, .events = POLLIN | POLLOUT};
    int r;

    do
        r = poll(&p, 1, -1);
    while (r < 0 && errno == EINTR);
    return (p.revents & (POLLIN | POLLHUP)) != 0;
}

int client_put(struct client *c, const void *data, size_t len, struct err *err)
{
    return client_wait(c) ? 1 : client_put_on(c, data, len, err);
}

int client_put_on(struct client *c, const void *data, size_t len, struct err *err)
{
    char line[24];
    int n = snprintf(line, sizeof(line), "%zx\r\n", len), r;

    if (len == 0)
        return 0;
    r = send_all(c, line, (size_t)n);
    if (r == 0)
        r = send_all(c, data, len);
    if (r == 0)
        r = send_all(c, "\r\n", 2);
    if (client_is_lost(r))
        return 1;
    return r < 0 ? err_errno(err, r, "send to the daemon") : 0;
}

int client_put_end(struct client *c, struct err *err)
{
    int r = send_all(c, "0\r\n\r\n", 5);

    return r < 0 && !client_is_lost(r) ? err_errno(err, r, "send to the daemon") : 0;
}

/* ---- replies ---- */

/* Receives once, and parses. */
static int client_step(struct client *c, struct err *err)
{
    int r = c->in_at < c->in_len ? 0 : wait_answer(c, err);
    size_t used = 0;
    ssize_t n;

    if (r < 0)
        return r;
    n = client_receive(c);
    if (n < 0)
        return err_errno(err, (int)n, "read from the daemon");
    if (n == 0) {
        r = reply_end(&c->reply, err);
        return r < 0 ? err_wrap(err, r, "the daemon at %s closed the connection", c->path) : 0;
    }
    r = reply_feed(&c->reply, c->in + c->in_at, c->in_len - c->in_at, &used, err);
    c->in_at += used;
    c->body_at = 0;
    return r < 0 ? err_wrap(err, r, "%s", c->path) : 0;
}

ssize_t client_read(struct client *c, void *buf, size_t size, struct err *err)
{
    size_t n = c->reply.body.len - c->body_at;

    while (n == 0 && c->reply.state == REPLY_BODY) {
        int r = client_step(c, err);

        if (r < 0)
            return r;
        n = c->reply.body.len;
    }
    if (n == 0)
        return 0;
    n = n < size ? n : size;
    (void)memcpy(buf, c->reply.body.data + c->body_at, n);
    c->body_at += n;
    return (ssize_t)n;
}

const char *client_header(const struct client *c, const char *name)
{
    return reply_header(&c->reply, name);
}

int client_exit_code(const struct client *c)
{
    return c->exit_code;
}

static int read_all(struct client *c, struct buf *all, struct err *err)
{
    char piece[4096];
    ssize_t n;

    while ((n = client_read(c, piece, sizeof(piece), err)) > 0)
        if (buf_append(all, piece, (size_t)n) < 0)
            return err_set(err, -EFBIG, "the daemon's answer has more than %d bytes",
                           CLIENT_JSON_MAX);
    return (int)n;
}

/* Adds a hint if the daemon's version differs, as it may not know the request. */
static int add_version(struct client *c, int code, struct err *err)
{
    const char *server = client_header(c, "server");
    char text[ERR_MSG_MAX];

    if (server == NULL || strcmp(server, "rind/" RIND_VERSION) == 0)
        return code;
    (void)snprintf(text, sizeof(text), "%s", err->msg);
    return err_set(err, code,
                   "%s; the daemon is %.32s, this is rind/%s: restart it after an upgrade", text,
                   server, RIND_VERSION);
}

static int errno_of(const json_t *error, int status)
{
    json_int_t number = json_integer_value(json_object_get(error, "errno"));
    const char *name = json_string_value(json_object_get(error, "code"));

    if (number > 0 && number <= ERRNO_MAX)
        return (int)-number;
    for (int n = 1; name != NULL && n < 134; n++) {
        const char *known = strerrorname_np(n);

        if (known != NULL && strcmp(known, name) == 0)
            return -n;
    }
    return status == 404 ? -ENOENT : -EIO;
}

/* Reads an error reply into err, as one sentence. */
static int client_read_error(struct client *c, struct err *err)
{
    auto_buf struct buf all = BUF_INIT(CLIENT_JSON_MAX);
    auto_ptr(json_decref) json_t *root = NULL;
    const char *message, *at;
    json_t *error;
    int r = read_all(c, &all, err);

    if (r < 0)
        return r;
    if (all.len > 0)
        (void)json_parse(all.data, all.len, CLIENT_JSON_MAX, &root, NULL);
    error = json_object_get(root, "error");
    message = json_string_value(json_object_get(error, "message"));
    if (message == NULL) /* routes of Docker's API */
        message = json_string_value(json_object_get(root, "message"));
    at = json_string_value(json_object_get(error, "step"));
    c->exit_code = (int)json_integer_value(json_object_get(error, "exitCode"));
    r = errno_of(error, c->reply.status);
    if (message == NULL)
        return add_version(c,
                           err_set(err, -EPROTO,
                                   "%s: what answers there is no rind daemon (HTTP status %d)",
                                   c->path, c->reply.status),
                           err);
    if (at != NULL)
        return add_version(c, err_set(err, r, "%s (at step %s)", message, at), err);
    return add_version(c, err_set(err, r, "%s", message), err);
}

int client_head(struct client *c, struct err *err)
{
    while (c->reply.state == REPLY_HEAD) {
        int r = client_step(c, err);

        if (r < 0)
            return r;
    }
    return c->reply.status < 400 ? 0 : client_read_error(c, err);
}

int client_upgraded(struct client *c, const char **ret_bytes, size_t *ret_len, struct err *err)
{
    if (c->reply.state != REPLY_UPGRADED)
        return err_set(err, -EPROTO,
                       "%s: the daemon answered with HTTP status %d, not with a stream", c->path,
                       c->reply.status);
    *ret_bytes = c->in + c->in_at;
    *ret_len = c->in_len - c->in_at;
    return c->fd;
}

/* ---- whole exchanges ---- */

int client_json(struct client *c, const char *method, const char *target, json_t *body,
                json_t **ret, struct err *err)
{
    const struct client_request request = {.method = method, .target = target, .json = body};
    int r = client_send(c, &request, err);

    return r < 0 ? r : client_json_answer(c, ret, err);
}

int client_json_answer(struct client *c, json_t **ret, struct err *err)
{
    auto_buf struct buf all = BUF_INIT(CLIENT_JSON_MAX);
    auto_ptr(json_decref) json_t *root = NULL;
    int r = client_head(c, err);

    if (r == 0)
        r = read_all(c, &all, err);
    if (r == 0 && all.len > 0)
        r = json_parse(all.data, all.len, CLIENT_JSON_MAX, &root, err);
    if (r < 0)
        return r;
    if (ret != NULL)
        *ret = take(root);
    return 0;
}
