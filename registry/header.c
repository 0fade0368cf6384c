/*
 * The parsers behind header.h. Runs in rind-registry, called for the answers of registries. Pure.
 */
#include "header.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/number.h"

bool header_content_range(const char *text, int64_t *ret_first, int64_t *ret_last,
                          int64_t *ret_total)
{
    int64_t first, last, total = -1;

    if (strncasecmp(text, "bytes", 5) != 0 || text[5] != ' ')
        return false;
    text += 5 + strspn(text + 5, " ");
    first = number_take(&text, NUMBER_DIGITS_MAX);
    if (first < 0 || *text++ != '-')
        return false;
    last = number_take(&text, NUMBER_DIGITS_MAX);
    if (last < first || *text++ != '/')
        return false;
    if (strcmp(text, "*") != 0) {
        total = number_whole(text, NUMBER_DIGITS_MAX);
        if (total <= last)
            return false;
    }
    *ret_first = first;
    *ret_last = last;
    *ret_total = total;
    return true;
}

int64_t header_retry_after(const char *text, int64_t now)
{
    static const char *const formats[] = {"%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT",
                                          "%a %b %d %H:%M:%S %Y"};
    int64_t seconds = number_whole(text, NUMBER_DIGITS_MAX);

    if (seconds >= 0)
        return seconds;
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        struct tm tm = {.tm_sec = 0};
        const char *end = strptime(text, formats[i], &tm);

        if (end == NULL || *end != '\0')
            continue;
        seconds = (int64_t)timegm(&tm) - now;
        return seconds > 0 ? seconds : 0;
    }
    return -EINVAL;
}

/* True if the parameters behind a link's '>' have a rel whose words include "next". Moves *at to
 * the comma behind the link. */
static bool link_is_next(const char **at)
{
    const char *p = *at;
    bool next = false;

    while (*p != '\0' && *p != ',') {
        const char *name, *value;
        size_t name_len, value_len;
        bool quoted;

        p += strspn(p, " \t;");
        name = p;
        name_len = strcspn(p, " \t=;,");
        p += name_len;
        p += strspn(p, " \t");
        if (*p != '=') {
            if (name_len == 0 && *p != '\0' && *p != ',')
                p++;
            continue;
        }
        p += 1 + strspn(p + 1, " \t");
        quoted = *p == '"';
        value = p += quoted;
        value_len = quoted ? strcspn(p, "\"") : strcspn(p, " \t;,");
        p += value_len;
        if (quoted && *p == '"')
            p++;
        if (name_len != 3 || strncasecmp(name, "rel", 3) != 0)
            continue;
        for (size_t i = 0; i < value_len;) { /* words, joined by blanks */
            size_t word = 0;

            while (i + word < value_len && value[i + word] != ' ')
                word++;
            if (word == 4 && strncasecmp(value + i, "next", 4) == 0)
                next = true;
            i += word + 1;
        }
    }
    *at = p;
    return next;
}

bool header_link_next(const char *text, char *ret, size_t size)
{
    for (;;) {
        const char *end;

        text += strspn(text, " \t,");
        if (*text != '<')
            return false;
        end = strchr(text, '>');
        if (end == NULL)
            return false;
        text++;
        {
            const char *target = text;
            size_t len = (size_t)(end - text);

            text = end + 1;
            if (link_is_next(&text)) {
                if (len >= size)
                    return false;
                (void)memcpy(ret, target, len);
                ret[len] = '\0';
                return true;
            }
        }
    }
}

void header_media_type(const char *text, char *ret, size_t size)
{
    size_t len;

    text += strspn(text, " \t");
    len = strcspn(text, " \t;,");
    if (len >= size)
        len = 0;
    for (size_t i = 0; i < len; i++)
        ret[i] = (char)tolower((unsigned char)text[i]);
    ret[len] = '\0';
}
