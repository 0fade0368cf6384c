/* The environment list behind spec/env.h. Pure. */

#include "spec/env.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "spec/env-index.h"
#include "spec/parse.h"
#include "spec/spec.h"

enum { ENV_CAPACITY_FIRST = 64 };

/* Makes room for one more entry in the list and in the index. */
static int env_reserve(struct spec *s)
{
    if (s->env_index == NULL)
        s->env_index = env_index_new();
    if (s->env_index == NULL)
        return -ENOMEM;
    if (s->env_count + 1 >= s->env_capacity) {
        size_t capacity = s->env_capacity > 0 ? s->env_capacity * 2 : ENV_CAPACITY_FIRST;
        char **env = reallocarray(s->env, capacity, sizeof(*env));

        if (env == NULL)
            return -ENOMEM;
        s->env = env;
        s->env_capacity = capacity;
    }
    return env_index_reserve(s->env_index, s->env, s->env_count);
}

/* Returns "name=value", owned by the caller; NULL = out of memory. */
static char *make_entry(const char *name, size_t name_len, const char *value, size_t value_len)
{
    char *entry = malloc(name_len + 1 + value_len + 1);

    if (entry == NULL)
        return NULL;
    (void)memcpy(entry, name, name_len);
    entry[name_len] = '=';
    (void)memcpy(entry + name_len + 1, value, value_len);
    entry[name_len + 1 + value_len] = '\0';
    return entry;
}

int env_put(struct spec *s, const char *name, size_t name_len, const char *value, struct err *err)
{
    size_t value_len = strlen(value), size = name_len + 1 + value_len + 1, at, bytes;
    char *entry;

    /* Values may be secrets, so messages only name the variable. */
    if (size - 1 > SPEC_STRING_MAX)
        return err_set(err, -E2BIG, "environment variable \"%.*s\": longer than %d bytes",
                       (int)(name_len < QUOTE_MAX ? name_len : QUOTE_MAX), name, SPEC_STRING_MAX);
    if (env_reserve(s) < 0)
        return err_errno(err, -ENOMEM, "environment");
    at = env_index_find(s->env_index, s->env, s->env_count, name, name_len);
    if (at == SPEC_ARGS_MAX)
        return err_set(err, -E2BIG, "environment: more than %d variables", SPEC_ARGS_MAX);
    bytes = s->env_bytes + size - (at < s->env_count ? strlen(s->env[at]) + 1 : 0);
    if (bytes > SPEC_STRINGS_MAX)
        return err_set(err, -E2BIG, "environment: more than %d bytes", SPEC_STRINGS_MAX);
    entry = make_entry(name, name_len, value, value_len);
    if (entry == NULL)
        return err_errno(err, -ENOMEM, "environment");

    s->env_bytes = bytes;
    free(s->env[at]); /* NULL if the name is new */
    s->env[at] = entry;
    if (at == s->env_count) {
        s->env[++s->env_count] = NULL;
        env_index_add(s->env_index, s->env, at);
    }
    return 0;
}

int env_drop(struct spec *s, const char *name, size_t name_len, struct err *err)
{
    size_t at;

    if (env_reserve(s) < 0)
        return err_errno(err, -ENOMEM, "environment");
    at = env_index_find(s->env_index, s->env, s->env_count, name, name_len);
    if (at >= s->env_count)
        return 0;
    s->env_bytes -= strlen(s->env[at]) + 1;
    free(s->env[at]);
    /* With the NULL at the end. */
    (void)memmove(&s->env[at], &s->env[at + 1], (s->env_count - at) * sizeof(*s->env));
    s->env_count--;
    /* The index has positions: it is made anew. */
    env_index_free(s->env_index);
    s->env_index = NULL;
    if (env_reserve(s) < 0)
        return err_errno(err, -ENOMEM, "environment");
    for (size_t i = 0; i < s->env_count; i++)
        env_index_add(s->env_index, s->env, i);
    return 0;
}
