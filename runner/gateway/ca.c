#include "gateway/ca.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "gateway/tls.h"
#include "policy/egress.h"

enum {
    DAY_S = 86400,
    RENEW_S = 30 * DAY_S, /* age at which a leaf certificate is replaced */
    SERIAL_BYTES = 16,
};

/* A cached leaf certificate, in a list ordered by last use. */
struct leaf {
    struct leaf *newer, *older;
    X509 *cert; /* owned */
    time_t made;
    char name[EGRESS_NAME_MAX + 1];
};

struct ca {
    X509 *cert;         /* owned */
    EVP_PKEY *key;      /* owned */
    EVP_PKEY *leaf_key; /* owned; one for all: making one takes longer than signing */
    SSL_CTX *ctx;       /* owned */
    char *pem;          /* owned */
    struct leaf *newest, *oldest;
    unsigned count, made;
};

static int ca_failed(struct err *err, const char *what)
{
    const char *reason = ERR_reason_error_string(ERR_peek_error());

    ERR_clear_error();
    return err_set(err, -EIO, "%s: %s", what, reason != NULL ? reason : "OpenSSL failed");
}

/* ---- certificates ---- */

static bool add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509_EXTENSION *e;
    int ok;

    X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
    e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    ok = e != NULL && X509_add_ext(cert, e, -1) == 1;
    X509_EXTENSION_free(e);
    return ok;
}

static bool set_serial(X509 *cert)
{
    unsigned char bytes[SERIAL_BYTES];
    BIGNUM *n;
    bool ok;

    if (RAND_bytes(bytes, sizeof(bytes)) != 1)
        return false;
    bytes[0] = (unsigned char)((bytes[0] & 0x7f) | 1);
    n = BN_bin2bn(bytes, sizeof(bytes), NULL);
    ok = n != NULL && BN_to_ASN1_INTEGER(n, X509_get_serialNumber(cert)) != NULL;
    BN_free(n);
    return ok;
}

/* notBefore lies one day back: clocks inside sandboxes may run late. */
static X509 *cert_new(const char *common_name, int days, EVP_PKEY *public_key)
{
    X509 *cert = X509_new();
    X509_NAME *name = cert != NULL ? X509_get_subject_name(cert) : NULL;
    bool ok = cert != NULL && X509_set_version(cert, X509_VERSION_3) == 1 && set_serial(cert) &&
              X509_gmtime_adj(X509_getm_notBefore(cert), -DAY_S) != NULL &&
              X509_gmtime_adj(X509_getm_notAfter(cert), (long)days * DAY_S) != NULL &&
              X509_set_pubkey(cert, public_key) == 1 &&
              X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
                                         (const unsigned char *)common_name, -1, -1, 0) == 1;

    if (ok)
        return cert;
    X509_free(cert);
    return NULL;
}

