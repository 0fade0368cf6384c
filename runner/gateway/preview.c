#include "gateway/preview.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/number.h"

static const char digits[] = "0123456789";
static const char token_bytes[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
static const char name_bytes[] = "abcdefghijklmnopqrstuvwxyz0123456789_-";
static const char host_bytes[] = "abcdefghijklmnopqrstuvwxyz0123456789_-.";

enum {
    TOKEN_ALPHABET = sizeof(token_bytes) - 1,
    DRAWN_MAX = 256 / TOKEN_ALPHABET * TOKEN_ALPHABET
};

bool preview_token_ok(const char *token)
{
    size_t len = strlen(token);

    return len >= 1 && len <= PREVIEW_TOKEN_MAX && strspn(token, token_bytes) == len;
}

bool preview_name_ok(const char *name)
{
    size_t len = strlen(name);

    return len >= 1 && len <= PREVIEW_LABEL_MAX && strspn(name, name_bytes) == len &&
           strchr("_-", name[0]) == NULL;
}

bool preview_token_same(const char a[PREVIEW_TOKEN_MAX + 1], const char b[PREVIEW_TOKEN_MAX + 1])
{
    char x[PREVIEW_TOKEN_MAX] = "", y[PREVIEW_TOKEN_MAX] = "";

    /* Padded to equal length, so that the comparison's time does not tell the lengths. */
    (void)memcpy(x, a, strnlen(a, sizeof(x)));
    (void)memcpy(y, b, strnlen(b, sizeof(y)));
    return CRYPTO_memcmp(x, y, sizeof(x)) == 0;
}

int preview_token_make(char ret[PREVIEW_TOKEN_MAX + 1])
{
    unsigned char drawn[64];
    size_t n = 0;

    while (n < PREVIEW_TOKEN_MAX) {
        if (getrandom(drawn, sizeof(drawn), 0) != (ssize_t)sizeof(drawn))
            return -errno;
        /* Bytes above DRAWN_MAX are skipped, so that all letters are equally likely. */
        for (size_t i = 0; i < sizeof(drawn) && n < PREVIEW_TOKEN_MAX; i++)
            if (drawn[i] < DRAWN_MAX)
                ret[n++] = token_bytes[drawn[i] % TOKEN_ALPHABET];
    }
    ret[n] = '\0';
    return 0;
}

/* ---- parsing ---- */

/* Lower-cases a host and removes port and final dot. [address] is accepted and becomes "". */
static int host_normalize(const char *host, char ret[PREVIEW_HOST_MAX + 1], unsigned *ret_port)
{
    size_t len = strcspn(host, ":");
    const char *port = host + len;

    if (host[0] == '[') {
        len = strspn(host + 1, "0123456789abcdefABCDEF:.");
        if (len < 2 || host[1 + len] != ']')
            return -EBADMSG;
        port = host + len + 2;
        len = 0;
    } else if (len == 0) {
        return -EBADMSG;
    }
    *ret_port = 0;
    if (*port == ':') {
        int64_t number = number_whole(port + 1, 5);

        if (number < 0 || number > 65535)
            return -EBADMSG;
        *ret_port = (unsigned)number;
    } else if (*port != '\0') {
        return -EBADMSG;
    }
    if (len > 1 && host[len - 1] == '.')
        len--;
    if (len > PREVIEW_HOST_MAX)
        return -EBADMSG;
    for (size_t i = 0; i < len; i++)
        ret[i] = host[i] >= 'A' && host[i] <= 'Z' ? (char)(host[i] - 'A' + 'a') : host[i];
    ret[len] = '\0';
    return strspn(ret, host_bytes) == len && strstr(ret, "..") == NULL && ret[0] != '.' ? 0
                                                                                        : -EBADMSG;
}

/* Parses a port such as "8080"; only the shortest spelling is allowed. */
static bool port_parse(const char *text, size_t len, unsigned *ret)
{
    unsigned value = 0;

    if (len < 4 || len > 5 || text[0] == '0' || strspn(text, digits) < len)
        return false;
    for (size_t i = 0; i < len; i++)
        value = value * 10 + (unsigned)(text[i] - '0');
    *ret = value;
    return value >= PREVIEW_PORT_MIN && value <= PREVIEW_PORT_MAX;
}

static bool host_is_local(const char *name)
{
    static const char suffix[] = ".localhost";
    size_t len = strlen(name), cut = sizeof(suffix) - 1;

    return strcmp(name, suffix + 1) == 0 || (len > cut && strcmp(name + len - cut, suffix) == 0);
}

int preview_parse(const char *host, struct preview *ret)
{
    char text[PREVIEW_HOST_MAX + 1], *first, *last;
    struct preview p = {.port = 0};
    unsigned port;

    if (host_normalize(host, text, &port) < 0)
        return -EBADMSG;
    p.local = host_is_local(text);
    text[strcspn(text, ".")] = '\0';
    first = strchr(text, '-');
    last = strrchr(text, '-');
    if (first == NULL || first == last || strlen(text) > PREVIEW_LABEL_MAX)
        return -ENOENT;
    *last = '\0';
    if (!port_parse(text, (size_t)(first - text), &p.port) || !preview_name_ok(first + 1) ||
        !preview_token_ok(last + 1))
        return -ENOENT;
    (void)snprintf(p.name, sizeof(p.name), "%s", first + 1);
    (void)snprintf(p.token, sizeof(p.token), "%s", last + 1);
    *ret = p;
    return 0;
}

/* ---- URLs ---- */

unsigned preview_token_min(const struct preview_front *front, bool local)
{
    if (front->port == 0)
        return 1;
    if (front->min_token > 0)
        return front->min_token;
    return front->loopback && local ? 1 : PREVIEW_TOKEN_MAX;
}

int preview_host_parse(const char *text, struct preview_host *ret, struct err *err)
{
    struct preview_host h = {.port = 0};
    const char *last;

    if (host_normalize(text, h.name, &h.port) < 0 || strchr(h.name, '_') != NULL)
        return err_set(err, -EINVAL, "hostname: must be a host name, perhaps with :port");
    last = strrchr(h.name, '.');
    last = last == NULL ? h.name : last + 1;
    if (*last == '\0' || strspn(last, digits) == strlen(last))
        return err_set(err, -EINVAL,
                       "hostname: an address has no names below it; use localhost, or a name whose "
                       "subdomains lead here");
    h.local = host_is_local(h.name);
    *ret = h;
    return 0;
}

int preview_url(const struct preview *p, const struct preview_host *host,
                const struct preview_front *front, char ret[PREVIEW_URL_MAX], struct err *err)
{
    bool https = !host->local || front->tls;
    unsigned port = host->port, usual = https ? 443 : 80;
    char label[2 * PREVIEW_LABEL_MAX + 32], at[16] = "";
    int len = snprintf(label, sizeof(label), "%u-%s-%s", p->port, p->name, p->token);

    if (len > PREVIEW_LABEL_MAX)
        return err_set(err, -ENAMETOOLONG,
                       "the label %s is longer than the %d bytes of a host name's; use a shorter "
                       "token, or a sandbox with a shorter name",
                       label, PREVIEW_LABEL_MAX);
    if ((size_t)len + 1 + strlen(host->name) > PREVIEW_HOST_MAX)
        return err_set(err, -ENAMETOOLONG, "hostname: too long for %s in front of it", label);
    /* Without TLS of its own, the gateway is behind an https proxy at the usual port. */
    if (port == 0 && (host->local || front->tls))
        port = front->port;
    if (port != 0 && port != usual)
        (void)snprintf(at, sizeof(at), ":%u", port);
    (void)snprintf(ret, PREVIEW_URL_MAX, "%s://%s.%s%s/", https ? "https" : "http", label,
                   host->name, at);
    return 0;
}
