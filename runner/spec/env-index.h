#pragma once

/*
 * A hash index of the names in a list of "K=V" strings. Clients send up to 65536 names, for which a
 * linear search would be quadratic. The caller owns the list; the index stores positions.
 */

#include <stddef.h>

struct env_index;

struct env_index *env_index_new(void); /* NULL = out of memory */
void env_index_free(struct env_index *x);

/* Makes room for one more name than the list's `count`. -ENOMEM. */
int env_index_reserve(struct env_index *x, char *const *list, size_t count);

/* Returns the position of the name in the list; `count` if it is not there. */
size_t env_index_find(const struct env_index *x, char *const *list, size_t count, const char *name,
                      size_t name_len);

/* Adds the name of list[at], which must be new. Call env_index_reserve before. */
void env_index_add(struct env_index *x, char *const *list, size_t at);
