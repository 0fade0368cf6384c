#pragma once

/*
 * Controls the outgoing traffic of a sandbox. It is opened before any process of the sandbox runs,
 * if spec->egress is set. It can change while the sandbox runs, and is closed with the sandbox. The
 * engine is gateway/egress.h; the launcher makes the sockets. The rules are part of the spec and
 * saved with it. Runs in the supervisor's event loop.
 *
 * If the supervisor dies, outgoing connections are refused until the next supervisor has reattached
 * to the sandbox.
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
    EGRESS_WAIT_MS = 2000, /* waits that long for the sockets of an earlier supervisor to close */
};

typedef void egress_cb(struct sandbox *s, int r, const struct err *err);

/* True if the sandbox's spec asks for it. */
bool egress_wanted(const struct sandbox *s);
/*
 * Starts listening in the network namespace of a sandbox, which must have an init. cb is called
 * once, from the loop; r is -ECANCELED if egress_close came first. wait_ms: how long -EADDRINUSE is
 * retried.
 */
int egress_open(struct sandbox *s, unsigned wait_ms, egress_cb *cb, struct err *err);
/*
 * Steps of a start and of a reattach (part_step): open the egress of a sandbox whose spec asks for
 * it.
 */
int egress_start(struct sandbox *s, struct err *err);
int egress_reopen(struct sandbox *s, struct err *err);
/* Resets every connection and stops listening. Nothing leaves the sandbox afterwards. */
void egress_close(struct sandbox *s);

/*
 * Replaces the rules of a sandbox (rules is taken in any case; NULL removes them), for now and for
 * its later starts. Returns 1 when they are in force. Returns 0 when the launcher has to add,
 * change or remove the nft table first: cb is then called once, perhaps before egress_put returns.
 *
 * -EINVAL: the sandbox uses another one's network; -EBUSY: a sidecar controls it, another change is
 * pending, or the sandbox was started without the certificate that the rules need. cb's r may also
 * be -EBUSY: a program inside uses the ports.
 */
typedef void egress_put_cb(void *data, int r, const struct err *err);
int egress_put(struct sandbox *s, struct egress_rules *rules, egress_put_cb *cb, void *data,
               struct err *err);

/* Returns the CA's certificate as PEM, borrowed; NULL: err says why. */
const char *egress_ca(struct supervisor *sup, struct err *err);

/* Frees the service of a supervisor; every sandbox's egress must be closed before. */
void egress_service_free(struct egress_service *e);
