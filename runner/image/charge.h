#pragma once

/*
 * Bytes of files that images share: each is counted once, and not at all if an image of the daemon
 * has it. Pure.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"

enum { CHARGE_KEY_MAX = 64 /* hexadecimal digits */ };

enum charge_kind { CHARGE_BLOB = 'b', CHARGE_TREE = 't' };

struct charge_item {
    char key[1 + CHARGE_KEY_MAX + 1]; /* the kind, then the digits */
    bool common;                      /* an image of the daemon has it */
    int64_t bytes;
};

struct charge {
    struct charge_item *items; /* owned */
    size_t count, capacity;
};
void charge_done(struct charge *c);
#define auto_charge __attribute__((cleanup(charge_done)))

/* Notes that an image has this file. digits: borrowed; longer ones are cut. -ENOMEM. */
int charge_add(struct charge *c, enum charge_kind kind, const char *digits, int64_t bytes,
               bool common);
/* Returns the bytes of all files that are not common. Reorders the items. */
int64_t charge_sum(struct charge *c);

/* A directory with an unpacked layer, as the launcher counts it. */
struct image_tree {
    char name[CHARGE_KEY_MAX + 1];
    int64_t bytes;
};

/* What images of members may take; -1: not bounded. */
struct image_bounds {
    int64_t one, all;         /* the images of one member, and of all together */
    struct image_tree *trees; /* owned; by name */
    size_t tree_count;
};
#define IMAGE_BOUNDS_NONE                                                                          \
    {                                                                                              \
        .one = -1, .all = -1                                                                       \
    }
void image_bounds_done(struct image_bounds *b);
/* Bytes of this tree; 0: unknown. */
int64_t image_bounds_tree(const struct image_bounds *b, const char *name);
