#pragma once

/*
 * Finds a name in a list of "K=V" strings. Names come from clients, 65536 of them at most, so a
 * plain search would be quadratic. The list is the caller's; the index holds positions.
 */

#include <stddef.h>

struct env_index;

struct env_index *env_index_new(void); /* NULL on OOM */
void env_index_free(struct env_index *x);

/* Room for one more name beside the `count` ones of the list. -ENOMEM. */
int env_index_reserve(struct env_index *x, char *const *list, size_t count);

/* Where the name stands in the list; `count` when it does not. */
size_t env_index_find(const struct env_index *x, char *const *list, size_t count, const char *name,
                      size_t name_len);

/* Remembers that the name of list[at], which is new, stands there. Call after a reserve. */
void env_index_add(struct env_index *x, char *const *list, size_t at);
