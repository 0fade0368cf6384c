/* http/websocket.c: the handshake, our heads, and what hostile clients may send. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "http/websocket.h"
#include "tap.h"

/* What a reader has said. */
struct heard {
    char data[300000];
    size_t len;
    char controls[64]; /* "P" ping, "p" pong, "C" close, each with its payload */
    bool stop_at_close;
};

static bool hear_data(void *data, const char *bytes, size_t len)
{
    struct heard *h = data;

    (void)memcpy(h->data + h->len, bytes, len);
    h->len += len;
    return true;
}

static bool hear_control(void *data, enum ws_opcode op, const char *bytes, size_t len)
{
    struct heard *h = data;
    const size_t at = strlen(h->controls);

    if (at + len + 2 < sizeof(h->controls)) {
        h->controls[at] = op == WS_PING ? 'P' : op == WS_PONG ? 'p' : 'C';
        (void)memcpy(h->controls + at + 1, bytes, len);
        h->controls[at + 1 + len] = '\0';
    }
    return op != WS_CLOSE;
}

static const struct ws_events events = {hear_data, hear_control};

/* Appends a client's frame; first: FIN and opcode. */
static size_t put_frame(char *out, unsigned first, const char *payload, size_t len)
{
    static const unsigned char mask[4] = {0x12, 0x34, 0x56, 0x78};
    unsigned char head[WS_HEAD_MAX];
    size_t n = ws_head(WS_BINARY, len, head);

    head[0] = (unsigned char)first;
    head[1] |= 0x80;
    (void)memcpy(out, head, n);
    (void)memcpy(out + n, mask, 4);
    n += 4;
    for (size_t i = 0; i < len; i++)
        out[n + i] = (char)((unsigned char)payload[i] ^ mask[i & 3]);
    return n + len;
}

TEST(the_answer_to_a_key)
{
    char accept[WS_ACCEPT_LEN + 1];

    ws_accept("dGhlIHNhbXBsZSBub25jZQ==", accept); /* RFC 6455, 1.3 */
    CHECK_STR(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    CHECK(ws_key_ok("dGhlIHNhbXBsZSBub25jZQ=="));
    CHECK(!ws_key_ok(""));
    CHECK(!ws_key_ok("dGhlIHNhbXBsZSBub25jZQ="));
    CHECK(!ws_key_ok("dGhlIHNhbXBsZSBub25jZQ===="));
    CHECK(!ws_key_ok("dGhlIHNhbXBsZSBub25j\r\n=="));
}

TEST(heads_of_every_size)
{
    static const struct {
        uint64_t len;
        size_t size;
        unsigned char bytes[WS_HEAD_MAX];
    } rows[] = {{0, 2, {0x82, 0}},
                {125, 2, {0x82, 125}},
                {126, 4, {0x82, 126, 0, 126}},
                {65535, 4, {0x82, 126, 0xff, 0xff}},
                {65536, 10, {0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0}}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        unsigned char head[WS_HEAD_MAX];

        CHECK_INT(ws_head(WS_BINARY, rows[i].len, head), (long long)rows[i].size);
        CHECK(memcmp(head, rows[i].bytes, rows[i].size) == 0);
    }
}

/* A message in two frames with a ping between them, an empty one, a long one, a close. */
static size_t whole_stream(char *out, char *expected, size_t *ret_len)
{
    static char big[70000];
    size_t n = 0, len = 0;

    for (size_t i = 0; i < sizeof(big); i++)
        big[i] = (char)(i * 7);
    n += put_frame(out + n, 0x01, "one ", 4);
    n += put_frame(out + n, 0x89, "hi", 2);
    n += put_frame(out + n, 0x80, "two", 3);
    n += put_frame(out + n, 0x82, "", 0);
    n += put_frame(out + n, 0x8a, "", 0);
    n += put_frame(out + n, 0x82, big, sizeof(big));
    (void)memcpy(expected, "one two", 7);
    len = 7;
    (void)memcpy(expected + len, big, sizeof(big));
    *ret_len = len + sizeof(big);
    return n + put_frame(out + n, 0x88, "\x03\xe8", 2);
}

TEST(frames_in_pieces_of_every_size)
{
    static char stream[80000], copy[80000], expected[80000];
    static struct heard h;
    static const size_t pieces[] = {1, 2, 3, 5, 7, 13, 125, 4096, sizeof(stream)};
    size_t len, n = whole_stream(stream, expected, &len);

    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
        struct ws_reader r = {.head_len = 0};
        struct err err = ERR_NONE;
        int e = 0;

        (void)memset(&h, 0, sizeof(h));
        (void)memcpy(copy, stream, n);
        for (size_t at = 0; at < n && e == 0; at += pieces[i])
            e = ws_read(&r, copy + at, n - at < pieces[i] ? n - at : pieces[i], &events, &h, &err);
        CHECK_INT(e, 1);
        CHECK_STR(err.msg, "");
        CHECK_INT(h.len, (long long)len);
        CHECK(memcmp(h.data, expected, len) == 0);
        CHECK_STR(h.controls, "PhipC\x03\xe8");
    }
}

