/*
 * The reader of a WebSocket's frames on hostile streams. The first byte says into which pieces the
 * stream is cut: the outcome must not depend on that. Every refusal says why, and no payload is
 * longer than what was read.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/err.h"
#include "http/websocket.h"

#define MUST(cond)                                                                                 \
    do {                                                                                           \
        if (!(cond))                                                                               \
            abort();                                                                               \
    } while (0)

struct outcome {
    int r;
    size_t bytes, controls;
    uint64_t sum;
};

static bool on_data(void *data, const char *bytes, size_t len)
{
    struct outcome *o = data;

    o->bytes += len;
    for (size_t i = 0; i < len; i++)
        o->sum = (o->sum ^ (unsigned char)bytes[i]) * UINT64_C(1099511628211);
    return true;
}

static bool on_control(void *data, enum ws_opcode op, const char *bytes, size_t len)
{
    struct outcome *o = data;

    MUST(len <= WS_CONTROL_MAX && (op == WS_CLOSE || op == WS_PING || op == WS_PONG));
    o->controls++;
    for (size_t i = 0; i < len; i++)
        o->sum = (o->sum ^ (unsigned char)bytes[i]) * UINT64_C(1099511628211);
    return op != WS_CLOSE;
}

static struct outcome run(const char *bytes, size_t len, size_t step)
{
    static const struct ws_events events = {.data = on_data, .control = on_control};
    struct ws_reader reader = {.head_len = 0};
    struct outcome o = {.r = 0};
    struct err err = ERR_NONE;

    for (size_t at = 0; at < len && o.r == 0; at += step)
        o.r = ws_read(&reader, bytes + at, len - at < step ? len - at : step, &events, &o, &err);
    MUST((o.r == -EPROTO) == (err.msg[0] != '\0') && (o.r == 0 || o.r == 1 || o.r == -EPROTO));
    MUST(o.bytes <= len);
    return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct outcome whole, cut;

    if (size < 2)
        return 0;
    whole = run((const char *)data + 1, size - 1, size);
    cut = run((const char *)data + 1, size - 1, 1U + data[0] % 64U);
    MUST(whole.r == cut.r && whole.bytes == cut.bytes && whole.controls == cut.controls &&
         whole.sum == cut.sum);
    return 0;
}
