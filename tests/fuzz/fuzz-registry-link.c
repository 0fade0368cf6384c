/*
 * Link: the next page is a part of the header, and fits.
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
    char *text = copy(data, size), next[64];

    if (header_link_next(text, next, sizeof(next)))
        assert(strlen(next) < sizeof(next) && strstr(text, next) != NULL);
    header_media_type(text, next, 16);
    assert(strlen(next) < 16);
    free(text);
    return 0;
}
