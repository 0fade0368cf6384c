#pragma once

/*
 * Tables for people: columns as wide as their widest cell, two spaces apart, nothing behind the
 * last one. What a cell holds may come from a sandbox: control bytes are shown as "?", so that no
 * name can write to a terminal.
 */

#include <stdio.h>

enum {
    TABLE_COLUMNS_MAX = 12,
    TABLE_CELL_MAX = 256, /* characters of a cell; what is longer ends with "..." */
};

struct table;

/* titles: NULL-terminated, at most TABLE_COLUMNS_MAX. NULL on OOM. */
struct table *table_new(const char *const *titles);
void table_free(struct table *t);
/* The cells of a row from left to right; a new row begins behind the last column. A cell that
 * finds no memory makes table_print fail. NULL is "-". */
void table_add(struct table *t, const char *text);
void table_addf(struct table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* 0, or -ENOMEM when a cell was lost. */
int table_print(const struct table *t, FILE *f);

static inline void table_free_auto_(struct table **t)
{
    table_free(*t);
}
#define auto_table __attribute__((cleanup(table_free_auto_)))
