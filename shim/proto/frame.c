#include "proto/frame.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "proto/utf8.h"

/* Limit of a JavaScript Date in ms: the client refuses times beyond it. */
#define DATE_MS_MAX INT64_C(8640000000000000)

enum { PLACE_END = -1, PAYLOAD_CHUNK = 4096 };

static const uint8_t prefix[] = {'S', 'B', 'X', 'F', FRAME_VERSION};

/* ---- little-endian numbers ---- */

static void put_le(uint8_t *out, uint64_t value, size_t size)
{
    for (size_t i = 0; i < size; i++)
        out[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t get_le(const uint8_t *p, size_t size)
{
    uint64_t value = 0;

    for (size_t i = 0; i < size; i++)
        value |= (uint64_t)p[i] << (8 * i);
    return value;
}

/* Two's complement without relying on an out-of-range conversion. */
static int64_t to_signed(uint64_t v)
{
    return v <= INT64_MAX ? (int64_t)v : -(int64_t)(~v) - 1;
}

/* ---- encode ---- */

void frame_put_header(uint8_t out[FRAME_HEADER_SIZE], enum frame_kind kind, uint32_t payload)
{
    memcpy(out, prefix, sizeof(prefix));
    out[5] = (uint8_t)kind;
    put_le(out + 6, payload, 4);
}

int frame_put_error(uint8_t *out, size_t cap, int code, const char *text)
{
    size_t len = strlen(text);

    if (code <= 0)
        return -EINVAL;
    if (len > FRAME_TEXT_MAX || FRAME_HEADER_SIZE + FRAME_CODE_SIZE + len > cap)
        return -EMSGSIZE;
    frame_put_header(out, FRAME_ERROR, (uint32_t)(FRAME_CODE_SIZE + len));
    put_le(out + FRAME_HEADER_SIZE, (uint32_t)code, FRAME_CODE_SIZE);
    /* NOLINTNEXTLINE(bugprone-not-null-terminated-result): the frame's length is its end */
    memcpy(out + FRAME_HEADER_SIZE + FRAME_CODE_SIZE, text, len);
    return (int)(FRAME_HEADER_SIZE + FRAME_CODE_SIZE + len);
}

void frame_put_stat(uint8_t out[FRAME_STAT_SIZE], const struct frame_stat *st)
{
    out[0] = (uint8_t)st->type;
    put_le(out + 1, st->size, 8);
    put_le(out + 9, st->mode, 4);
    put_le(out + 13, st->uid, 4);
    put_le(out + 17, st->gid, 4);
    put_le(out + 21, (uint64_t)st->atime_ms, 8);
    put_le(out + 29, (uint64_t)st->mtime_ms, 8);
    put_le(out + 37, (uint64_t)st->ctime_ms, 8);
}

void frame_put_count(uint8_t out[FRAME_COUNT_SIZE], uint32_t count)
{
    put_le(out, count, FRAME_COUNT_SIZE);
}

size_t frame_put_entry(uint8_t *out, enum frame_type type, const char *name, uint16_t len)
{
    out[0] = (uint8_t)type;
    put_le(out + 1, len, 2);
    memcpy(out + FRAME_ENTRY_HEAD_SIZE, name, len);
    return (size_t)FRAME_ENTRY_HEAD_SIZE + len;
}

/* ---- decode a stream ---- */

/* The allowed sequences as a table: which frame kinds are allowed at a place, and the place that
 * follows. A missing cell is 0, REFUSED; so a following place is stored + 1. */
#define THEN(place) ((place) + 1)
enum { REFUSED = 0, LAST = -1, PLACES = 2, KINDS = 3 };

/* clang-format off */
static const signed char next_place[FRAME_STREAM_MAX][PLACES][KINDS] = {
    [FRAME_STREAM_ACK]      = { { [FRAME_SUCCESS] = LAST,    [FRAME_ERROR] = LAST } },
    [FRAME_STREAM_TRANSFER] = { { [FRAME_SUCCESS] = THEN(1), [FRAME_ERROR] = LAST },
                                { [FRAME_SUCCESS] = LAST,    [FRAME_ERROR] = LAST } },
    [FRAME_STREAM_DATA]     = { { [FRAME_DATA] = LAST,       [FRAME_ERROR] = LAST } },
    [FRAME_STREAM_SESSION]  = { { [FRAME_DATA] = THEN(1),    [FRAME_ERROR] = LAST },
                                { [FRAME_DATA] = THEN(1),    [FRAME_ERROR] = LAST } },
    [FRAME_STREAM_RECORDS]  = { { [FRAME_DATA] = THEN(1),    [FRAME_ERROR] = LAST, [FRAME_SUCCESS] = LAST },
                                { [FRAME_DATA] = THEN(1),    [FRAME_ERROR] = LAST, [FRAME_SUCCESS] = LAST } },
};
/* clang-format on */

void frame_decoder_init(struct frame_decoder *d, enum frame_stream stream, uint32_t max_data)
{
    *d = (struct frame_decoder){.stream = stream, .max_data = max_data};
}

void frame_decoder_done(struct frame_decoder *d)
{
    free(d->payload);
    *d = (struct frame_decoder){.failed = -EPROTO, .why = "the decoder was closed"};
}

static int decoder_fail(struct frame_decoder *d, int code, const char *why)
{
    d->failed = code;
    d->why = why;
    return code;
}

static int decoder_next_place(const struct frame_decoder *d)
{
    return next_place[d->stream][d->place][d->head[5]];
}

/* Checks the header when it is complete, before any payload is stored. */
static int decoder_check_header(struct frame_decoder *d)
{
    uint64_t payload = get_le(d->head + 6, 4);

    if (d->head[5] >= KINDS)
        return decoder_fail(d, -EPROTO, "unknown frame kind");
    if (decoder_next_place(d) == REFUSED)
        return decoder_fail(d, -EPROTO, "a frame of this kind is not expected here");
    if (d->head[5] == FRAME_SUCCESS && payload != 0)
        return decoder_fail(d, -EPROTO, "success frame with a payload");
    if (d->head[5] == FRAME_ERROR && payload < FRAME_CODE_SIZE)
        return decoder_fail(d, -EPROTO, "error frame without an errno");
    if (d->head[5] == FRAME_ERROR && payload > FRAME_CODE_SIZE + FRAME_TEXT_MAX)
        return decoder_fail(d, -EPROTO, "error frame with too long a text");
    if (d->head[5] == FRAME_DATA && payload > d->max_data)
        return decoder_fail(d, -EMSGSIZE, "data frame longer than allowed");
    d->want = (size_t)payload;
    d->have = 0;
    return 0;
}

/* Compares the prefix as it arrives, so that garbage is refused at its first byte. */
static int decoder_eat_header(struct frame_decoder *d, const uint8_t *bytes, size_t len,
                              size_t *used)
{
    while (d->head_len < FRAME_HEADER_SIZE && *used < len) {
        uint8_t byte = bytes[(*used)++];

        if (d->head_len < sizeof(prefix) && byte != prefix[d->head_len])
            return decoder_fail(d, -EPROTO,
                                d->head_len == 4 ? "unknown protocol version" : "not a frame");
        d->head[d->head_len++] = byte;
    }
    return 0;
}

/* Makes room for n more bytes and a NUL. Doubles the buffer, up to the announced length. */
static int decoder_reserve(struct frame_decoder *d, size_t n)
{
    size_t need = d->have + n + 1, cap = d->cap * 2;
    uint8_t *p;

    if (need <= d->cap)
        return 0;
    if (cap > d->want + 1)
        cap = d->want + 1;
    if (cap < PAYLOAD_CHUNK)
        cap = PAYLOAD_CHUNK;
    if (cap < need)
        cap = need;
    p = realloc(d->payload, cap);
    if (p == NULL)
        return decoder_fail(d, -ENOMEM, "out of memory");
    d->payload = p;
    d->cap = cap;
    return 0;
}

static int decoder_eat_payload(struct frame_decoder *d, const uint8_t *bytes, size_t len,
                               size_t *used)
{
    size_t n = d->want - d->have;
    int r;

    if (n > len - *used)
        n = len - *used;
    if (n == 0)
        return 0;
    r = decoder_reserve(d, n);
    if (r < 0)
        return r;
    memcpy(d->payload + d->have, bytes + *used, n);
    d->have += n;
    d->payload[d->have] = '\0';
    *used += n;
    return 0;
}

static int decoder_finish_error(struct frame_decoder *d, struct frame *f)
{
    uint64_t code = get_le(d->payload, FRAME_CODE_SIZE);

    if (code == 0 || code > INT32_MAX)
        return decoder_fail(d, -EPROTO, "error frame whose errno is not positive");
    f->code = (int)code;
    f->text = (const char *)d->payload + FRAME_CODE_SIZE;
    f->text_len = d->want - FRAME_CODE_SIZE;
    if (!utf8_valid(f->text, f->text_len))
        return decoder_fail(d, -EPROTO, "error frame whose text is not UTF-8");
    return 0;
}

static int decoder_finish_frame(struct frame_decoder *d, struct frame *ret)
{
    struct frame f = {.kind = (enum frame_kind)d->head[5]};
    int next = decoder_next_place(d), r;

    if (f.kind == FRAME_ERROR) {
        r = decoder_finish_error(d, &f);
        if (r < 0)
            return r;
    } else if (f.kind == FRAME_DATA) {
        f.data = d->payload != NULL ? d->payload : d->head; /* never NULL, even if empty */
        f.len = d->want;
    }
    d->place = next == LAST ? PLACE_END : next - 1;
    d->head_len = 0;
    *ret = f;
    return 1;
}

int frame_feed(struct frame_decoder *d, const void *bytes, size_t len, size_t *ret_used,
               struct frame *ret)
{
    int r;

    *ret_used = 0;
    if (d->failed < 0)
        return d->failed;
    if (len == 0)
        return 0;
    if (d->place == PLACE_END)
        return decoder_fail(d, -EPROTO, "bytes behind the last frame");
    if (d->head_len < FRAME_HEADER_SIZE) {
        r = decoder_eat_header(d, bytes, len, ret_used);
        if (r < 0 || d->head_len < FRAME_HEADER_SIZE)
            return r;
        r = decoder_check_header(d);
        if (r < 0)
            return r;
    }
    r = decoder_eat_payload(d, bytes, len, ret_used);
    if (r < 0 || d->have < d->want)
        return r;
    return decoder_finish_frame(d, ret);
}

int frame_eof(struct frame_decoder *d)
{
    if (d->failed < 0)
        return d->failed;
    if (d->head_len > 0)
        return decoder_fail(d, -EPROTO, "the stream ended inside a frame");
    if (d->place == 0)
        return decoder_fail(d, -EPROTO, "the stream ended before the first frame");
    if (d->place > 0 && d->stream != FRAME_STREAM_SESSION)
        return decoder_fail(d, -EPROTO, "the stream ended before the last frame");
    return 0;
}

/* ---- decode payloads ---- */

static int payload_refuse(const char **reterr_why, const char *why)
{
    *reterr_why = why;
    return -EPROTO;
}

static bool stat_date_ok(int64_t ms)
{
    return ms >= -DATE_MS_MAX && ms <= DATE_MS_MAX;
}

int frame_get_stat(const void *payload, size_t len, struct frame_stat *ret, const char **reterr_why)
{
    const uint8_t *p = payload;
    struct frame_stat st;

    if (len != FRAME_STAT_SIZE)
        return payload_refuse(reterr_why, "stat payload is not 45 bytes long");
    if (p[0] > FRAME_TYPE_SOCKET)
        return payload_refuse(reterr_why, "stat payload with an unknown type");
    st = (struct frame_stat){
        .type = (enum frame_type)p[0],
        .size = get_le(p + 1, 8),
        .mode = (uint32_t)get_le(p + 9, 4),
        .uid = (uint32_t)get_le(p + 13, 4),
        .gid = (uint32_t)get_le(p + 17, 4),
        .atime_ms = to_signed(get_le(p + 21, 8)),
        .mtime_ms = to_signed(get_le(p + 29, 8)),
        .ctime_ms = to_signed(get_le(p + 37, 8)),
    };
    if (!stat_date_ok(st.atime_ms) || !stat_date_ok(st.mtime_ms) || !stat_date_ok(st.ctime_ms))
        return payload_refuse(reterr_why, "stat payload with a time out of range");
    *ret = st;
    return 0;
}

/* No directory has such names, and joined to a path they could lead out of it. */
static bool entry_name_ok(const char *name, size_t len)
{
    if (len == 0 || memchr(name, '/', len) != NULL || memchr(name, '\0', len) != NULL)
        return false;
    return !(name[0] == '.' && (len == 1 || (len == 2 && name[1] == '.')));
}

static const char *check_entry(const uint8_t *p, size_t left, size_t *ret_size)
{
    size_t len;

    if (left < FRAME_ENTRY_HEAD_SIZE)
        return "directory listing is cut off";
    len = (size_t)get_le(p + 1, 2);
    if (p[0] > FRAME_TYPE_SOCKET)
        return "directory entry with an unknown type";
    if (len > left - FRAME_ENTRY_HEAD_SIZE)
        return "directory listing is cut off";
    if (!entry_name_ok((const char *)p + FRAME_ENTRY_HEAD_SIZE, len))
        return "directory entry with an impossible name";
    if (!utf8_valid(p + FRAME_ENTRY_HEAD_SIZE, len))
        return "directory entry whose name is not UTF-8";
    *ret_size = FRAME_ENTRY_HEAD_SIZE + len;
    return NULL;
}

int frame_get_listing(const void *payload, size_t len, struct frame_listing *ret,
                      const char **reterr_why)
{
    const uint8_t *p = payload, *end;
    uint32_t count;

    if (len < FRAME_COUNT_SIZE)
        return payload_refuse(reterr_why, "directory listing without a count");
    end = p + len;
    count = (uint32_t)get_le(p, FRAME_COUNT_SIZE);
    p += FRAME_COUNT_SIZE;
    for (uint32_t i = 0; i < count; i++) {
        size_t size = 0;
        const char *why = check_entry(p, (size_t)(end - p), &size);

        if (why != NULL)
            return payload_refuse(reterr_why, why);
        p += size;
    }
    if (p != end)
        return payload_refuse(reterr_why, "bytes behind the last directory entry");
    *ret = (struct frame_listing){
        .count = count,
        .at = (const uint8_t *)payload + FRAME_COUNT_SIZE,
        .end = end,
    };
    return 0;
}

bool frame_listing_next(struct frame_listing *l, struct frame_entry *ret)
{
    uint16_t len;

    if (l->count == 0)
        return false;
    len = (uint16_t)get_le(l->at + 1, 2);
    *ret = (struct frame_entry){
        .type = (enum frame_type)l->at[0],
        .len = len,
        .name = (const char *)l->at + FRAME_ENTRY_HEAD_SIZE,
    };
    l->at += FRAME_ENTRY_HEAD_SIZE + len;
    l->count--;
    return true;
}
