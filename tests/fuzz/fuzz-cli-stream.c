/*
 * What the command line reads of a daemon's streams: frames (the first byte of the input is even)
 * or server-sent events (odd). However the bytes are cut, and however little is taken at a time,
 * the same is heard, and a refusal has words.
 */

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "cli/event-stream.h"
#include "cli/frames.h"

/* What was heard, as a sum. */
struct heard {
    uint64_t sum, count;
    size_t room; /* bytes of output that are taken at a time */
};

static void hear(struct heard *h, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        h->sum = h->sum * 31 + (unsigned char)bytes[i];
    h->count += len;
}

/* ---- frames ---- */

/* stream and position go into the sum: what is taken in two pieces is the same as in one. */
static size_t on_output(void *data, int stream, const char *bytes, size_t len)
{
    struct heard *h = data;
    size_t n = len < h->room ? len : h->room;

    if (stream != 1 && stream != 2)
        abort();
    for (size_t i = 0; i < n; i++) {
        h->sum = h->sum * 31 + (unsigned char)bytes[i] + UINT64_C(256) * (unsigned)stream;
        h->count++;
    }
    return n;
}

static int frames(const char *data, size_t size, size_t piece, size_t room, struct heard *h)
{
    struct frames f = {.head_len = 0};
    struct err err = ERR_NONE;
    size_t at = 0, used = 1;
    int r = 0;

    h->room = room;
    while (r == 0 && at < size && f.end_type == 0) {
        size_t n = size - at < piece ? size - at : piece;

        r = frames_feed(&f, data + at, n, on_output, h, &used, &err);
        if (used > n || (r == 0 && used == 0))
            abort(); /* it goes on, or it is at its end */
        at += used;
    }
    if (r < 0 && (err.msg[0] == '\0' || err.code != r))
        abort();
    if (f.end_type != 0 && f.end_type != EXEC_FRAME_EXIT && f.end_type != EXEC_FRAME_ERROR)
        abort();
    if (f.end_type != 0 && (f.end == NULL || f.end[f.end_len] != '\0' || f.end_len > FRAME_END_MAX))
        abort();
    if (f.end_type != 0)
        hear(h, f.end, f.end_len);
    h->sum = h->sum * 131 + (uint64_t)f.end_type;
    frames_done(&f);
    return r;
}

/* ---- events ---- */

static int on_event(void *data, const char *name, const char *text, size_t len, struct err *err)
{
    struct heard *h = data;

    if (strlen(name) >= EVENT_NAME_MAX || len > EVENT_LINE_MAX || text[len] != '\0')
        abort();
    hear(h, name, strlen(name) + 1);
    hear(h, text, len);
    return strcmp(name, "stop") == 0 ? err_set(err, -ECANCELED, "enough") : 0;
}

static int events(const char *data, size_t size, size_t piece, size_t room, struct heard *h)
{
    struct event_stream s;
    struct err err = ERR_NONE;
    int r = 0;

    (void)room;
    event_stream_begin(&s);
    for (size_t at = 0; r == 0 && at < size; at += piece)
        r = event_stream_feed(&s, data + at, size - at < piece ? size - at : piece, on_event, h,
                              &err);
    if (r < 0 && (err.msg[0] == '\0' || err.code != r))
        abort();
    hear(h, s.id, strlen(s.id));
    event_stream_done(&s);
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct {
        size_t piece, room;
    } ways[] = {{1, SIZE_MAX}, {7, SIZE_MAX}, {64, 3}, {SIZE_MAX, 1}};
    int (*const parse)(const char *, size_t, size_t, size_t, struct heard *) =
        size > 0 && (data[0] & 1) != 0 ? events : frames;
    struct heard whole = {.sum = 0};
    int r;

    if (size == 0)
        return 0;
    data++;
    size--;
    r = parse((const char *)data, size, SIZE_MAX, SIZE_MAX, &whole);
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        struct heard h = {.sum = 0};

        if (parse((const char *)data, size, ways[i].piece, ways[i].room, &h) != r ||
            h.sum != whole.sum || h.count != whole.count)
            abort();
    }
    return 0;
}
