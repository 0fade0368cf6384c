/*
 * The stores behind http-tls.h, by OpenSSL. Runs in the threads of rind-registry, at the begin of
 * each connection. (libcurl would parse the bundle again for each one.)
 */
#include "http-tls.h"

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "job.h"
#include "url.h"

enum { PORT_HTTPS = 443, STORES_MAX = 32 };

struct tls_store {
    const struct job_tls *of; /* borrowed from the job; NULL: the system's alone */
    X509_STORE *store;        /* owned */
};

struct http_tls {
    char *ca; /* owned */
    pthread_mutex_t lock;
    struct tls_store stores[STORES_MAX];
    size_t count;
};

struct http_tls *http_tls_new(const char *ca)
{
    struct http_tls *t = calloc(1, sizeof(*t));

    if (t == NULL)
        return NULL;
    t->ca = strdup(ca);
    (void)pthread_mutex_init(&t->lock, NULL);
    if (t->ca == NULL) {
        http_tls_free(t);
        return NULL;
    }
    return t;
}

void http_tls_free(struct http_tls *t)
{
    if (t == NULL)
        return;
    for (size_t i = 0; i < t->count; i++)
        X509_STORE_free(t->stores[i].store);
    (void)pthread_mutex_destroy(&t->lock);
    free(t->ca);
    free(t);
}

/* Adds all certificates of a PEM text. Others than certificates, and damaged ones, are skipped. */
static void store_add_pem(X509_STORE *store, const char *pem)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    X509 *cert;

    for (;;) {
        const char *next;
        char *data = NULL;
        long left = BIO_get_mem_data(bio, &data);

        cert = PEM_read_bio_X509_AUX(bio, NULL, NULL, NULL);
        if (cert != NULL) {
            (void)X509_STORE_add_cert(store, cert);
            X509_free(cert);
            continue;
        }
        if (BIO_get_mem_data(bio, &data) == left || left <= 0)
            break; /* nothing more was read */
        next = strstr(data, "-----BEGIN");
        if (next == NULL || BIO_get_mem_data(bio, &data) <= 0)
            break;
    }
    ERR_clear_error();
    (void)BIO_free(bio);
}

static X509_STORE *tls_get_store(struct http_tls *t, const struct job_tls *of)
{
    X509_STORE *store = NULL;

    (void)pthread_mutex_lock(&t->lock);
    for (size_t i = 0; i < t->count && store == NULL; i++)
        if (t->stores[i].of == of)
            store = t->stores[i].store;
    if (store == NULL && t->count < STORES_MAX) {
        store = X509_STORE_new();
        if (store != NULL) {
            store_add_pem(store, t->ca);
            if (of != NULL && of->ca != NULL)
                store_add_pem(store, of->ca);
            t->stores[t->count++] = (struct tls_store){of, store};
        }
    }
    (void)pthread_mutex_unlock(&t->lock);
    return store;
}

static int ctx_use_certificate(SSL_CTX *ctx, const struct job_tls *of)
{
    BIO *cert_bio = BIO_new_mem_buf(of->certificate, -1), *key_bio = BIO_new_mem_buf(of->key, -1);
    X509 *cert = PEM_read_bio_X509_AUX(cert_bio, NULL, NULL, NULL), *more;
    EVP_PKEY *key = PEM_read_bio_PrivateKey(key_bio, NULL, NULL, NULL);
    int ok = cert != NULL && key != NULL && SSL_CTX_use_certificate(ctx, cert) == 1 &&
             SSL_CTX_use_PrivateKey(ctx, key) == 1;

    while (ok && (more = PEM_read_bio_X509(cert_bio, NULL, NULL, NULL)) != NULL)
        if (SSL_CTX_add1_chain_cert(ctx, more) != 1) {
            ok = 0;
            X509_free(more);
        } else {
            X509_free(more);
        }
    ERR_clear_error();
    X509_free(cert);
    EVP_PKEY_free(key);
    (void)BIO_free(cert_bio);
    (void)BIO_free(key_bio);
    return ok ? 0 : -EINVAL;
}

int http_tls_prepare(struct http_tls *t, const struct registry_job *job, const struct url *u,
                     void *ssl_ctx)
{
    const struct job_tls *of = job_find_tls(job, u->host, u->port, u->port == PORT_HTTPS);
    X509_STORE *store = tls_get_store(t, of != NULL && of->ca != NULL ? of : NULL);
    SSL_CTX *ctx = ssl_ctx;

    if (store == NULL)
        return -ENOMEM;
    SSL_CTX_set1_cert_store(ctx, store);
    if (of != NULL && of->certificate != NULL && of->key != NULL)
        return ctx_use_certificate(ctx, of);
    return 0;
}
