#pragma once

/* Shared by egress.c, egress-socket.c, egress-change.c and sidecar.c. */

#include "base/evloop.h"
#include "egress/egress.h"
#include "gateway/egress.h"
#include "sandbox/launcher-client.h"
#include "sandbox/sandbox-internal.h"

struct sandbox_egress;
struct sidecar;

struct egress_sidecar_ops {
    /*
     * Called when the egress of a sidecar could not be opened; completes the request for the
     * sidecar.
     */
    void (*failed)(struct sandbox_egress *e, int r, const struct err *err);
    void (*free)(struct sandbox_egress *e);
};

struct sandbox_egress {
    struct sandbox *s;
    struct egress_ctx *ctx; /* owned */
    egress_cb *cb;          /* not NULL while it is being opened */
    int64_t until;          /* CLOCK_MONOTONIC ms: -EADDRINUSE is retried until then */
    int family;             /* the address family being requested */
    bool asking, closing;
    bool lets_out; /* the nft table inside lets UDP and ICMP out */
    struct deadline again;
    struct sidecar *sidecar; /* owned; NULL = the sandbox has rules of its own */
    const struct egress_sidecar_ops *sidecar_ops;
};

/* As egress_open, with these rules (taken in any case). lets_out: UDP and ICMP may leave. */
int egress_open_with(struct sandbox *s, struct egress_rules *rules, bool lets_out, unsigned wait_ms,
                     egress_cb *cb, struct err *err);
/* Sends LAUNCH_EGRESS to the launcher. flags: enum launch_egress. */
int egress_send(struct sandbox *s, int family, uint64_t flags, launch_cb cb, void *data,
                struct err *err);
/* Returns a copy owned by the caller. NULL: err says why. */
struct egress_rules *egress_copy_rules(const struct egress_rules *rules, struct err *err);

/* egress-socket.c: operations of the engine (gateway/egress.h). */
int egress_open_socket(void *data, const struct egress_want *want, dns_socket_fn *cb, void *who,
                       void **ret_handle, struct err *err);
void egress_cancel_socket(void *handle);
int egress_spare(void *data, int family);

/* egress-change.c */
/*
 * Installs the nft table inside again, open or closed for UDP and ICMP. cb (may be NULL) is called
 * once. A failure is logged and stops the sandbox, because traffic that should be blocked would
 * still pass.
 */
void egress_set_table(struct sandbox *s, bool lets_out, void (*cb)(void *data, int r), void *data);
