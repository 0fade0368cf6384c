#include <errno.h>
#include <stdint.h>

#include "proto/frame.h"
#include "proto/utf8.h"
#include "tap.h"

#define MAGIC   "SBXF\x01"
#define SUCCESS MAGIC "\x00\x00\x00\x00\x00"

enum { MAX_DATA = 100000 };

/* What comes of feeding bytes, cut into pieces of `step` bytes. */
struct outcome {
    int r; /* of the last call */
    int frames;
    int eof;
    const char *why;
    struct frame last;
    char text[64];
};

static struct outcome feed(enum frame_stream stream, const void *bytes, size_t len, size_t step)
{
    struct outcome o = {.r = 0};
    struct frame_decoder d;
    const uint8_t *p = bytes;

    frame_decoder_init(&d, stream, MAX_DATA);
    while (len > 0 && o.r >= 0) {
        size_t n = len < step ? len : step, used = 0;

        o.r = frame_feed(&d, p, n, &used, &o.last);
        if (o.r == 1) {
            o.frames++;
            if (o.last.text != NULL)
                (void)snprintf(o.text, sizeof(o.text), "%s", o.last.text);
        }
        p += used;
        len -= used;
        if (o.r == 0 && used != n)
            tap_fail("%zu of %zu bytes used without a frame", used, n);
    }
    o.eof = frame_eof(&d);
    o.why = d.why;
    o.last.text = NULL; /* it goes with the decoder */
    o.last.data = NULL;
    frame_decoder_done(&d);
    return o;
}

#define BYTES(s) (s), sizeof(s) - 1

TEST(encodes_what_the_specification_shows)
{
    uint8_t out[64], want[] = {'S', 'B', 'X', 'F', 1, 0, 0, 0, 0, 0};
    const uint8_t error[] = {'S', 'B', 'X', 'F', 1, 1, 8, 0, 0, 0, 2, 0, 0, 0, 'g', 'o', 'n', 'e'};

    frame_put_header(out, FRAME_SUCCESS, 0);
    CHECK(memcmp(out, want, sizeof(want)) == 0);
    frame_put_header(out, FRAME_DATA, 0x80000102);
    CHECK(memcmp(out + 5, "\x02\x02\x01\x00\x80", 5) == 0);
    CHECK_INT(frame_put_error(out, sizeof(out), ENOENT, "gone"), sizeof(error));
    CHECK(memcmp(out, error, sizeof(error)) == 0);
}

TEST(refuses_to_encode_what_the_client_would_refuse)
{
    static uint8_t big[FRAME_TEXT_MAX + 64];
    static char text[FRAME_TEXT_MAX + 2];
    uint8_t out[20];

    CHECK_INT(frame_put_error(out, sizeof(out), 0, ""), -EINVAL);
    CHECK_INT(frame_put_error(out, sizeof(out), -2, ""), -EINVAL);
    CHECK_INT(frame_put_error(out, 13, 2, ""), -EMSGSIZE);
    CHECK_INT(frame_put_error(out, 14, 2, ""), 14);
    CHECK_INT(frame_put_error(out, sizeof(out), 2, "1234567"), -EMSGSIZE);
    memset(text, 'x', sizeof(text) - 1);
    CHECK_INT(frame_put_error(big, sizeof(big), 2, text), -EMSGSIZE);
    text[FRAME_TEXT_MAX] = '\0';
    CHECK_INT(frame_put_error(big, sizeof(big), 2, text), 14 + FRAME_TEXT_MAX);
}

/* Every row is fed in one piece, in single bytes and in pieces of 7. */
struct stream_row {
    const char *name;
    enum frame_stream stream;
    const char *bytes;
    size_t len;
    int r, frames, eof;
    const char *why;
};

#define ERR(n, code, text) MAGIC "\x01" n "\x00\x00\x00" code "\x00\x00\x00" text
#define DATA2              MAGIC "\x02\x02\x00\x00\x00hi"

