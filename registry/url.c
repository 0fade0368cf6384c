/*
 * The URLs behind url.h. Runs in rind-registry, called for each hop of a request. Pure.
 */
#include "url.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/number.h"

enum { PORT_HTTP = 80, PORT_HTTPS = 443, PORT_DIGITS = 5 };

static bool is_host_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_';
}

static int url_parse_port(const char *text, size_t len, uint16_t *ret)
{
    char digits[PORT_DIGITS + 1];
    int64_t port;

    if (len == 0 || len > PORT_DIGITS)
        return -EINVAL;
    (void)memcpy(digits, text, len);
    digits[len] = '\0';
    port = number_whole(digits, PORT_DIGITS);
    if (port < 1 || port > UINT16_MAX)
        return -EINVAL;
    *ret = (uint16_t)port;
    return 0;
}

int url_parse_host(const char *text, size_t len, char ret_host[URL_HOST_MAX + 1],
                   uint16_t *ret_port)
{
    const char *colon = memrchr(text, ':', len), *host = text;
    size_t host_len = len;
    struct in6_addr six;
    char copy[URL_HOST_MAX + 1];
    uint16_t port = 0;

    if (len > 0 && text[0] == '[') {
        const char *end = memchr(text, ']', len);

        if (end == NULL)
            return -EINVAL;
        host = text + 1;
        host_len = (size_t)(end - host);
        colon = end + 1 < text + len ? end + 1 : NULL;
        if (colon != NULL && *colon != ':')
            return -EINVAL;
    } else if (colon != NULL) {
        host_len = (size_t)(colon - text);
    }
    if (host_len == 0 || host_len > URL_HOST_MAX)
        return -EINVAL;
    for (size_t i = 0; i < host_len; i++)
        copy[i] = (char)tolower((unsigned char)host[i]);
    copy[host_len] = '\0';
    if (text[0] == '[' ? inet_pton(AF_INET6, copy, &six) != 1 : copy[0] == '-' || copy[0] == '.')
        return -EINVAL;
    for (size_t i = 0; text[0] != '[' && i < host_len; i++)
        if (!is_host_char(copy[i]) || (copy[i] == '.' && copy[i + 1] == '.'))
            return -EINVAL;
    if (colon != NULL && url_parse_port(colon + 1, len - (size_t)(colon + 1 - text), &port) < 0)
        return -EINVAL;
    (void)memcpy(ret_host, copy, host_len + 1);
    *ret_port = port;
    return 0;
}

/* Copies path and query without the fragment. Bytes that no URL has are percent-encoded. */
static int url_copy_target(const char *text, char ret[URL_TARGET_MAX + 1])
{
    static const char hex[] = "0123456789ABCDEF";
    size_t n = 0;

    if (*text != '/')
        ret[n++] = '/'; /* "https://host?query" */
    for (; *text != '\0' && *text != '#'; text++) {
        unsigned char c = (unsigned char)*text;

        if (n + 3 > URL_TARGET_MAX)
            return -E2BIG;
        if (c < 0x20 || c == 0x7f)
            return -EINVAL;
        if (c == ' ' || c >= 0x80 || strchr("\"<>\\^`{|}", c) != NULL) {
            ret[n++] = '%';
            ret[n++] = hex[c >> 4];
            c = (unsigned char)hex[c & 15];
        }
        ret[n++] = (char)c;
    }
    ret[n] = '\0';
    return 0;
}

static int url_parse_authority(const char *text, struct url *u, struct err *err)
{
    size_t len = strcspn(text, "/?#");
    int r;

    u->port = 0;
    if (memchr(text, '@', len) != NULL || url_parse_host(text, len, u->host, &u->port) < 0)
        return err_set(err, -EINVAL, "a URL whose host is no name or address");
    if (u->port == 0)
        u->port = u->https ? PORT_HTTPS : PORT_HTTP;
    r = url_copy_target(text + len, u->target);
    return r < 0 ? err_set(err, r,
                           r == -E2BIG ? "a URL that is too long" : "a URL with control characters")
                 : 0;
}

/* The length of "scheme:", 0 if there is none. */
static size_t url_scheme_len(const char *text)
{
    size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.");

    return n > 0 && text[n] == ':' && isalpha((unsigned char)text[0]) ? n + 1 : 0;
}

int url_parse(const char *text, struct url *ret, struct err *err)
{
    size_t scheme = url_scheme_len(text);
    struct url u = {.https = strncasecmp(text, "https:", 6) == 0};
    int r;

    if (scheme == 0)
        return err_set(err, -EINVAL, "not a URL");
    if (!u.https && strncasecmp(text, "http:", 5) != 0)
        return err_set(err, -EPROTONOSUPPORT, "a URL of the scheme %.16s, not of http or https",
                       text);
    if (strncmp(text + scheme, "//", 2) != 0)
        return err_set(err, -EINVAL, "a URL without a host");
    r = url_parse_authority(text + scheme + 2, &u, err);
    if (r == 0)
        *ret = u;
    return r;
}

