/*
 * What the shim encodes, the runner decodes to the same: errors, stat, listings. The input is the
 * values; what the decoder must refuse (a name or a text that is not UTF-8) is predicted from them.
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

static int64_t date_of(const uint8_t *p)
{
    int64_t v;

    memcpy(&v, p, sizeof(v));
    return v % INT64_C(8640000000000001);
}

static void try_stat(const uint8_t *data, size_t len)
{
    struct frame_stat in = {.type = FRAME_TYPE_FILE}, out;
    uint8_t frame[FRAME_HEADER_SIZE + FRAME_STAT_SIZE];
    struct frame_decoder d;
    const char *why = NULL;
    struct frame f;

    if (len < 45)
        return;
    in.type = (enum frame_type)(data[0] % 7);
    memcpy(&in.size, data + 1, 8);
    memcpy(&in.mode, data + 9, 4);
    memcpy(&in.uid, data + 13, 4);
    memcpy(&in.gid, data + 17, 4);
    in.atime_ms = date_of(data + 21);
    in.mtime_ms = date_of(data + 29);
    in.ctime_ms = date_of(data + 37);
    frame_put_header(frame, FRAME_DATA, FRAME_STAT_SIZE);
    frame_put_stat(frame + FRAME_HEADER_SIZE, &in);
    MUST(decode(&d, FRAME_STREAM_DATA, frame, sizeof(frame), &f) == 1);
    MUST(frame_get_stat(f.data, f.len, &out, &why) == 0);
    MUST(out.type == in.type && out.size == in.size && out.mode == in.mode && out.uid == in.uid);
    MUST(out.gid == in.gid && out.atime_ms == in.atime_ms && out.mtime_ms == in.mtime_ms &&
         out.ctime_ms == in.ctime_ms);
    frame_decoder_done(&d);
}

static int name_ok(const char *name, size_t len)
{
    return len > 0 && memchr(name, '/', len) == NULL && utf8_valid(name, len) &&
           !(len == 1 && name[0] == '.') && !(len == 2 && memcmp(name, "..", 2) == 0);
}

/* Names are what lies between NUL bytes; each in the listing must come back in its place. */
static void try_listing(const uint8_t *data, size_t len)
{
    uint8_t *out = malloc(FRAME_COUNT_SIZE + (len + 1) * 4);
    struct frame_listing l;
    struct frame_entry e;
    const char *why = NULL;
    size_t n = FRAME_COUNT_SIZE;
    uint32_t count = 0;
    int fine = 1;

    MUST(out != NULL);
    for (size_t at = 0; at < len; count++) {
        const char *name = (const char *)data + at;
        size_t size = strnlen(name, len - at < FRAME_NAME_MAX ? len - at : FRAME_NAME_MAX);

        fine = fine && name_ok(name, size);
        n += frame_put_entry(out + n, (enum frame_type)(count % 7), name, (uint16_t)size);
        at += size + 1;
    }
    frame_put_count(out, count);
    MUST((frame_get_listing(out, n, &l, &why) == 0) == fine);
    for (size_t at = 0, i = 0; fine && at < len; i++) {
        MUST(frame_listing_next(&l, &e));
        MUST(e.type == (enum frame_type)(i % 7) && memcmp(e.name, data + at, e.len) == 0);
        at += (size_t)e.len + 1;
    }
    MUST(!fine || !frame_listing_next(&l, &e));
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len > FRAME_TEXT_MAX)
        return 0;
    try_error(data, len);
    try_stat(data, len);
    try_listing(data, len);
    return 0;
}