/* clang-format off */
static const struct stream_row stream_rows[] = {
    { "ack", FRAME_STREAM_ACK, BYTES(SUCCESS), 1, 1, 0, NULL },
    { "ack error", FRAME_STREAM_ACK, BYTES(ERR("\x08", "\x02", "gone")), 1, 1, 0, NULL },
    { "ack, empty text", FRAME_STREAM_ACK, BYTES(ERR("\x04", "\x02", "")), 1, 1, 0, NULL },
    { "transfer", FRAME_STREAM_TRANSFER, BYTES(SUCCESS SUCCESS), 1, 2, 0, NULL },
    { "transfer, late error", FRAME_STREAM_TRANSFER, BYTES(SUCCESS ERR("\x06", "\x1c", "no")), 1, 2, 0, NULL },
    { "transfer, early error", FRAME_STREAM_TRANSFER, BYTES(ERR("\x06", "\x02", "no")), 1, 1, 0, NULL },
    { "data", FRAME_STREAM_DATA, BYTES(DATA2), 1, 1, 0, NULL },
    { "data error", FRAME_STREAM_DATA, BYTES(ERR("\x06", "\x02", "no")), 1, 1, 0, NULL },
    { "session", FRAME_STREAM_SESSION, BYTES(DATA2 DATA2 DATA2), 1, 3, 0, NULL },
    { "session, error last", FRAME_STREAM_SESSION, BYTES(DATA2 ERR("\x06", "\x02", "no")), 1, 2, 0, NULL },
    { "records", FRAME_STREAM_RECORDS, BYTES(DATA2 DATA2 SUCCESS), 1, 3, 0, NULL },
    { "no records", FRAME_STREAM_RECORDS, BYTES(SUCCESS), 1, 1, 0, NULL },
    { "records, error last", FRAME_STREAM_RECORDS, BYTES(DATA2 ERR("\x06", "\x02", "no")), 1, 2, 0, NULL },
    { "records without an end", FRAME_STREAM_RECORDS, BYTES(DATA2), 1, 1, -EPROTO,
      "the stream ended before the last frame" },
    { "records behind the end", FRAME_STREAM_RECORDS, BYTES(DATA2 SUCCESS DATA2), -EPROTO, 2, -EPROTO,
      "bytes behind the last frame" },

    { "nothing", FRAME_STREAM_ACK, BYTES(""), 0, 0, -EPROTO, "the stream ended before the first frame" },
    { "half a header", FRAME_STREAM_ACK, BYTES("SBXF\x01\x00"), 0, 0, -EPROTO, "the stream ended inside a frame" },
    { "half a payload", FRAME_STREAM_DATA, BYTES(MAGIC "\x02\x02\x00\x00\x00h"), 0, 0, -EPROTO,
      "the stream ended inside a frame" },
    { "one frame missing", FRAME_STREAM_TRANSFER, BYTES(SUCCESS), 1, 1, -EPROTO,
      "the stream ended before the last frame" },
    { "one frame too many", FRAME_STREAM_ACK, BYTES(SUCCESS SUCCESS), -EPROTO, 1, -EPROTO,
      "bytes behind the last frame" },
    { "one byte too many", FRAME_STREAM_TRANSFER, BYTES(SUCCESS SUCCESS "\n"), -EPROTO, 2, -EPROTO,
      "bytes behind the last frame" },
    { "bytes behind an error", FRAME_STREAM_SESSION, BYTES(ERR("\x06", "\x02", "no") DATA2), -EPROTO, 1, -EPROTO,
      "bytes behind the last frame" },
    { "text instead", FRAME_STREAM_ACK, BYTES("sh: sandbox-shim: not found\n"), -EPROTO, 0, -EPROTO, "not a frame" },
    { "magic in lower case", FRAME_STREAM_ACK, BYTES("SBXf"), -EPROTO, 0, -EPROTO, "not a frame" },
    { "version 0", FRAME_STREAM_ACK, BYTES("SBXF\x00"), -EPROTO, 0, -EPROTO, "unknown protocol version" },
    { "version 2", FRAME_STREAM_ACK, BYTES("SBXF\x02"), -EPROTO, 0, -EPROTO, "unknown protocol version" },
    { "kind 3", FRAME_STREAM_ACK, BYTES(MAGIC "\x03\x00\x00\x00\x00"), -EPROTO, 0, -EPROTO, "unknown frame kind" },
    { "kind 255", FRAME_STREAM_ACK, BYTES(MAGIC "\xff\x00\x00\x00\x00"), -EPROTO, 0, -EPROTO, "unknown frame kind" },
    { "data as an ack", FRAME_STREAM_ACK, BYTES(DATA2), -EPROTO, 0, -EPROTO,
      "a frame of this kind is not expected here" },
    { "success as data", FRAME_STREAM_DATA, BYTES(SUCCESS), -EPROTO, 0, -EPROTO,
      "a frame of this kind is not expected here" },
    { "success in a session", FRAME_STREAM_SESSION, BYTES(DATA2 SUCCESS), -EPROTO, 1, -EPROTO,
      "a frame of this kind is not expected here" },
    { "data in a transfer", FRAME_STREAM_TRANSFER, BYTES(SUCCESS DATA2), -EPROTO, 1, -EPROTO,
      "a frame of this kind is not expected here" },
    { "success with payload", FRAME_STREAM_ACK, BYTES(MAGIC "\x00\x01\x00\x00\x00x"), -EPROTO, 0, -EPROTO,
      "success frame with a payload" },
    { "error of 3 bytes", FRAME_STREAM_ACK, BYTES(MAGIC "\x01\x03\x00\x00\x00\x02\x00\x00"), -EPROTO, 0, -EPROTO,
      "error frame without an errno" },
    { "error too long", FRAME_STREAM_ACK, BYTES(MAGIC "\x01\x05\x00\x01\x00"), -EPROTO, 0, -EPROTO,
      "error frame with too long a text" },
    { "errno 0", FRAME_STREAM_ACK, BYTES(ERR("\x04", "\x00", "")), -EPROTO, 0, -EPROTO,
      "error frame whose errno is not positive" },
    { "errno -1", FRAME_STREAM_ACK, BYTES(MAGIC "\x01\x04\x00\x00\x00\xff\xff\xff\xff"), -EPROTO, 0, -EPROTO,
      "error frame whose errno is not positive" },
    { "errno INT_MIN", FRAME_STREAM_ACK, BYTES(MAGIC "\x01\x04\x00\x00\x00\x00\x00\x00\x80"), -EPROTO, 0, -EPROTO,
      "error frame whose errno is not positive" },
    { "errno INT_MAX", FRAME_STREAM_ACK, BYTES(MAGIC "\x01\x04\x00\x00\x00\xff\xff\xff\x7f"), 1, 1, 0, NULL },
    { "text not UTF-8", FRAME_STREAM_ACK, BYTES(ERR("\x06", "\x02", "a\xff")), -EPROTO, 0, -EPROTO,
      "error frame whose text is not UTF-8" },
    { "data too long", FRAME_STREAM_DATA, BYTES(MAGIC "\x02\xa1\x86\x01\x00"), -EMSGSIZE, 0, -EMSGSIZE,
      "data frame longer than allowed" },
    { "data of 4 GiB", FRAME_STREAM_DATA, BYTES(MAGIC "\x02\xff\xff\xff\xff"), -EMSGSIZE, 0, -EMSGSIZE,
      "data frame longer than allowed" },
};
/* clang-format on */

