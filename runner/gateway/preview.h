#pragma once

/*
 * Names of preview URLs: <port>-<sandbox>-<token>.<hostname>. A token holds no '-' and a port only
 * digits, so the first and the last '-' of the label part it, whatever the sandbox is called. Pure.
 */

#include <stdbool.h>
#include <stddef.h>

struct err;

enum {
    PREVIEW_PORT_MIN = 1024,
    PREVIEW_PORT_MAX = 65535,
    PREVIEW_TOKEN_MAX = 16, /* of a-z 0-9 _ */
    PREVIEW_LABEL_MAX = 63, /* bytes of the whole label: DNS's */
    PREVIEW_HOST_MAX = 253, /* bytes of a host name: DNS's */
    PREVIEW_URL_MAX = 480,
};

struct preview {
    unsigned port;
    char name[PREVIEW_LABEL_MAX + 1], token[PREVIEW_TOKEN_MAX + 1];
};

/* What a Host header names: 0; -ENOENT: a host, but no preview's; -EBADMSG: no host at all. Upper
 * case is as good as lower, a dot at the end and a port do not matter. */
int preview_parse(const char *host, struct preview *ret);

bool preview_token_ok(const char *token);
/* Whether a sandbox of this name can have a preview URL at all. */
bool preview_name_ok(const char *name);
/* Whether both are the same, in a time that says nothing about where they differ. */
bool preview_token_same(const char a[PREVIEW_TOKEN_MAX + 1], const char b[PREVIEW_TOKEN_MAX + 1]);
/* PREVIEW_TOKEN_MAX random characters. Negative errno. */
int preview_token_make(char ret[PREVIEW_TOKEN_MAX + 1]);

struct preview_host {
    char name[PREVIEW_HOST_MAX + 1]; /* lower case, no dot at the end */
    unsigned port;                   /* 0 = not said */
    bool local;                      /* localhost, or something below it */
};

/* "name[:port]" that URLs are to be made below. -EINVAL: no such name, or an address, which has
 * nothing below it. */
int preview_host_parse(const char *text, struct preview_host *ret, struct err *err);

/* Where the gateway listens. */
struct preview_front {
    unsigned port; /* 0 = nowhere */
    bool tls;
};

/*
 * The URL. http for names below localhost where the gateway has no TLS, https otherwise; the port
 * is the host's, or for local names and with TLS the gateway's. -ENAMETOOLONG: the label, or the
 * whole name, with how much is too much.
 */
int preview_url(const struct preview *p, const struct preview_host *host,
                const struct preview_front *front, char ret[PREVIEW_URL_MAX], struct err *err);
