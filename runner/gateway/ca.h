#pragma once

/*
 * The daemon's own certificate authority: its key never leaves the supervisor; certificates for
 * names are made when they are needed and kept in a bounded cache.
 */

#include <openssl/types.h>
#include <stddef.h>

struct ca;
struct err;

enum {
    CA_CACHE = 256,         /* certificates kept; the one that was not used for longest goes */
    CA_DAYS = 3650,         /* of the authority */
    CA_LEAF_DAYS = 397,     /* of a certificate; what clients still accept */
    CA_FILE_MAX = 64 << 10, /* bytes */
};

/* Reads the file (certificate and key, PEM), or makes both and writes it, 0600. */
int ca_open(int dir_fd, const char *file, struct ca **ret, struct err *err);
void ca_free(struct ca *ca);
/* The certificate, PEM. Borrowed. */
const char *ca_pem(const struct ca *ca);
/* One connection's, as a server with a certificate for this host name or address. The caller's
 * (SSL_free). NULL: err says why. */
SSL *ca_accept(struct ca *ca, const char *name, struct err *err);
/* How many have been made, for tests. */
unsigned ca_made(const struct ca *ca);
