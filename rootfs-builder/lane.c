/* SHA256_Update is deprecated in favour of an interface that finds the same function through a
 * registry of providers and a configuration file: a static program without files has no use for
 * either. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "lane.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"

enum { LANE_BYTES = 1 << 17, TEE_BYTES = 1 << 20 };

int lane_open(struct lane *l, int from, int to, uint64_t max, struct err *err)
{
    *l = (struct lane){.from = from, .to = to, .max = max, .buf = malloc(LANE_BYTES)};
    (void)SHA256_Init(&l->hash);
    if (l->buf == NULL) {
        lane_close(l);
        return err_errno(err, -ENOMEM, "a buffer");
    }
    return 0;
}

void lane_close(struct lane *l)
{
    if (l->from >= 0)
        (void)close(take_fd(&l->from));
    if (l->to >= 0)
        (void)close(take_fd(&l->to));
    free(l->buf);
    *l = (struct lane){.from = FD_NONE, .to = FD_NONE};
}

static bool is_open(const struct lane *l)
{
    return l->buf != NULL && !l->ended && !l->broken;
}

size_t lane_poll(const struct lane *l, struct pollfd *slot)
{
    if (!is_open(l))
        return 0;
    *slot = l->at < l->len || l->full ? (struct pollfd){.fd = l->to, .events = POLLOUT}
                                      : (struct pollfd){.fd = l->from, .events = POLLIN};
    return 1;
}

static int too_much(const struct lane *l, struct err *err)
{
    return err_set(err, -EFBIG, "more than %" PRIu64 " bytes unpacked", l->max);
}

/* 1: there is something to write. */
static int fill(struct lane *l, struct err *err)
{
    uint64_t left = l->max - l->count;
    /* One byte more tells whether there is too much. */
    size_t want = left < LANE_BYTES ? (size_t)left + !l->exact : LANE_BYTES;
    ssize_t n = want > 0 ? read(l->from, l->buf, want) : 0;

    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : err_errno(err, -errno, "read from a part");
    if (n == 0) {
        l->ended = true;
        return 0;
    }
    if ((uint64_t)n > left)
        return too_much(l, err);
    l->count += (uint64_t)n;
    (void)SHA256_Update(&l->hash, l->buf, (size_t)n);
    l->at = 0;
    l->len = (size_t)n;
    return 1;
}

/* 1: all of it went. */
static int drain(struct lane *l, struct err *err)
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

/* Hashes the next n bytes of from, which are there. */
static int hash_next(struct lane *l, size_t n, struct err *err)
{
    while (n > 0) {
        ssize_t got = read(l->from, l->buf, n < LANE_BYTES ? n : LANE_BYTES);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return err_errno(err, got < 0 ? -errno : -EIO, "read from a part");
        (void)SHA256_Update(&l->hash, l->buf, (size_t)got);
        n -= (size_t)got;
    }
    return 0;
}

/*
 * The reader gets the pages, not a copy of the bytes: what is hashed here is what it reads, as long
 * as nobody changes them in between. They are either a pipe's own, which nobody can, or of the
 * archive's file, which who asked for the digest has to leave alone. 1: some bytes went.
 */
static int tee_some(struct lane *l, struct err *err)
{
    uint64_t left = l->max - l->count;
    ssize_t n =
        tee(l->from, l->to, left < TEE_BYTES ? (size_t)left + 1 : TEE_BYTES, SPLICE_F_NONBLOCK);

    if (n < 0 && errno == EPIPE) {
        l->broken = true;
        return 0;
    }
    if (n < 0 && errno == EAGAIN) {
        l->full = !l->full; /* there was something to read, or there was room: it is the other */
        return 0;
    }
    if (n < 0)
        return errno == EINTR ? 0 : err_errno(err, -errno, "pass bytes on");
    l->full = false;
    l->ended = n == 0;
    if ((uint64_t)n > left)
        return too_much(l, err);
    l->count += (uint64_t)n;
    n = hash_next(l, (size_t)n, err);
    return n < 0 ? (int)n : 1;
}

int lane_move(struct lane *l, struct err *err)
{
    int r = 1;

    /* A few rounds: others wait, too. */
    for (int i = 0; i < 8 && r > 0 && is_open(l); i++) {
        if (l->tee) {
            r = tee_some(l, err);
            continue;
        }
        if (l->at < l->len) {
            r = drain(l, err);
            continue;
        }
        r = fill(l, err);
        if (r > 0)
            r = drain(l, err);
    }
    return r < 0 ? r : 0;
}

void lane_digest(const struct lane *l, uint8_t digest[WORKER_DIGEST])
{
    SHA256_CTX hash = l->hash;

    (void)SHA256_Final(digest, &hash);
}
