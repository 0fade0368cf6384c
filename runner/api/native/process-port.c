/* POST …/wait/port: waits until a process's port answers, by a TCP connection or an HTTP status.
 * It polls, because there is no event for a listen(2) in another net namespace. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/common.h"
#include "api/native/exec-body.h"
#include "api/native/process-forms.h"
#include "base/auto.h"
#include "base/number.h"
#include "base/strtab.h"
#include "exec/process.h"
#include "http/json-body.h"
#include "http/reply.h"
#include "http/server.h"
#include "json/decode.h"
#include "ports/port.h"
#include "sandbox/sandbox.h"

enum {
    PORT_PATH_MAX = 1024,
    PORT_INTERVAL_MIN = 20, /* ms */
    PORT_INTERVAL_MAX = 60000,
    PORT_INTERVAL = 100,
    PORT_ANSWER_MS = 5000, /* for a status line of a server that has accepted */
    STATUS_LINE_MAX = 256, /* bytes of a status line; longer ones are invalid */
};

enum port_mode { PORT_TCP = 0, PORT_HTTP };

struct process_port_json {
    int64_t port, timeout_ms, interval_ms, status_min, status_max;
    int mode;
    char *path; /* owned */
};

static const struct strtab modes[] = {{"tcp", PORT_TCP}, {"http", PORT_HTTP}, {NULL, 0}};

#define OFF(member) .off = offsetof(struct process_port_json, member)
/* clang-format off */
static const struct jfield port_fields[] = {
    {.name = "port",       .decode = j_int64,  OFF(port), .min = 1, .max = 65535, .required = true},
    {.name = "mode",       .decode = j_enum,   OFF(mode), .names = modes},
    {.name = "path",       .decode = j_string, OFF(path), .min = 1, .max = PORT_PATH_MAX},
    {.name = "statusMin",  .decode = j_int64,  OFF(status_min), .min = 100, .max = 599},
    {.name = "statusMax",  .decode = j_int64,  OFF(status_max), .min = 100, .max = 599},
    {.name = "timeoutMs",  .decode = j_int64,  OFF(timeout_ms), .min = 1, .max = EXEC_TIMEOUT_MAX, .nullable = true},
    {.name = "intervalMs", .decode = j_int64,  OFF(interval_ms), .min = PORT_INTERVAL_MIN, .max = PORT_INTERVAL_MAX},
    {0},
};
/* clang-format on */

struct port_waiter {
    struct process_waiter base;     /* first */
    struct sandbox *sandbox;        /* borrowed: it outlives its processes, and so this wait */
    struct process_port_json asked; /* its path is owned */
    struct port_connect *connecting;
    uv_timer_t again; /* the next try, or the time-out of an answer */
    uv_poll_t poll;   /* for a status line */
    int fd;           /* owned; -1 */
    bool polling;
    unsigned handles; /* of again and poll */
    bool releasing;
    char line[STATUS_LINE_MAX + 1];
    size_t len;
};

static void port_try(struct port_waiter *w);

/* ---- life ---- */

static void port_free_if_done(struct port_waiter *w)
{
    if (w->handles > 0 || !w->releasing)
        return;
    free(w->asked.path);
    free(w);
}

static void on_port_handle_closed(uv_handle_t *h)
{
    struct port_waiter *w = h->data;

    w->handles--;
    port_free_if_done(w);
}

static void port_stop_try(struct port_waiter *w)
{
    port_connect_cancel(take(w->connecting));
    if (w->polling)
        (void)uv_poll_stop(&w->poll);
    if (w->fd >= 0)
        (void)shutdown(w->fd, SHUT_RDWR);
    (void)uv_timer_stop(&w->again);
}

static void port_stopped(struct process_waiter *base)
{
    port_stop_try((struct port_waiter *)(void *)base);
}

static void port_release(struct process_waiter *base)
{
    struct port_waiter *w = (struct port_waiter *)(void *)base;

    w->releasing = true;
    uv_close((uv_handle_t *)&w->again, on_port_handle_closed);
    if (w->polling)
        uv_close((uv_handle_t *)&w->poll, on_port_handle_closed);
    if (w->fd >= 0)
        (void)close(take_fd(&w->fd));
}

static void on_port_again(uv_timer_t *h)
{
    port_try(h->data);
}

/* Retries after an invalid answer, too: the server may still be starting. */
static void port_retry(struct port_waiter *w)
{
    (void)uv_timer_start(&w->again, on_port_again, (uint64_t)w->asked.interval_ms, 0);
}

static void port_succeed(struct port_waiter *w, int status)
{
    json_t *root = json_pack("{s:i}", "port", (int)w->asked.port);

    if (root != NULL && status > 0)
        (void)json_object_set_new(root, "status", json_integer(status));
    process_waiter_end(&w->base);
    reply_json(w->base.req, 200, root);
}

/* ---- HTTP: sends one request and reads the status line ---- */

static void on_poll_closed(uv_handle_t *h)
{
    struct port_waiter *w = h->data;

    w->handles--;
    if (w->releasing)
        port_free_if_done(w);
    else if (!w->base.dead)
        port_retry(w);
}

static void port_give_up(struct port_waiter *w)
{
    (void)uv_timer_stop(&w->again);
    (void)close(take_fd(&w->fd));
    w->polling = false;
    uv_close((uv_handle_t *)&w->poll, on_poll_closed);
}

