#pragma once

/*
 * The egress CA in a sandbox that asks for it ("trust" of its egress): files below /etc/rind, and
 * variables in the environment of every process that name them, for OpenSSL, curl, git, Python,
 * Node.js, Go and Java. The image's own certificates stay trusted: most of these variables replace
 * what a program trusts, so the files hold both.
 */

#include <stdbool.h>

struct err;
struct sandbox;

typedef void ca_bundle_cb(struct sandbox *s, int r, const struct err *err);

bool ca_bundle_wanted(const struct sandbox *s);
/* Writes the files, in a sandbox whose init runs: cb follows once, unless this fails. Each start
 * writes them anew. */
int ca_bundle_place(struct sandbox *s, ca_bundle_cb *cb, struct err *err);
/* The same as a step of a start, where it is wanted; part_step. */
int trust_start(struct sandbox *s, struct err *err);
/* The variables: "NAME=value", ended by NULL; or NULL where it is not wanted. */
const char *const *ca_bundle_env(const struct sandbox *s);