static void check_stream(const struct stream_row *row, size_t step)
{
    struct outcome o = feed(row->stream, row->bytes, row->len, step);

    if (row->len > 0 && o.r != row->r && !(o.r == 0 && row->r == 1))
        tap_fail("%s, step %zu: returns %d, want %d", row->name, step, o.r, row->r);
    if (o.frames != row->frames || o.eof != row->eof)
        tap_fail("%s, step %zu: %d frames and %d at the end, want %d and %d", row->name, step,
                 o.frames, o.eof, row->frames, row->eof);
    if ((o.why == NULL) != (row->why == NULL) ||
        (o.why != NULL && row->why != NULL && strcmp(o.why, row->why) != 0))
        tap_fail("%s, step %zu: \"%s\", want \"%s\"", row->name, step, o.why ? o.why : "(none)",
                 row->why ? row->why : "(none)");
}

TEST(frames_of_both_streams_are_told_apart)
{
    for (size_t i = 0; i < sizeof(stream_rows) / sizeof(stream_rows[0]); i++) {
        check_stream(&stream_rows[i], 1);
        check_stream(&stream_rows[i], 7);
        check_stream(&stream_rows[i], 1000);
    }
}

TEST(errors_arrive_whole)
{
    static char text[FRAME_TEXT_MAX + 1];
    static uint8_t frame[FRAME_TEXT_MAX + 64];
    struct outcome o = feed(FRAME_STREAM_ACK, BYTES(ERR("\x08", "\x27", "full")), 3);
    int n;

    CHECK_INT(o.last.code, ENOTEMPTY);
    CHECK_INT(o.last.text_len, 4);
    CHECK_STR(o.text, "full");

    memset(text, 'y', FRAME_TEXT_MAX);
    n = frame_put_error(frame, sizeof(frame), EIO, text);
    o = feed(FRAME_STREAM_ACK, frame, (size_t)n, 1000);
    CHECK_INT(o.frames, 1);
    CHECK_INT(o.last.text_len, FRAME_TEXT_MAX);
}

