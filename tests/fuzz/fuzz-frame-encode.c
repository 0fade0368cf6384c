/*
 * The runner decodes an error frame of the shim to the same code and text, and refuses a text that
 * is not UTF-8.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proto/frame.h"
#include "proto/utf8.h"

#define MUST(cond)                                                                                 \
    do {                                                                                           \
        if (!(cond))                                                                               \
            abort();                                                                               \
    } while (0)

/* Decodes a stream of one frame. The frame's pointers stay valid until the decoder is done. */
static int decode(struct frame_decoder *d, enum frame_stream stream, const uint8_t *data,
                  size_t len, struct frame *ret)
{
    size_t used = 0;
    int r;

    frame_decoder_init(d, stream, UINT32_MAX);
    r = frame_feed(d, data, len, &used, ret);
    MUST(r != 0);
    if (r == 1)
        MUST(used == len && frame_eof(d) == 0);
    return r;
}

static void try_error(const uint8_t *data, size_t len)
{
    struct frame_decoder d;
    struct frame f;
    uint8_t *out = malloc(len + 64);
    char *text = malloc(len + 1);
    int code = 1 + (len > 0 ? data[0] : 0), n;

    MUST(out != NULL && text != NULL);
    if (len > 0)
        memcpy(text, data, len);
    text[len] = '\0';
    n = frame_put_error(out, len + 64, code, text);
    MUST(n == (int)(FRAME_HEADER_SIZE + FRAME_CODE_SIZE + strlen(text)));
    if (utf8_valid(text, strlen(text))) {
        MUST(decode(&d, FRAME_STREAM_ACK, out, (size_t)n, &f) == 1);
        MUST(f.kind == FRAME_ERROR && f.code == code && strcmp(f.text, text) == 0);
    } else {
        MUST(decode(&d, FRAME_STREAM_ACK, out, (size_t)n, &f) < 0);
    }
    frame_decoder_done(&d);
    free(out);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len > FRAME_TEXT_MAX)
        return 0;
    try_error(data, len);
    return 0;
}
