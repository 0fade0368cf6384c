#pragma once

/* With which users and groups an object is shared: ids, as names change their owners. Pure. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

enum {
    SHARES_MAX = 64,
    SHARE_TEXT_MAX = sizeof("group:4294967295:ro"),
};

struct share {
    bool group, read_only;
    uint32_t id;
};

/* Zeroed = shared with no other user. */
struct share_list {
    struct share *list; /* owned */
    size_t count;
};

void share_list_done(struct share_list *l);
/*
 * Adds "user:1001", "group:1002", each perhaps with ":ro". A second entry for the same id replaces
 * the first. -EINVAL; -E2BIG.
 */
int share_list_add(struct share_list *l, const char *text, struct err *err);
void share_format(const struct share *s, char ret[SHARE_TEXT_MAX]);
