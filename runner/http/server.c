#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/list.h"
#include "base/log.h"
#include "http/route.h"
#include "http/server-internal.h"

enum { HEADS_PER_MS = 64 /* connections polled per millisecond */ };

void http_config_init(struct http_config *config)
{
    *config = (struct http_config){
        .max_connections = HTTP_MAX_CONNECTIONS,
        .max_connections_uid = HTTP_MAX_CONNECTIONS_UID,
        .max_head = HTTP_MAX_HEAD,
        .max_headers = HTTP_MAX_HEADERS,
        .max_url = HTTP_MAX_URL,
        .max_body = HTTP_MAX_BODY,
        .max_large_body = HTTP_MAX_LARGE_BODY,
        .max_buffered = HTTP_MAX_BUFFERED,
        .max_pipeline = HTTP_MAX_PIPELINE,
        .queue_pause = HTTP_QUEUE_PAUSE,
        .queue_max = HTTP_QUEUE_MAX,
        .idle_ms = HTTP_IDLE_MS,
        .head_ms = HTTP_HEAD_MS,
        .body_ms = HTTP_BODY_MS,
        .write_ms = HTTP_WRITE_MS,
        .stream_write_ms = HTTP_STREAM_WRITE_MS,
    };
}

/* ---- closing ---- */

static void on_server_handle_closed(uv_handle_t *h)
{
    struct http_server *s = h->data;
    void (*on_closed)(void *data) = s->on_closed;
    void *data = s->closed_data;

    if (--s->handles > 0)
        return;
    buf_done(&s->scratch);
    if (s->spare_fd >= 0)
        (void)close(s->spare_fd);
    free(s);
    if (on_closed != NULL)
        on_closed(data);
}

static void on_listener_closed(uv_handle_t *h)
{
    h->data = ((struct http_listener *)h->data)->server;
    on_server_handle_closed(h);
}

static void server_close_if_done(struct http_server *s)
{
    if (!s->closing || s->conns != NULL)
        return;
    uv_close((uv_handle_t *)&s->retry, on_server_handle_closed);
    uv_close((uv_handle_t *)&s->grace, on_server_handle_closed);
    uv_close((uv_handle_t *)&s->heads, on_server_handle_closed);
    evloop_close(take(s->evloop)); /* the last: libuv calls back in reverse order */
}

static void server_shut_down_conns(struct http_server *s, bool force)
{
    /* Frees nothing: the loop tears down broken connections. */
    for (struct http_conn *c = s->conns; c != NULL; c = c->next)
        conn_shut_down(c, force);
}

void http_each_request(struct http_request *req, void (*fn)(struct http_request *req, void *data),
                       void *data)
{
    for (struct http_conn *c = req->conn->server->conns; c != NULL; c = c->next)
        if (c->req != NULL && c->req->dispatched && !c->req->ended)
            fn(c->req, data);
}

void http_break(struct http_request *req)
{
    conn_break(req->conn);
}

static void on_server_grace(uv_timer_t *t)
{
    server_shut_down_conns(t->data, true);
}

void http_server_close(struct http_server *s, unsigned grace_ms, void (*on_closed)(void *data),
                       void *data)
{
    assert(!s->closing);
    s->closing = true;
    s->on_closed = on_closed;
    s->closed_data = data;
    (void)uv_timer_stop(&s->retry);
    for (size_t i = 0; i < s->listener_count; i++) {
        uv_close((uv_handle_t *)&s->listeners[i].poll, on_listener_closed);
        (void)close(take_fd(&s->listeners[i].fd));
    }
    server_shut_down_conns(s, grace_ms == 0);
    if (grace_ms > 0)
        (void)uv_timer_start(&s->grace, on_server_grace, grace_ms, 0);
    server_close_if_done(s);
}

size_t http_server_connections(const struct http_server *s)
{
    return s->conn_count;
}

/* ---- heads of upgrades ---- */

static void on_heads_timer(uv_timer_t *t);

/* A waiting client reads its head at once. With more connections each is polled less often, so
 * that polling costs no more than for a few of them. */
static void server_watch_heads(struct http_server *s)
{
    (void)uv_timer_start(&s->heads, on_heads_timer, 1 + s->heads_unread / HEADS_PER_MS, 0);
}

