/*
 * The subset of Go templates behind docker's --format. Pure functions; the parser recurses for each
 * range.
 */

#include "cli/docker-template.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"

enum { WORDS_MAX = 4, WORD_BYTES = 128 };

struct template_run {
    struct buf *out;
    struct err *err;
    const json_t *strict; /* its members are the only names of the first level; NULL: any */
};

/* One {{ }} action, split into words; a quoted text is one word. */
struct template_action {
    char words[WORDS_MAX][WORD_BYTES];
    size_t count;
};

static int template_error(const struct template_run *r, const char *at, size_t len)
{
    return err_set(r->err, -EINVAL, "--format: \"%.*s\" is not understood",
                   (int)(len < WORD_BYTES ? len : WORD_BYTES), at);
}

static size_t word_end(const char *at, const char *end)
{
    const char *p = at;

    if (*at == '"') {
        for (p++; p < end && *p != '"'; p++)
            ;
        return (size_t)(p + (p < end) - at);
    }
    while (p < end && !isspace((unsigned char)*p))
        p++;
    return (size_t)(p - at);
}

static int split_action(const struct template_run *r, const char *at, const char *end,
                        struct template_action *ret)
{
    const char *begin = at;

    ret->count = 0;
    for (;;) {
        size_t n, skip;

        while (at < end && (isspace((unsigned char)*at) || *at == '-'))
            at++;
        if (at == end)
            return 0;
        n = word_end(at, end);
        skip = *at == '"';
        if (ret->count == WORDS_MAX || n - 2 * skip >= WORD_BYTES)
            return template_error(r, begin, (size_t)(end - begin));
        (void)memcpy(ret->words[ret->count], at + skip, n - 2 * skip);
        ret->words[ret->count++][n - 2 * skip] = '\0';
        at += n;
    }
}

/* Looks up ".A.B" in the current value; NULL if there is no such member. */
static json_t *find_member(json_t *here, const char *path)
{
    char name[WORD_BYTES];

    if (strcmp(path, ".") == 0)
        return here;
    while (*path == '.') {
        size_t n = strcspn(++path, ".");

        (void)memcpy(name, path, n);
        name[n] = '\0';
        here = json_object_get(here, name);
        path += n;
    }
    return here;
}

/* Names of the first level that are written like Go's fields, as far as they fit. */
static void list_members(const json_t *root, char *text, size_t size)
{
    size_t len = 0;
    json_t *value;
    const char *key;

    text[0] = '\0';
    json_object_foreach((json_t *)(uintptr_t)root, key, value) {
        int n;

        (void)value;
        n = snprintf(text + len, size - len, "%s.%s", len > 0 ? " " : "", key);
        if (n < 0 || (size_t)n >= size - len) {
            text[len] = '\0';
            return;
        }
        len += (size_t)n;
    }
}

/* Refuses ".A" and ".A.B" where the strict root has no A. */
static int check_member(const struct template_run *r, const json_t *here, const char *path)
{
    size_t len = strcspn(path + 1, ".");
    char name[WORD_BYTES], known[512];

    if (r->strict == NULL || here != r->strict || len == 0 || len >= sizeof(name))
        return 0;
    (void)memcpy(name, path + 1, len);
    name[len] = '\0';
    if (json_object_get(here, name) != NULL)
        return 0;
    list_members(r->strict, known, sizeof(known));
    return err_set(r->err, -EINVAL, "--format: there is no .%s; there is %s", name, known);
}

static int put_json(const struct template_run *r, const json_t *value)
{
    auto_free char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);

    return text == NULL ? err_errno(r->err, -ENOMEM, "--format") : buf_append_str(r->out, text);
}

static int put_value(const struct template_run *r, const json_t *value)
{
    if (value == NULL)
        return buf_append_str(r->out, "<no value>");
    if (json_is_string(value))
        return buf_append_str(r->out, json_string_value(value));
    return put_json(r, value);
}

static size_t value_length(const json_t *value)
{
    if (json_is_string(value))
        return json_string_length(value);
    return json_is_array(value) ? json_array_size(value) : json_object_size(value);
}

