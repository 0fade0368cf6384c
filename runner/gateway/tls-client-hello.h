#pragma once

/* Parses a TLS ClientHello by OpenSSL, without answering it. Pure: no I/O; the loop thread only. */

#include <openssl/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/egress.h"

struct err;

enum {
    CLIENT_HELLO_MAX =
        16 << 10,            /* bytes of a ClientHello with its record headers; more is refused */
    CLIENT_HELLO_FIRST = 22, /* the first byte of a TLS handshake record */
    CLIENT_HELLO_SECOND = 3, /* its second byte */
};

struct hello {
    bool has_name;
    bool odd;                       /* a malformed name, or more than one */
    bool encrypted;                 /* ECH: the real name is encrypted; name is the outer one */
    char name[EGRESS_NAME_MAX + 1]; /* lower case */
};

/* The context for client_hello_read; the caller owns it (SSL_CTX_free). NULL: out of memory. */
SSL_CTX *client_hello_context(void);
/* Parses all bytes received so far. 1: *ret is set; 0: incomplete; -EBADMSG: no ClientHello, or
 * odd; -ENOMEM. */
int client_hello_read(SSL_CTX *context, const uint8_t *data, size_t len, struct hello *ret);