/* Resolves "." and ".." in the path of a target, in place. */
static void url_remove_dots(char *target)
{
    char *in = target, *out = target, *query = target + strcspn(target, "?");

    while (in < query) { /* *in is '/' */
        size_t part = strcspn(in + 1, "/?") + 1;
        bool last = in + part >= query;

        if (part == 2 && in[1] == '.') {
            if (last)
                *out++ = '/';
        } else if (part == 3 && in[1] == '.' && in[2] == '.') {
            while (out > target && *--out != '/')
                ;
            if (last)
                *out++ = '/';
        } else {
            (void)memmove(out, in, part);
            out += part;
        }
        in += part;
    }
    if (out == target)
        *out++ = '/';
    (void)memmove(out, query, strlen(query) + 1);
}

/* A path relative to that of base: "x", "../x", "?x". */
static int url_join_relative(const struct url *base, const char *text, struct url *u)
{
    char whole[2 * URL_TARGET_MAX + 2];
    size_t path = strcspn(base->target, "?");
    int r;

    while (text[0] != '?' && text[0] != '\0' && text[0] != '#' && path > 0 &&
           base->target[path - 1] != '/')
        path--;
    if (text[0] == '\0' || text[0] == '#')
        path = strlen(base->target);
    if (strlen(text) > URL_TARGET_MAX)
        return -E2BIG;
    (void)snprintf(whole, sizeof(whole), "%.*s%s", (int)path, base->target, text);
    r = url_copy_target(whole, u->target);
    if (r == 0)
        url_remove_dots(u->target);
    return r;
}

int url_join(const struct url *base, const char *text, struct url *ret, struct err *err)
{
    struct url u = *base;
    int r;

    if (url_scheme_len(text) > 0)
        return url_parse(text, ret, err);
    if (text[0] == '/' && text[1] == '/') {
        r = url_parse_authority(text + 2, &u, err);
        if (r == 0)
            *ret = u;
        return r;
    }
    r = text[0] == '/' ? url_copy_target(text, u.target) : url_join_relative(base, text, &u);
    if (r < 0)
        return err_set(err, r,
                       r == -E2BIG ? "a URL that is too long" : "a URL with control characters");
    *ret = u;
    return 0;
}

bool url_same_origin(const struct url *a, const struct url *b)
{
    return a->https == b->https && a->port == b->port && strcmp(a->host, b->host) == 0;
}

void url_format_host(const struct url *u, char *ret, size_t size)
{
    const bool six = strchr(u->host, ':') != NULL;
    char port[8] = "";

    if (u->port != (u->https ? PORT_HTTPS : PORT_HTTP))
        (void)snprintf(port, sizeof(port), ":%u", u->port);
    (void)snprintf(ret, size, "%s%s%s%s", six ? "[" : "", u->host, six ? "]" : "", port);
}

void url_format(const struct url *u, char ret[URL_TEXT_MAX + 1])
{
    char host[URL_HOST_MAX + 16];

    url_format_host(u, host, sizeof(host));
    (void)snprintf(ret, URL_TEXT_MAX + 1, "http%s://%s%s", u->https ? "s" : "", host, u->target);
}

void url_format_shown(const struct url *u, char *ret, size_t size)
{
    char host[URL_HOST_MAX + 16];

    url_format_host(u, host, sizeof(host));
    (void)snprintf(ret, size, "http%s://%s%.*s", u->https ? "s" : "", host,
                   (int)strcspn(u->target, "?"), u->target);
}

int url_add_query(struct url *u, const char *name, const char *value)
{
    static const char hex[] = "0123456789ABCDEF";
    size_t n = strlen(u->target), name_len = strlen(name);

    if (n + name_len + 2 + 3 * strlen(value) > URL_TARGET_MAX)
        return -E2BIG;
    u->target[n] = strchr(u->target, '?') == NULL ? '?' : '&';
    n++;
    (void)memcpy(u->target + n, name, name_len);
    n += name_len;
    u->target[n++] = '=';
    for (; *value != '\0'; value++) {
        unsigned char c = (unsigned char)*value;

        if (isalnum(c) || strchr("-._~:/", c) != NULL) {
            u->target[n++] = (char)c;
            continue;
        }
        u->target[n++] = '%';
        u->target[n++] = hex[c >> 4];
        u->target[n++] = hex[c & 15];
    }
    u->target[n] = '\0';
    return 0;
}
