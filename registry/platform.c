/*
 * The order behind platform.h. Runs in rind-registry. What comes first is what Docker takes: of
 * amd64 the image without a variant, not the one for the newest processors.
 */
#include "platform.h"

#include <stdio.h>
#include <string.h>

#include "image/manifest.h"

enum { LEVEL_MAX = 9 };

void platform_of_machine(struct platform *ret)
{
    *ret = (struct platform){.os = "linux", .level = 1};
    (void)snprintf(ret->architecture, sizeof(ret->architecture), "%s", image_architecture());
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt"))
        ret->level = 2;
    if (ret->level == 2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") &&
        __builtin_cpu_supports("fma"))
        ret->level = 3;
    if (ret->level == 3 && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512cd"))
        ret->level = 4;
#endif
}

/* The number of a variant "v7"; 0 if it is none. */
static int variant_number(const char *variant)
{
    return variant[0] == 'v' && variant[1] >= '1' && variant[1] <= '0' + LEVEL_MAX &&
                   variant[2] == '\0'
               ? variant[1] - '0'
               : 0;
}

/* A missing variant means this one. */
static int variant_default(const char *architecture)
{
    if (strcmp(architecture, "arm64") == 0)
        return 8;
    if (strcmp(architecture, "arm") == 0)
        return 7;
    return strcmp(architecture, "amd64") == 0 ? 1 : 0;
}

int platform_rank(const struct platform *want, const struct platform *image)
{
    const int usual = variant_default(want->architecture);
    int wanted, have;

    if (strcmp(want->os, image->os) != 0 || strcmp(want->architecture, image->architecture) != 0)
        return -1;
    if (strcmp(want->variant, image->variant) == 0)
        return 0;
    wanted = want->variant[0] == '\0' ? usual : variant_number(want->variant);
    have = image->variant[0] == '\0' ? usual : variant_number(image->variant);
    if (wanted == 0 || have == 0)
        return -1;
    if (have <= wanted)
        return 1 + wanted - have;
    /* Not asked for by name: what the processor has beyond the first will do as well. */
    return want->variant[0] == '\0' && usual == 1 && have <= want->level ? LEVEL_MAX + have : -1;
}

void platform_format(const struct platform *p, char *ret, unsigned long size)
{
    (void)snprintf(ret, size, "%s/%s%s%s", p->os, p->architecture, p->variant[0] != '\0' ? "/" : "",
                   p->variant);
}
