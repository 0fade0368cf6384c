/*
 * Content-Range and Retry-After.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "header.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A copy of its own size, so that a read past the end is seen. */
static char *copy(const uint8_t *data, size_t len)
{
    char *text = malloc(len + 1);

    assert(text != NULL);
    if (len > 0)
        (void)memcpy(text, data, len);
    text[len] = '\0';
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = copy(data, size);
    int64_t first, last, total, wait;

    if (header_content_range(text, &first, &last, &total))
        assert(first >= 0 && last >= first && (total == -1 || total > last));
    wait = header_retry_after(text, 784111777);
    assert(wait >= 0 || wait == -22);
    free(text);
    return 0;
}
