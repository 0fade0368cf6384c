/* Messages of both kinds: however the bytes come in, the outcome is the same; what goes on is read
 * again as what it was, with the same end. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "http/message.h"

static const struct head_limits limits = {.bytes = 8192, .lines = 32, .url = 2048};

struct outcome {
    long head, used; /* head: as reader_head; used: of the body; or a negative errno */
    bool done;
    struct message m;
    struct buf body, trailers;
};

static int collect(void *data, const char *at, size_t len)
{
    return buf_append(data, at, len);
}

static void run(const char *data, size_t len, bool response, bool head, size_t step,
                struct outcome *o)
{
    struct err err = ERR_NONE;
    struct reader r;
    size_t have = 0;
    int status = 0;

    *o = (struct outcome){.body = BUF_INIT(1 << 20), .trailers = BUF_INIT(1 << 20)};
    reader_init(&r, response, collect, &o->body);
    r.head_of_get = head;
    while (o->head == 0 && have < len) {
        have = have + step < len ? have + step : len;
        o->head = reader_head(&r, data, have, &limits, &o->m, &status, &err);
    }
    if (o->head < 0)
        assert(err.msg[0] != '\0' && status >= 400 && status < 600);
    for (size_t at = o->head > 0 ? (size_t)o->head : len; o->head > 0 && r.in_body && at < len;) {
        size_t n = len - at < step ? len - at : step;
        long used = reader_body(&r, data + at, n, &err);

        if (used < 0) {
            assert(err.msg[0] != '\0');
            o->used = used;
            break;
        }
        assert(used > 0 && (size_t)used <= n);
        o->used += used;
        at += (size_t)used;
    }
    o->done = o->head > 0 && r.done && o->used >= 0;
    if (o->done && r.trailers.len > 0)
        (void)buf_append(&o->trailers, r.trailers.data, r.trailers.len);
    reader_done(&r);
}

static void outcome_done(struct outcome *o)
{
    message_done(&o->m);
    buf_done(&o->body);
    buf_done(&o->trailers);
}

static bool same(const struct buf *a, const struct buf *b)
{
    return a->len == b->len && (a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}

/* Written anew and read again. */
static void again(const struct outcome *o, bool response, bool head)
{
    const struct forward f = {.peer = "192.0.2.1", .proto = "http"};
    auto_buf struct buf out = BUF_INIT(1 << 20);
    struct outcome o2;
    size_t len;
    int r;

    r = response ? message_forward_reply(&o->m, o->m.framing, false, true, &out)
                 : message_forward_request(&o->m, &f, o->m.upgrade != NULL, &out);
    assert(r == 0);
    len = out.len;
    if (o->m.framing == FRAMING_CHUNKED) {
        assert(chunk_write(&out, o->body.data, o->body.len) == 0);
        assert(chunk_end(&out, &o->trailers) == 0);
    } else if (o->body.len > 0) {
        assert(buf_append(&out, o->body.data, o->body.len) == 0);
    }
    run(out.data, out.len, response, head, out.len, &o2);
    /* Three lines were added: what was at the limit is beyond it now. */
    if (o2.head > 0) {
        assert(o2.done && (size_t)o2.head == len && o2.m.framing == o->m.framing);
        assert(o2.m.status == o->m.status && same(&o->body, &o2.body));
        assert(same(&o->trailers, &o2.trailers));
        if (!response)
            assert(strcmp(o->m.target, o2.m.target) == 0 && strcmp(o->m.host, o2.m.host) == 0);
    } else {
        assert(o->m.header_count + 6 > limits.lines || out.len + 64 > limits.bytes);
    }
    outcome_done(&o2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const size_t steps[] = {1, 7, SIZE_MAX / 2};
    bool response, head;
    struct outcome first, other;

    if (size < 1)
        return 0;
    response = (data[0] & 1) != 0;
    head = response && (data[0] & 2) != 0;
    run((const char *)data + 1, size - 1, response, head, steps[0], &first);
    for (size_t i = 1; i < sizeof(steps) / sizeof(steps[0]); i++) {
        run((const char *)data + 1, size - 1, response, head, steps[i], &other);
        assert(first.head == other.head && (first.used < 0) == (other.used < 0));
        assert(first.done == other.done);
        if (first.done)
            assert(first.used == other.used && same(&first.body, &other.body) &&
                   same(&first.trailers, &other.trailers));
        outcome_done(&other);
    }
    if (first.done)
        again(&first, response, head);
    outcome_done(&first);
    return 0;
}
