#include "egress/egress.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "egress/egress-internal.h"
#include "gateway/ca.h"
#include "json/parse.h"
#include "launch/launcher.h"
#include "launch/request.h"
#include "policy/egress.h"
#include "ports/gateway.h"
#include "ports/names.h"
#include "ports/net-socket.h"
#include "sandbox/events.h"
#include "sandbox/launcher-client.h"
#include "sandbox/shared.h"

#define CA_FILE "egress-ca.pem"

enum {
    HOST_SHOWN = 128, /* bytes of a host name in an event */
    TEXT_SHOWN = 64,  /* bytes of a rule, and of a reason, in an event */
};

struct egress_service {
    struct ca *ca;          /* owned */
    struct egress_hub *hub; /* owned */
};

/* ---- events ---- */

static json_t *event_json(const struct egress_event *e)
{
    char to[ADDRESS_TEXT_MAX] = "";
    json_t *o = json_object();

    if (e->to->family != 0)
        address_format_host(e->to, to);
    (void)json_object_set_new(o, "protocol", json_string(e->protocol));
    (void)json_object_set_new(o, "verdict", json_string(e->verdict));
    if (e->host != NULL)
        (void)json_object_set_new(o, "host", json_stringn(e->host, strnlen(e->host, HOST_SHOWN)));
    if (to[0] != '\0')
        (void)json_object_set_new(o, "address", json_string(to));
    (void)json_object_set_new(o, "port", json_integer(e->to->port));
    if (e->rule != NULL)
        (void)json_object_set_new(o, "rule", json_stringn(e->rule, strnlen(e->rule, TEXT_SHOWN)));
    if (e->reason != NULL)
        (void)json_object_set_new(o, "reason",
                                  json_stringn(e->reason, strnlen(e->reason, TEXT_SHOWN)));
    (void)json_object_set_new(o, "sent", json_integer((json_int_t)e->sent));
    (void)json_object_set_new(o, "received", json_integer((json_int_t)e->received));
    if (e->left_out > 0)
        (void)json_object_set_new(o, "leftOut", json_integer(e->left_out));
    return o;
}

static void on_egress_event(void *data, const struct egress_event *e)
{
    struct sandbox_egress *se = data;
    auto_ptr(json_decref) json_t *o = event_json(e);
    auto_free char *text = o != NULL ? json_dumps(o, JSON_COMPACT) : NULL;

    sandbox_emit(se->s, "egress", text);
}

static void on_egress_trouble(void *data, const char *what, const char *why)
{
    const struct sandbox_egress *e = data;

    log_warn("egress", "id=%s %s%s%s (said once a minute)", e->s->id, what, why != NULL ? ": " : "",
             why != NULL ? why : "");
}

/* Members of its named networks are reached past the rules, which concern what leaves. */
static bool on_egress_local(void *data, const struct dns_question *q, struct dns_local *ret)
{
    const struct sandbox_egress *e = data;

    return e->sidecar == NULL && names_local(e->s, q, ret);
}

static const struct egress_ops ops = {.local = on_egress_local,
                                      .open = egress_open_socket,
                                      .spare = egress_spare,
                                      .cancel = egress_cancel_socket,
                                      .event = on_egress_event,
                                      .trouble = on_egress_trouble};

/* ---- the engine ---- */

static struct egress_service *egress_service_new(struct supervisor *sup, struct err *err)
{
    const struct egress_limits limits = {.connections = sup->limits.egress_connections,
                                         .handler_ms = sup->limits.egress_handler_ms,
                                         .queries_per_second = sup->limits.egress_queries};
    struct egress_service *e = calloc(1, sizeof(*e));
    int r;

    if (e == NULL) {
        (void)err_errno(err, -ENOMEM, "egress");
        return NULL;
    }
    r = ca_open(sup->dir_fd, CA_FILE, &e->ca, err);
    if (r == 0)
        r = egress_hub_new(gateway_evloop(sup->gateway), gateway_hub(sup->gateway), e->ca,
                           gateway_config(sup->gateway), &limits, &ops, &e->hub, err);
    if (r < 0) {
        egress_service_free(e);
        return NULL;
    }
    return e;
}

