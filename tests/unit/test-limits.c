/* The table of limits, what is made of it, and what the documentation says. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "daemon/settings.h"
#include "http/server.h"
#include "sandbox/limits.h"
#include "tap.h"

#define DOCS "docs/configuration.md"

static const struct limit_info *find(const char *key)
{
    for (size_t i = 0; i < LIMITS_COUNT; i++)
        if (strcmp(limits_table[i].key, key) == 0)
            return &limits_table[i];
    return NULL;
}

TEST(each_row_is_sound)
{
    for (size_t i = 0; i < LIMITS_COUNT; i++) {
        const struct limit_info *info = &limits_table[i];
        struct supervisor_limits l = supervisor_limits_default();

        CHECK(info->min <= info->def && info->def <= info->max);
        CHECK(find(info->key) == info);
        CHECK_INT(limit_get(&l, info), info->def);
        limit_set(&l, info, info->max);
        CHECK_INT(limit_get(&l, info), info->max);
        limit_set(&l, info, info->def);
        CHECK_INT(limit_get(&l, info), info->def);
    }
}

/* What one key of the file sets, and what is outside of its range. */
TEST(each_can_be_configured)
{
    for (size_t i = 0; i < LIMITS_COUNT; i++) {
        const struct limit_info *info = &limits_table[i];
        const int64_t values[] = {info->min, info->max, info->min - 1, info->max + 1};

        for (size_t k = 0; k < 4; k++) {
            struct err err = ERR_NONE;
            struct settings s;
            char text[128], want[160];

            (void)snprintf(text, sizeof(text), "{\"limits\":{\"%s\":%lld}}", info->key,
                           (long long)values[k]);
            CHECK_INT(settings_init(&s), 0);
            CHECK_INT(settings_parse(&s, text, strlen(text), "x", &err), k < 2 ? 0 : -ERANGE);
            if (k < 2) {
                CHECK_INT(limit_get(&s.limits, info), values[k]);
            } else {
                (void)snprintf(want, sizeof(want), "x: limits.%s: must be between %lld and %lld",
                               info->key, (long long)info->min, (long long)info->max);
                CHECK_STR(err.msg, want);
            }
            for (size_t other = 0; other < LIMITS_COUNT; other++)
                if (other != i)
                    CHECK_INT(limit_get(&s.limits, &limits_table[other]), limits_table[other].def);
            settings_done(&s);
        }
    }
}

/* The front has the same defaults where nobody configures it. */
TEST(the_front_agrees)
{
    struct http_config own;
    struct settings s;

    http_config_init(&own);
    CHECK_INT(settings_init(&s), 0);
    CHECK(memcmp(&own, &s.http,
                 offsetof(struct http_config, stream_write_ms) + sizeof(own.stream_write_ms)) == 0);
    settings_done(&s);
}

/* "| `limits.KEY` | DEFAULT | ERROR | WHAT |" for every row, and no row too many. */
TEST(the_documentation_agrees)
{
    FILE *f = fopen(DOCS, "r");
    size_t rows = 0;
    char line[1024];

    CHECK(f != NULL);
    while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
        char key[64], reached[64], what[512];
        const struct limit_info *info;
        long long def;

        if (sscanf(line, "| `limits.%63[^`]` | %lld | %63[^|]| %511[^|]|", key, &def, reached,
                   what) != 4) {
            CHECK(strstr(line, "| `limits.") == NULL);
            continue;
        }
        info = find(key);
        if (info == NULL || info->def != def)
            printf("# %s: %lld\n", key, def);
        CHECK(info != NULL && info->def == def);
        rows++;
    }
    CHECK_INT(rows, LIMITS_COUNT);
    if (f != NULL)
        (void)fclose(f);
}

TAP_MAIN
