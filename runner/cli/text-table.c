/* The text tables behind table.h. */

#include "cli/text-table.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct text_table {
    size_t columns, count, capacity; /* number of cells, the titles included */
    char **cells;                    /* owned */
    bool lost;
};

/* Display width, on the assumption that each code point takes one column. */
static size_t text_width(const char *text)
{
    size_t n = 0;

    for (; *text != '\0'; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

/* Copies the text with control characters replaced by "?", cut to TABLE_CELL_MAX characters. */
static char *clean_text(const char *text)
{
    size_t len = strlen(text), shown = 0, out = 0;
    char *copy = malloc(len + sizeof("..."));

    if (copy == NULL)
        return NULL;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        /* C1 controls are two bytes of UTF-8: c2 80 to c2 9f. */
        bool control = c < 0x20 || c == 0x7f ||
                       (c == 0xc2 && (unsigned char)text[i + 1] < 0xa0 && text[i + 1] != '\0');

        if ((c & 0xc0) != 0x80 && shown++ == TABLE_CELL_MAX) {
            (void)memcpy(copy + out, "...", 3);
            out += 3;
            break;
        }
        copy[out++] = control ? '?' : text[i];
        i += control && c == 0xc2;
    }
    copy[out] = '\0';
    return copy;
}

void table_add(struct text_table *t, const char *text)
{
    if (t->count == t->capacity) {
        size_t more = t->capacity * 2 + 64;
        char **cells = realloc(t->cells, more * sizeof(*cells));

        if (cells == NULL) {
            t->lost = true;
            return;
        }
        t->cells = cells;
        t->capacity = more;
    }
    t->cells[t->count] = clean_text(text != NULL ? text : "-");
    if (t->cells[t->count] == NULL)
        t->lost = true;
    else
        t->count++;
}

void table_addf(struct text_table *t, const char *fmt, ...)
{
    char text[TABLE_CELL_MAX * 4];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    table_add(t, text);
}

struct text_table *table_new(const char *const *titles)
{
    struct text_table *t = calloc(1, sizeof(*t));

    if (t == NULL)
        return NULL;
    while (t->columns < TABLE_COLUMNS_MAX && titles[t->columns] != NULL)
        t->columns++;
    for (size_t i = 0; i < t->columns; i++)
        table_add(t, titles[i]);
    return t;
}

void table_free(struct text_table *t)
{
    if (t == NULL)
        return;
    for (size_t i = 0; i < t->count; i++)
        free(t->cells[i]);
    free(t->cells);
    free(t);
}

int table_print(const struct text_table *t, FILE *f)
{
    size_t widths[TABLE_COLUMNS_MAX] = {0};

    if (t->lost)
        return -ENOMEM;
    for (size_t i = 0; i < t->count; i++) {
        size_t w = text_width(t->cells[i]);

        if (w > widths[i % t->columns])
            widths[i % t->columns] = w;
    }
    for (size_t i = 0; i < t->count; i++) {
        size_t column = i % t->columns;

        (void)fputs(t->cells[i], f);
        if (column + 1 == t->columns || i + 1 == t->count)
            (void)fputc('\n', f);
        else
            (void)fprintf(f, "%*s", (int)(widths[column] - text_width(t->cells[i]) + 2), "");
    }
    return 0;
}
