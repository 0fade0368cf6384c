/*
 * config.json, auth.json and X-Registry-Auth: what is changed is read again, for this host and no
 * other.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "image/registry-auth.h"

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
    char *text = copy(data, size), *next = NULL, helper[REGISTRY_HELPER_MAX + 1],
         host[REFERENCE_NAME_MAX + 1];
    struct registry_auth mine = {.username = text, .password = text}, *a = NULL;
    struct err err = ERR_NONE;
    char user[] = "u", password[] = "p:q";

    mine.username = user;
    mine.password = password;
    if (registry_config_find(text, size, "r.example:5000", "a/b", &a, helper, &err) < 0)
        assert(err.msg[0] != '\0');
    registry_auth_free(a);
    a = NULL;
    if (registry_config_change(text, size, "r.example:5000", &mine, &next, &err) == 0) {
        char *gone = NULL;

        if (registry_config_find(next, strlen(next), "r.example:5000", NULL, &a, helper, &err) == 0)
            assert(a != NULL && strcmp(a->username, "u") == 0 && strcmp(a->password, "p:q") == 0);
        registry_auth_free(a);
        a = NULL;
        assert(registry_config_change(next, strlen(next), "r.example:5000", NULL, &gone, &err) ==
               0);
        free(gone);
    }
    free(next);
    if (registry_auth_decode_header(text, &a, host, &err) == 0)
        registry_auth_free(a);
    a = NULL;
    if (registry_helper_decode(text, size, &a, &err) == 0)
        registry_auth_free(a);
    free(text);
    return 0;
}
