/* Owns the reapers: their clients, what these have asked for, and the time to act. Runs in the
 * supervisor's loop thread; called by create.c, docker.c, and by ports/publish.c for each client.
 */
#include "api/docker/reaper.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/docker/common.h"
#include "api/docker/create-body.h"
#include "api/docker/reaper-internal.h"
#include "base/auto.h"
#include "base/err.h"
#include "base/evloop.h"
#include "base/log.h"
#include "image/reference.h"
#include "ports/gateway.h"
#include "sandbox/events.h"
#include "sandbox/sandbox.h"
#include "sandbox/services.h"
#include "spec/parse.h"
#include "spec/spec.h"

#define REAPER_NAME "/testcontainers/ryuk"
#define KEPT        "reaper" /* the key in DOCKER_LABEL */

/* What clients wait for in the log, as a real Ryuk says it. sleep is a child, because PID 1 gets
 * only the signals that it has a handler for. */
#define SCRIPT                                                                                     \
    "trap 'exit 0' TERM INT; "                                                                     \
    "date -u '+%Y/%m/%d %H:%M:%S Started! (the reaper that rind has built in)' >&2; "              \
    "while :; do sleep 86400 & wait $!; done"

/* ---- its container ---- */

bool docker_reaper_image(const char *configured, const char *image)
{
    const size_t n = sizeof(REAPER_NAME) - 1;
    struct reference r;
    size_t len;

    if (image == NULL || reference_parse(image, &r, NULL) < 0)
        return false;
    if (configured != NULL)
        return strcmp(r.name, configured) == 0;
    len = strlen(r.name);
    return len > n && strcmp(r.name + len - n, REAPER_NAME) == 0;
}

/* Docker's reader folds the case of keys. */
static json_t *object_find_folded(json_t *object, const char *wanted)
{
    const char *key;
    json_t *value;

    json_object_foreach(object, key, value)
        if (strcasecmp(key, wanted) == 0)
            return value;
    return NULL;
}

bool docker_reaper_prepare(const char *configured, json_t *body)
{
    static const char *const dropped[] = {"Binds", "Mounts", "Privileged", "SecurityOpt"};
    json_t *host, *value;
    const char *key;
    void *next;

    if (!docker_reaper_image(configured, json_string_value(object_find_folded(body, "Image"))))
        return false;
    host = object_find_folded(body, "HostConfig");
    json_object_foreach_safe(host, next, key, value) for (size_t i = 0;
                                                          i < sizeof(dropped) / sizeof(dropped[0]);
                                                          i++) if (strcasecmp(key, dropped[i]) == 0)
    {
        (void)json_object_del(host, key);
        break;
    }
    return true;
}

int docker_reaper_take(struct create_body *b, struct err *err)
{
    json_t *cmd = json_pack("[s, s, s]", "/bin/sh", "-c", SCRIPT);

    json_decref(b->entrypoint);
    b->entrypoint = NULL;
    json_decref(b->cmd);
    b->cmd = cmd;
    return cmd != NULL && docker_put(b->kept, KEPT, json_true()) &&
                   docker_put(b->kept, "image", json_string(b->image))
               ? 0
               : err_errno(err, -ENOMEM, "reaper");
}

static bool sandbox_is_reaper(const struct sandbox *s)
{
    auto_ptr(json_decref) json_t *kept = docker_kept(sandbox_spec(s));

    return json_is_true(json_object_get(kept, KEPT));
}

/* ---- clients ---- */

struct reaper_conn {
    struct fd_watch watch; /* first member */
    struct reaper *reaper;
    struct reaper_conn *next, **link;
    int fd;      /* owned */
    bool proven; /* has named the session: a client */
    struct deadline proof;
    size_t len;
    char line[REAPER_LINE_MAX];
};

static void conn_free(struct reaper_conn *c)
{
    watch_remove(&c->watch);
    deadline_clear(&c->proof);
    (void)close(c->fd);
    *c->link = c->next;
    if (c->next != NULL)
        c->next->link = c->link;
    c->reaper->conn_count--;
    c->reaper->clients -= c->proven;
    free(c);
}

static void on_reaper_due(uv_timer_t *timer)
{
    struct reaper *rp = timer->data;

    if (rp->phase == REAPER_WAITS)
        reaper_reap(rp);
}

/* Reads a variable of its environment, as "10s"; false values leave the default. */
static uint64_t reaper_env_ms(const struct reaper *rp, const char *name, uint64_t otherwise)
{
    const struct spec *spec = sandbox_spec(rp->s);
    size_t n = strlen(name);
    int64_t ms = 0;

    for (char **v = spec != NULL ? spec->env : NULL; v != NULL && *v != NULL; v++)
        if (strncmp(*v, name, n) == 0 && (*v)[n] == '=' &&
            parse_duration(name, *v + n + 1, &ms, NULL) == 0 && ms > 0)
            return (uint64_t)ms;
    return otherwise;
}