TEST(an_error_is_final)
{
    struct frame_decoder d;
    struct frame f;
    size_t used;

    frame_decoder_init(&d, FRAME_STREAM_ACK, 0);
    CHECK_INT(frame_feed(&d, "x", 1, &used, &f), -EPROTO);
    CHECK_INT(frame_feed(&d, BYTES(SUCCESS), &used, &f), -EPROTO);
    CHECK_INT(frame_eof(&d), -EPROTO);
    frame_decoder_done(&d);
    CHECK_INT(frame_feed(&d, BYTES(SUCCESS), &used, &f), -EPROTO);
}

/* A header may announce 4 GiB: memory is taken for what has come. */
TEST(memory_follows_the_bytes)
{
    struct frame_decoder d;
    struct frame f;
    size_t used;

    frame_decoder_init(&d, FRAME_STREAM_DATA, UINT32_MAX);
    CHECK_INT(frame_feed(&d, BYTES(MAGIC "\x02\xff\xff\xff\xff"), &used, &f), 0);
    CHECK_INT(frame_feed(&d, "abc", 3, &used, &f), 0);
    CHECK(d.cap <= 65536);
    frame_decoder_done(&d);
}

TEST(data_of_several_frames_is_kept_apart)
{
    static const char two[] = MAGIC "\x02\x03\x00\x00\x00"
                                    "abc" MAGIC "\x02\x00\x00\x00\x00";
    struct frame_decoder d;
    struct frame f;
    size_t used;

    frame_decoder_init(&d, FRAME_STREAM_SESSION, 16);
    CHECK_INT(frame_feed(&d, BYTES(two), &used, &f), 1);
    CHECK_INT(used, 13);
    CHECK_INT(f.len, 3);
    CHECK(memcmp(f.data, "abc", 3) == 0);
    CHECK_INT(frame_feed(&d, two + 13, sizeof(two) - 1 - 13, &used, &f), 1);
    CHECK_INT(f.len, 0);
    CHECK_INT(frame_eof(&d), 0);
    frame_decoder_done(&d);
}

struct stat_row {
    struct frame_stat st;
    const char *bytes;
};

static const struct stat_row stat_rows[] = {
    {{.type = FRAME_TYPE_SOCKET,
      .size = UINT64_MAX,
      .mode = UINT32_MAX,
      .uid = UINT32_MAX,
      .gid = 1,
      .atime_ms = INT64_C(8640000000000000),
      .mtime_ms = INT64_C(-8640000000000000),
      .ctime_ms = -1},
     "\x06"
     "\xff\xff\xff\xff\xff\xff\xff\xff"
     "\xff\xff\xff\xff"
     "\xff\xff\xff\xff"
     "\x01\x00\x00\x00"
     "\x00\x00\xdc\xc2\x08\xb2\x1e\x00"
     "\x00\x00\x24\x3d\xf7\x4d\xe1\xff"
     "\xff\xff\xff\xff\xff\xff\xff\xff"},
    {{.type = FRAME_TYPE_DIR, .mode = 040755, .size = 4096, .atime_ms = 1, .mtime_ms = -1500},
     "\x01"
     "\x00\x10\x00\x00\x00\x00\x00\x00"
     "\xed\x41\x00\x00"
     "\x00\x00\x00\x00"
     "\x00\x00\x00\x00"
     "\x01\x00\x00\x00\x00\x00\x00\x00"
     "\x24\xfa\xff\xff\xff\xff\xff\xff"
     "\x00\x00\x00\x00\x00\x00\x00\x00"},
};

