#define PCRE2_CODE_UNIT_WIDTH 8

#include "api/native/process-match.h"

#include <errno.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

struct match {
    char *text; /* owned; NULL: an expression */
    size_t len;
    pcre2_code *code; /* owned, like the next two */
    pcre2_match_data *data;
    pcre2_match_context *context;
};

/* Bytes are compared as bytes, whatever the pattern requests; \C and callouts are disabled. */
enum {
    COMPILE = PCRE2_NEVER_UTF | PCRE2_NEVER_UCP | PCRE2_NEVER_BACKSLASH_C | PCRE2_DOLLAR_ENDONLY
};

static int match_compile(struct match *m, const char *pattern, struct err *err)
{
    PCRE2_SIZE at;
    int code;

    m->code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, COMPILE, &code, &at, NULL);
    if (m->code == NULL) {
        char why[160];

        (void)pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof(why));
        return err_set(err, -EINVAL, "pattern: at byte %zu: %s", (size_t)at, why);
    }
    m->data = pcre2_match_data_create(1, NULL);
    m->context = pcre2_match_context_create(NULL);
    if (m->data == NULL || m->context == NULL)
        return err_errno(err, -ENOMEM, "pattern");
    (void)pcre2_set_match_limit(m->context, MATCH_STEPS_MAX);
    (void)pcre2_set_depth_limit(m->context, MATCH_STEPS_MAX);
    (void)pcre2_set_heap_limit(m->context, MATCH_HEAP_MAX);
    return 0;
}

int match_new(const char *text, const char *pattern, struct match **ret, struct err *err)
{
    const char *what = pattern != NULL ? pattern : text;
    const char *name = pattern != NULL ? "pattern" : "text";
    size_t max = pattern != NULL ? MATCH_PATTERN_MAX : MATCH_TEXT_MAX;
    struct match *m;
    int r;

    if ((text != NULL) == (pattern != NULL))
        return err_set(err, -EINVAL, "text or pattern: one of the two");
    if (what[0] == '\0' || strlen(what) > max)
        return err_set(err, -EINVAL, "%s: 1 to %zu bytes", name, max);
    if (strpbrk(what, "\r\n") != NULL)
        return err_set(err, -EINVAL, "%s: a line holds no line end", name);
    m = calloc(1, sizeof(*m));
    if (m == NULL)
        return err_errno(err, -ENOMEM, "%s", name);
    m->len = strlen(what);
    if (pattern != NULL) {
        r = match_compile(m, pattern, err);
    } else {
        m->text = strdup(text);
        r = m->text == NULL ? err_errno(err, -ENOMEM, "%s", name) : 0;
    }
    if (r < 0)
        match_free(m);
    else
        *ret = m;
    return r;
}

void match_free(struct match *m)
{
    if (m == NULL)
        return;
    pcre2_match_context_free(m->context);
    pcre2_match_data_free(m->data);
    pcre2_code_free(m->code);
    free(m->text);
    free(m);
}

int match_line(struct match *m, const char *line, size_t len)
{
    int r;

    if (m->text != NULL)
        return memmem(line, len, m->text, m->len) != NULL;
    r = pcre2_match(m->code, (PCRE2_SPTR)line, len, 0, 0, m->data, m->context);
    if (r == PCRE2_ERROR_NOMATCH)
        return 0;
    return r >= 0 ? 1 : -ERANGE;
}

static int lines_test(struct match *m, const struct match_lines *l)
{
    size_t len = l->len;

    if (len > 0 && l->line[len - 1] == '\r')
        len--;
    return match_line(m, l->line, len);
}

/* A part of a long line: keeps the bytes in which a text that spans the cut may begin. */
static void lines_cut(const struct match *m, struct match_lines *l)
{
    size_t keep = m->text == NULL ? 0 : m->len - 1;

    (void)memmove(l->line, l->line + l->len - keep, keep);
    l->len = keep;
}

int match_feed(struct match *m, struct match_lines *l, const char *bytes, size_t len,
               size_t *ret_used)
{
    size_t used = 0;
    int r;

    if (l->clear)
        l->len = 0;
    l->clear = false;
    while (used < len) {
        size_t room = sizeof(l->line) - l->len;
        size_t n = len - used < room ? len - used : room;
        const char *end = memchr(bytes + used, '\n', n);

        if (end != NULL)
            n = (size_t)(end - (bytes + used));
        (void)memcpy(l->line + l->len, bytes + used, n);
        l->len += n;
        used += n + (end != NULL ? 1 : 0);
        if (end == NULL && l->len < sizeof(l->line))
            break;
        r = lines_test(m, l);
        if (r != 0) {
            l->clear = true;
            *ret_used = used;
            return r;
        }
        if (end != NULL)
            l->len = 0;
        else
            lines_cut(m, l);
    }
    *ret_used = used;
    return 0;
}

int match_rest(struct match *m, struct match_lines *l, bool last)
{
    if (l->len == 0 || l->clear || (m->text == NULL && !last))
        return 0;
    return lines_test(m, l);
}
