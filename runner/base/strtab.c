#include "base/strtab.h"

#include <errno.h>
#include <string.h>

int strtab_value(const struct strtab *table, const char *name)
{
    for (; table->name != NULL; table++)
        if (strcmp(table->name, name) == 0)
            return table->value;
    return -ENOENT;
}

const char *strtab_name(const struct strtab *table, int value)
{
    for (; table->name != NULL; table++)
        if (table->value == value)
            return table->name;
    return NULL;
}
