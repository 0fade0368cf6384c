#pragma once

/* What egress.c, egress-socket.c and egress-change.c share, and a sidecar (sidecar.c) uses. */

#include "base/evloop.h"
#include "egress/egress.h"
#include "gateway/egress.h"
#include "sandbox/launcher-client.h"
#include "sandbox/sandbox-internal.h"

struct sandbox_egress;
struct sidecar;

struct egress_sidecar_ops {
    /* It could not be opened: answers the request that started it. */
    void (*failed)(struct sandbox_egress *e, int r, const struct err *err);
    void (*free)(struct sandbox_egress *e);
};

struct sandbox_egress {
    struct sandbox *s;
    struct egress_ctx *ctx; /* owned */
    egress_cb *cb;          /* not NULL: being opened */
    int64_t until;          /* mono ms: -EADDRINUSE is tried again */
    int family;             /* that is being asked for */
    bool asking, closing;
    bool lets_out; /* the table inside lets UDP and ICMP out */
    struct deadline again;
    struct sidecar *sidecar; /* owned; NULL = it has rules of its own */
    const struct egress_sidecar_ops *sidecar_ops;
};

/* As egress_open with these rules (taken in any case). lets_out: UDP and ICMP. */
int egress_open_with(struct sandbox *s, struct egress_rules *rules, bool lets_out, unsigned wait_ms,
                     egress_cb *cb, struct err *err);
/* LAUNCH_EGRESS. flags: enum launch_egress. */
int egress_send(struct sandbox *s, int family, uint64_t flags, launch_cb cb, void *data,
                struct err *err);
/* The caller's. NULL: err says why. */
struct egress_rules *egress_copy_rules(const struct egress_rules *rules, struct err *err);

/* egress-socket.c: the engine's ops (gateway/egress.h). */
int egress_open_socket(void *data, const struct egress_want *want, dns_socket_fn *cb, void *who,
                       void **ret_handle, struct err *err);
void egress_cancel_socket(void *handle);
int egress_spare(void *data, int family);

/* egress-change.c */
/* The table inside, again: open or closed for UDP and ICMP; cb (NULL: nobody) follows once. On a
 * failure, which is logged, the sandbox is ended: what could not be closed would stay open. */
void egress_set_table(struct sandbox *s, bool lets_out, void (*cb)(void *data, int r), void *data);
