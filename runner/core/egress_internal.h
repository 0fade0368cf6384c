#pragma once

/* egress.c and sidecar.c. */

#include "core/egress.h"
#include "core/sandbox_internal.h"
#include "gateway/egress.h"
#include "gateway/poller.h"

struct sidecar;

struct sandbox_egress {
    struct sandbox *s;
    struct egress_box *box; /* owned */
    egress_cb *cb;          /* not NULL: being opened */
    int64_t until;          /* mono ms: -EADDRINUSE is tried again */
    int family;             /* that is being asked for */
    bool asking, closing, is_open;
    struct deadline again;
    struct sidecar *sidecar; /* owned; NULL = it has rules of its own */
};

/* The engine, made when it is first needed. NULL: err says why. */
struct egress_hub *egress_hub_of(struct supervisor *sup, struct err *err);
/* As egress_open with these rules (taken in any case). */
int egress_open_with(struct sandbox *s, struct egress_rules *rules, unsigned wait_ms, egress_cb *cb,
                     struct err *err);
/* The table inside, again: open or closed for UDP and ICMP. Failures are logged, and the sandbox
 * ended: what it could not close would stay open. */
void egress_set_table(struct sandbox *s, bool open);

/* sidecar.c */
void sidecar_free(struct sandbox_egress *e);
