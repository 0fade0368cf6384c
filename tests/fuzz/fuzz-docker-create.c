/*
 * Any text as the body of a container's creation: a refusal has a message; what is accepted asks
 * for nothing that is refused elsewhere: no bind of the host's root, nothing that weakens the
 * isolation in a HostConfig of any case, no part of it at the top level; and it is a spec or
 * refused as one.
 */

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/docker/body.h"
#include "api/docker/create-body.h"
#include "api/docker/sidecar.h"
#include "base/err.h"
#include "json/parse.h"
#include "spec/json.h"
#include "spec/spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* No spelling of what is refused. */
static void check_host(json_t *host)
{
    static const char *const names[] = {"Privileged", "Devices", "UsernsMode", "Sysctls"};
    const char *key;
    json_t *value;

    json_object_foreach(host, key, value)
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
            assert(strcasecmp(key, names[i]) != 0 || body_is_empty(value));
}

/* Of a body that was accepted: nothing of it was ignored that asks for isolation or a limit. */
static void check_top_level(json_t *root)
{
    static const char *const names[] = {"Privileged", "CapAdd",      "NetworkMode",     "Memory",
                                        "NanoCpus",   "SecurityOpt", "EndpointsConfig", "Binds"};
    const char *key;
    json_t *value;

    json_object_foreach(root, key, value) {
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
            assert(strcasecmp(key, names[i]) != 0 || body_is_empty(value));
        /* One in another case was taken as this one, and is there under its name. */
        assert(strcasecmp(key, "HostConfig") != 0 || strcmp(key, "HostConfig") == 0);
        if (strcmp(key, "HostConfig") == 0)
            check_host(value);
    }
}

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
        check_top_level(root);
        assert(err.code < 0 && err.msg[0] != '\0');
        create_body_explain(&err);
        assert(err.msg[0] != '\0');
    } else {
        check_top_level(root);
        for (size_t i = 0; i < s->volume_count; i++)
            assert(s->volumes[i].source == NULL || strcmp(s->volumes[i].source, "/") != 0);
        assert(s->console);
    }
    spec_free(s);
    create_body_done(&b);
    json_decref(root);
    return 0;
}
