/*
 * Any text as a spec: a refusal has a message; what is accepted is written, and read again as the
 * same. And as what is changed of one.
 */

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/err.h"
#include "json/parse.h"
#include "spec/json.h"
#include "spec/spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The same text as a change of an empty one: refused with a message, or nothing but what can be
 * changed has changed. */
static void patch(json_t *root)
{
    struct err err = ERR_NONE;
    struct spec *s = spec_new(), *changed = NULL;
    json_t *one = NULL, *two = NULL;

    assert(s != NULL);
    if (spec_patch(s, root, &changed, &err) < 0) {
        assert(err.code < 0 && err.msg[0] != '\0' && changed == NULL);
    } else {
        assert(spec_to_json(changed, &one, &err) == 0);
        spec_take_patched(s, changed);
        assert(spec_to_json(s, &two, &err) == 0);
        assert(json_equal(one, two));
    }
    json_decref(one);
    json_decref(two);
    spec_free(s);
    spec_free(changed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = ERR_NONE;
    struct spec *s = NULL, *again = NULL;
    json_t *root = NULL, *one = NULL, *two = NULL;

    if (json_parse((const char *)data, size, 1 << 20, &root, NULL) < 0)
        return 0;
    patch(root);
    if (spec_from_json(root, &s, &err) < 0) {
        assert(err.code < 0 && err.msg[0] != '\0' && s == NULL);
        json_decref(root);
        return 0;
    }
    assert(spec_to_json(s, &one, &err) == 0);
    assert(spec_from_json(one, &again, &err) == 0);
    assert(spec_to_json(again, &two, &err) == 0);
    assert(json_equal(one, two));
    json_decref(root);
    json_decref(one);
    json_decref(two);
    spec_free(s);
    spec_free(again);
    return 0;
}
