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

enum { LANE_BYTES = 1 << 18 };

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
    l->buf = NULL;
}

static bool is_open(const struct lane *l)
{
    return l->buf != NULL && !l->ended && !l->broken;
}

size_t lane_poll(const struct lane *l, struct pollfd *slot)
{
    if (!is_open(l))
        return 0;
    *slot = l->at < l->len ? (struct pollfd){.fd = l->to, .events = POLLOUT}
                           : (struct pollfd){.fd = l->from, .events = POLLIN};
    return 1;
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
        return err_set(err, -EFBIG, "more than %" PRIu64 " bytes unpacked", l->max);
    l->count += (uint64_t)n;
    (void)SHA256_Update(&l->hash, l->buf, (size_t)n);
    l->at = 0;
    l->len = (size_t)n;
    if (l->exact && l->count == l->max && l->drop)
        l->ended = true;
    return 1;
}

/* 1: all of it went. */
static int drain(struct lane *l, struct err *err)
{
    while (l->at < l->len) {
        ssize_t n =
            l->drop ? (ssize_t)(l->len - l->at) : write(l->to, l->buf + l->at, l->len - l->at);

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

int lane_move(struct lane *l, struct err *err)
{
    int r = 1;

    /* A few rounds: others wait, too. */
    for (int i = 0; i < 8 && r > 0 && is_open(l); i++) {
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
