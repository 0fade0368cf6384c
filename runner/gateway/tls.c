#include "gateway/tls.h"

#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include "base/err.h"

static int tls_failed(struct err *err, const char *what)
{
    unsigned long code = ERR_peek_error();
    const char *reason = ERR_reason_error_string(code);

    ERR_clear_error();
    return err_set(err, -EINVAL, "%s: %s", what, reason != NULL ? reason : "cannot be used");
}

/* Refuses encrypted keys: there is no terminal to ask for a password. */
static int on_pem_password(char *buf, int size, int rw, void *data)
{
    (void)buf;
    (void)size;
    (void)rw;
    (void)data;
    return -1;
}

static int ctx_use_chain(SSL_CTX *ctx, BIO *bio, struct err *err)
{
    X509 *cert = PEM_read_bio_X509(bio, NULL, on_pem_password, NULL);
    int ok = cert != NULL && SSL_CTX_use_certificate(ctx, cert) == 1;

    X509_free(cert);
    while (ok && (cert = PEM_read_bio_X509(bio, NULL, on_pem_password, NULL)) != NULL) {
        ok = SSL_CTX_add0_chain_cert(ctx, cert) == 1;
        if (!ok)
            X509_free(cert);
    }
    if (!ok)
        return tls_failed(err, "certificate");
    /* OpenSSL reports the end of the file as an error, too. */
    if (ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE)
        return tls_failed(err, "certificate");
    ERR_clear_error();
    return 0;
}

static int ctx_use_key(SSL_CTX *ctx, BIO *bio, struct err *err)
{
    EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, on_pem_password, NULL);
    int ok =
        key != NULL && SSL_CTX_use_PrivateKey(ctx, key) == 1 && SSL_CTX_check_private_key(ctx) == 1;

    EVP_PKEY_free(key);
    return ok ? 0 : tls_failed(err, "key");
}

void tls_set_up(SSL_CTX *ctx)
{
    static const unsigned char session_id[] = "rind";

    (void)SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
    /* No renegotiation, which clients could request again and again. EOF without close_notify is
     * a plain end: HTTP's own framing detects truncation. */
    (void)SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF |
                                       SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
    (void)SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE |
                                    SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    (void)SSL_CTX_set_session_id_context(ctx, session_id, sizeof(session_id) - 1);
}

int tls_context(const char *chain, size_t chain_len, const char *key, size_t key_len, SSL_CTX **ret,
                struct err *err)
{
    BIO *chain_bio = NULL, *key_bio = NULL;
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    int r;

    if (chain_len <= TLS_PEM_MAX && key_len <= TLS_PEM_MAX) {
        chain_bio = BIO_new_mem_buf(chain, (int)chain_len);
        key_bio = BIO_new_mem_buf(key, (int)key_len);
    }
    if (ctx == NULL || chain_bio == NULL || key_bio == NULL) {
        r = err_errno(err, -ENOMEM, "TLS");
    } else {
        tls_set_up(ctx);
        r = ctx_use_chain(ctx, chain_bio, err);
        if (r == 0)
            r = ctx_use_key(ctx, key_bio, err);
    }
    BIO_free(chain_bio);
    BIO_free(key_bio);
    if (r < 0) {
        SSL_CTX_free(ctx);
        return r;
    }
    *ret = ctx;
    return 0;
}

SSL *tls_accept(SSL_CTX *ctx)
{
    SSL *ssl = SSL_new(ctx);

    if (ssl != NULL)
        SSL_set_accept_state(ssl);
    return ssl;
}
