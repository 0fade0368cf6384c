/*
 * A media type, a newline, and an index, manifest or configuration. What is chosen or accepted has
 * a digest; a refusal has its kind and its words.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "document.h"

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
    const uint8_t *end = size > 0 ? memchr(data, '\n', size) : NULL;
    const size_t type_len = end != NULL ? (size_t)(end - data) : 0,
                 at = end != NULL ? type_len + 1 : 0;
    char *type = copy(data, type_len), *body = copy(data + at, size - at);
    const struct platform want = {.os = "linux", .architecture = "amd64", .level = 2};
    const struct image_limits limits = {.layers = 4, .bytes = 1000};
    enum registry_fault fault = REGISTRY_FAULT_INVALID;
    struct document *d = NULL;
    struct err err = ERR_NONE;
    struct pointed p = {.size = -1};
    size_t layers = 0;
    int r = document_open(type, body, size - at, &d, &fault, &err);

    if (r == 0 && d->kind == REGISTRY_DOCUMENT_INDEX)
        r = document_choose(d, &want, &p, &fault, &err);
    else if (r == 0)
        r = document_check_manifest(d, &limits, &p, &layers, &fault, &err);
    if (r == 0)
        assert(digest_ok(p.digest) && p.size >= 0 && layers <= 4);
    else
        assert(fault != REGISTRY_FAULT_INVALID && err.msg[0] != '\0');
    fault = REGISTRY_FAULT_INVALID;
    if (document_check_config(body, size - at, &want, 1, &fault, &err) < 0)
        assert(fault != REGISTRY_FAULT_INVALID);
    document_free(d);
    free(type);
    free(body);
    return 0;
}
