/*
 * An answer of a name server to one question.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lookup-message.h"

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
    uint8_t question[LOOKUP_QUESTION_MAX];
    const int len = lookup_write("r.example", LOOKUP_TYPE_A, 0x1234, question);
    struct lookup_answer a = {.count = 0};
    char *bytes = copy(data, size);

    if (lookup_read((const uint8_t *)bytes, size, question, (size_t)len, &a) == 0)
        assert(a.count <= LOOKUP_ADDRESSES_MAX && a.rcode < 16);
    free(bytes);
    return 0;
}
