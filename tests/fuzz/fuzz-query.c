/* Any query: what is taken is in range and lies in the text, and what is refused says why. */

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/strtab.h"
#include "http/route-query.h"
#include "proto/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct answers {
    bool follow;
    int64_t tail;
    const char *name, *path;
    int order;
    struct query_list labels;
};

static const struct strtab orders[] = {{"up", 3}, {"down", 4}, {0}};

static const struct query_field fields[] = {
    {.name = "follow", .type = QUERY_BOOL, .off = offsetof(struct answers, follow)},
    {.name = "tail",
     .type = QUERY_INT,
     .off = offsetof(struct answers, tail),
     .min = -5,
     .max = 1000},
    {.name = "name",
     .type = QUERY_STRING,
     .off = offsetof(struct answers, name),
     .min = 1,
     .max = 8},
    {.name = "path", .type = QUERY_BYTES, .off = offsetof(struct answers, path), .min = 1},
    {.name = "order", .type = QUERY_ENUM, .off = offsetof(struct answers, order), .names = orders},
    {.name = "label", .type = QUERY_LIST, .off = offsetof(struct answers, labels)},
    {0},
};

static void check_string(const char *s, const char *text, size_t size)
{
    assert(s >= text && s + strlen(s) <= text + size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct answers a = {.tail = 7, .order = 3};
    struct err err = ERR_NONE;
    struct answers lenient = {.tail = 7, .order = 3};
    struct query_rest rest;
    char *text = calloc(1, size + 1), *copy;
    int r, known;

    if (text == NULL)
        abort();
    if (size > 0)
        (void)memcpy(text, data, size);
    copy = strdup(text);
    if (copy == NULL)
        abort();
    r = query_decode(text, fields, &a, &err);
    assert(r == 0 || (r < 0 && err.code == r && err.msg[0] != '\0'));
    assert(a.tail >= -5 && a.tail <= 1000 && (a.order == 3 || a.order == 4));
    assert(a.labels.count <= QUERY_LIST_MAX);
    if (a.name != NULL) {
        check_string(a.name, text, size);
        assert(strlen(a.name) >= 1 && strlen(a.name) <= 8 && utf8_valid(a.name, strlen(a.name)));
    }
    if (a.path != NULL)
        check_string(a.path, text, size);
    for (size_t i = 0; i < a.labels.count; i++)
        check_string(a.labels.values[i], text, size);
    /* What is refused for no other reason than an unknown parameter is taken without it. */
    known = query_decode_known(copy, fields, &lenient, &rest, &err);
    assert(r < 0 || (known == 0 && rest.count == 0 && lenient.tail == a.tail));
    assert((rest.first != NULL) == (rest.count > 0));
    if (rest.first != NULL)
        check_string(rest.first, copy, size);
    free(copy);
    free(text);
    return 0;
}