/* Any process of the host can connect. So a connection that has not named the session neither
 * delays the removal nor brings it forward. */
static void conn_leave(struct reaper_conn *c)
{
    struct reaper *rp = c->reaper;
    const bool proven = c->proven;

    conn_free(c);
    if (rp->phase == REAPER_WAITS && proven && rp->clients == 0)
        (void)uv_timer_start(&rp->timer, on_reaper_due,
                             reaper_env_ms(rp, "RYUK_RECONNECTION_TIMEOUT", REAPER_AGAIN_MS), 0);
}

static int reaper_add_filter(struct reaper *rp, struct reaper_filter *f, struct err *err)
{
    for (size_t i = 0; i < rp->filter_count; i++)
        if (reaper_filter_equal(rp->filters[i], f)) {
            reaper_filter_free(f);
            return 0;
        }
    if (rp->filter_count == REAPER_FILTERS_MAX)
        return err_set(err, -E2BIG, "more than %d filters", REAPER_FILTERS_MAX);
    rp->filters[rp->filter_count++] = f;
    return 0;
}

static void on_no_proof(struct deadline *d)
{
    conn_free((struct reaper_conn *)(void *)((char *)d - offsetof(struct reaper_conn, proof)));
}

/* The connection that has waited longest without naming the session, or NULL. */
static struct reaper_conn *reaper_oldest_unproven(const struct reaper *rp)
{
    struct reaper_conn *oldest = NULL;

    for (struct reaper_conn *c = rp->conns; c != NULL; c = c->next)
        if (!c->proven)
            oldest = c; /* new ones are put at the front */
    return oldest;
}

static void conn_prove(struct reaper_conn *c)
{
    if (c->proven)
        return;
    c->proven = true;
    deadline_clear(&c->proof);
    c->reaper->clients++;
    (void)uv_timer_stop(&c->reaper->timer);
}

static int conn_take_line(struct reaper_conn *c, const char *line, size_t len, struct err *err)
{
    auto_ptr(reaper_filter_free) struct reaper_filter *f = NULL;
    struct sandbox *s = c->reaper->s;
    const struct spec *spec = sandbox_spec(s);
    int r;

    if (len > 0 && line[len - 1] == '\r')
        len--;
    if (len == 0)
        return 0;
    r = reaper_filter_parse(line, len, &f, err);
    if (r < 0)
        return r;
    if (reaper_filter_knows_session(f, sandbox_name(s), spec != NULL ? spec->labels : NULL))
        conn_prove(c);
    if (!c->proven)
        return err_set(err, -EPERM, "a client has not named the session of this reaper");
    r = reaper_add_filter(c->reaper, f, err);
    if (r < 0)
        return r;
    f = NULL;
    if (send(c->fd, "ACK\n", 4, MSG_DONTWAIT | MSG_NOSIGNAL) != 4)
        return err_set(err, -EPIPE, "a client takes no answers");
    return 0;
}

/* Takes the whole lines out of the buffer. */
static int conn_take_lines(struct reaper_conn *c, struct err *err)
{
    size_t at = 0;
    int r = 0;

    for (char *end; r == 0 && (end = memchr(c->line + at, '\n', c->len - at)) != NULL;) {
        size_t n = (size_t)(end - c->line) - at;

        r = conn_take_line(c, c->line + at, n, err);
        at += n + 1;
    }
    (void)memmove(c->line, c->line + at, c->len - at);
    c->len -= at;
    if (r == 0 && c->len == sizeof(c->line))
        r = err_set(err, -E2BIG, "a line of more than %d bytes", REAPER_LINE_MAX);
    return r;
}

static void on_conn_event(struct fd_watch *w, unsigned events)
{
    struct reaper_conn *c = (struct reaper_conn *)(void *)w;
    struct err err = ERR_NONE;
    ssize_t n = recv(c->fd, c->line + c->len, sizeof(c->line) - c->len, MSG_DONTWAIT);

    (void)events;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0) {
        c->len += (size_t)n;
        if (conn_take_lines(c, &err) == 0) {
            watch_again(&c->watch); /* edge-triggered: there may be more */
            return;
        }
        log_warn("docker", "reaper %s: %s: its connection is closed", sandbox_name(c->reaper->s),
                 err.msg);
    }
    conn_leave(c);
}

/* ---- reapers ---- */

static struct reaper *reapers_find(struct reapers *all, const struct sandbox *s)
{
    struct reaper *rp = all->first;

    while (rp != NULL && rp->s != s)
        rp = rp->next;
    return rp;
}

