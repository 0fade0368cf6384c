#pragma once

/* Copies bytes through P, the process that parses nothing: from one fd to another, counted and
 * hashed. Never blocks. Runs in P of worker.c. */

#include <openssl/sha.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "image/worker-proto.h"

struct err;

struct hash_copy {
    int from, to; /* owned; FD_NONE: closed. from is a pipe made by P */
    /* `to` was not made by P and may block: written only when poll reports it writable */
    bool to_blocks;
    /* ends after max bytes; otherwise at EOF of `from`, and more than max is an error */
    bool exact;
    bool tee;    /* both are pipes made by P, and the bytes are passed without copying */
    bool full;   /* with tee: waits for space in `to` */
    bool ended;  /* all is written; `to` is still open */
    bool broken; /* the reader has closed its end: no error here, as the reading part reports why */
    uint64_t count, max;
    SHA256_CTX hash;
    uint8_t *buf; /* owned */
    size_t at, len;
};

/* Takes ownership of both fds, also when it fails (-ENOMEM). */
int hash_copy_open(struct hash_copy *l, int from, int to, uint64_t max, struct err *err);
void hash_copy_close(struct hash_copy *l);
/* Fills up to one slot for poll(2); returns the number of slots. */
size_t hash_copy_poll(const struct hash_copy *l, struct pollfd *slot);
/* Moves the available bytes. -EFBIG past max; errno of `to`. */
int hash_copy_move(struct hash_copy *l, struct err *err);
void hash_copy_digest(const struct hash_copy *l, uint8_t digest[WORKER_DIGEST]);
