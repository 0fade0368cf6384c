#pragma once

/*
 * URLs of registries, of http and https only: absolute ones, and what a Location or Link header
 * says relative to one. Path and query are kept byte by byte, as registries sign them. Hostile
 * text. Pure.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

enum {
    URL_HOST_MAX = 255,
    URL_TARGET_MAX = 8191, /* path and query */
    URL_TEXT_MAX = URL_HOST_MAX + URL_TARGET_MAX + 32,
};

struct url {
    bool https;
    char host[URL_HOST_MAX + 1]; /* lower case; an IPv6 address is without its brackets */
    uint16_t port;
    char target[URL_TARGET_MAX + 1]; /* path and query, from its '/' on; no fragment */
};

/* Splits "host", "host:port", "[::1]:port", with a name, an IPv4 or an IPv6 address. *ret_port: 0
 * if there is none. -EINVAL. */
int url_parse_host(const char *text, size_t len, char ret_host[URL_HOST_MAX + 1],
                   uint16_t *ret_port);

/* Parses an absolute URL. -EPROTONOSUPPORT: another scheme than http and https. -EINVAL: no URL,
 * or one with a user in it. -E2BIG. The message does not quote path or query. */
int url_parse(const char *text, struct url *ret, struct err *err);
/* Parses a URL that may be relative to base; ret may be base. */
int url_join(const struct url *base, const char *text, struct url *ret, struct err *err);

bool url_same_origin(const struct url *a, const struct url *b);
/* "host", or "host:port" if the port is not the scheme's own; an IPv6 address in brackets. */
void url_format_host(const struct url *u, char *ret, size_t size);
void url_format(const struct url *u, char ret[URL_TEXT_MAX + 1]);
/* Scheme, host and path, for messages: a query may have a signature. */
void url_format_shown(const struct url *u, char *ret, size_t size);

/* Appends `name=value` to a query, the value percent-encoded; the first with '?' if there is none
 * yet. -E2BIG. */
int url_add_query(struct url *u, const char *name, const char *value);
