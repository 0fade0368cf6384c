#pragma once

/* What is trusted: X.509 stores of the system's CAs and of those of single hosts, parsed once for
 * all connections, and certificates of clients. Thread-safe. */

struct err;
struct http_tls;
struct registry_job;
struct url;

/* ca: PEM of the system's bundle; parsed at the first connection. NULL: out of memory. */
struct http_tls *http_tls_new(const char *ca);
void http_tls_free(struct http_tls *t);
/* Gives an SSL_CTX what it is to trust for the host of u, and the client's certificate for it. */
int http_tls_prepare(struct http_tls *t, const struct registry_job *job, const struct url *u,
                     void *ssl_ctx);
