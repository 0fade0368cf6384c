#pragma once

/* FNV-1a, for hash tables, and for numbers that must be equal in every process. Not
 * collision-resistant: hostile input can collide. */

#include <stddef.h>
#include <stdint.h>

#define HASH_BEGIN UINT32_C(0x811c9dc5)

static inline uint32_t hash_byte(uint32_t h, uint8_t byte)
{
    return (h ^ byte) * UINT32_C(0x01000193);
}

static inline uint32_t hash_bytes(uint32_t h, const void *data, size_t len)
{
    const uint8_t *p = data;

    for (size_t i = 0; i < len; i++)
        h = hash_byte(h, p[i]);
    return h;
}
