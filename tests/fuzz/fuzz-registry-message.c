/*
 * Messages of rind-registry: what is taken is written as the same bytes.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "image/registry-proto.h"

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
    static struct registry_msg m;
    static uint8_t again[REGISTRY_MSG_MAX];
    struct err err = ERR_NONE;
    char *bytes = copy(data, size);

    if (registry_msg_decode(bytes, size, &m, &err) == 0) {
        assert(registry_msg_encode(&m, again) == (ssize_t)size);
        assert(memcmp(again, bytes, size) == 0);
    } else {
        assert(err.msg[0] != '\0');
    }
    free(bytes);
    return 0;
}
