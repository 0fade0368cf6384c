/*
 * The parser behind challenge.h. Runs in rind-registry, for each answer with status 401. Pure.
 */
#include "challenge.h"

#include <string.h>
#include <strings.h>

static bool is_token_char(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static const char *skip_blanks(const char *at)
{
    while (*at == ' ' || *at == '\t')
        at++;
    return at;
}

static const char *skip_token(const char *at)
{
    while (is_token_char(*at))
        at++;
    return at;
}

/* True if a parameter begins here: NAME = VALUE. The padding of a token68 ("abc==") is none. */
static bool is_param(const char *at)
{
    const char *end = skip_token(at);

    if (end == at)
        return false;
    end = skip_blanks(end);
    if (*end != '=')
        return false;
    end = skip_blanks(end + 1);
    return *end == '"' || is_token_char(*end);
}

/* Copies a value, quoted or not, into ret, which is NULL for a parameter of no interest. Moves *at
 * behind it. False: too long, or without its closing quote. */
static bool challenge_get_value(const char **at, char *ret)
{
    bool quoted = **at == '"', fits = true;
    const char *p = *at + quoted;
    size_t n = 0;

    for (; *p != '\0' && (quoted ? *p != '"' : is_token_char(*p) || strchr("/:=@?", *p) != NULL);
         p++) {
        if (quoted && *p == '\\' && p[1] != '\0')
            p++;
        if (n < CHALLENGE_TEXT_MAX && ret != NULL)
            ret[n] = *p;
        n++;
    }
    fits = n <= CHALLENGE_TEXT_MAX && (!quoted || *p == '"');
    if (ret != NULL)
        ret[fits ? n : 0] = '\0';
    *at = p + (*p == '"' && quoted);
    return fits;
}

static const char *challenge_get_params(const char *at, struct challenge *c, bool *ok)
{
    while (is_param(at)) {
        const char *name = at, *end = skip_token(at);
        size_t len = (size_t)(end - name);
        char *into = NULL;

        if (len == 5 && strncasecmp(name, "realm", len) == 0)
            into = c->realm;
        else if (len == 7 && strncasecmp(name, "service", len) == 0)
            into = c->service;
        else if (len == 5 && strncasecmp(name, "scope", len) == 0)
            into = c->scope;
        at = skip_blanks(skip_blanks(end) + 1);
        if (!challenge_get_value(&at, into))
            *ok = false;
        at = skip_blanks(at);
        /* the comma before the next parameter, or before the next challenge */
        while (*at == ',')
            at = skip_blanks(at + 1);
    }
    return at;
}

void challenge_add(struct challenge *c, const char *value)
{
    const char *at = value;

    for (;;) {
        struct challenge next = {.scheme = CHALLENGE_NONE};
        const char *name, *end;
        bool ok = true;

        while (*at == ',' || *at == ' ' || *at == '\t')
            at++;
        name = at;
        end = skip_token(at);
        if (end == name)
            return; /* the end, or bytes of no challenge */
        if (end - name == 6 && strncasecmp(name, "Bearer", 6) == 0)
            next.scheme = CHALLENGE_BEARER;
        else if (end - name == 5 && strncasecmp(name, "Basic", 5) == 0)
            next.scheme = CHALLENGE_BASIC;
        at = skip_blanks(end);
        if (!is_param(at) && at > end) /* a token68, of Negotiate */
            at += strcspn(at, ",");
        at = challenge_get_params(at, &next, &ok);
        if (next.scheme == CHALLENGE_BEARER && next.realm[0] == '\0')
            ok = false;
        if (ok && next.scheme > c->scheme)
            *c = next;
    }
}
