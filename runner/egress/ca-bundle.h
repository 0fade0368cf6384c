#pragma once

/*
 * The CA bundle: makes a sandbox trust the egress CA, if its egress rules ask for it ("trust").
 * Writes files below /etc/rind; environment variables of every process name them, for OpenSSL,
 * curl, git, Python, Node.js, Go and Java. Most of these variables replace a program's
 * certificates, so the files also hold the image's own. Runs in the supervisor's event loop.
 */

#include <stdbool.h>

struct err;
struct sandbox;

typedef void ca_bundle_cb(struct sandbox *s, int r, const struct err *err);

/* True if the sandbox's egress rules ask for it. */
bool ca_bundle_wanted(const struct sandbox *s);
/*
 * Writes the files in a sandbox with a running init. cb is called once, unless this call fails.
 * Called at every start.
 */
int ca_bundle_place(struct sandbox *s, ca_bundle_cb *cb, struct err *err);
/* A step of a start (part_step): places the files if the egress rules ask for the CA. */
int ca_bundle_start(struct sandbox *s, struct err *err);
/*
 * Returns the variables as "NAME=value", NULL-terminated; NULL if the rules do not ask for the CA.
 */
const char *const *ca_bundle_env(const struct sandbox *s);
