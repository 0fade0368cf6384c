/*
 * Any text as the body of a container's creation: a refusal has a message; what is accepted asks
 * for nothing that is refused elsewhere: no bind of the host's root, and it is a spec or refused as
 * one.
 */

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/docker/create-body.h"
#include "api/docker/sidecar.h"
#include "base/err.h"
#include "json/parse.h"
#include "spec/json.h"
#include "spec/spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct create_body b = {.spec = NULL};
    struct err err = ERR_NONE;
    struct spec *s = NULL;
    json_t *root = NULL;

    if (json_parse((const char *)data, size, 1 << 20, &root, NULL) < 0)
        return 0;
    if (create_body_decode(root, &b, &err) < 0 ||
        (b.adds_net_admin && docker_own_sidecar_take(&b, &err) < 0)) {
        assert(err.code < 0 && err.msg[0] != '\0');
    } else if (spec_from_json(b.spec, &s, &err) < 0) {
        assert(err.code < 0 && err.msg[0] != '\0');
        create_body_explain(&err);
        assert(err.msg[0] != '\0');
    } else {
        for (size_t i = 0; i < s->volume_count; i++)
            assert(s->volumes[i].source == NULL || strcmp(s->volumes[i].source, "/") != 0);
        assert(s->console);
    }
    spec_free(s);
    create_body_done(&b);
    json_decref(root);
    return 0;
}