static X509 *make_authority(EVP_PKEY *key)
{
    unsigned char id[4];
    char name[64];
    X509 *cert;

    if (RAND_bytes(id, sizeof(id)) != 1)
        return NULL;
    (void)snprintf(name, sizeof(name), "rind egress %02x%02x%02x%02x", id[0], id[1], id[2], id[3]);
    cert = cert_new(name, CA_DAYS, key);
    if (cert != NULL && X509_set_issuer_name(cert, X509_get_subject_name(cert)) == 1 &&
        add_extension(cert, cert, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
        add_extension(cert, cert, NID_key_usage, "critical,keyCertSign,cRLSign") &&
        add_extension(cert, cert, NID_subject_key_identifier, "hash") &&
        X509_sign(cert, key, EVP_sha256()) > 0)
        return cert;
    X509_free(cert);
    return NULL;
}

static bool name_is_address(const char *name)
{
    unsigned char bytes[16];

    return inet_pton(AF_INET, name, bytes) == 1 || inet_pton(AF_INET6, name, bytes) == 1;
}

static X509 *make_leaf(const struct ca *ca, const char *name)
{
    char alt[EGRESS_NAME_MAX + 8];
    /* An X.509 common name has at most 64 characters. Clients read the subjectAltName instead. */
    X509 *cert = cert_new(strlen(name) <= 64 ? name : "rind", CA_LEAF_DAYS, ca->leaf_key);

    (void)snprintf(alt, sizeof(alt), "%s:%s", name_is_address(name) ? "IP" : "DNS", name);
    if (cert != NULL && X509_set_issuer_name(cert, X509_get_subject_name(ca->cert)) == 1 &&
        add_extension(cert, ca->cert, NID_subject_alt_name, alt) &&
        add_extension(cert, ca->cert, NID_basic_constraints, "critical,CA:FALSE") &&
        add_extension(cert, ca->cert, NID_key_usage, "critical,digitalSignature") &&
        add_extension(cert, ca->cert, NID_ext_key_usage, "serverAuth") &&
        add_extension(cert, ca->cert, NID_authority_key_identifier, "keyid:always") &&
        X509_sign(cert, ca->key, EVP_sha256()) > 0)
        return cert;
    X509_free(cert);
    return NULL;
}

/* ---- contexts ---- */

/* The gateway speaks only HTTP/1.1 on the decrypted side. A client that offers only other
 * protocols (gRPC: h2) gets the fatal ALPN alert of RFC 7301, 3.2, instead of an answer in a
 * protocol that it does not speak. */
static int choose_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                       const unsigned char *in, unsigned in_len, void *arg)
{
    static const unsigned char http11[] = "\x08http/1.1";
    unsigned char *chosen;

    (void)ssl;
    (void)arg;
    if (SSL_select_next_proto(&chosen, out_len, http11, sizeof(http11) - 1, in, in_len) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

static int make_context(struct ca *ca, struct err *err)
{
    ca->ctx = SSL_CTX_new(TLS_server_method());
    if (ca->ctx == NULL)
        return ca_failed(err, "egress CA");
    tls_set_up(ca->ctx);
    SSL_CTX_set_alpn_select_cb(ca->ctx, choose_alpn, NULL);
    return 0;
}

static void unlink_leaf(struct ca *ca, struct leaf *l)
{
    if (l->newer != NULL)
        l->newer->older = l->older;
    else
        ca->newest = l->older;
    if (l->older != NULL)
        l->older->newer = l->newer;
    else
        ca->oldest = l->newer;
    ca->count--;
}

static void link_leaf(struct ca *ca, struct leaf *l)
{
    l->newer = NULL;
    l->older = ca->newest;
    if (ca->newest != NULL)
        ca->newest->newer = l;
    else
        ca->oldest = l;
    ca->newest = l;
    ca->count++;
}

static void leaf_free(struct leaf *l)
{
    X509_free(l->cert);
    free(l);
}

static X509 *cert_for(struct ca *ca, const char *name, struct err *err)
{
    struct leaf *l = ca->newest;

    if (strlen(name) > EGRESS_NAME_MAX) {
        (void)err_set(err, -ENAMETOOLONG, "certificate: the name is too long");
        return NULL;
    }
    while (l != NULL && strcmp(l->name, name) != 0)
        l = l->older;
    if (l != NULL)
        unlink_leaf(ca, l);
    if (l != NULL && time(NULL) - l->made > RENEW_S) {
        leaf_free(l);
        l = NULL;
    }
    if (l == NULL) {
        l = calloc(1, sizeof(*l));
        if (l == NULL || (l->cert = make_leaf(ca, name)) == NULL) {
            free(l);
            (void)ca_failed(err, "certificate");
            return NULL;
        }
        (void)snprintf(l->name, sizeof(l->name), "%s", name);
        l->made = time(NULL);
        ca->made++;
    }
    if (ca->count >= CA_CACHE) {
        struct leaf *last = ca->oldest;

        unlink_leaf(ca, last);
        leaf_free(last);
    }
    link_leaf(ca, l);
    return l->cert;
}

/* All connections share one SSL_CTX: making one takes ten times as long as signing. */
SSL *ca_accept(struct ca *ca, const char *name, struct err *err)
{
    X509 *cert = cert_for(ca, name, err);
    SSL *ssl = cert != NULL ? tls_accept(ca->ctx) : NULL;

    if (ssl != NULL && SSL_use_certificate(ssl, cert) == 1 &&
        SSL_use_PrivateKey(ssl, ca->leaf_key) == 1)
        return ssl;
    SSL_free(ssl);
    if (cert != NULL)
        (void)ca_failed(err, "TLS");
    return NULL;
}

unsigned ca_made(const struct ca *ca)
{
    return ca->made;
}

/* ---- the file ---- */

static int ca_to_pem(struct ca *ca, struct buf *file, struct err *err)
{
    BIO *bio = BIO_new(BIO_s_mem());
    char *data;
    long len;
    int r = -ENOMEM;

    if (bio != NULL && PEM_write_bio_X509(bio, ca->cert) == 1) {
        len = BIO_get_mem_data(bio, &data);
        free(ca->pem);
        ca->pem = strndup(data, (size_t)len);
        if (ca->pem != NULL &&
            PEM_write_bio_PrivateKey(bio, ca->key, NULL, NULL, 0, NULL, NULL) == 1) {
            len = BIO_get_mem_data(bio, &data);
            r = buf_append(file, data, (size_t)len);
            explicit_bzero(data, (size_t)len);
        }
    }
    BIO_free(bio);
    return r < 0 ? ca_failed(err, "egress CA") : 0;
}

static int ca_make(struct ca *ca, int dir_fd, const char *file, struct err *err)
{
    auto_buf struct buf text = BUF_INIT(CA_FILE_MAX);
    int r;

    ca->key = EVP_EC_gen("P-256");
    ca->cert = ca->key != NULL ? make_authority(ca->key) : NULL;
    if (ca->cert == NULL)
        return ca_failed(err, "egress CA");
    r = ca_to_pem(ca, &text, err);
    if (r == 0)
        r = file_replace_at(dir_fd, file, text.data, text.len, 0600, err);
    if (text.data != NULL)
        explicit_bzero(text.data, text.len);
    return r;
}

static int ca_parse(struct ca *ca, const char *text, size_t len, struct err *err)
{
    auto_buf struct buf again = BUF_INIT(CA_FILE_MAX);
    BIO *bio = BIO_new_mem_buf(text, (int)len);

    if (bio != NULL) {
        ca->cert = PEM_read_bio_X509(bio, NULL, NULL, NULL);
        ca->key = PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL);
    }
    BIO_free(bio);
    if (ca->cert == NULL || ca->key == NULL || X509_check_private_key(ca->cert, ca->key) != 1)
        return ca_failed(err, "egress CA: its file");
    return ca_to_pem(ca, &again, err);
}

/* False if the CA certificate expires within CA_LEAF_DAYS. Such a CA is replaced, as is an
 * unreadable file; sandboxes get the new one at their next start. */
static bool ca_is_usable(const struct ca *ca)
{
    time_t soon = time(NULL) + (time_t)CA_LEAF_DAYS * DAY_S;

    return X509_cmp_time(X509_get0_notAfter(ca->cert), &soon) > 0;
}

int ca_open(int dir_fd, const char *file, struct ca **ret, struct err *err)
{
    auto_free char *text = NULL;
    struct ca *ca = calloc(1, sizeof(*ca));
    size_t len = 0;
    int r;

    if (ca == NULL)
        return err_errno(err, -ENOMEM, "egress CA");
    r = file_read_at(dir_fd, file, CA_FILE_MAX, &text, &len, err);
    if (r == 0)
        r = ca_parse(ca, text, len, err);
    if (text != NULL)
        explicit_bzero(text, len);
    if (r == 0 && !ca_is_usable(ca))
        r = -ENOENT;
    if (r == -ENOENT) {
        X509_free(take(ca->cert));
        EVP_PKEY_free(take(ca->key));
        r = ca_make(ca, dir_fd, file, err);
    }
    if (r == 0 && (ca->leaf_key = EVP_EC_gen("P-256")) == NULL)
        r = ca_failed(err, "egress CA");
    if (r == 0)
        r = make_context(ca, err);
    if (r < 0) {
        ca_free(ca);
        return r;
    }
    *ret = ca;
    return 0;
}

void ca_free(struct ca *ca)
{
    if (ca == NULL)
        return;
    while (ca->oldest != NULL) {
        struct leaf *l = ca->oldest;

        unlink_leaf(ca, l);
        leaf_free(l);
    }
    X509_free(ca->cert);
    EVP_PKEY_free(ca->key);
    EVP_PKEY_free(ca->leaf_key);
    SSL_CTX_free(ca->ctx);
    free(ca->pem);
    free(ca);
}

const char *ca_pem(const struct ca *ca)
{
    return ca->pem;
}
