#include "workerd/sidecar.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/list.h"
#include "base/log.h"
#include "egress/egress-internal.h"
#include "gateway/connect.h"
#include "gateway/listener.h"
#include "gateway/relay.h"
#include "json/parse.h"
#include "launch/request.h"
#include "policy/egress.h"
#include "ports/gateway.h"
#include "ports/port.h"
#include "sandbox/launcher-client.h"
#include "sandbox/shared.h"

enum {
    INGRESS_MAX = 1024,         /* clients of one ingress; further ones are closed */
    INGRESS_MS = 30 * 1000,     /* time for a request to arrive */
    INGRESS_LINGER_MS = 2000,   /* time for a client to read its answer and close */
    INGRESS_BODY_MAX = 1 << 20, /* bytes of PUT /egress */
    INGRESS_ROUNDS = 16,        /* reads of discarded data before other handles are served */
};

/*
 * HEAD     reads the request's head
 * BODY     reads the body of PUT /egress
 * DIAL     connects to the port inside
 * TABLE    waits for the nft table to be changed
 * LINGER   has answered; waits for the client to close
 */
enum ingress_phase { INGRESS_HEAD, INGRESS_BODY, INGRESS_DIAL, INGRESS_TABLE, INGRESS_LINGER };

struct table_wait;

/* A client of the ingress, until a relay takes its connection. */
struct ingress {
    struct fd_watch watch; /* first member */
    struct sidecar *sidecar;
    struct ingress *next, **link;
    enum ingress_phase phase;
    int fd; /* owned */
    struct deadline clock;
    struct port_connect *port;
    struct table_wait *waiting;
    size_t length;
    struct buf body;
};

struct sidecar {
    struct sandbox_egress *egress;
    struct sidecar_config config;
    sidecar_cb *cb; /* NULL: has been called */
    void *data;
    struct listener *listener;
    uint16_t port;
    struct egress_sidecar now;
    struct ingress *clients;
    unsigned count;
};

static struct evloop *evloop_of(const struct sidecar *c)
{
    return gateway_evloop(c->egress->s->sup->gateway);
}

/* ---- freeing a client ---- */

static void ingress_forget_wait(struct ingress *i);

static void ingress_free(struct ingress *i)
{
    port_connect_cancel(i->port);
    if (i->waiting != NULL)
        ingress_forget_wait(i);
    watch_remove(&i->watch);
    deadline_clear(&i->clock);
    if (i->fd >= 0)
        (void)close(i->fd);
    buf_done(&i->body);
    list_remove(i);
    i->sidecar->count--;
    free(i);
}

static void on_late(struct deadline *d)
{
    ingress_free((struct ingress *)(void *)((char *)d - offsetof(struct ingress, clock)));
}

/* The answer fits into the socket's empty send buffer, so one send suffices. */
static void answer(struct ingress *i, const char *status, const char *type, const char *body)
{
    auto_buf struct buf out = BUF_INIT(64 << 10);

    if (buf_printf(&out,
                   "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
                   "Connection: close\r\n\r\n%s",
                   status, type, strlen(body), body) == 0)
        (void)send(i->fd, out.data, out.len, MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)shutdown(i->fd, SHUT_WR);
    i->phase = INGRESS_LINGER;
    deadline_set(evloop_of(i->sidecar), &i->clock, INGRESS_LINGER_MS, on_late);
}

static void refuse(struct ingress *i, const char *status, const char *why)
{
    answer(i, status, "text/plain", why);
}

/* ---- CONNECT ---- */

static void on_connected(void *data, int r, int fd, const struct err *err)
{
    static const char ok[] = "HTTP/1.1 200 OK\r\n\r\n";
    struct ingress *i = data;
    struct sandbox *s = i->sidecar->egress->s;
    int client;

    i->port = NULL;
    if (r < 0) {
        /* workerd takes status 400, and no other, as "connection refused". */
        refuse(i, r == -ECONNREFUSED ? "400 Bad Request" : "502 Bad Gateway", err->msg);
        return;
    }
    if (send(i->fd, ok, sizeof(ok) - 1, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)sizeof(ok) - 1) {
        (void)close(fd);
        ingress_free(i);
        return;
    }
    watch_remove(&i->watch);
    client = take_fd(&i->fd);
    if (relay_start(gateway_hub(s->sup->gateway), client, fd, relay_group(s->id), NULL, NULL, NULL,
                    NULL) < 0) {
        (void)close(client);
        (void)close(fd);
    }
    ingress_free(i);
}

