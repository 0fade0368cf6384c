#pragma once

/* Tables between names and numbers (capabilities, rlimits, states, signals): static const, ended
 * by {0}. */

#include <stddef.h>

struct strtab {
    const char *name;
    int value;
};

/* Returns the value or -ENOENT. Values in a table must be >= 0. */
int strtab_value(const struct strtab *table, const char *name);

/* Returns the name or NULL. */
const char *strtab_name(const struct strtab *table, int value);
