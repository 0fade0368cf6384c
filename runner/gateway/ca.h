#pragma once

/* The daemon's own certificate authority. The private key never leaves the supervisor. Leaf
 * certificates are made on demand and kept in a bounded cache.
 *
 * Runs in the supervisor's loop thread; called by egress-http.c and egress-tunnel.c. */

#include <openssl/types.h>
#include <stddef.h>

struct ca;
struct err;

enum {
    CA_CACHE = 256,         /* certificates kept; the least recently used is evicted */
    CA_DAYS = 3650,         /* validity of the authority's certificate */
    CA_LEAF_DAYS = 397,     /* validity of a leaf certificate; the most that clients accept */
    CA_FILE_MAX = 64 << 10, /* bytes */
};

/* Reads certificate and key (PEM) from `file`, or makes both and writes the file with mode 0600.
 * Blocks on disk. 0 or a negative errno with err set. */
int ca_open(int dir_fd, const char *file, struct ca **ret, struct err *err);
void ca_free(struct ca *ca);
/* Returns the CA certificate in PEM; borrowed, valid until ca_free. */
const char *ca_pem(const struct ca *ca);
/* Returns a new server-side connection with a certificate for this host name or address. The
 * caller owns it (SSL_free). NULL: failed, and err is set. */
SSL *ca_accept(struct ca *ca, const char *name, struct err *err);
/* Returns the number of leaf certificates made so far; for tests. */
unsigned ca_made(const struct ca *ca);