static bool is_own(const struct address *a)
{
    static const unsigned char zero[16], one[16] = {[15] = 1};

    if (a->family == 4)
        return a->bytes[0] == 127 || memcmp(a->bytes, zero, 4) == 0;
    return memcmp(a->bytes, one, 16) == 0 || memcmp(a->bytes, zero, 16) == 0;
}

static void connect_port(struct ingress *i, const struct connect_head *head)
{
    struct sandbox *s = i->sidecar->egress->s;
    struct address to;
    struct err err = ERR_NONE;
    int inside, r;

    if (address_parse(head->to[0] != '\0' ? head->to : head->target, &to) < 0 || to.port == 0) {
        refuse(i, "422 Unprocessable Entity", "X-Dst-Addr must be an address and a port");
        return;
    }
    if (!is_own(&to)) {
        refuse(i, "403 Forbidden", "X-Dst-Addr must be the container's own loopback");
        return;
    }
    i->phase = INGRESS_DIAL;
    deadline_clear(&i->clock); /* port.h has its own timeout */
    sandbox_touch(s);
    r = port_connect(s, to.port, on_connected, i, &i->port, &inside, &err);
    if (r < 0 && r != -ECONNREFUSED)
        refuse(i, "503 Service Unavailable", err.msg);
    else if (r < 0 || inside >= 0)
        on_connected(i, r, inside, &err);
}

/* ---- PUT /egress ---- */

static int names_of(json_t *list, struct egress_rules **ret, struct err *err)
{
    auto_ptr(egress_free) struct egress_rules *names = egress_new();
    json_t *name;
    size_t n;
    int r = names == NULL ? -ENOMEM : 0;

    if (!json_is_array(list))
        return err_set(err, -EINVAL, "dns.allowHostnames: must be an array");
    json_array_foreach(list, n, name) {
        const char *text = json_string_value(name);

        if (r == 0)
            r = text == NULL ? err_set(err, -EINVAL, "dns.allowHostnames[%zu]: must be a string", n)
                             : egress_add(names, text, EGRESS_PROTOCOLS, EGRESS_HANDLE, NULL, err);
    }
    if (r == 0)
        r = egress_index(names, err);
    if (r == 0)
        *ret = take(names);
    return r;
}

/* Absent keys leave a setting unchanged; unknown keys, of later versions, are ignored. */
static int read_egress(const struct sidecar *c, json_t *root, struct egress_sidecar *now,
                       struct egress_rules **names, struct err *err)
{
    json_t *port = json_object_get(root, "port");
    json_t *enabled = json_object_get(json_object_get(root, "internet"), "enabled");
    json_t *allowed = json_object_get(json_object_get(root, "dns"), "allowHostnames");

    *now = c->now;
    if (port != NULL) {
        json_int_t n = json_integer_value(port);

        if (n < 1 || n > 65535)
            return err_set(err, -EINVAL, "port: must be a number from 1 to 65535");
        (void)snprintf(now->handler, sizeof(now->handler), "127.0.0.1:%d", (int)n);
    }
    if (enabled != NULL && !json_is_boolean(enabled))
        return err_set(err, -EINVAL, "internet.enabled: must be true or false");
    if (enabled != NULL)
        now->internet = json_is_true(enabled);
    return allowed != NULL && !json_is_null(allowed) ? names_of(allowed, names, err) : 0;
}

/* A client that waits for a change of the nft table. */
struct table_wait {
    struct ingress *i; /* NULL: the client has gone */
};

static void on_table(void *data, int r)
{
    struct table_wait *w = data;
    struct ingress *i = w->i;

    free(w);
    if (i == NULL)
        return;
    i->waiting = NULL;
    if (r < 0)
        refuse(i, "500 Internal Server Error", "the network could not be changed");
    else
        answer(i, "204 No Content", "text/plain", "");
}