TEST(a_frame_that_ends_with_the_piece_is_told_at_once)
{
    struct ws_reader r = {.head_len = 0};
    static struct heard h;
    struct err err = ERR_NONE;
    char frame[32];
    size_t n = put_frame(frame, 0x89, "", 0);

    (void)memset(&h, 0, sizeof(h));
    CHECK_INT(ws_read(&r, frame, n, &events, &h, &err), 0);
    CHECK_STR(h.controls, "P");
    n = put_frame(frame, 0x88, "", 0);
    CHECK_INT(ws_read(&r, frame, n, &events, &h, &err), 1);
    CHECK_STR(h.controls, "PC");
}

TEST(what_no_client_sends_is_refused)
{
    static const struct {
        const char *bytes;
        size_t len;
        const char *message;
    } rows[] = {
        {"\x82\x01"
         "x",
         3, "websocket: a client's frame without a mask"},
        {"\xc2\x81", 2, "websocket: a frame with reserved bits"},
        {"\x92\x81", 2, "websocket: a frame with reserved bits"},
        {"\x83\x81", 2, "websocket: unknown opcode 3"},
        {"\x87\x81", 2, "websocket: unknown opcode 7"},
        {"\x8b\x81", 2, "websocket: unknown opcode 11"},
        {"\x80\x81", 2, "websocket: the rest of no message"},
        {"\x09\x80", 2, "websocket: a control frame in parts, or too long"},
        {"\x89\xfe", 2, "websocket: a control frame in parts, or too long"},
        {"\x88\xff", 2, "websocket: a control frame in parts, or too long"},
        {"\x02\x80\0\0\0\0\x82\x80", 8, "websocket: a message within a message"},
        {"\x82\xff\x80\0\0\0\0\0\0\0\0\0\0\0", 14, "websocket: a frame of more than 2^63 bytes"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct ws_reader r = {.head_len = 0};
        static struct heard h;
        struct err err = ERR_NONE;
        char copy[32];

        (void)memset(&h, 0, sizeof(h));
        (void)memcpy(copy, rows[i].bytes, rows[i].len);
        CHECK_INT(ws_read(&r, copy, rows[i].len, &events, &h, &err), -EPROTO);
        CHECK_STR(err.msg, rows[i].message);
        CHECK_INT(h.len, 0);
    }
}

/* Any bytes: no read ends with more data than it was given. */
TEST(noise)
{
    unsigned seed = 12345;

    for (int round = 0; round < 20000; round++) {
        struct ws_reader r = {.head_len = 0};
        static struct heard h;
        struct err err = ERR_NONE;
        char bytes[64];

        h.len = 0;
        h.controls[0] = '\0';
        for (size_t i = 0; i < sizeof(bytes); i++) {
            seed = seed * 1103515245 + 12345;
            bytes[i] = (char)(seed >> 16);
        }
        bytes[0] = (char)(0x80 | (bytes[0] & 0x0a)); /* often a valid first byte */
        bytes[1] = (char)(0x80 | bytes[1]);
        (void)ws_read(&r, bytes, sizeof(bytes), &events, &h, &err);
        CHECK(h.len <= sizeof(bytes));
    }
}

TAP_MAIN
