#pragma once

/* A way for bytes through the process that parses nothing: from one descriptor to another, counted
 * and hashed. Neither end blocks it. */

#include <openssl/sha.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "image/worker-proto.h"

struct err;

struct lane {
    int from, to;   /* owned; FD_NONE: closed. from is a pipe of ours */
    bool to_blocks; /* it is not ours, and may block: written to when poll says so */
    bool exact;  /* ends after max bytes; else at the end of from, and more than max is an error */
    bool tee;    /* both are pipes of ours, and none of the bytes is copied on its way */
    bool full;   /* tee: what it waits for is room */
    bool ended;  /* all is written; to is still open */
    bool broken; /* a part reads no more: no error here, it says why */
    uint64_t count, max;
    SHA256_CTX hash;
    uint8_t *buf; /* owned */
    size_t at, len;
};

/* Takes both descriptors, also when it fails (-ENOMEM). */
int lane_open(struct lane *l, int from, int to, uint64_t max, struct err *err);
void lane_close(struct lane *l);
/* What poll is to wait for: fills up to one slot, returns how many. */
size_t lane_poll(const struct lane *l, struct pollfd *slot);
/* Moves what can be moved. -EFBIG past max; errno of `to`. */
int lane_move(struct lane *l, struct err *err);
void lane_digest(const struct lane *l, uint8_t digest[WORKER_DIGEST]);
