/* Frames of an exec's stream: however the bytes are cut, the same is heard, and a refusal has
 * words. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/native/exec-forms.h"
#include "base/err.h"

/* What was heard, as a sum: input is input however it is cut. */
struct heard {
    uint64_t sum, inputs, others;
};

static void on_input(void *data, const char *bytes, size_t len)
{
    struct heard *h = data;

    for (size_t i = 0; i < len; i++)
        h->sum = h->sum * 31 + (unsigned char)bytes[i];
    h->inputs += len;
}

static void other(struct heard *h, uint64_t what)
{
    h->sum = h->sum * 131 + what;
    h->others++;
}

static void on_input_end(void *data)
{
    other(data, 1);
}

static void on_resize(void *data, uint16_t rows, uint16_t cols)
{
    other(data, 2 + ((uint64_t)rows << 16 | cols));
}

static void on_signal(void *data, int signo)
{
    if (signo < 1 || signo > 64)
        abort();
    other(data, 3 + (uint64_t)signo);
}

static void on_detach(void *data)
{
    other(data, 200);
}

static void on_output_close(void *data, int stream)
{
    if (stream != 1 && stream != 2)
        abort();
    other(data, 300 + (uint64_t)stream);
}

static const struct exec_frame_ops ops = {.input = on_input,
                                          .input_end = on_input_end,
                                          .resize = on_resize,
                                          .signal = on_signal,
                                          .detach = on_detach,
                                          .output_close = on_output_close};

static int feed(const uint8_t *data, size_t size, size_t piece, struct heard *h)
{
    struct exec_frames f = {.head_len = 0};
    struct err err = ERR_NONE;

    for (size_t at = 0; at < size; at += piece) {
        int r = exec_frames_feed(&f, (const char *)data + at, size - at < piece ? size - at : piece,
                                 &ops, h, &err);

        if (r < 0) {
            if (err.msg[0] == '\0' || err.code != r)
                abort();
            return r;
        }
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct heard whole = {0}, bytes = {0}, seven = {0};
    int r = feed(data, size, size > 0 ? size : 1, &whole);

    if (feed(data, size, 1, &bytes) != r || feed(data, size, 7, &seven) != r)
        abort();
    if (memcmp(&whole, &bytes, sizeof(whole)) != 0 || memcmp(&whole, &seven, sizeof(whole)) != 0)
        abort();
    return 0;
}
