#include "sandbox/limits.h"

#include <string.h>

#define LIMIT_INFO(field, type, name, dflt, least, most)                                           \
    {.key = (name),                                                                                \
     .off = offsetof(struct supervisor_limits, field),                                             \
     .size = sizeof(type),                                                                         \
     .def = (dflt),                                                                                \
     .min = (least),                                                                               \
     .max = (most)},
const struct limit_info limits_table[LIMITS_COUNT] = {SUPERVISOR_LIMITS(LIMIT_INFO)};
#undef LIMIT_INFO

int64_t limit_get(const struct supervisor_limits *l, const struct limit_info *info)
{
    const char *at = (const char *)l + info->off;
    uint64_t wide;
    unsigned narrow;

    if (info->size == sizeof(wide)) {
        (void)memcpy(&wide, at, sizeof(wide));
        return (int64_t)wide;
    }
    (void)memcpy(&narrow, at, sizeof(narrow));
    return (int64_t)narrow;
}

void limit_set(struct supervisor_limits *l, const struct limit_info *info, int64_t value)
{
    char *at = (char *)l + info->off;
    uint64_t wide = (uint64_t)value;
    unsigned narrow = (unsigned)value;

    if (info->size == sizeof(wide))
        (void)memcpy(at, &wide, sizeof(wide));
    else
        (void)memcpy(at, &narrow, sizeof(narrow));
}

struct supervisor_limits supervisor_limits_default(void)
{
    struct supervisor_limits l = {0};

    for (size_t i = 0; i < LIMITS_COUNT; i++)
        limit_set(&l, &limits_table[i], limits_table[i].def);
    return l;
}