/* Returns the status of "HTTP/1.1 200 OK"; -1: invalid. */
static int line_status(const char *line)
{
    const char *at = line + 9;
    int64_t status;

    if (strncmp(line, "HTTP/1.", 7) != 0 || line[7] < '0' || line[7] > '9' || line[8] != ' ')
        return -1;
    status = number_take(&at, 3);
    return status >= 100 ? (int)status : -1;
}

static void on_port_readable(uv_poll_t *h, int status, int events)
{
    struct port_waiter *w = h->data;
    ssize_t n = recv(w->fd, w->line + w->len, STATUS_LINE_MAX - w->len, MSG_DONTWAIT);
    int code;

    (void)status;
    (void)events;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0)
        w->len += (size_t)n;
    w->line[w->len] = '\0';
    if (n > 0 && strchr(w->line, '\n') == NULL && w->len < STATUS_LINE_MAX)
        return;
    code = line_status(w->line);
    if (code >= w->asked.status_min && code <= w->asked.status_max)
        port_succeed(w, code);
    else
        port_give_up(w);
}

static void on_port_answer_timeout(uv_timer_t *h)
{
    port_give_up(h->data);
}

static int port_request_status(struct port_waiter *w, int fd)
{
    char text[PORT_PATH_MAX + 128];
    int n, r;

    n = snprintf(text, sizeof(text),
                 "GET %s HTTP/1.1\r\nHost: localhost:%d\r\nUser-Agent: rind\r\n"
                 "Connection: close\r\n\r\n",
                 w->asked.path, (int)w->asked.port);
    /* An empty socket takes it as a whole. */
    if (send(fd, text, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT) != n)
        return -EPIPE;
    r = uv_poll_init(w->again.loop, &w->poll, fd);
    if (r < 0)
        return r;
    w->poll.data = w;
    w->polling = true;
    w->handles++;
    w->fd = fd;
    w->len = 0;
    (void)uv_timer_start(&w->again, on_port_answer_timeout, PORT_ANSWER_MS, 0);
    return uv_poll_start(&w->poll, UV_READABLE, on_port_readable);
}

/* ---- trying ---- */

static void on_port_connected(void *data, int r, int fd, const struct err *err)
{
    struct port_waiter *w = data;

    w->connecting = NULL;
    if (r == -EPIPE || r == -EPERM || r == -EPROTO) {
        process_waiter_fail(&w->base, err);
        return;
    }
    if (r < 0) {
        port_retry(w);
        return;
    }
    if (w->asked.mode == PORT_TCP) {
        (void)close(fd);
        port_succeed(w, 0);
        return;
    }
    if (port_request_status(w, fd) == 0)
        return;
    if (w->polling) {
        port_give_up(w);
        return;
    }
    (void)close(fd);
    port_retry(w);
}

static void port_try(struct port_waiter *w)
{
    struct err err = ERR_NONE;
    int fd, r;

    r = port_connect(w->sandbox, (uint16_t)w->asked.port, on_port_connected, w, &w->connecting, &fd,
                     &err);
    if (r < 0 && r != -ECONNREFUSED)
        process_waiter_fail(&w->base, &err);
    else if (r < 0 || fd >= 0)
        on_port_connected(w, r, fd, &err);
}

/* Only the process's end matters here, not its log. */
static bool port_changed(struct process_waiter *base, bool ended)
{
    (void)base;
    (void)ended;
    return false;
}

static const struct process_waiter_ops port_ops = {
    .changed = port_changed, .stopped = port_stopped, .release = port_release};

static int body_check(struct process_port_json *body, struct err *err)
{
    if (body->status_min > body->status_max)
        return err_set(err, -EINVAL, "statusMin: larger than statusMax");
    if (body->path == NULL && (body->path = strdup("/")) == NULL)
        return err_errno(err, -ENOMEM, "path");
    if (body->path[0] != '/')
        return err_set(err, -EINVAL, "path: must begin with /");
    for (const char *p = body->path; *p != '\0'; p++)
        if ((unsigned char)*p <= ' ' || *p == 0x7f)
            return err_set(err, -EINVAL, "path: holds white space or a control character");
    return 0;
}

static void port_wait_begin(struct http_request *req, struct process *p,
                            struct process_port_json *body)
{
    struct port_waiter *w = calloc(1, sizeof(*w));

    if (w == NULL) {
        free(body->path);
        reply_errorf(req, -ENOMEM, "out of memory");
        return;
    }
    w->asked = *body;
    w->fd = FD_NONE;
    w->sandbox = process_sandbox(p);
    w->handles = 1;
    (void)uv_timer_init(http_loop(req), &w->again); /* never fails */
    w->again.data = w;
    if (process_waiter_begin(&w->base, req, p, body->timeout_ms, &port_ops) < 0)
        port_release(&w->base);
    else if (!w->base.dead)
        port_try(w);
}

void process_wait_port(struct http_request *req)
{
    struct process *p = process_requested_or_main(req);
    struct process_port_json body = {.timeout_ms = PROCESS_WAIT_ANY,
                                     .interval_ms = PORT_INTERVAL,
                                     .status_min = 200,
                                     .status_max = 399};
    struct err err = ERR_NONE;
    int r;

    if (p == NULL)
        return;
    r = json_body(req, port_fields, &body, &err);
    if (r == 0)
        r = body_check(&body, &err);
    if (r < 0) {
        free(body.path);
        reply_error(req, &err);
        return;
    }
    port_wait_begin(req, p, &body);
}
