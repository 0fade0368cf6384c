#pragma once

/*
 * Ports of a sandbox that preview URLs lead to. They are saved in the sandbox's exposures.json, so
 * they survive its stops and restarts of the supervisor. Removing an exposure revokes its token; a
 * new exposure of the port gets a new token. Runs in the supervisor's event loop.
 */

#include <stdbool.h>
#include <stdint.h>

#include "gateway/preview.h"

struct err;
struct sandbox;
struct supervisor;

enum { EXPOSURES_MAX = 1024 /* read from one file */, EXPOSURE_NAME_MAX = 64 /* bytes */ };

struct exposure {
    struct exposure *next;
    unsigned port;
    char token[PREVIEW_TOKEN_MAX + 1];
    char *name;               /* owned; NULL = none */
    struct preview_host host; /* from the latest request that named one */
};

struct exposure_request {
    unsigned port;
    const char *hostname; /* NULL = unchanged, or "localhost" */
    const char *token;    /* NULL = unchanged, or a random one */
    const char *name;     /* NULL = unchanged, or no name */
};

/*
 * Exposes a port, or changes an exposure. -EINVAL: invalid value, err names the JSON key; -EEXIST:
 * another port has the token; -ENAMETOOLONG; -EUSERS: limit maxExposures. *ret is borrowed;
 * *ret_made: the port was not exposed before.
 */
int exposure_put(struct sandbox *s, const struct exposure_request *request,
                 const struct exposure **ret, bool *ret_made, struct err *err);
int exposure_remove(struct sandbox *s, unsigned port, struct err *err); /* -ENOENT */
const struct exposure *exposure_find(const struct sandbox *s, unsigned port);
const struct exposure *exposure_first(const struct sandbox *s);
/* Writes its preview URL, below host (NULL: the exposure's own). */
int exposure_url(const struct sandbox *s, const struct exposure *e, const struct preview_host *host,
                 char ret[PREVIEW_URL_MAX], struct err *err);

/* True if the daemon has a gateway; without one the URLs lead nowhere. */
bool exposure_is_served(const struct sandbox *s);

/*
 * Returns the sandbox of this preview if the token is right, else NULL. Constant time with regard
 * to the token.
 */
struct sandbox *exposure_open(struct supervisor *sup, const struct preview *p);

/* Reads exposures.json. A file that cannot be read is logged and counts as empty. */
void exposure_load(struct sandbox *s);
void exposure_free_all(struct sandbox *s);