static int put_joined(const struct template_run *r, const json_t *list, const char *between)
{
    json_t *element;
    size_t i;
    int n = 0;

    json_array_foreach(list, i, element) {
        if (i > 0)
            n = buf_append_str(r->out, between);
        if (n == 0)
            n = put_value(r, element);
        if (n < 0)
            return n;
    }
    return 0;
}

static int run_action(const struct template_run *r, const struct template_action *a, json_t *here,
                      const char *at, size_t len)
{
    const char *first = a->count > 0 ? a->words[0] : "";
    const char *path = a->count > 1 ? a->words[1] : first;
    int n = path[0] == '.' ? check_member(r, here, path) : 0;

    if (n < 0)
        return n;
    if (a->count == 1 && first[0] == '.')
        return put_value(r, find_member(here, first));
    if (a->count >= 2 && a->words[1][0] != '.')
        return template_error(r, at, len);
    if (a->count == 2 && strcmp(first, "json") == 0) {
        json_t *value = find_member(here, a->words[1]);

        return value != NULL ? put_json(r, value) : buf_append_str(r->out, "null");
    }
    if (a->count == 2 && strcmp(first, "len") == 0)
        return buf_printf(r->out, "%zu", value_length(find_member(here, a->words[1])));
    if (a->count == 3 && strcmp(first, "join") == 0)
        return put_joined(r, find_member(here, a->words[1]), a->words[2]);
    return template_error(r, at, len);
}

static int render_text(const struct template_run *r, const char **at, json_t *here, unsigned depth,
                       bool write);

/* Renders the body for each element. For an empty list the body is parsed once without output. */
static int render_range(const struct template_run *r, const char **at, json_t *list, unsigned depth,
                        bool write)
{
    const char *begin = *at;
    size_t count = write ? json_array_size(list) : 0;
    int n = 0;

    for (size_t i = 0; n == 0 && i < count; i++) {
        *at = begin;
        n = render_text(r, at, json_array_get(list, i), depth + 1, true);
    }
    if (n < 0 || count > 0)
        return n;
    *at = begin;
    return render_text(r, at, list, depth + 1, false);
}

/* Renders up to the end of the text, or (depth > 0) behind {{end}}. */
static int render_text(const struct template_run *r, const char **at, json_t *here, unsigned depth,
                       bool write)
{
    while (**at != '\0') {
        const char *open = strstr(*at, "{{"), *close = open != NULL ? strstr(open, "}}") : NULL;
        size_t text = open != NULL ? (size_t)(open - *at) : strlen(*at);
        struct template_action a;
        int n = write ? buf_append(r->out, *at, text) : 0;

        *at += text;
        if (n < 0 || open == NULL)
            return n;
        if (close == NULL || depth == TEMPLATE_DEPTH_MAX)
            return template_error(r, open, strlen(open));
        n = split_action(r, open + 2, close, &a);
        *at = close + 2;
        if (n == 0 && a.count == 1 && strcmp(a.words[0], "end") == 0)
            return depth > 0 ? 0 : template_error(r, open, (size_t)(close + 2 - open));
        if (n == 0 && a.count == 2 && strcmp(a.words[0], "range") == 0)
            n = check_member(r, here, a.words[1]);
        if (n == 0 && a.count == 2 && strcmp(a.words[0], "range") == 0)
            n = render_range(r, at, find_member(here, a.words[1]), depth, write);
        else if (n == 0 && write)
            n = run_action(r, &a, here, open, (size_t)(close + 2 - open));
        if (n < 0)
            return n;
    }
    return depth > 0 ? err_set(r->err, -EINVAL, "--format: range without end") : 0;
}

int docker_template(const char *format, json_t *root, struct buf *out, struct err *err)
{
    const struct template_run r = {.out = out, .err = err};

    return render_text(&r, &format, root, 0, true);
}

int docker_template_strict(const char *format, json_t *root, struct buf *out, struct err *err)
{
    const struct template_run r = {.out = out, .err = err, .strict = root};

    return render_text(&r, &format, root, 0, true);
}
