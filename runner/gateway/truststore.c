#include "gateway/truststore.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

/* Java key store: u32 magic, version, count; then per certificate: u32 2 (trusted), alias, u64
 * date, type, u32 length, DER; finally a SHA-1 of the password in UTF-16, a fixed phrase, and
 * all bytes before. Big endian; strings have a u16 length prefix. */
#define JKS_MAGIC UINT32_C(0xfeedfeed)

enum { JKS_VERSION = 2, JKS_TRUSTED = 2, SHA1_SIZE = 20 };

static int put_number(struct buf *b, uint64_t value, unsigned bytes)
{
    uint8_t be[8];

    for (unsigned i = 0; i < bytes; i++)
        be[i] = (uint8_t)(value >> (8 * (bytes - 1 - i)));
    return buf_append(b, be, bytes);
}

static int put_text(struct buf *b, const char *text)
{
    int r = put_number(b, strlen(text), 2);

    return r < 0 ? r : buf_append_str(b, text);
}

static int put_cert(struct buf *b, X509 *cert, unsigned number, uint64_t now_ms)
{
    unsigned char *der = NULL;
    int len = i2d_X509(cert, &der), r;
    char alias[16];

    if (len < 0)
        return -ENOMEM;
    (void)snprintf(alias, sizeof(alias), "ca%u", number);
    r = put_number(b, JKS_TRUSTED, 4);
    if (r == 0)
        r = put_text(b, alias);
    if (r == 0)
        r = put_number(b, now_ms, 8);
    if (r == 0)
        r = put_text(b, "X.509");
    if (r == 0)
        r = put_number(b, (uint64_t)len, 4);
    if (r == 0)
        r = buf_append(b, der, (size_t)len);
    OPENSSL_free(der);
    return r;
}

static int put_certs(struct buf *b, const char *pem, uint64_t now_ms, unsigned *count)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    X509 *cert;
    int r = bio == NULL ? -ENOMEM : 0;

    while (r == 0 && *count < TRUSTSTORE_CERTS_MAX &&
           (cert = PEM_read_bio_X509(bio, NULL, NULL, NULL)) != NULL) {
        r = put_cert(b, cert, (*count)++, now_ms);
        X509_free(cert);
    }
    BIO_free(bio);
    ERR_clear_error();
    return r;
}

static int put_digest(struct buf *b)
{
    static const char password[] = "\0c\0h\0a\0n\0g\0e\0i\0t", phrase[] = "Mighty Aphrodite";
    unsigned char digest[SHA1_SIZE];
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    bool ok = ctx != NULL && EVP_DigestInit_ex(ctx, EVP_sha1(), NULL) == 1 &&
              EVP_DigestUpdate(ctx, password, sizeof(password) - 1) == 1 &&
              EVP_DigestUpdate(ctx, phrase, sizeof(phrase) - 1) == 1 &&
              EVP_DigestUpdate(ctx, b->data, b->len) == 1 &&
              EVP_DigestFinal_ex(ctx, digest, NULL) == 1;

    EVP_MD_CTX_free(ctx);
    return ok ? buf_append(b, digest, sizeof(digest)) : -ENOMEM;
}

int truststore_jks(const char *const *pems, size_t count, uint64_t now_ms, struct buf *out,
                   struct err *err)
{
    unsigned certs = 0;
    int r = put_number(out, JKS_MAGIC, 4);

    if (r == 0)
        r = put_number(out, JKS_VERSION, 4);
    if (r == 0)
        r = put_number(out, 0, 4); /* the count, patched at the end */
    for (size_t i = 0; r == 0 && i < count; i++)
        r = put_certs(out, pems[i], now_ms, &certs);
    for (unsigned i = 0; r == 0 && i < 4; i++)
        out->data[8 + i] = (char)(uint8_t)(certs >> (8 * (3 - i)));
    if (r == 0)
        r = put_digest(out);
    return r < 0 ? err_errno(err, r, "trust store") : 0;
}
