#pragma once

/* TLS 1.2 and 1.3 for the gateway's clients, from a certificate chain and a key in PEM. Loop
 * thread only. */

#include <openssl/types.h>
#include <stddef.h>

struct err;

enum { TLS_PEM_MAX = 1 << 20 /* bytes of either file */ };

/* Makes a server context; the caller owns *ret (SSL_CTX_free). -EINVAL: not PEM, a key that does
 * not fit the certificate, an encrypted key, …; err holds OpenSSL's message. */
int tls_context(const char *chain, size_t chain_len, const char *key, size_t key_len, SSL_CTX **ret,
                struct err *err);
/* Sets protocol versions and options of a server's context. */
void tls_set_up(SSL_CTX *ctx);
/* Returns a new server-side connection, which the caller owns (SSL_free). NULL: out of memory. */
SSL *tls_accept(SSL_CTX *ctx);
