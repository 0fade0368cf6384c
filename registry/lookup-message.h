#pragma once

/* A question to a name server for the addresses of a host, and its answer. Hostile bytes. Pure. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"

enum {
    LOOKUP_QUESTION_MAX = 12 + 256 + 4,
    LOOKUP_ADDRESSES_MAX = 16,
    LOOKUP_TYPE_A = 1,
    LOOKUP_TYPE_AAAA = 28,
    LOOKUP_NXDOMAIN = 3,
};

struct lookup_answer {
    unsigned rcode;
    bool truncated;
    struct address addresses[LOOKUP_ADDRESSES_MAX]; /* port 0; further ones are dropped */
    size_t count;
};

/* Writes a question. Returns its length, -EINVAL if it is no name. */
int lookup_write(const char *name, int type, uint16_t id, uint8_t ret[LOOKUP_QUESTION_MAX]);
/* Reads the answer to the question (`len` bytes that lookup_write made). -EBADMSG: the bytes are no
 * answer to it. Addresses of all records are taken, whatever their owner: aliases stand before
 * them. */
int lookup_read(const uint8_t *data, size_t data_len, const uint8_t *question, size_t len,
                struct lookup_answer *ret);