void egress_service_free(struct egress_service *e)
{
    if (e == NULL)
        return;
    egress_hub_close(e->hub);
    ca_free(e->ca);
    free(e);
}

/* Creates the service on first use. NULL: err says why. */
static struct egress_hub *egress_hub_of(struct supervisor *sup, struct err *err)
{
    if (sup->egress == NULL)
        sup->egress = egress_service_new(sup, err);
    return sup->egress != NULL ? sup->egress->hub : NULL;
}

const char *egress_ca(struct supervisor *sup, struct err *err)
{
    return egress_hub_of(sup, err) != NULL ? ca_pem(sup->egress->ca) : NULL;
}

/* ---- opening ---- */

bool egress_wanted(const struct sandbox *s)
{
    return s->spec->egress != NULL && s->spec->net_container == NULL;
}

static void egress_ask(struct sandbox_egress *e);

static void egress_drop(struct sandbox *s)
{
    struct sandbox_egress *e = take(s->parts.egress.open);

    deadline_clear(&e->again);
    net_sockets_close_marked(s);
    if (e->sidecar != NULL)
        e->sidecar_ops->free(e);
    egress_ctx_close(e->ctx);
    free(e);
}

static void egress_opened(struct sandbox_egress *e, int r, const struct err *err)
{
    egress_cb *cb = e->cb;
    struct sandbox *s = e->s;
    struct err own = ERR_NONE;

    e->cb = NULL;
    if (e->closing) {
        r = err_set(&own, -ECANCELED, "sandbox %s is ended", sandbox_name(s));
        err = &own;
    }
    if (r < 0) {
        if (err != NULL)
            own = *err; /* err may point into memory that egress_drop frees */
        err = &own;
        if (e->sidecar != NULL)
            e->sidecar_ops->failed(e, r, err);
        egress_drop(s);
    }
    cb(s, r, err);
    sandbox_unref(s);
}

static void on_egress_again(struct deadline *d)
{
    egress_ask(
        (struct sandbox_egress *)(void *)((char *)d - offsetof(struct sandbox_egress, again)));
}

static void on_egress_reply(void *data, int r, const struct launch_reply *reply, int fds[2],
                            const struct err *err)
{
    struct sandbox_egress *e = data;
    struct err own = ERR_NONE;
    int tcp, udp;

    (void)reply;
    e->asking = false;
    if (e->closing) {
        egress_opened(e, -ECANCELED, NULL);
        return;
    }
    if (r == 0 && (fds[0] < 0 || fds[1] < 0)) {
        r = err_set(&own, -EPROTO, "egress: no sockets came");
    } else if (r == 0) {
        tcp = take_fd(&fds[0]);
        udp = take_fd(&fds[1]);
        r = egress_ctx_listen(e->ctx, tcp, udp, &own);
    } else if (r == -EADDRINUSE && clock_mono_ms() < e->until) {
        deadline_set(gateway_evloop(e->s->sup->gateway), &e->again, EGRESS_RETRY_MS,
                     on_egress_again);
        return;
    } else if (e->family == 6 && (r == -EAFNOSUPPORT || r == -EADDRNOTAVAIL)) {
        r = 0; /* the sandbox has no IPv6, so there is nothing to listen on */
    }
    if (r == 0 && e->family == 4) {
        e->family = 6;
        egress_ask(e);
        return;
    }
    egress_opened(e, r, own.code < 0 ? &own : err);
}

int egress_send(struct sandbox *s, int family, uint64_t flags, launch_cb cb, void *data,
                struct err *err)
{
    auto_buf struct buf b = BUF_INIT(0);
    int r;

    launch_begin(&b, LAUNCH_EGRESS);
    launch_put_string(&b, TAG_ID, s->id);
    launch_put_number(&b, TAG_FAMILY, (uint64_t)family);
    launch_put_number(&b, TAG_EGRESS, flags);
    r = launch_end(&b);
    return r < 0 ? r : launcher_client_send(s->sup->launcher, &b, cb, data, err);
}