void reaper_unref(struct reaper *rp)
{
    if (--rp->refs > 0)
        return;
    for (size_t i = 0; i < rp->filter_count; i++)
        reaper_filter_free(rp->filters[i]);
    if (rp->s != NULL)
        sandbox_unref(rp->s);
    free(rp);
}

static void on_timer_closed(uv_handle_t *h)
{
    reaper_unref(h->data);
}

/* Forgets a reaper whose sandbox has ended, or whose daemon ends. Pending removals are the last. */
static void reaper_end(struct reaper *rp)
{
    *rp->link = rp->next;
    if (rp->next != NULL)
        rp->next->link = rp->link;
    rp->phase = REAPER_OVER;
    while (rp->conns != NULL)
        conn_free(rp->conns);
    if (rp->refs == 1) /* no callback needs it, and the supervisor may end before the timer */
        sandbox_unref(take(rp->s));
    uv_close((uv_handle_t *)&rp->timer, on_timer_closed);
}

static struct reaper *reaper_begin(struct reapers *all, struct sandbox *s)
{
    struct reaper *rp = reapers_find(all, s);

    if (rp != NULL)
        return rp;
    rp = calloc(1, sizeof(*rp));
    if (rp == NULL) {
        log_warn("docker", "reaper %s: out of memory: it removes nothing", sandbox_name(s));
        return NULL;
    }
    *rp = (struct reaper){.all = all, .s = s, .refs = 1, .next = all->first, .link = &all->first};
    if (rp->next != NULL)
        rp->next->link = &rp->next;
    all->first = rp;
    sandbox_ref(s);
    (void)uv_timer_init(supervisor_loop(sandbox_supervisor(s)), &rp->timer); /* cannot fail */
    rp->timer.data = rp;
    (void)uv_timer_start(&rp->timer, on_reaper_due,
                         reaper_env_ms(rp, "RYUK_CONNECTION_TIMEOUT", REAPER_FIRST_MS), 0);
    return rp;
}

/* publish_taker.takes */
static bool reapers_take_client(void *data, struct sandbox *s, uint16_t port, int fd)
{
    struct reapers *all = data;
    struct evloop *evloop = gateway_evloop(supervisor_gateway(sandbox_supervisor(s)));
    struct reaper *rp;
    struct reaper_conn *c;

    if (port != REAPER_PORT || !sandbox_is_reaper(s))
        return false;
    rp = reaper_begin(all, s);
    c = rp != NULL && rp->conn_count == REAPER_CONNS_MAX ? reaper_oldest_unproven(rp) : NULL;
    if (c != NULL)
        conn_free(c);
    c = rp != NULL && rp->phase == REAPER_WAITS && rp->conn_count < REAPER_CONNS_MAX
            ? calloc(1, sizeof(*c))
            : NULL;
    if (c == NULL || watch_add_input(evloop, &c->watch, fd, on_conn_event) < 0) {
        free(c);
        (void)close(fd);
        return true;
    }
    c->reaper = rp;
    c->fd = fd;
    c->next = rp->conns;
    c->link = &rp->conns;
    if (c->next != NULL)
        c->next->link = &c->next;
    rp->conns = c;
    rp->conn_count++;
    deadline_set(evloop, &c->proof, REAPER_PROOF_MS, on_no_proof);
    return true;
}

void docker_reapers_event(struct reapers *all, const struct event *e)
{
    bool start = strcmp(e->type, "start") == 0;
    struct sandbox *s;
    struct reaper *rp;

    if (!start && strcmp(e->type, "exit") != 0 && strcmp(e->type, "stop") != 0 &&
        strcmp(e->type, "destroy") != 0)
        return;
    for (rp = all->first; !start && rp != NULL; rp = rp->next)
        if (strcmp(sandbox_id(rp->s), e->sandbox) == 0) {
            reaper_end(rp);
            return;
        }
    s = start ? sandbox_by_id(all->native->config.supervisor, e->sandbox) : NULL;
    if (s != NULL && sandbox_is_reaper(s))
        (void)reaper_begin(all, s);
}

void docker_reapers_resume(struct reapers *all)
{
    for (struct sandbox *s = sandbox_first(all->native->config.supervisor); s != NULL;
         s = sandbox_next(s))
        if (docker_is_running(s) && sandbox_is_reaper(s))
            (void)reaper_begin(all, s);
}

struct reapers *docker_reapers_new(struct native *native)
{
    struct reapers *all = calloc(1, sizeof(*all));

    if (all == NULL)
        return NULL;
    all->native = native;
    all->taker = (struct publish_taker){.takes = reapers_take_client, .data = all};
    publish_set_taker(native->config.supervisor, &all->taker);
    return all;
}

void docker_reapers_free(struct reapers *all)
{
    if (all == NULL)
        return;
    publish_set_taker(all->native->config.supervisor, NULL);
    while (all->first != NULL)
        reaper_end(all->first);
    free(all);
}