static void on_heads_timer(uv_timer_t *t)
{
    struct http_server *s = t->data;

    /* conn_watch frees nothing; the loop writes the queue. */
    for (struct http_conn *c = s->conns; c != NULL; c = c->next)
        if (c->head_unread && !out_waits(c))
            conn_watch(c);
    if (s->heads_unread > 0)
        server_watch_heads(s);
}

void server_watch_head(struct http_conn *c)
{
    struct http_server *s = c->server;

    if (c->head_unread || c->state == CONN_CLOSED)
        return;
    c->head_unread = true;
    c->head_deadline = uv_now(s->loop) + HTTP_HEAD_UNREAD_MS;
    if (s->heads_unread++ == 0)
        server_watch_heads(s);
}

/* ---- connections ---- */

void conn_free(struct http_conn *c)
{
    struct http_server *s = c->server;

    list_remove(c);
    s->conn_count--;
    if (c->refused)
        s->refused_count--;
    bytes_done(&c->in);
    bytes_done(&c->out);
    free(c->groups);
    free(c);
    server_close_if_done(s);
}

bool server_make_room(struct http_conn *c)
{
    struct http_conn *most = c;

    for (struct http_conn *other = c->server->conns; other != NULL; other = other->next)
        if (!other->broken && other->out.cap > most->out.cap &&
            (other->out.budget == c->out.budget || c->out.budget == &c->server->held))
            most = other;
    if (most == c || most->out.cap <= BUDGET_FREE)
        return false;
    log_warn("http",
             "limit maxBufferedBytes: %zu bytes wait for a client (pid %d), which is cut off",
             bytes_left(&most->out), (int)most->peer.pid);
    conn_break(most);
    bytes_done(&most->out);
    return true;
}

