/*
 * The decoder on hostile streams. The first byte picks the kind of stream, the second how it is cut
 * into pieces: the outcome must not depend on that. Every refusal says why, and what is accepted
 * keeps its promises.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proto/frame.h"
#include "proto/utf8.h"

enum { MAX_DATA = 4096 };

#define MUST(cond)                                                                                 \
    do {                                                                                           \
        if (!(cond))                                                                               \
            abort();                                                                               \
    } while (0)

struct outcome {
    int r, eof;
    int frames;
    uint64_t sum; /* of all that was decoded */
    const char *why;
};

static uint64_t mix(uint64_t sum, const void *data, size_t len)
{
    const uint8_t *p = data;

    for (size_t i = 0; i < len; i++)
        sum = (sum ^ p[i]) * UINT64_C(1099511628211);
    return sum;
}

static void check_frame(const struct frame *f)
{
    if (f->kind == FRAME_ERROR) {
        MUST(f->code > 0 && f->text_len <= FRAME_TEXT_MAX && utf8_valid(f->text, f->text_len));
        MUST(f->text[f->text_len] == '\0');
    } else if (f->kind == FRAME_DATA) {
        MUST(f->len <= MAX_DATA);
    }
}

static struct outcome run(enum frame_stream stream, const uint8_t *data, size_t len, size_t step)
{
    struct outcome o = {.r = 0};
    struct frame_decoder d;

    frame_decoder_init(&d, stream, MAX_DATA);
    while (len > 0 && o.r >= 0) {
        size_t n = len < step ? len : step, used = n + 1;
        struct frame f;

        o.r = frame_feed(&d, data, n, &used, &f);
        MUST(used <= n);
        if (o.r == 1) {
            check_frame(&f);
            o.frames++;
            o.sum = mix(o.sum, f.text, f.text_len);
            o.sum = mix(mix(o.sum, f.data, f.len), &f.code, sizeof(f.code));
        }
        MUST(o.r != 0 || used == n);
        data += used;
        len -= used;
    }
    o.eof = frame_eof(&d);
    o.why = d.why;
    MUST((o.eof < 0) == (o.why != NULL));
    MUST(o.r >= 0 || o.eof == o.r);
    frame_decoder_done(&d);
    return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    enum frame_stream stream;
    struct outcome whole, cut;

    if (len < 2)
        return 0;
    stream = (enum frame_stream)(1 + data[0] % (FRAME_STREAM_MAX - 1));
    whole = run(stream, data + 2, len - 2, len);
    cut = run(stream, data + 2, len - 2, 1 + data[1] % 32u);
    MUST(whole.eof == cut.eof && whole.frames == cut.frames && whole.sum == cut.sum);
    MUST(whole.why == cut.why);
    return 0;
}
