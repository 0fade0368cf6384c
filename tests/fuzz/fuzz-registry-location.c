/*
 * Location: where a redirect or an upload goes on. What is taken has the form of a URL of http or
 * https, can be written down and read again, and nothing of it ends a line.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "url.h"

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
    static const char *const bases[] = {"https://r.example:5000/v2/x/blobs/uploads/?a=b",
                                        "http://r/"};
    static char text[URL_TEXT_MAX + 1], shown[600];
    char *location = copy(data, size);

    for (size_t i = 0; i < 2; i++) {
        struct err err = ERR_NONE;
        struct url base, got, again;

        assert(url_parse(bases[i], &base, &err) == 0);
        if (url_join(&base, location, &got, &err) < 0) {
            assert(err.msg[0] != '\0');
            continue;
        }
        assert(got.target[0] == '/' && got.port > 0 && got.host[0] != '\0');
        url_format(&got, text);
        assert(strpbrk(text, " \r\n\t\"<>\\") == NULL);
        assert(url_parse(text, &again, &err) == 0 && url_same_origin(&got, &again) &&
               strcmp(got.target, again.target) == 0);
        url_format_shown(&got, shown, sizeof(shown));
        assert(strchr(shown, '?') == NULL);
        (void)url_add_query(&got, "digest", "sha256:0 &");
        assert(strlen(got.target) <= URL_TARGET_MAX);
    }
    free(location);
    return 0;
}
