#include "sandbox/net-failsafe.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "base/log.h"
#include "launch/request.h"
#include "sandbox/launcher-client.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/shared.h"

struct net_failsafe {
    struct supervisor *sup;
    uv_poll_t poll;
    int fd;             /* owned */
    bool asking, again; /* again: a change came while a request was pending */
    bool some, closed;
};

/* Returns the reason for this id from the launcher's list; NULL: the id is not listed. */
static const char *closed_reason_of(const char *list, size_t len, const char *id)
{
    for (const char *at = list; at < list + len; at += strlen(at) + 1) {
        const bool found = strcmp(at, id) == 0;

        at += strlen(at) + 1;
        if (at >= list + len)
            return NULL;
        if (found)
            return at;
    }
    return NULL;
}

static void tell_closed(struct sandbox *s)
{
    json_t *detail = json_pack("{s:s}", "reason", s->net.closed);
    auto_free char *text = detail != NULL ? json_dumps(detail, JSON_COMPACT) : NULL;

    json_decref(detail);
    log_error("network", "sandbox=%s name=%s has its network closed: %s", s->id, sandbox_name(s),
              s->net.closed);
    sandbox_emit(s, "network_closed", text != NULL ? text : "{}");
}

static void closed_take_list(struct net_failsafe *w, const char *list, size_t len)
{
    w->some = len > 0;
    for (struct sandbox *s = w->sup->sandboxes; s != NULL; s = s->all.next) {
        const char *why = s->state == SANDBOX_GONE ? NULL : closed_reason_of(list, len, s->id);
        const bool was = s->net.closed[0] != '\0';

        (void)snprintf(s->net.closed, sizeof(s->net.closed), "%s", why != NULL ? why : "");
        if (!was && why != NULL)
            tell_closed(s);
        else if (was && why == NULL && s->state != SANDBOX_GONE && s->channel != NULL)
            sandbox_emit(s, "network_open", NULL);
    }
}

static void closed_ask(struct net_failsafe *w);

static void on_closed_changed(uv_poll_t *p, int status, int events)
{
    struct net_failsafe *w = p->data;
    uint64_t count;

    (void)status;
    (void)events;
    if (read(w->fd, &count, sizeof(count)) == (ssize_t)sizeof(count))
        closed_ask(w);
}

static void on_poll_closed(uv_handle_t *h)
{
    struct net_failsafe *w = h->data;

    (void)close(w->fd);
    if (w->asking)
        w->fd = FD_NONE; /* the pending reply frees w, when the launcher's socket is closed */
    else
        free(w);
}

static void net_failsafe_fd(struct net_failsafe *w, int *fd)
{
    if (w->fd >= 0 || *fd < 0 || uv_poll_init(w->sup->loop, &w->poll, *fd) < 0)
        return;
    w->fd = take_fd(fd);
    w->poll.data = w;
    (void)uv_poll_start(&w->poll, UV_READABLE, on_closed_changed);
}

static void on_closed_reply(void *data, int r, const struct launch_reply *reply, int fds[2],
                            const struct err *err)
{
    struct net_failsafe *w = data;
    auto_free char *list = NULL;
    size_t len = 0;

    (void)reply;
    w->asking = false;
    if (w->closed) {
        if (w->fd < 0)
            free(w);
        return;
    }
    if (r == 0)
        r = lseek(fds[0], 0, SEEK_SET) < 0
                ? -errno
                : file_read_fd(fds[0], LAUNCH_CLOSED_MAX, &list, &len, NULL);
    if (r >= 0) {
        net_failsafe_fd(w, &fds[1]);
        closed_take_list(w, list, len);
    } else if (r != -ECANCELED && r != -EPIPE && r != -EOPNOTSUPP) {
        log_warn("network", "which sandboxes have a closed network: %s",
                 err != NULL && err->msg[0] != '\0' ? err->msg : strerror(-r));
    }
    if (w->again)
        closed_ask(w);
}

static void closed_ask(struct net_failsafe *w)
{
    auto_buf struct buf b = BUF_INIT(0);

    w->again = w->asking;
    if (w->asking)
        return;
    launch_begin(&b, LAUNCH_CLOSED);
    if (launch_end(&b) == 0)
        w->asking = launcher_client_send_due(w->sup->launcher, &b, on_closed_reply, w, NULL) == 0;
}

void net_failsafe_begin(struct supervisor *sup)
{
    struct net_failsafe *w = sup->closed;

    if (w == NULL) {
        w = sup->closed = calloc(1, sizeof(*w));
        if (w == NULL)
            return;
        w->sup = sup;
        w->fd = FD_NONE;
    }
    if (w->fd < 0 || w->some)
        closed_ask(w);
}

void net_failsafe_close(struct net_failsafe *w)
{
    if (w == NULL)
        return;
    w->closed = true;
    if (w->fd >= 0)
        uv_close((uv_handle_t *)&w->poll, on_poll_closed);
    else if (!w->asking)
        free(w);
}
