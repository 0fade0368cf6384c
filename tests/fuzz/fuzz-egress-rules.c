/* Rules as JSON: each refusal has words, and what was accepted is the same again when it is written
 * and read once more. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "json/parse.h"
#include "policy/egress.h"

static struct egress_rules *read_rules(json_t *root)
{
    struct egress_rules *e = NULL;
    struct err err = ERR_NONE;

    if (egress_from_json(root, NULL, &e, &err) == 0)
        return e;
    assert(err.msg[0] != '\0' && err.code < 0);
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct net_addr a = {.family = 4, .bytes = {10, 1, 2, 3}};
    json_t *root = NULL, *again;
    struct egress_rules *e, *f;

    if (json_parse((const char *)data, size, 1 << 16, &root, NULL) < 0)
        return 0;
    e = read_rules(root);
    json_decref(root);
    if (e == NULL)
        return 0;
    again = egress_to_json(e);
    f = read_rules(again);
    assert(f != NULL && f->count == e->count && f->open == e->open);
    for (unsigned kind = EGRESS_HTTP; kind <= EGRESS_NAME_DENIED; kind <<= 1) {
        const struct egress_rule *x = egress_match(e, kind, "a-b.example.com", &a, 80),
                                 *y = egress_match(f, kind, "a-b.example.com", &a, 80);

        assert((x == NULL) == (y == NULL) && (x == NULL || x - e->list == y - f->list));
    }
    json_decref(again);
    egress_free(e);
    egress_free(f);
    return 0;
}