TEST(a_stat_payload_has_its_45_bytes)
{
    for (size_t i = 0; i < sizeof(stat_rows) / sizeof(stat_rows[0]); i++) {
        uint8_t payload[FRAME_STAT_SIZE];

        frame_put_stat(payload, &stat_rows[i].st);
        if (memcmp(payload, stat_rows[i].bytes, sizeof(payload)) != 0)
            tap_fail("row %zu: other bytes", i);
    }
}

TEST(a_listing_has_a_count_and_its_entries)
{
    static const char want[] = "\3\0\0\0"
                               "\1\3\0usr"
                               "\2\3\0..."
                               "\0\5\0\xf0\x9f\xa6\x80\n";
    uint8_t payload[128];
    size_t n = FRAME_COUNT_SIZE;

    frame_put_count(payload, 3);
    n += frame_put_entry(payload + n, FRAME_TYPE_DIR, "usr", 3);
    n += frame_put_entry(payload + n, FRAME_TYPE_SYMLINK, "...", 3);
    n += frame_put_entry(payload + n, FRAME_TYPE_FILE, "\xf0\x9f\xa6\x80\n", 5);
    CHECK_INT(n, sizeof(want) - 1);
    CHECK(memcmp(payload, want, n) == 0);
}

struct utf8_row {
    const char *bytes;
    bool valid;
};

/* clang-format off */
static const struct utf8_row utf8_rows[] = {
    { "", true }, { "abcdefghijklmnop", true }, { "\x7f", true }, { "\xc2\x80", true }, { "\xdf\xbf", true },
    { "\xe0\xa0\x80", true }, { "\xed\x9f\xbf", true }, { "\xee\x80\x80", true }, { "\xef\xbf\xbf", true },
    { "\xf0\x90\x80\x80", true }, { "\xf4\x8f\xbf\xbf", true }, { "abcdefg\xc3\xa9hijklmnopq\xe2\x82\xac", true },
    { "\x80", false }, { "\xbf", false }, { "\xc0\x80", false }, { "\xc1\xbf", false }, { "\xc2", false },
    { "\xc2\x41", false }, { "\xe0\x9f\xbf", false }, { "\xe2\x82", false }, { "\xe2\x82\x41", false },
    { "\xed\xa0\x80", false }, { "\xed\xbf\xbf", false }, { "\xf0\x8f\xbf\xbf", false }, { "\xf0\x90\x80", false },
    { "\xf4\x90\x80\x80", false }, { "\xf5\x80\x80\x80", false }, { "\xf8\x88\x80\x80\x80", false },
    { "\xfe", false }, { "\xff", false }, { "abcdefgh\xff", false }, { "abcdefg\xff", false },
};
/* clang-format on */

TEST(text_that_is_no_utf8_is_refused)
{
    for (size_t i = 0; i < sizeof(utf8_rows) / sizeof(utf8_rows[0]); i++)
        if (utf8_valid(utf8_rows[i].bytes, strlen(utf8_rows[i].bytes)) != utf8_rows[i].valid)
            tap_fail("row %zu is not %svalid", i, utf8_rows[i].valid ? "" : "in");
    CHECK(utf8_valid("a\0b", 3));
}

/* All code points, and all that their encodings are not. */
TEST(utf8_every_code_point)
{
    for (uint32_t c = 0x800; c < 0x10000; c++) {
        char s[3] = {(char)(0xe0 | c >> 12), (char)(0x80 | (c >> 6 & 63)), (char)(0x80 | (c & 63))};

        if (utf8_valid(s, 3) != (c < 0xd800 || c > 0xdfff))
            tap_fail("U+%04X is judged wrongly", (unsigned)c);
    }
    for (uint32_t c = 0; c < 0x200000; c++) {
        char s[4] = {(char)(0xf0 | c >> 18), (char)(0x80 | (c >> 12 & 63)),
                     (char)(0x80 | (c >> 6 & 63)), (char)(0x80 | (c & 63))};

        if (utf8_valid(s, 4) != (c >= 0x10000 && c <= 0x10ffff))
            tap_fail("U+%06X in four bytes is judged wrongly", (unsigned)c);
    }
}

TAP_MAIN