static void conn_prepare_socket(const struct http_conn *c)
{
    static const int on = 1;

    if (c->peer.known) /* a unix socket has no such options */
        return;
    (void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(c->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

/* On success the connection owns fd. */
static int conn_new(struct http_server *s, int fd, struct http_conn **ret)
{
    struct http_conn *c = calloc(1, sizeof(*c));
    int r;

    if (c == NULL)
        return -ENOMEM;
    c->server = s;
    c->fd = fd;
    r = conn_start(c);
    if (r < 0) {
        free(c);
        return r;
    }
    peer_ask(c);
    conn_prepare_socket(c);
    c->out.budget = c->peer.known && c->peer.uid == 0 ? &s->held : &s->held_by_users;
    c->in.budget = c->out.budget;
    list_add(&s->conns, c);
    s->conn_count++;
    *ret = c;
    return 0;
}

static bool conn_is_over_user_limit(const struct http_server *s, const struct http_conn *c)
{
    size_t n = 0;

    if (!c->peer.known || c->peer.uid == 0 || s->conn_count <= s->config.max_connections_uid)
        return false;
    for (const struct http_conn *other = s->conns; other != NULL; other = other->next)
        n += other->peer.known && other->peer.uid == c->peer.uid && !other->refused;
    return n > s->config.max_connections_uid;
}

/* Always takes fd. Above a limit the client gets a 503, unless too many are being refused. */
static int server_admit(struct http_server *s, int fd)
{
    bool full = s->conn_count - s->refused_count >= s->config.max_connections, refused;
    struct http_conn *c = NULL;
    int r;

    r = full && s->refused_count >= HTTP_REFUSED_MAX ? -EMFILE : conn_new(s, fd, &c);
    if (r < 0) {
        (void)close(fd);
        return r;
    }
    refused = full || conn_is_over_user_limit(s, c);
    if (!refused) {
        conn_watch(c);
        return 0;
    }
    c->refused = true;
    s->refused_count++;
    if (full)
        conn_refuse(c, 503, EMFILE, "limit maxConnections: too many connections");
    else
        conn_refuse(c, 503, EUSERS,
                    "limit maxConnectionsPerUser: too many connections of this user");
    return 0;
}

int http_server_adopt(struct http_server *s, int fd, struct err *err)
{
    int r;

    if (s->closing)
        return err_set(err, -ESHUTDOWN, "the server is closing");
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
        return err_errno(err, -errno, "adopt a connection");
    r = server_admit(s, fd);
    return r < 0 ? err_errno(err, r, "adopt a connection") : 0;
}

/* ---- accepting ---- */

static void on_listener_ready(uv_poll_t *h, int status, int events);

static void on_accept_retry(uv_timer_t *t)
{
    struct http_server *s = t->data;

    for (size_t i = 0; i < s->listener_count; i++)
        (void)uv_poll_start(&s->listeners[i].poll, UV_READABLE, on_listener_ready);
}

/* No fd is left, so the next connection stays in the backlog and keeps the listener readable.
 * Closes the spare fd to accept and refuse that connection. If that fails, too, listening pauses
 * for a moment rather than spin. */
static void listener_out_of_fds(struct http_listener *l, int error)
{
    static const char sorry[] = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n"
                                "Content-Length: 0\r\n\r\n";
    struct http_server *s = l->server;
    auto_close int fd = FD_NONE;

    if (s->spare_fd >= 0) {
        (void)close(take_fd(&s->spare_fd));
        fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            (void)send(fd, sorry, sizeof(sorry) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
            (void)close(take_fd(&fd));
        }
    }
    if (s->spare_fd < 0)
        s->spare_fd = fcntl(l->fd, F_DUPFD_CLOEXEC, 0);
    if (s->spare_fd >= 0)
        return;
    log_warn("http", "no connection can be accepted (%s), waiting", strerror(error));
    for (size_t i = 0; i < s->listener_count; i++)
        (void)uv_poll_stop(&s->listeners[i].poll);
    (void)uv_timer_start(&s->retry, on_accept_retry, HTTP_ACCEPT_PAUSE_MS, 0);
}

static void on_listener_ready(uv_poll_t *h, int status, int events)
{
    struct http_listener *l = h->data;
    int fd;

    (void)status;
    (void)events;
    for (int i = 0; i < HTTP_ACCEPT_BATCH; i++) {
        fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            (void)server_admit(l->server, fd);
            continue;
        }
        if (errno == EAGAIN)
            return;
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            listener_out_of_fds(l, errno);
            return;
        }
        /* Any other error concerns only that connection. */
    }
}

int http_server_listen(struct http_server *s, int fd, struct err *err)
{
    struct http_listener *l;
    int accepts = 0, r;
    socklen_t len = sizeof(accepts);

    if (s->closing || s->listener_count == HTTP_MAX_LISTENERS)
        return err_set(err, -EBUSY, "no more listening sockets");
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &len) < 0)
        return err_errno(err, -errno, "listen");
    if (accepts == 0)
        return err_set(err, -EINVAL, "the socket does not listen");
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
        return err_errno(err, -errno, "listen");
    l = &s->listeners[s->listener_count];
    l->server = s;
    r = uv_poll_init_socket(s->loop, &l->poll, fd);
    if (r < 0)
        return err_errno(err, r, "listen");
    l->poll.data = l;
    l->fd = fd;
    r = uv_poll_start(&l->poll, UV_READABLE, on_listener_ready);
    assert(r == 0); /* fails only for a closing handle */
    if (s->spare_fd < 0)
        s->spare_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    s->listener_count++;
    s->handles++;
    return 0;
}

int http_server_new(uv_loop_t *loop, const struct http_config *config, const struct route_set *sets,
                    struct http_server **ret, struct err *err)
{
    struct http_server *s;
    int r;

    for (const struct route_set *set = sets; set->routes != NULL; set++) {
        r = route_check(set->routes, err);
        if (r < 0)
            return r;
    }
    s = calloc(1, sizeof(*s));
    if (s == NULL)
        return err_errno(err, -ENOMEM, "an HTTP server");
    r = evloop_new(loop, &s->evloop, err);
    if (r < 0) {
        free(s);
        return r;
    }
    s->loop = loop;
    s->sets = sets;
    s->spare_fd = FD_NONE;
    if (config != NULL)
        s->config = *config;
    else
        http_config_init(&s->config);
    s->scratch.max = HTTP_REPLY_HEAD_MAX;
    s->held.max = s->config.max_buffered;
    s->held_by_users = (struct budget){.max = s->config.max_buffered / 4 * 3, .up = &s->held};
    /* None of these calls can fail. */
    (void)uv_timer_init(loop, &s->retry);
    (void)uv_timer_init(loop, &s->grace);
    (void)uv_timer_init(loop, &s->heads);
    s->handles = 3;
    s->retry.data = s->grace.data = s->heads.data = s;
    *ret = s;
    return 0;
}
