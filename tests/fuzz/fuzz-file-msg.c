/* Any bytes as records and as events: what is taken is within the input, and encodes to itself. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proto/file-msg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t out[FILE_RECORD_HEAD + 2 * FILE_PATH_MAX];
    const uint8_t *at = data, *end = data + size, *before = at;
    struct file_record r;
    struct file_event e;
    int got;

    while ((got = file_next_record(&at, end, &r)) > 0) {
        size_t n = file_put_record(out, &r);

        must(at > before && at <= end && n == (size_t)(at - before));
        must(memcmp(out, before, n) == 0);
        before = at;
    }
    must(got == 0 ? at == end : at == before);
    at = before = data;
    while (file_next_event(&at, end, &e) > 0) {
        size_t n = file_put_event(out, &e);

        must(at > before && at <= end && n == (size_t)(at - before));
        must(memcmp(out, before, n) == 0);
        before = at;
    }
    return 0;
}
