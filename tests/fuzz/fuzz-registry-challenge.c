/*
 * WWW-Authenticate: one header a line. A challenge that is taken can be answered.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "challenge.h"

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
    struct challenge c = {.scheme = CHALLENGE_NONE};
    char *text = copy(data, size), *save = NULL;

    for (char *line = strtok_r(text, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save))
        challenge_add(&c, line);
    assert(c.scheme != CHALLENGE_BEARER || c.realm[0] != '\0');
    assert(strlen(c.realm) <= CHALLENGE_TEXT_MAX && strlen(c.service) <= CHALLENGE_TEXT_MAX &&
           strlen(c.scope) <= CHALLENGE_TEXT_MAX);
    free(text);
    return 0;
}
