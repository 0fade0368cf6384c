#pragma once

/* Writes trusted certificates in formats that programs read. Pure. */

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct err;

enum {
    TRUSTSTORE_CERTS_MAX = 1024,
    TRUSTSTORE_MAX = 4 << 20 /* TRUSTSTORE_MAX: bytes of one file */
};

/* Writes a Java key store (JKS, password "changeit") of all certificates in the PEM texts; other
 * text is skipped. now_ms: the entries' date. 0 or a negative errno. */
int truststore_jks(const char *const *pems, size_t count, uint64_t now_ms, struct buf *out,
                   struct err *err);
