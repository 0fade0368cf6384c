#pragma once

/*
 * Text tables for people: columns as wide as their widest cell, two spaces apart, no trailing
 * blanks. Cells may contain text from a sandbox, so control bytes are shown as "?"; no name can
 * send escape sequences to a terminal.
 */

#include <stdio.h>

enum {
    TABLE_COLUMNS_MAX = 12,
    TABLE_CELL_MAX = 256, /* characters of a cell; longer text is cut and ends with "..." */
};

struct text_table;

/* titles: NULL-terminated, at most TABLE_COLUMNS_MAX. NULL = out of memory. */
struct text_table *table_new(const char *const *titles);
void table_free(struct text_table *t);
/* Adds the next cell, row by row; NULL is shown as "-". If memory runs out, table_print fails. */
void table_add(struct text_table *t, const char *text);
void table_addf(struct text_table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Returns 0, or -ENOMEM if a cell was lost. */
int table_print(const struct text_table *t, FILE *f);

static inline void table_free_auto_(struct text_table **t)
{
    table_free(*t);
}
#define auto_table __attribute__((cleanup(table_free_auto_)))
