#pragma once

/* What a TLS client says first, read by OpenSSL without answering it. Pure. */

#include <openssl/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/egress.h"

struct err;

enum {
    HELLO_MAX = 16 << 10, /* bytes of a ClientHello with its records; more is none */
    HELLO_FIRST = 22,     /* the first byte of one, */
    HELLO_SECOND = 3,     /* and the second */
};

struct hello {
    bool has_name;
    bool odd;                       /* a name that is none, or more of them than one */
    bool encrypted;                 /* the true name is elsewhere (ECH); name is the outer one */
    char name[EGRESS_NAME_MAX + 1]; /* lower case */
};

/* For hello_read; the caller's (SSL_CTX_free). NULL without memory. */
SSL_CTX *hello_context(void);
/* 1: *ret is what it says; 0: there must come more; -EBADMSG: no ClientHello, or odd. data: all
 * there is of the connection. */
int hello_read(SSL_CTX *context, const uint8_t *data, size_t len, struct hello *ret);
