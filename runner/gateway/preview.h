#pragma once

/* Host names of preview URLs: <port>-<sandbox>-<token>.<hostname>. A token has no '-' and a port
 * only digits, so the first and the last '-' of the label delimit the sandbox's name. Pure. */

#include <stdbool.h>
#include <stddef.h>

struct err;

enum {
    PREVIEW_PORT_MIN = 1024,
    PREVIEW_PORT_MAX = 65535,
    PREVIEW_TOKEN_MAX = 16, /* characters a-z 0-9 _ */
    PREVIEW_LABEL_MAX = 63, /* bytes of the label: DNS's limit */
    PREVIEW_HOST_MAX = 253, /* bytes of a host name: DNS's limit */
    PREVIEW_URL_MAX = 480,
};

struct preview {
    unsigned port;
    bool local; /* of preview_parse: the host is localhost or a name below it */
    char name[PREVIEW_LABEL_MAX + 1], token[PREVIEW_TOKEN_MAX + 1];
};

/* Parses a Host header. 0: a preview's host; -ENOENT: another host; -EBADMSG: not a host. Case,
 * a final dot and the port are ignored. */
int preview_parse(const char *host, struct preview *ret);

bool preview_token_ok(const char *token);
/* True if a sandbox of this name can have preview URLs. */
bool preview_name_ok(const char *name);
/* Compares two tokens in constant time. */
bool preview_token_same(const char a[PREVIEW_TOKEN_MAX + 1], const char b[PREVIEW_TOKEN_MAX + 1]);
/* Makes a token of PREVIEW_TOKEN_MAX random characters. 0 or a negative errno. */
int preview_token_make(char ret[PREVIEW_TOKEN_MAX + 1]);

struct preview_host {
    char name[PREVIEW_HOST_MAX + 1]; /* lower case, no dot at the end */
    unsigned port;                   /* 0 = not given */
    bool local;                      /* localhost or a name below it */
};

/* Parses "name[:port]", the name below which URLs are made. -EINVAL: malformed, or an address,
 * which has no names below it. */
int preview_host_parse(const char *text, struct preview_host *ret, struct err *err);

/* The gateway's listener. */
struct preview_front {
    unsigned port; /* 0 = nowhere */
    bool tls;
    bool loopback;      /* only this host reaches the listener */
    unsigned min_token; /* gateway.minToken; 0: it is not set */
};

/* Returns the fewest characters of a token for a host (`local`: below localhost). A token is the
 * whole permission, so it must not be guessed: 16, unless the configuration says less. Names below
 * localhost of a gateway on a loopback address, and names that no gateway of rind serves, may have
 * any. */
unsigned preview_token_min(const struct preview_front *front, bool local);

/* Writes the URL. The scheme is http for local names if the gateway has no TLS, otherwise https.
 * The port is the host's, or the gateway's for local names and with TLS. -ENAMETOOLONG: the
 * label or the whole name is too long. */
int preview_url(const struct preview *p, const struct preview_host *host,
                const struct preview_front *front, char ret[PREVIEW_URL_MAX], struct err *err);
