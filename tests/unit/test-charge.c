/* Bytes of files that images share: each once, and none that the daemon's images have. */

#include <stdlib.h>
#include <string.h>

#include "image/charge.h"
#include "tap.h"

TEST(each_file_counts_once)
{
    auto_charge struct charge c = {.items = NULL};

    CHECK_INT(charge_sum(&c), 0);
    CHECK_INT(charge_add(&c, CHARGE_BLOB, "aa", 10, false), 0);
    CHECK_INT(charge_add(&c, CHARGE_BLOB, "bb", 20, false), 0);
    CHECK_INT(charge_add(&c, CHARGE_BLOB, "aa", 10, false), 0);
    CHECK_INT(charge_add(&c, CHARGE_TREE, "aa", 5, false), 0); /* its layer, unpacked */
    CHECK_INT(charge_sum(&c), 35);
    CHECK_INT(charge_add(&c, CHARGE_BLOB, "bb", 20, true), 0);
    CHECK_INT(charge_sum(&c), 15);
    CHECK_INT(charge_add(&c, CHARGE_TREE, "cc", INT64_MAX, false), 0);
    CHECK_INT(charge_add(&c, CHARGE_TREE, "dd", INT64_MAX, false), 0);
    CHECK_INT(charge_add(&c, CHARGE_TREE, "ee", -5, false), 0);
    CHECK(charge_sum(&c) == INT64_MAX);
}

TEST(many_files)
{
    auto_charge struct charge c = {.items = NULL};
    char key[16];

    for (int round = 0; round < 3; round++)
        for (int i = 0; i < 1000; i++) {
            (void)snprintf(key, sizeof(key), "%06x", (unsigned)(i * 7919) % 1000003);
            if (charge_add(&c, CHARGE_BLOB, key, i, i % 10 == 0) < 0)
                tap_fail("out of memory");
        }
    CHECK_INT(charge_sum(&c), 1000 * 999 / 2 - 10 * (100 * 99 / 2));
}

TEST(sizes_of_trees)
{
    struct image_bounds b = IMAGE_BOUNDS_NONE;

    CHECK_INT(image_bounds_tree(&b, "x"), 0);
    b.trees = calloc(3, sizeof(b.trees[0]));
    if (b.trees == NULL)
        return;
    b.tree_count = 3;
    for (int i = 0; i < 3; i++) {
        (void)snprintf(b.trees[i].name, sizeof(b.trees[i].name), "%d", i * 2);
        b.trees[i].bytes = i + 1;
    }
    CHECK_INT(image_bounds_tree(&b, "0"), 1);
    CHECK_INT(image_bounds_tree(&b, "4"), 3);
    CHECK_INT(image_bounds_tree(&b, "3"), 0);
    image_bounds_done(&b);
    CHECK_INT(b.one, -1);
}

TAP_MAIN
