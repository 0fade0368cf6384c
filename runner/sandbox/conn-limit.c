#include "sandbox/conn-limit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "launch/request.h"
#include "net/conn-limit.h"
#include "sandbox/launcher-client.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/shared.h"

struct conn_limit {
    struct supervisor *sup;
    uv_poll_t poll;
    int fd; /* owned */
    bool asking, said, closed;
};

static const struct {
    const char *key, *text;
} bounds[] = {
    [CONN_LIMIT_BOUND_FLOWS] = {"maxFlows", "its connections are at the bound of network.maxFlows"},
    [CONN_LIMIT_BOUND_RATES] = {"maxFlowsPerSecond",
                                "it begins connections faster than network.maxFlowsPerSecond"},
    [CONN_LIMIT_BOUND_ALL] = {"maxFlowsOfAll",
                              "the connections of all sandboxes are at the bound that they share "
                              "(network.maxFlowsOfAll, network.maxFlowsPerSecondOfAll)"},
};

static bool net_addr_same(const struct net_addr *a, const struct net_addr *b)
{
    return a->family == b->family && memcmp(a->bytes, b->bytes, a->family == 4 ? 4 : 16) == 0;
}

/* Emits an event for every sandbox that shares the network: the kernel knows only the network. */
static void on_over(void *data, const struct conn_limit_event *o)
{
    const struct conn_limit *w = data;
    char detail[64];

    (void)snprintf(detail, sizeof(detail), "{\"limit\":\"%s\"}", bounds[o->bound].key);
    for (struct sandbox *s = w->sup->sandboxes; s != NULL; s = s->all.next) {
        if (s->state == SANDBOX_GONE || s->channel == NULL ||
            (!net_addr_same(&s->net.place.sandbox4, &o->from) &&
             !net_addr_same(&s->net.place.sandbox6, &o->from)))
            continue;
        log_warn("network", "sandbox=%s name=%s is refused new connections: %s", s->id,
                 sandbox_name(s), bounds[o->bound].text);
        sandbox_emit(s, "network_limit", detail);
    }
}

static void on_over_readable(uv_poll_t *p, int status, int events)
{
    struct conn_limit *w = p->data;

    (void)status;
    (void)events;
    conn_limit_read(w->fd, on_over, w);
}

static void on_poll_closed(uv_handle_t *h)
{
    struct conn_limit *w = h->data;

    (void)close(w->fd);
    free(w);
}

static void on_over_reply(void *data, int r, const struct launch_reply *reply, int fds[2],
                          const struct err *err)
{
    struct conn_limit *w = data;

    (void)reply;
    w->asking = false;
    if (w->closed) {
        free(w);
        return;
    }
    if (r < 0 || fds[0] < 0) {
        if (!w->said && r != -ECANCELED)
            log_info("network", "who is over his bound of connections is not logged here: %s",
                     r == -EBUSY ? "another rind of this host does" : err->msg);
        w->said = true;
        return;
    }
    r = uv_poll_init(w->sup->loop, &w->poll, fds[0]);
    if (r < 0)
        return;
    w->fd = take_fd(&fds[0]);
    w->poll.data = w;
    (void)uv_poll_start(&w->poll, UV_READABLE, on_over_readable);
}

void conn_limit_begin(struct supervisor *sup)
{
    auto_buf struct buf b = BUF_INIT(0);
    struct conn_limit *w = sup->over;

    if (w == NULL) {
        w = sup->over = calloc(1, sizeof(*w));
        if (w == NULL)
            return;
        w->sup = sup;
        w->fd = FD_NONE;
    }
    if (w->asking || w->fd >= 0)
        return;
    launch_begin(&b, LAUNCH_CONN_LIMIT);
    if (launch_end(&b) == 0)
        w->asking = launcher_client_send_due(sup->launcher, &b, on_over_reply, w, NULL) == 0;
}

void conn_limit_close(struct conn_limit *w)
{
    if (w == NULL)
        return;
    w->closed = true;
    if (w->fd >= 0)
        uv_close((uv_handle_t *)&w->poll, on_poll_closed);
    else if (!w->asking) /* otherwise the pending reply frees w, when the launcher's socket is
                            closed */
        free(w);
}
