/* SHA256_Update is deprecated in favour of an interface that finds the same function through a
 * registry of providers and a configuration file. A static program without files can use neither.
 */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "hash-copy.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"

enum { HASH_COPY_BYTES = 1 << 17, TEE_BYTES = 1 << 20 };

int hash_copy_open(struct hash_copy *l, int from, int to, uint64_t max, struct err *err)
{
    *l = (struct hash_copy){.from = from, .to = to, .max = max, .buf = malloc(HASH_COPY_BYTES)};
    (void)SHA256_Init(&l->hash);
    if (l->buf == NULL) {
        hash_copy_close(l);
        return err_errno(err, -ENOMEM, "a buffer");
    }
    return 0;
}

void hash_copy_close(struct hash_copy *l)
{
    if (l->from >= 0)
        (void)close(take_fd(&l->from));
    if (l->to >= 0)
        (void)close(take_fd(&l->to));
    free(l->buf);
    *l = (struct hash_copy){.from = FD_NONE, .to = FD_NONE};
}

static bool lane_is_open(const struct hash_copy *l)
{
    return l->buf != NULL && !l->ended && !l->broken;
}

size_t hash_copy_poll(const struct hash_copy *l, struct pollfd *slot)
{
    if (!lane_is_open(l))
        return 0;
    *slot = l->at < l->len || l->full ? (struct pollfd){.fd = l->to, .events = POLLOUT}
                                      : (struct pollfd){.fd = l->from, .events = POLLIN};
    return 1;
}

static int lane_too_much(const struct hash_copy *l, struct err *err)
{
    return err_set(err, -EFBIG, "more than %" PRIu64 " bytes unpacked", l->max);
}

/* Reads into the buffer. Returns 1 if there is something to write. */
static int lane_fill(struct hash_copy *l, struct err *err)
{
    uint64_t left = l->max - l->count;
    /* One byte more shows that there is too much. */
    size_t want = left < HASH_COPY_BYTES ? (size_t)left + !l->exact : HASH_COPY_BYTES;
    ssize_t n = want > 0 ? read(l->from, l->buf, want) : 0;

    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : err_errno(err, -errno, "read from a part");
    if (n == 0) {
        l->ended = true;
        return 0;
    }
    if ((uint64_t)n > left)
        return lane_too_much(l, err);
    l->count += (uint64_t)n;
    (void)SHA256_Update(&l->hash, l->buf, (size_t)n);
    l->at = 0;
    l->len = (size_t)n;
    return 1;
}

/* Writes the buffer. Returns 1 if all of it was written. */
static int lane_drain(struct hash_copy *l, struct err *err)
{
    while (l->at < l->len) {
        ssize_t n = write(l->to, l->buf + l->at, l->len - l->at);

        if (n < 0 && errno == EPIPE && !l->to_blocks) {
            l->broken = true;
            return 0;
        }
        if (n < 0)
            return errno == EAGAIN || errno == EINTR ? 0 : err_errno(err, -errno, "write");
        l->at += (size_t)n;
        if (l->to_blocks && l->at < l->len)
            return 0;
    }
    if (l->exact && l->count == l->max)
        l->ended = true;
    return 1;
}

/* Hashes the next n bytes of `from`, which are in the pipe. */
static int lane_hash_next(struct hash_copy *l, size_t n, struct err *err)
{
    while (n > 0) {
        ssize_t got = read(l->from, l->buf, n < HASH_COPY_BYTES ? n : HASH_COPY_BYTES);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return err_errno(err, got < 0 ? -errno : -EIO, "read from a part");
        (void)SHA256_Update(&l->hash, l->buf, (size_t)got);
        n -= (size_t)got;
    }
    return 0;
}

/* The reader gets the pages, not a copy of the bytes. So the hash is of what it reads, unless the
 * pages change in between. A pipe's own pages cannot change. Pages of the archive's file must be
 * left alone by the client that requests the digest. Returns 1 if some bytes were passed. */
static int lane_tee(struct hash_copy *l, struct err *err)
{
    uint64_t left = l->max - l->count;
    ssize_t n =
        tee(l->from, l->to, left < TEE_BYTES ? (size_t)left + 1 : TEE_BYTES, SPLICE_F_NONBLOCK);

    if (n < 0 && errno == EPIPE) {
        l->broken = true;
        return 0;
    }
    if (n < 0 && errno == EAGAIN) {
        l->full = !l->full; /* poll said that one side was ready, so it is the other that blocks */
        return 0;
    }
    if (n < 0)
        return errno == EINTR ? 0 : err_errno(err, -errno, "pass bytes on");
    l->full = false;
    l->ended = n == 0;
    if ((uint64_t)n > left)
        return lane_too_much(l, err);
    l->count += (uint64_t)n;
    n = lane_hash_next(l, (size_t)n, err);
    return n < 0 ? (int)n : 1;
}

int hash_copy_move(struct hash_copy *l, struct err *err)
{
    int r = 1;

    /* A few rounds only, so that other lanes get their turn. */
    for (int i = 0; i < 8 && r > 0 && lane_is_open(l); i++) {
        if (l->tee) {
            r = lane_tee(l, err);
            continue;
        }
        if (l->at < l->len) {
            r = lane_drain(l, err);
            continue;
        }
        r = lane_fill(l, err);
        if (r > 0)
            r = lane_drain(l, err);
    }
    return r < 0 ? r : 0;
}

void hash_copy_digest(const struct hash_copy *l, uint8_t digest[WORKER_DIGEST])
{
    SHA256_CTX hash = l->hash;

    (void)SHA256_Final(digest, &hash);
}
