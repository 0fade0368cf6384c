#pragma once

/* NULL-terminated lists of owned strings; freed with json_strings_free. */

#include <stddef.h>

char **strings_new(void); /* an empty list; NULL on OOM */

/* Adds a copy of text to a list that holds `count` strings. Only for lists that strings_new made
 * and this grew: how much room there is follows from count. -ENOMEM changes nothing. */
int strings_append(char ***list, size_t count, const char *text);
