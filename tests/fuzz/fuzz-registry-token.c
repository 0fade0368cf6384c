/*
 * The answer of a token server: a token that is taken fits into a header.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "token.h"

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
    struct token *t = NULL;
    struct err err = ERR_NONE;

    if (token_parse(text, size, 1000, &t, &err) == 0) {
        assert(t->text[0] != '\0' && strlen(t->text) <= TOKEN_MAX);
        for (const char *c = t->text; *c != '\0'; c++)
            assert(*c > 0x20 && *c < 0x7f);
        assert(t->lifetime > 0 && t->lifetime <= TOKEN_LIFETIME_MAX);
    } else {
        assert(t == NULL && err.msg[0] != '\0');
    }
    token_free(t);
    free(text);
    return 0;
}
