/*
 * "user[:group]", a newline, a passwd text, a form feed, a group text. Numbers keep their value
 * whatever the files say, ids are in range, and a refusal says why.
 */

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proto/userdb.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A copy of its own size, so that a read past the end is seen. */
static char *copy(const uint8_t *data, size_t len)
{
    char *text = malloc(len > 0 ? len : 1);

    if (text != NULL && len > 0)
        (void)memcpy(text, data, len);
    return text;
}

static void check_identity(const struct userdb_spec *spec, const struct userdb_identity *id)
{
    assert(id->uid <= USERDB_ID_MAX && id->gid <= USERDB_ID_MAX);
    assert(spec->user[0] != '\0' || id->uid == spec->uid);
    assert(!spec->has_group || spec->group[0] != '\0' || id->gid == spec->gid);
    assert(id->home[0] == '/' && strlen(id->home) <= USERDB_HOME_MAX);
    assert(id->group_count >= 1 && id->group_count <= USERDB_GROUPS_MAX);
    assert(id->groups[0] == id->gid);
    for (size_t i = 0; i < id->group_count; i++)
        for (size_t j = 0; j < i; j++)
            assert(id->groups[i] != id->groups[j]);
}

static void resolve(const struct userdb_spec *spec, const uint8_t *data, size_t size)
{
    const uint8_t *feed = size > 0 ? memchr(data, '\f', size) : NULL;
    size_t passwd_len = feed != NULL ? (size_t)(feed - data) : size;
    size_t group_len = feed != NULL ? size - passwd_len - 1 : 0;
    char *passwd = copy(data, passwd_len), *group = copy(data + (size - group_len), group_len);
    struct userdb_identity id;
    const char *why = NULL;

    if (userdb_resolve(spec, passwd, passwd_len, group, group_len, &id, &why) == 0)
        check_identity(spec, &id);
    else
        assert(why != NULL && why[0] != '\0');
    free(passwd);
    free(group);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *line = size > 0 ? memchr(data, '\n', size) : NULL;
    size_t len = line != NULL ? (size_t)(line - data) : size;
    struct userdb_spec spec;
    const char *why = NULL;
    char *text = strndup((const char *)data, len);

    if (text == NULL)
        return 0;
    if (userdb_parse(text, &spec, &why) < 0) {
        assert(why != NULL && why[0] != '\0');
    } else {
        /* Digits are a number and nothing else. */
        assert((text[0] == '\0' || (text[0] >= '0' && text[0] <= '9')) == (spec.user[0] == '\0'));
        if (line != NULL)
            resolve(&spec, line + 1, size - len - 1);
    }
    free(text);
    return 0;
}
