#pragma once

/* Which addresses are the internet, by IANA's special-purpose registries: those that a sandbox with
 * `--network internet` reaches, and that rind connects to for clients that are not its owner. Pure.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The first address, and the first one after the range. `open`: the range reaches to the end of the
 * address space. */
struct internet_range {
    uint8_t first[16], behind[16];
    bool open;
};

/* All addresses that are not the internet, ascending. */
enum { INTERNET_RANGES_MAX = 16 };
const struct internet_range *internet_not4(size_t *ret_count);
const struct internet_range *internet_not6(size_t *ret_count);

/* family: 4 or 6; address: 4 or 16 bytes. */
bool internet_has(int family, const uint8_t *address);