static void ingress_forget_wait(struct ingress *i)
{
    i->waiting->i = NULL;
    i->waiting = NULL;
}

static void change_table(struct ingress *i, bool lets_out)
{
    struct table_wait *w = calloc(1, sizeof(*w));

    if (w == NULL) {
        refuse(i, "500 Internal Server Error", "out of memory");
        return;
    }
    w->i = i;
    i->waiting = w;
    i->phase = INGRESS_TABLE;
    egress_set_table(i->sidecar->egress->s, lets_out, on_table, w);
}

static void put_egress(struct ingress *i)
{
    struct sidecar *c = i->sidecar;
    auto_ptr(json_decref) json_t *root = NULL;
    struct egress_rules *names = NULL;
    struct egress_sidecar now;
    struct err err = ERR_NONE;
    int r = json_parse(i->body.data != NULL ? i->body.data : "", i->body.len, INGRESS_BODY_MAX,
                       &root, &err);

    if (r == 0)
        r = read_egress(c, root, &now, &names, &err);
    if (r < 0) {
        refuse(i, "400 Bad Request", err.msg);
        return;
    }
    c->now = now;
    egress_ctx_sidecar(c->egress->ctx, &now, names);
    if (now.internet != c->egress->lets_out)
        change_table(i, now.internet);
    else
        answer(i, "204 No Content", "text/plain", "");
}

/* ---- requests ---- */

static void body_more(struct ingress *i)
{
    static char scratch[16384];

    while (i->body.len < i->length) {
        size_t room = i->length - i->body.len;
        ssize_t n =
            recv(i->fd, scratch, room < sizeof(scratch) ? room : sizeof(scratch), MSG_DONTWAIT);

        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0 || buf_append(&i->body, scratch, (size_t)n) < 0) {
            ingress_free(i);
            return;
        }
    }
    put_egress(i);
}

static void serve(struct ingress *i, const struct connect_head *head)
{
    bool ca = strcmp(head->target, "/ca") == 0, egress = strcmp(head->target, "/egress") == 0;
    struct err err = ERR_NONE;
    const char *pem;

    if (strcmp(head->method, "CONNECT") == 0) {
        connect_port(i, head);
    } else if (!ca && !egress) {
        refuse(i, "404 Not Found", "there is no such path");
    } else if (ca && strcmp(head->method, "GET") == 0) {
        pem = i->sidecar->config.tls ? egress_ca(i->sidecar->egress->s->sup, &err) : NULL;
        if (pem != NULL)
            answer(i, "200 OK", "application/x-pem-file", pem);
        else
            refuse(i, "404 Not Found", "TLS is not intercepted");
    } else if (egress && strcmp(head->method, "PUT") == 0) {
        if (head->length > INGRESS_BODY_MAX) {
            refuse(i, "413 Content Too Large", "the body is too long, or has no length");
            return;
        }
        i->phase = INGRESS_BODY;
        i->length = head->length;
        i->body = (struct buf)BUF_INIT(INGRESS_BODY_MAX);
        body_more(i);
    } else {
        refuse(i, "405 Method Not Allowed", "there is no such method");
    }
}

static void head_more(struct ingress *i)
{
    static char scratch[CONNECT_HEAD_MAX];
    ssize_t n = recv(i->fd, scratch, sizeof(scratch), MSG_DONTWAIT | MSG_PEEK);
    struct connect_head head;
    long len;

    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0) {
        ingress_free(i);
        return;
    }
    len = connect_head(scratch, (size_t)n, &head, NULL);
    if (len == 0 && (size_t)n < sizeof(scratch))
        return;
    if (len <= 0)
        refuse(i, "400 Bad Request", "not a request");
    else if (recv(i->fd, scratch, (size_t)len, MSG_DONTWAIT) != len)
        ingress_free(i);
    else
        serve(i, &head);
}

