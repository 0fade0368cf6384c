#pragma once

/* TLS 1.2 and 1.3 in front of the gateway, from a certificate chain and a key in PEM. */

#include <openssl/types.h>
#include <stddef.h>

struct err;

enum { TLS_PEM_MAX = 1 << 20 /* bytes of either file */ };

/* -EINVAL: not PEM, a key that is not the certificate's, an encrypted key, …; with OpenSSL's words.
 * *ret is the caller's (SSL_CTX_free). */
int tls_context(const char *chain, size_t chain_len, const char *key, size_t key_len, SSL_CTX **ret,
                struct err *err);
/* Versions, options and the like of a server's context. */
void tls_set_up(SSL_CTX *ctx);
/* One connection's, as a server. NULL without memory. */
SSL *tls_accept(SSL_CTX *ctx);
