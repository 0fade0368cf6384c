#pragma once

/* NULL-terminated lists of owned strings, freed with json_strings_free. */

#include <stddef.h>

char **strings_new(void); /* an empty list; NULL = out of memory */

/*
 * Appends a copy of text to a list of `count` strings. Only for lists made by strings_new and grown
 * by this function, as the capacity follows from count. -ENOMEM leaves the list unchanged.
 */
int strings_append(char ***list, size_t count, const char *text);
