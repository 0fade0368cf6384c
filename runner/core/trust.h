#pragma once

/*
 * The CA bundle: makes a sandbox trust the egress CA, if its egress rules ask for it ("trust").
 * Writes files below /etc/rind; environment variables of every process name them, for OpenSSL,
 * curl, git, Python, Node.js, Go and Java. Most of these variables replace a program's
 * certificates, so the files also hold the image's own. Runs in the supervisor's event loop.
 */

#include <stdbool.h>

#define TRUST_DIR "/etc/rind"

struct err;
struct sandbox;

typedef void trust_cb(struct sandbox *s, int r, const struct err *err);

/* True if the sandbox's egress rules ask for it. */
bool trust_wanted(const struct sandbox *s);
/*
 * Writes the files in a sandbox with a running init. cb is called once, unless this call fails.
 * Called at every start.
 */
int trust_place(struct sandbox *s, trust_cb *cb, struct err *err);
/* "NAME=value", NULL-terminated. */
enum { TRUST_ENV_MAX = 8, TRUST_BYTES = 16 << 20 /* limit for the files */ };
extern const char *const trust_env[TRUST_ENV_MAX];
