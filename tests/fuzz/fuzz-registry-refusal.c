/*
 * What a registry says: one printable line.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "refusal.h"

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
    char *body = copy(data, size), text[REFUSAL_TEXT_MAX + 1], small[8];

    refusal_text(body, size, text);
    assert(strlen(text) <= REFUSAL_TEXT_MAX);
    for (const char *c = text; *c != '\0'; c++)
        assert((unsigned char)*c >= 0x20 && *c != 0x7f);
    text_for_terminal(body, size, small, sizeof(small));
    assert(strlen(small) < sizeof(small));
    free(body);
    return 0;
}
