#include "gateway/tls-client-hello.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/tls1.h>
#include <string.h>

#include "base/address.h"

enum {
    EXTENSION_ECH = 0xfe0d,
    NAME_HEADER = 5, /* lengths of the list and the name, and its type */
    NAME_TYPE_HOST = 0,
};

static int ssl_ex_index(void)
{
    static int index = -1;

    if (index < 0)
        index = SSL_get_ex_new_index(0, NULL, NULL, NULL, NULL);
    return index;
}

static void hello_take_name(struct hello *h, const unsigned char *data, size_t len)
{
    char text[EGRESS_NAME_MAX + 2];
    struct address a;
    size_t name;

    /* Exactly one name: clients send no more, and with several a server might choose another
     * than the gateway. */
    h->odd = true;
    if (len <= NAME_HEADER || data[2] != NAME_TYPE_HOST ||
        ((size_t)data[0] << 8 | data[1]) != len - 2)
        return;
    name = (size_t)data[3] << 8 | data[4];
    if (name != len - NAME_HEADER || name >= sizeof(text))
        return;
    h->has_name = egress_name((const char *)data + NAME_HEADER, name, h->name) == 0;
    (void)memcpy(text, data + NAME_HEADER, name);
    text[name] = '\0';
    /* Some clients send an address, which is not a host name. */
    h->odd = !h->has_name && (strlen(text) != name || address_parse_host(text, &a) < 0);
}

static int on_client_hello(SSL *ssl, int *alert, void *arg)
{
    struct hello *h = SSL_get_ex_data(ssl, ssl_ex_index());
    const unsigned char *data;
    size_t len;

    (void)alert;
    (void)arg;
    if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_server_name, &data, &len) == 1)
        hello_take_name(h, data, len);
    h->encrypted = SSL_client_hello_get0_ext(ssl, EXTENSION_ECH, &data, &len) == 1;
    return SSL_CLIENT_HELLO_RETRY; /* aborts the handshake: all needed fields are read */
}

SSL_CTX *client_hello_context(void)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());

    if (ctx != NULL)
        SSL_CTX_set_client_hello_cb(ctx, on_client_hello, NULL);
    ERR_clear_error();
    return ctx;
}

/* Tells whether the first record is complete, so that a ClientHello that arrives byte by byte is
 * parsed once. */
static int hello_first_record(const uint8_t *data, size_t len)
{
    if (len > 0 && data[0] != CLIENT_HELLO_FIRST)
        return -EBADMSG;
    if (len > 1 && data[1] != CLIENT_HELLO_SECOND)
        return -EBADMSG;
    if (len < 5)
        return 0;
    return len >= 5 + ((size_t)data[3] << 8 | data[4]);
}

int client_hello_read(SSL_CTX *context, const uint8_t *data, size_t len, struct hello *ret)
{
    BIO *in = NULL, *out = NULL;
    SSL *ssl;
    int r = hello_first_record(data, len);

    *ret = (struct hello){.has_name = false};
    if (r <= 0)
        return r == 0 && len >= CLIENT_HELLO_MAX ? -EBADMSG : r;
    ERR_clear_error();
    ssl = SSL_new(context);
    in = BIO_new_mem_buf(data, (int)len);
    out = BIO_new(BIO_s_null());
    if (ssl == NULL || in == NULL || out == NULL ||
        SSL_set_ex_data(ssl, ssl_ex_index(), ret) != 1) {
        BIO_free(in);
        BIO_free(out);
        r = -ENOMEM;
    } else {
        (void)BIO_set_mem_eof_return(in, -1); /* an empty BIO means "retry", not EOF */
        SSL_set_bio(ssl, in, out);
        SSL_set_accept_state(ssl);
        switch (SSL_get_error(ssl, SSL_do_handshake(ssl))) {
        case SSL_ERROR_WANT_CLIENT_HELLO_CB:
            r = ret->odd ? -EBADMSG : 1;
            break;
        case SSL_ERROR_WANT_READ:
            r = len >= CLIENT_HELLO_MAX ? -EBADMSG : 0;
            break;
        default:
            r = -EBADMSG;
        }
    }
    SSL_free(ssl);
    ERR_clear_error();
    return r;
}