static void egress_ask(struct sandbox_egress *e)
{
    struct err err = ERR_NONE;
    int r = egress_send(e->s, e->family, e->lets_out ? LAUNCH_EGRESS_OPEN : 0, on_egress_reply, e,
                        &err);

    e->asking = r == 0;
    if (r < 0)
        egress_opened(e, r, &err);
}

int egress_open_with(struct sandbox *s, struct egress_rules *rules, bool lets_out, unsigned wait_ms,
                     egress_cb *cb, struct err *err)
{
    struct egress_hub *hub = egress_hub_of(s->sup, err);
    struct sandbox_egress *e;
    int r;

    if (hub == NULL || s->parts.egress.open != NULL) {
        egress_free(rules);
        return hub == NULL ? err->code : err_set(err, -EBUSY, "egress: is open");
    }
    e = calloc(1, sizeof(*e));
    if (e == NULL) {
        egress_free(rules);
        return err_errno(err, -ENOMEM, "egress");
    }
    *e = (struct sandbox_egress){
        .s = s, .cb = cb, .until = clock_mono_ms() + wait_ms, .family = 4, .lets_out = lets_out};
    r = egress_ctx_new(hub, s->id, rules, e, &e->ctx, err);
    if (r < 0) {
        egress_free(rules);
        free(e);
        return r;
    }
    if (s->net.place.gateway4.family != 0)
        egress_ctx_place(e->ctx, &s->net.place.gateway4, &s->net.place.sandbox4);
    r = egress_send(s, 4, lets_out ? LAUNCH_EGRESS_OPEN : 0, on_egress_reply, e, err);
    if (r < 0) {
        egress_ctx_close(e->ctx);
        free(e);
        return r;
    }
    e->asking = true;
    s->parts.egress.open = e;
    sandbox_ref(s);
    return 0;
}

/* The copy needs an index of its own, so the rules are encoded as JSON and decoded again. */
struct egress_rules *egress_copy_rules(const struct egress_rules *rules, struct err *err)
{
    auto_ptr(json_decref) json_t *root = egress_to_json(rules);
    struct egress_rules *copy = NULL;

    if (root == NULL)
        (void)err_errno(err, -ENOMEM, "egress");
    else
        (void)egress_from_json(root, NULL, &copy, err);
    return copy;
}

int egress_open(struct sandbox *s, unsigned wait_ms, egress_cb *cb, struct err *err)
{
    struct egress_rules *rules = egress_copy_rules(s->spec->egress, err);

    return rules == NULL ? err->code : egress_open_with(s, rules, rules->open, wait_ms, cb, err);
}

int egress_start(struct sandbox *s, struct err *err)
{
    return egress_wanted(s) ? egress_open(s, 0, sandbox_part_done, err) : 1;
}

/*
 * The sandbox does not wait for its egress: without it nothing leaves, but its processes may run.
 */
static void on_egress_reopened(struct sandbox *s, int r, const struct err *err)
{
    if (r == 0 || r == -ECANCELED)
        return;
    log_error("sandbox", "id=%s nothing leaves it: %s", s->id, err->msg);
    (void)snprintf(s->error, sizeof(s->error), "%s", err->msg);
}

int egress_reopen(struct sandbox *s, struct err *err)
{
    int r = egress_wanted(s) ? egress_open(s, EGRESS_WAIT_MS, on_egress_reopened, err) : 0;

    if (r < 0)
        on_egress_reopened(s, r, err);
    return 1;
}

void egress_close(struct sandbox *s)
{
    struct sandbox_egress *e = s->parts.egress.open;

    if (e == NULL)
        return;
    if (e->cb == NULL) {
        egress_drop(s);
        return;
    }
    e->closing = true;
    deadline_clear(&e->again);
    egress_ctx_close(take(e->ctx));
    if (!e->asking)
        egress_opened(e, -ECANCELED, NULL); /* else on_launcher_listeners finishes */
}
