/* The frames of an exec's stream form: whole and in pieces, and everything that is none. */

#include <errno.h>

#include "api/native/exec-forms.h"
#include "base/err.h"
#include "tap.h"

struct heard {
    char text[512];
    size_t len;
};

static void note(struct heard *h, const char *text, size_t len)
{
    if (h->len + len < sizeof(h->text))
        (void)memcpy(h->text + h->len, text, len);
    h->len += len;
    h->text[h->len] = '\0';
}

static void on_input(void *data, const char *bytes, size_t len)
{
    note(data, bytes, len);
}

static void on_input_end(void *data)
{
    note(data, "<end>", 5);
}

static void on_resize(void *data, uint16_t rows, uint16_t cols)
{
    char text[32];

    note(data, text, (size_t)snprintf(text, sizeof(text), "<%ux%u>", rows, cols));
}

static void on_signal(void *data, int signo)
{
    char text[32];

    note(data, text, (size_t)snprintf(text, sizeof(text), "<sig%d>", signo));
}

static void on_detach(void *data)
{
    note(data, "<detach>", 8);
}

static void on_output_close(void *data, int stream)
{
    char text[32];

    note(data, text, (size_t)snprintf(text, sizeof(text), "<close%d>", stream));
}

static const struct exec_frame_ops ops = {.input = on_input,
                                          .input_end = on_input_end,
                                          .resize = on_resize,
                                          .signal = on_signal,
                                          .detach = on_detach,
                                          .output_close = on_output_close};

/* However the bytes are cut, the same is heard. */
TEST(frames_are_fed_in_any_cut)
{
    static const char bytes[] = "\0\0\0\0\0\0\0\3abc"
                                "\6\0\0\0\0\0\0\4\1\2\0\120"
                                "\0\0\0\0\0\0\0\0"
                                "\7\0\0\0\0\0\0\4TERM"
                                "\7\0\0\0\0\0\0\1"
                                "9"
                                "\0\0\0\0\0\0\0\1x"
                                "\11\0\0\0\0\0\0\1\2"
                                "\5\0\0\0\0\0\0\0"
                                "\10\0\0\0\0\0\0\0";

    for (size_t piece = 1; piece < sizeof(bytes); piece++) {
        struct exec_frames f = {.head_len = 0};
        struct heard h = {.len = 0};
        struct err err = ERR_NONE;

        for (size_t at = 0; at < sizeof(bytes) - 1; at += piece) {
            size_t n = sizeof(bytes) - 1 - at < piece ? sizeof(bytes) - 1 - at : piece;

            CHECK_INT(exec_frames_feed(&f, bytes + at, n, &ops, &h, &err), 0);
        }
        CHECK_STR(err.msg, "");
        CHECK_STR(h.text, "abc<258x80><sig15><sig9>x<close2><end><detach>");
        CHECK_INT(f.head_len, 0);
    }
}

TEST(bad_frames_are_refused)
{
    static const struct {
        const char *bytes;
        size_t len;
        int code;
        const char *message;
    } rows[] = {
        {"\1\0\0\0\0\0\0\0", 8, -EPROTO, "frame: type 1 is none that a client sends"},
        {"\3\0\0\0\0\0\0\0", 8, -EPROTO, "frame: type 3 is none that a client sends"},
        {"\12\0\0\0\0\0\0\0", 8, -EPROTO, "frame: type 10 is none that a client sends"},
        {"\10\0\0\0\0\0\0\1", 8, -EPROTO, "frame: 1 bytes of type 8, not 0 to 0"},
        {"\11\0\0\0\0\0\0\1\3", 9, -EPROTO, "frame: stream 3 has no output"},
        {"\377\0\0\0\0\0\0\0", 8, -EPROTO, "frame: type 255 is none that a client sends"},
        {"\0\0\0\1\0\0\0\0", 8, -EPROTO, "frame: the three bytes behind the type must be zero"},
        {"\0\0\0\0\1\0\0\1", 8, -EPROTO, "frame: 16777217 bytes of type 0, not 0 to 16777216"},
        {"\5\0\0\0\0\0\0\1", 8, -EPROTO, "frame: 1 bytes of type 5, not 0 to 0"},
        {"\6\0\0\0\0\0\0\5", 8, -EPROTO, "frame: 5 bytes of type 6, not 4 to 4"},
        {"\7\0\0\0\0\0\0\0", 8, -EPROTO, "frame: 0 bytes of type 7, not 1 to 32"},
        {"\7\0\0\0\0\0\0\41", 8, -EPROTO, "frame: 33 bytes of type 7, not 1 to 32"},
        {"\7\0\0\0\0\0\0\3A\0B", 11, -EINVAL, "signal: holds a NUL byte"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct exec_frames f = {.head_len = 0};
        struct heard h = {.len = 0};
        struct err err = ERR_NONE;

        CHECK_INT(exec_frames_feed(&f, rows[i].bytes, rows[i].len, &ops, &h, &err), rows[i].code);
        CHECK_STR(err.msg, rows[i].message);
        CHECK_INT(h.len, 0);
    }
}

TEST(a_frame_head_round_trips)
{
    unsigned char head[EXEC_FRAME_HEAD];

    exec_frame_head(head, EXEC_FRAME_STDERR, 0x01020304);
    CHECK(memcmp(head, "\2\0\0\0\1\2\3\4", 8) == 0);
    exec_frame_head(head, EXEC_FRAME_EXIT, 0);
    CHECK(memcmp(head, "\3\0\0\0\0\0\0\0", 8) == 0);
}

TAP_MAIN
