/*
 * Small texts of clients and of the host's files; the first byte chooses: the filters of Docker's
 * lists, a time, base64, /etc/subuid. What is taken keeps its bounds, and is the same when it is
 * written and read again.
 */

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/docker/common.h"
#include "api/docker/filters.h"
#include "base/base64.h"
#include "base/err.h"
#include "base/rfc3339.h"
#include "launch/idrange.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void filters(const char *text, size_t len)
{
    static const char *const known[] = {"label", "name", "status", NULL};
    struct filters *f = NULL;
    struct err err = ERR_NONE;
    size_t n = 0;

    (void)len;
    if (filters_parse(text, known, &f, &err) < 0) {
        assert(f == NULL && err.msg[0] != '\0');
        return;
    }
    for (size_t k = 0; known[k] != NULL; k++) {
        size_t i = 0;

        for (const char *v; (v = filters_get(f, known[k], i)) != NULL; i++)
            assert(filters_match(f, known[k], v));
        n += i;
    }
    assert(n <= FILTERS_MAX);
    filters_free(f);
}

static void times(const char *text, size_t len)
{
    char again[DOCKER_TIME_MAX];
    struct timespec t;
    int64_t ns, back;

    (void)len;
    if (rfc3339_parse(text, &t) == 0)
        assert(t.tv_nsec >= 0 && t.tv_nsec < 1000000000);
    if (docker_time_parse(text, &ns) < 0 || ns <= 0)
        return;
    docker_time_text(ns, again);
    assert(docker_time_parse(again, &back) == 0 && back == ns);
}

static void base64(const char *text, size_t len)
{
    char *plain = malloc(len / 4 * 3 + 1), *again = malloc(base64_encoded_size(len) + 1);
    size_t n = 0;

    assert(plain != NULL && again != NULL);
    if (base64_decode(plain, text, len, &n) == 0) {
        assert(n <= len / 4 * 3 && base64_encoded_size(n) == len);
        assert(base64_encode(again, plain, n) == len && memcmp(again, text, len) == 0);
    }
    free(again);
    free(plain);
}

static void subids(const char *text, size_t len)
{
    struct idrange_avoid *list = NULL;
    size_t count = 0;
    int r = idrange_parse_subids(text, len, &list, &count);

    assert(r == 0 || r == -EINVAL || r == -E2BIG);
    for (size_t i = 1; r == 0 && i < count; i++)
        assert(list[i - 1].last < list[i].first);
    free(list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const readers[])(const char *, size_t) = {filters, times, base64, subids};
    char *text;

    if (size == 0)
        return 0;
    text = strndup((const char *)data + 1, size - 1);
    assert(text != NULL);
    readers[data[0] % (sizeof(readers) / sizeof(readers[0]))](text, strlen(text));
    free(text);
    return 0;
}
