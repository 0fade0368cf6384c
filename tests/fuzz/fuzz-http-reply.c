/* Replies as the command line reads them: however the bytes are cut, the same is heard; nothing
 * grows past its bound, and a refusal has words. */

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "http/client-reply.h"

struct heard {
    uint64_t sum, len, used;
    int code, status, state;
};

static void hear(struct heard *h, const struct reply *r)
{
    if (r->head.len > REPLY_HEAD_MAX || r->body.len > REPLY_FEED_MAX)
        abort();
    for (size_t i = 0; i < r->body.len; i++)
        h->sum = h->sum * 31 + (unsigned char)r->body.data[i];
    h->len += r->body.len;
}

static struct heard feed(const uint8_t *data, size_t size, size_t piece)
{
    struct reply r = {.status = 0};
    struct heard h = {.code = 0};
    struct err err = ERR_NONE;

    reply_begin(&r);
    while (h.used < size && r.state < REPLY_DONE && h.code == 0) {
        size_t n = size - h.used < piece ? size - h.used : piece, used = 0;

        h.code = reply_feed(&r, (const char *)data + h.used, n, &used, &err);
        if (used > n || (h.code == 0 && r.state < REPLY_DONE && used != n))
            abort();
        h.used += used;
        if (h.code == 0)
            hear(&h, &r);
    }
    if (h.code == 0)
        h.code = reply_end(&r, &err);
    if (h.code < 0 && (err.msg[0] == '\0' || err.code != h.code))
        abort();
    if (h.code == 0) {
        (void)reply_header(&r, "upgrade");
        h.status = r.status;
        h.state = (int)r.state;
    } else {
        /* How far it came is not the same: a piece is fed whole. */
        h = (struct heard){.code = h.code};
    }
    reply_done(&r);
    return h;
}

static bool same(const struct heard *a, const struct heard *b)
{
    return a->sum == b->sum && a->len == b->len && a->used == b->used && a->code == b->code &&
           a->status == b->status && a->state == b->state;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct heard whole, bytes, seven;

    if (size > REPLY_FEED_MAX)
        return 0;
    whole = feed(data, size, size > 0 ? size : 1);
    bytes = feed(data, size, 1);
    seven = feed(data, size, 7);
    if (!same(&whole, &bytes) || !same(&whole, &seven))
        abort();
    return 0;
}
