/*
 * The texts behind refusal.h. Runs in rind-registry, for each answer that is a refusal. Pure.
 */
#include "refusal.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "json/parse.h"

enum { REFUSAL_BODY_MAX = 64 << 10 };

/* Decodes one character of UTF-8. Returns its bytes, 0 if it is invalid. */
static size_t utf8_take(const unsigned char *at, size_t left, unsigned *ret)
{
    static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t n = at[0] < 0x80 ? 1 : at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : at[0] >= 0xc0 ? 2 : 0;
    unsigned c = n == 1 ? at[0] : n == 2 ? at[0] & 0x1fU : n == 3 ? at[0] & 0xfU : at[0] & 7U;

    if (n == 0 || n > left || at[0] > 0xf4)
        return 0;
    for (size_t i = 1; i < n; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (at[i] & 0x3fU);
    }
    if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return 0;
    *ret = c;
    return n;
}

static bool is_harmless(unsigned c)
{
    return c >= 0x20 && !(c >= 0x7f && c < 0xa0) && c != 0x2028 && c != 0x2029 &&
           !(c >= 0x200e && c <= 0x200f) && !(c >= 0x202a && c <= 0x202e) &&
           !(c >= 0x2066 && c <= 0x2069) && c != 0xfeff;
}

void text_for_terminal(const char *text, size_t len, char *ret, size_t size)
{
    static const char hex[] = "0123456789abcdef";
    const unsigned char *at = (const unsigned char *)text;
    const size_t room = size - sizeof("...");
    size_t n = 0;

    while (len > 0) {
        unsigned c = 0;
        size_t used = utf8_take(at, len, &c), need;
        bool plain = used > 0 && is_harmless(c), blank = *at == '\n' || *at == '\r' || *at == '\t';

        if (used == 0)
            used = 1;
        need = plain ? used : blank ? 1 : 4 * used;
        if (n + need > room) {
            (void)memcpy(ret + n, "...", 3);
            n += 3;
            break;
        }
        for (size_t i = 0; i < used && !blank; i++) {
            if (plain) {
                ret[n++] = (char)at[i];
                continue;
            }
            ret[n++] = '\\';
            ret[n++] = 'x';
            ret[n++] = hex[at[i] >> 4];
            ret[n++] = hex[at[i] & 15];
        }
        if (blank)
            ret[n++] = ' ';
        at += used;
        len -= used;
    }
    while (n > 0 && ret[n - 1] == ' ')
        n--;
    ret[n] = '\0';
}

int text_is_html(const char *body, size_t len)
{
    while (len > 0 && isspace((unsigned char)*body)) {
        body++;
        len--;
    }
    return (len >= 5 && strncasecmp(body, "<html", 5) == 0) ||
           (len >= 9 && strncasecmp(body, "<!doctype", 9) == 0);
}

/* "code: message" of the first entry; false if there is none. */
static bool refusal_from_json(const char *body, size_t len, char ret[REFUSAL_TEXT_MAX + 1])
{
    auto_ptr(json_decref) json_t *root = NULL;
    json_t *first, *code, *message;
    char text[4 * REFUSAL_TEXT_MAX];
    size_t n = 0;

    if (json_parse(body, len, REFUSAL_BODY_MAX, &root, NULL) < 0)
        return false;
    first = json_array_get(json_object_get(root, "errors"), 0);
    code = json_object_get(first, "code");
    message = json_object_get(first, "message");
    if (!json_is_string(code) && !json_is_string(message)) {
        /* token servers: {"error", "error_description"}, {"details"}, {"message"} */
        static const char *const keys[] = {"error_description", "details", "message", "error"};

        for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
            message = json_object_get(root, keys[i]);
            if (json_is_string(message))
                break;
        }
        if (!json_is_string(message))
            return false;
    }
    if (json_is_string(code)) {
        for (const char *c = json_string_value(code); *c != '\0' && n < 64; c++)
            text[n++] = (char)tolower((unsigned char)*c);
        for (size_t i = 0; i < n; i++) /* MANIFEST_UNKNOWN is shown as "manifest unknown" */
            if (text[i] == '_')
                text[i] = ' ';
    }
    text[n] = '\0';
    if (json_is_string(message) && json_string_length(message) > 0 &&
        strcasecmp(json_string_value(message), text) != 0) {
        int more = snprintf(text + n, sizeof(text) - n, "%s%s", n > 0 ? ": " : "",
                            json_string_value(message));

        n += more < 0 ? 0 : (size_t)more < sizeof(text) - n ? (size_t)more : sizeof(text) - n - 1;
    }
    text_for_terminal(text, n, ret, REFUSAL_TEXT_MAX + 1);
    return ret[0] != '\0';
}

void refusal_text(const char *body, size_t len, char ret[REFUSAL_TEXT_MAX + 1])
{
    size_t line = 0;

    if (len > 0 && refusal_from_json(body, len, ret))
        return;
    if (text_is_html(body, len)) {
        (void)snprintf(ret, REFUSAL_TEXT_MAX + 1,
                       "a page of HTML, as from a proxy or the sign-in of a network");
        return;
    }
    while (len > 0 && isspace((unsigned char)*body)) {
        body++;
        len--;
    }
    while (line < len && line < 200 && body[line] != '\n')
        line++;
    text_for_terminal(body, line, ret, REFUSAL_TEXT_MAX + 1);
}