static void linger_more(struct ingress *i)
{
    static char scratch[4096];
    ssize_t n = 1;

    for (int round = 0; n > 0 && round < INGRESS_ROUNDS; round++)
        n = recv(i->fd, scratch, sizeof(scratch), MSG_DONTWAIT);
    if (n > 0)
        watch_again(&i->watch);
    else if (n == 0 || errno != EAGAIN)
        ingress_free(i);
}

static void on_event(struct fd_watch *w, unsigned events)
{
    struct ingress *i = (struct ingress *)(void *)w;

    (void)events;
    if (i->phase == INGRESS_HEAD)
        head_more(i);
    else if (i->phase == INGRESS_BODY)
        body_more(i);
    else if (i->phase == INGRESS_LINGER)
        linger_more(i);
}

static void on_client(void *data, int fd, const struct sockaddr *peer)
{
    struct sidecar *c = data;
    struct ingress *i = c->count < INGRESS_MAX ? calloc(1, sizeof(*i)) : NULL;

    (void)peer;
    if (i == NULL || watch_add(evloop_of(c), &i->watch, fd, on_event) < 0) {
        free(i);
        (void)close(fd);
        return;
    }
    relay_tune(fd);
    i->sidecar = c;
    i->fd = fd;
    list_add(&c->clients, i);
    c->count++;
    deadline_set(evloop_of(c), &i->clock, INGRESS_MS, on_late);
}

/* ---- starting ---- */

static void sidecar_failed(struct sandbox_egress *e, int r, const struct err *err);
static void sidecar_free(struct sandbox_egress *e);
static const struct egress_sidecar_ops sidecar_ops = {.failed = sidecar_failed,
                                                      .free = sidecar_free};

static void told(struct sidecar *c, int r, const struct err *err)
{
    sidecar_cb *cb = c->cb;

    c->cb = NULL;
    if (cb != NULL)
        cb(c->data, r, c->port, err);
}

/* Context of a LAUNCH_LISTEN request; the sidecar may be freed before the reply. */
struct listening {
    struct sandbox *s; /* a reference */
    struct sidecar *sidecar;
};

static int use_socket(struct sidecar *c, int fd, struct err *err)
{
    struct sockaddr_storage name;
    socklen_t len = sizeof(name);
    struct address at;

    if (getsockname(fd, (struct sockaddr *)(void *)&name, &len) < 0 ||
        !address_from_socket((struct sockaddr *)(void *)&name, &at))
        return err_set(err, -EPROTO, "sidecar: no address");
    c->port = at.port;
    return listener_new(evloop_of(c), fd, on_client, c, &c->listener, err);
}

static void on_socket(void *data, int r, const struct launch_reply *reply, int fds[2],
                      const struct err *err)
{
    struct listening *l = data;
    struct sandbox *s = l->s;
    struct sidecar *c = s->parts.egress.open != NULL && s->parts.egress.open->sidecar == l->sidecar
                            ? l->sidecar
                            : NULL;
    struct err own = ERR_NONE;

    (void)reply;
    free(l);
    if (c != NULL) {
        if (r == 0 && fds[0] < 0) {
            r = err_set(&own, -EPROTO, "sidecar: no socket came");
            err = &own;
        } else if (r == 0) {
            r = use_socket(c, fds[0], &own);
            if (r == 0)
                fds[0] = FD_NONE;
            err = &own;
        }
        told(c, r, err);
        if (r < 0)
            egress_close(s);
    }
    sandbox_unref(s);
}

static int listen_outside(struct sidecar *c, struct err *err)
{
    const struct address at = {.family = 4, .bytes = {127, 0, 0, 1}, .port = c->config.port};
    struct sandbox *s = c->egress->s;
    struct listening *l = calloc(1, sizeof(*l));
    auto_buf struct buf b = BUF_INIT(0);
    int r;

    if (l == NULL)
        return err_errno(err, -ENOMEM, "sidecar");
    *l = (struct listening){.s = s, .sidecar = c};
    launch_begin(&b, LAUNCH_LISTEN);
    launch_put_bind(&b, &at, false);
    r = launch_end(&b);
    if (r == 0)
        r = launcher_client_send(s->sup->launcher, &b, on_socket, l, err);
    if (r < 0)
        free(l);
    else
        sandbox_ref(s);
    return r;
}

