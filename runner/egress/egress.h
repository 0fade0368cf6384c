#pragma once

/*
 * What a sandbox sends, under control, from the sandbox's side: opened before anything runs in it
 * (spec->egress), closed with its end, changed while it runs. The engine is gateway/egress.h; the
 * sockets come from the launcher. The rules are part of the spec, and saved with it.
 *
 * A supervisor that dies leaves a sandbox whose connections out are refused until the next one has
 * taken it up.
 */

#include <jansson.h>
#include <stdbool.h>

struct egress_rules;
struct egress_service;
struct err;
struct sandbox;
struct supervisor;

enum {
    EGRESS_RETRY_MS = 20,
    EGRESS_WAIT_MS = 2000, /* for an earlier supervisor's sockets to go */
};

typedef void egress_cb(struct sandbox *s, int r, const struct err *err);

/* Whether its spec asks for it. */
bool egress_wanted(const struct sandbox *s);
/* In a namespace whose init is there: cb follows once, from the loop; -ECANCELED when egress_close
 * came first. wait_ms: how long -EADDRINUSE is tried again. */
int egress_open(struct sandbox *s, unsigned wait_ms, egress_cb *cb, struct err *err);
/* The same as steps of a start, and of a sandbox that is taken up, where it is wanted; part_step.
 */
int egress_start(struct sandbox *s, struct err *err);
int egress_reopen(struct sandbox *s, struct err *err);
/* Resets everything. Nothing leaves any more. */
void egress_close(struct sandbox *s);

/*
 * Other rules (taken in any case) for a sandbox, from now on and for its later starts; NULL: none
 * any more. Returns 1 when they count; 0 when the launcher has to put the table into its network
 * first, to change it, or to take it out: cb follows once, perhaps from within. -EINVAL: its
 * network is another's; -EBUSY: a sidecar has it, another change is under way, or it was started
 * without the certificate that the rules want to be trusted. cb's r may also be -EBUSY: a program
 * inside has the ports.
 */
typedef void egress_put_cb(void *data, int r, const struct err *err);
int egress_put(struct sandbox *s, struct egress_rules *rules, egress_put_cb *cb, void *data,
               struct err *err);

/* The CA's certificate, PEM; NULL: err says why. Borrowed. */
const char *egress_ca(struct supervisor *sup, struct err *err);

void egress_service_free(struct egress_service *e);
