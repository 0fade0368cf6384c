#pragma once

/*
 * Ports of a sandbox that preview URLs lead to. They belong to the sandbox, are kept in its
 * exposures.json, and so survive its stops and the supervisor's restarts. A token is revoked with
 * its exposure; the next one of the same port has another.
 */

#include <stdbool.h>
#include <stdint.h>

#include "gateway/preview.h"

struct err;
struct sandbox;
struct supervisor;

enum { EXPOSURES_MAX = 1024 /* that are read of a file */, EXPOSURE_NAME_MAX = 64 /* bytes */ };

struct exposure {
    struct exposure *next;
    unsigned port;
    char token[PREVIEW_TOKEN_MAX + 1];
    char *name;               /* owned; NULL = none */
    struct preview_host host; /* as it was said last */
};

struct exposure_request {
    unsigned port;
    const char *hostname; /* NULL = as before, or "localhost" */
    const char *token;    /* NULL = as before, or a random one */
    const char *name;     /* NULL = as before, or none */
};

/*
 * Exposes a port, again as well. -EINVAL what cannot be, with the JSON key; -EEXIST the token is
 * another port's; -ENAMETOOLONG, -EUSERS (maxExposures). *ret is borrowed; ret_made: it was not
 * exposed before.
 */
int exposure_put(struct sandbox *s, const struct exposure_request *request,
                 const struct exposure **ret, bool *ret_made, struct err *err);
int exposure_remove(struct sandbox *s, unsigned port, struct err *err); /* -ENOENT */
const struct exposure *exposure_find(const struct sandbox *s, unsigned port);
const struct exposure *exposure_first(const struct sandbox *s);
/* Its URL, below host (NULL: its own). */
int exposure_url(const struct sandbox *s, const struct exposure *e, const struct preview_host *host,
                 char ret[PREVIEW_URL_MAX], struct err *err);

/* Whether the daemon has a gateway: where it has none, no such URL leads anywhere. */
bool exposure_is_served(const struct sandbox *s);

/* The sandbox that this preview is for, when its token is right; else NULL, in the same time. */
struct sandbox *exposure_open(struct supervisor *sup, const struct preview *p);

/* From disk; what cannot be read is none, which is logged. */
void exposure_load(struct sandbox *s);
void exposure_free_all(struct sandbox *s);
