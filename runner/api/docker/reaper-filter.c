/* Pure functions on the lines of Ryuk's protocol. Run in the supervisor's loop thread; called by
 * reaper.c. */
#include "api/docker/reaper-filter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "spec/spec.h"

void reaper_filter_free(struct reaper_filter *f)
{
    for (size_t i = 0; f != NULL && f->labels[i] != NULL; i++)
        free(f->labels[i]);
    free(f);
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Returns the unescaped text of a part of a query; NULL: a bad escape, a NUL, or OOM. */
static char *query_unescape(const char *text, size_t len)
{
    char *ret = malloc(len + 1);
    size_t n = 0;

    for (size_t i = 0; ret != NULL && i < len; i++) {
        char c = text[i] == '+' ? ' ' : text[i];

        if (c == '%') {
            int high = len - i > 2 ? hex_value(text[i + 1]) : -1;
            int low = len - i > 2 ? hex_value(text[i + 2]) : -1;

            c = high < 0 || low < 0 ? '\0' : (char)(high * 16 + low);
            i += 2;
        }
        if (c == '\0') {
            free(ret);
            return NULL;
        }
        ret[n++] = c;
    }
    if (ret != NULL)
        ret[n] = '\0';
    return ret;
}

static int filter_take_part(struct reaper_filter *f, size_t count, const char *part, size_t len,
                            struct err *err)
{
    static const char key[] = "label=";
    const size_t n = sizeof(key) - 1;

    if (len <= n || strncmp(part, key, n) != 0)
        return err_set(err, -EINVAL, "filter: \"%.*s\": must be label=…",
                       (int)(len < 64 ? len : 64), part);
    if (count == REAPER_LABELS_MAX)
        return err_set(err, -EINVAL, "filter: more than %d labels", REAPER_LABELS_MAX);
    f->labels[count] = query_unescape(part + n, len - n);
    if (f->labels[count] == NULL)
        return err_set(err, -EINVAL, "filter: a bad escape");
    return 0;
}

int reaper_filter_parse(const char *line, size_t len, struct reaper_filter **ret, struct err *err)
{
    auto_ptr(reaper_filter_free) struct reaper_filter *f = calloc(1, sizeof(*f));
    size_t count = 0;

    if (f == NULL)
        return err_errno(err, -ENOMEM, "filter");
    for (size_t at = 0; at < len;) {
        const char *end = memchr(line + at, '&', len - at);
        size_t n = end != NULL ? (size_t)(end - line) - at : len - at;
        int r = n > 0 ? filter_take_part(f, count, line + at, n, err) : 0;

        if (r < 0)
            return r;
        count += n > 0;
        at += n + 1;
    }
    if (count == 0)
        return err_set(err, -EINVAL, "filter: no label");
    *ret = take(f);
    return 0;
}

/* wanted: "K=V", or "K" for any value. */
static bool labels_have(char *const *labels, const char *wanted)
{
    size_t n = strlen(wanted);
    bool whole = strchr(wanted, '=') != NULL;

    for (; labels != NULL && *labels != NULL; labels++)
        if (strncmp(*labels, wanted, n) == 0 &&
            ((*labels)[n] == '\0' || (!whole && (*labels)[n] == '=')))
            return true;
    return false;
}

bool reaper_filter_match(const struct reaper_filter *f, char *const *labels)
{
    for (size_t i = 0; f->labels[i] != NULL; i++)
        if (!labels_have(labels, f->labels[i]))
            return false;
    return true;
}

bool reaper_filter_equal(const struct reaper_filter *a, const struct reaper_filter *b)
{
    size_t i = 0;

    while (a->labels[i] != NULL && b->labels[i] != NULL && strcmp(a->labels[i], b->labels[i]) == 0)
        i++;
    return a->labels[i] == NULL && b->labels[i] == NULL;
}

/* The other labels of a reaper, as testcontainers' version, can be guessed. */
static bool label_is_session(const char *label, const char *value)
{
    static const char word[] = "session";
    size_t n = strcspn(label, "=");

    if (label[n] != '=' || strcmp(label + n + 1, value) != 0 ||
        strncmp(label, SPEC_LABEL_OWN "=", sizeof(SPEC_LABEL_OWN)) == 0)
        return false;
    for (size_t i = 0; i + sizeof(word) - 1 <= n; i++)
        if (strncasecmp(label + i, word, sizeof(word) - 1) == 0)
            return true;
    return false;
}

static bool is_session(const char *value, const char *name, char *const *labels)
{
    size_t len = strlen(value), whole = strlen(name);

    if (len < REAPER_SECRET_MIN)
        return false;
    if (len < whole && strcmp(name + whole - len, value) == 0)
        return true;
    for (; labels != NULL && *labels != NULL; labels++)
        if (label_is_session(*labels, value))
            return true;
    return false;
}

bool reaper_filter_knows_session(const struct reaper_filter *f, const char *name,
                                 char *const *labels)
{
    for (size_t i = 0; f->labels[i] != NULL; i++) {
        const char *equals = strchr(f->labels[i], '=');

        if (equals != NULL && is_session(equals + 1, name, labels))
            return true;
    }
    return false;
}
