/* Prints rows by --format. Called by the verbs that list or inspect; owns nothing. */

#include "cli/list-format.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "cli/docker-template.h"
#include "cli/human.h"
#include "cli/text-table.h"
#include "json/parse.h"

enum { TITLE_MAX = 64, LABELS_MAX = 512 << 10 };

static const char table_word[] = "table ";

bool format_is_given(const struct remote *r)
{
    return r->format != NULL && strcmp(r->format, "table") != 0;
}

/* ---- rows ---- */

json_t *row_new(const json_t *element)
{
    return json_is_object(element) ? json_copy((json_t *)(uintptr_t)element) : json_object();
}

void row_text(json_t *row, const char *key, const char *text)
{
    (void)json_object_set_new(row, key, json_string(text != NULL ? text : ""));
}

void row_labels(json_t *row, const char *key, const json_t *labels)
{
    auto_buf struct buf b = BUF_INIT(LABELS_MAX);
    const char *name;
    json_t *value;
    int r = buf_append_str(&b, "");

    json_object_foreach((json_t *)(uintptr_t)labels, name, value)
        if (r == 0)
            r = buf_printf(&b, "%s%s=%s", b.len > 0 ? "," : "", name, json_string_value(value));
    row_text(row, key, b.len > 0 ? b.data : "");
}

void row_ago(json_t *row, const char *key, const json_t *time)
{
    char ago[HUMAN_MAX], text[HUMAN_MAX + sizeof(" ago")];

    if (!json_is_string(time)) {
        row_text(row, key, "");
        return;
    }
    (void)snprintf(text, sizeof(text), "%s ago",
                   human_ago(json_string_value(time), clock_wall_ms(), ago));
    row_text(row, key, text);
}

/* ---- templates ---- */

/* Replaces \t and \n, as a shell passes them on, by what they stand for. Caller frees. */
static char *format_unescape(const char *format)
{
    char *copy = malloc(strlen(format) + 1), *at = copy;

    if (copy == NULL)
        return NULL;
    for (; *format != '\0'; format++) {
        bool escape = format[0] == '\\' && (format[1] == 't' || format[1] == 'n');

        if (escape)
            format++;
        *at++ = !escape ? *format : *format == 't' ? '\t' : '\n';
    }
    *at = '\0';
    return copy;
}

/* "CreatedAt" becomes "CREATED AT", "ID" stays. */
static void title_of(const char *key, char ret[TITLE_MAX])
{
    size_t len = 0;

    for (size_t i = 0; key[i] != '\0' && len + 2 < TITLE_MAX; i++) {
        unsigned char c = (unsigned char)key[i];

        if (i > 0 && isupper(c) && islower((unsigned char)key[i - 1]))
            ret[len++] = ' ';
        ret[len++] = (char)toupper(c);
    }
    ret[len] = '\0';
}

/* The row whose expansion is the line of titles. */
static json_t *title_row(const json_t *row)
{
    json_t *titles = json_object(), *value;
    const char *key;

    json_object_foreach((json_t *)(uintptr_t)row, key, value) {
        char title[TITLE_MAX];

        (void)value;
        title_of(key, title);
        row_text(titles, key, title);
    }
    return titles;
}

/* Adds the line's cells; exactly `columns` of them. */
static void add_cells(struct text_table *t, char *line, size_t columns)
{
    for (size_t i = 0; i < columns; i++) {
        char *next = line != NULL && i + 1 < columns ? strchr(line, '\t') : NULL;

        if (next != NULL)
            *next++ = '\0';
        table_add(t, line != NULL ? line : "");
        line = next;
    }
}

static int expand_line(const char *format, json_t *row, struct buf *line, struct err *err)
{
    int r = docker_template_strict(format, row, line, err);

    if (r == 0 && line->len == 0)
        r = buf_append_str(line, "");
    return r;
}

/* sample: a row whose keys the titles are made from. */
static int format_table(const char *format, const json_t *sample, json_t *const *rows, size_t count,
                        struct err *err)
{
    const char *names[TABLE_COLUMNS_MAX + 1] = {NULL};
    auto_buf struct buf head = BUF_INIT(TEMPLATE_OUT_MAX);
    auto_table struct text_table *t = NULL;
    auto_ptr(json_decref) json_t *titles = title_row(sample);
    size_t columns = 0;
    int r = expand_line(format, titles, &head, err);

    if (r < 0)
        return r;
    for (char *at = head.data; at != NULL && columns < TABLE_COLUMNS_MAX; columns++) {
        names[columns] = at;
        at = strchr(at, '\t');
        if (at != NULL)
            *at++ = '\0';
    }
    t = table_new(names);
    for (size_t i = 0; r == 0 && t != NULL && i < count; i++) {
        auto_buf struct buf line = BUF_INIT(TEMPLATE_OUT_MAX);

        r = expand_line(format, rows[i], &line, err);
        if (r == 0)
            add_cells(t, line.data, columns);
    }
    if (r == 0 && (t == NULL || table_print(t, stdout) < 0))
        return err_errno(err, -ENOMEM, "--format");
    return r;
}

/* Text from a sandbox must not send escape sequences to a terminal. */
static void hide_controls(char *text)
{
    for (; *text != '\0'; text++)
        if (((unsigned char)*text < 0x20 && *text != '\t' && *text != '\n') || *text == 0x7f)
            *text = '?';
}

static int format_row(const char *format, json_t *row, struct err *err)
{
    auto_buf struct buf line = BUF_INIT(TEMPLATE_OUT_MAX);
    int r;

    if (strcmp(format, "json") == 0) {
        print_json_line(json_incref(row));
        return 0;
    }
    r = expand_line(format, row, &line, err);
    if (r < 0)
        return r;
    if (isatty(STDOUT_FILENO))
        hide_controls(line.data);
    (void)printf("%s\n", line.data);
    return 0;
}

static int format_rows(const char *format, list_row_fn *row, json_t *const *rows, size_t count,
                       struct err *err)
{
    int r = 0;

    if (strncmp(format, table_word, strlen(table_word)) == 0) {
        auto_ptr(json_decref) json_t *sample =
            count > 0 || row == NULL ? json_incref(rows[0]) : row(NULL);

        return sample == NULL ? 0
                              : format_table(format + strlen(table_word), sample, rows, count, err);
    }
    for (size_t i = 0; r == 0 && i < count; i++)
        r = format_row(format, rows[i], err);
    return r;
}

int format_list(const struct remote *remote, const json_t *list, list_row_fn *row, struct err *err)
{
    auto_free char *format = format_unescape(remote->format);
    size_t count = json_array_size(list), made = 0;
    auto_free json_t **rows = calloc(count + 1, sizeof(json_t *));
    int r = 0;

    if (format == NULL || rows == NULL)
        return err_errno(err, -ENOMEM, "--format");
    for (; r == 0 && made < count; made++) {
        rows[made] =
            row != NULL ? row(json_array_get(list, made)) : json_incref(json_array_get(list, made));
        if (rows[made] == NULL)
            r = err_errno(err, -ENOMEM, "--format");
    }
    if (r == 0)
        r = format_rows(format, row, rows, count, err);
    while (made > 0)
        json_decref(rows[--made]);
    return r;
}

int format_one(const struct remote *remote, json_t *root, struct err *err)
{
    return format_row(remote->format, root, err);
}