static void on_egress(struct sandbox *s, int r, const struct err *err)
{
    struct sidecar *c = s->parts.egress.open != NULL ? s->parts.egress.open->sidecar : NULL;
    struct err own = ERR_NONE;

    (void)err;
    if (c == NULL)
        return; /* sidecar_free has called the callback */
    r = listen_outside(c, &own);
    if (r < 0) {
        told(c, r, &own);
        egress_close(s);
    }
}

/* Rules in force before the first PUT: every name may be resolved. */
static struct egress_rules *every_name(struct err *err)
{
    struct egress_rules *names = egress_new();

    if (names != NULL && egress_add(names, "*", EGRESS_PROTOCOLS, EGRESS_HANDLE, NULL, err) == 0 &&
        egress_index(names, err) == 0)
        return names;
    egress_free(names);
    return NULL;
}

static int check(const struct sandbox *s, const struct sidecar_config *config, struct err *err)
{
    if (config->egress_port == 0)
        return err_set(err, -EINVAL, "sidecar: no egress port");
    if (s->spec->net_container != NULL)
        return err_set(err, -EINVAL, "sidecar: the network of %s is another sandbox's",
                       sandbox_name(s));
    if (s->channel == NULL)
        return err_set(err, -EBUSY, "sidecar: sandbox %s does not run", sandbox_name(s));
    if (s->parts.egress.open != NULL)
        return err_set(err, -EBUSY, "sidecar: sandbox %s has %s", sandbox_name(s),
                       s->parts.egress.open->sidecar != NULL ? "one" : "egress rules of its own");
    return 0;
}

int sidecar_start(struct sandbox *s, const struct sidecar_config *config, sidecar_cb *cb,
                  void *data, struct err *err)
{
    struct egress_rules *names;
    struct sidecar *c;
    int r = check(s, config, err);

    if (r < 0)
        return r;
    names = every_name(err);
    c = calloc(1, sizeof(*c));
    if (names == NULL || c == NULL) {
        egress_free(names);
        free(c);
        return err_errno(err, -ENOMEM, "sidecar");
    }
    r = egress_open_with(s, names, true, EGRESS_WAIT_MS, on_egress, err);
    if (r < 0) {
        free(c);
        return r;
    }
    *c = (struct sidecar){.egress = s->parts.egress.open,
                          .config = *config,
                          .cb = cb,
                          .data = data,
                          .now = {.tls = config->tls, .dns = config->dns, .internet = true}};
    (void)snprintf(c->now.handler, sizeof(c->now.handler), "127.0.0.1:%u", config->egress_port);
    s->parts.egress.open->sidecar = c;
    s->parts.egress.open->sidecar_ops = &sidecar_ops;
    egress_ctx_sidecar(s->parts.egress.open->ctx, &c->now, NULL);
    return 0;
}

/* ---- stopping ---- */

static void sidecar_failed(struct sandbox_egress *e, int r, const struct err *err)
{
    told(e->sidecar, r, err);
}

static void sidecar_free(struct sandbox_egress *e)
{
    struct sidecar *c = take(e->sidecar);
    struct err err = ERR_NONE;

    listener_close(c->listener);
    c->port = 0;
    while (c->clients != NULL)
        ingress_free(c->clients);
    (void)err_set(&err, -ECANCELED, "sidecar: it was stopped, or could not be started");
    told(c, -ECANCELED, &err);
    free(c);
}

void sidecar_stop(struct sandbox *s)
{
    if (s->parts.egress.open == NULL || s->parts.egress.open->sidecar == NULL)
        return;
    relay_end_group(gateway_hub(s->sup->gateway), relay_group(s->id));
    egress_close(s);
}

uint16_t sidecar_port(const struct sandbox *s)
{
    return s->parts.egress.open != NULL && s->parts.egress.open->sidecar != NULL &&
                   s->parts.egress.open->sidecar->listener != NULL
               ? s->parts.egress.open->sidecar->port
               : 0;
}
