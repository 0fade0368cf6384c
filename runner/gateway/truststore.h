#pragma once

/* Certificates to be trusted, in the forms that programs read. Pure. */

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct err;

enum { TRUSTSTORE_CERTS_MAX = 1024, TRUSTSTORE_MAX = 4 << 20 /* bytes of any of these */ };

/*
 * A Java key store (JKS, password "changeit") of every certificate in the PEM texts; what is none
 * is passed over. now_ms: for the entries' dates.
 */
int truststore_jks(const char *const *pems, size_t count, uint64_t now_ms, struct buf *out,
                   struct err *err);
