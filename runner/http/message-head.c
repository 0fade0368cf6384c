/* Parses the first line of a head, and the headers that decide about framing and routing. Pure;
 * called by message.c. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/number.h"
#include "http/message-internal.h"

bool is_token(const char *text)
{
    static const char accepted[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                   "0123456789!#$%&'*+-.^_`|~";

    return *text != '\0' && text[strspn(text, accepted)] == '\0';
}

bool list_has(const char *list, const char *token)
{
    size_t want = strlen(token);

    while (*list != '\0') {
        size_t len;

        list += strspn(list, " \t,");
        len = strcspn(list, " \t,");
        if (len == want && strncasecmp(list, token, len) == 0)
            return true;
        list += len;
    }
    return false;
}

/* ---- first lines ---- */

static int message_read_version(struct message *m, const char *text, struct err *err)
{
    if (strcmp(text, "HTTP/1.0") != 0 && strcmp(text, "HTTP/1.1") != 0)
        return err_set(err, strncmp(text, "HTTP/", 5) == 0 ? -EPROTONOSUPPORT : -EBADMSG,
                       "only HTTP/1.1 and HTTP/1.0 are spoken");
    m->http10 = text[7] == '0';
    return 0;
}

/* Splits "http://host/path" into host and "/path", in place. */
static int target_split_absolute(struct message *m, char *target, struct err *err)
{
    static const char *const schemes[] = {"http://", "https://"};

    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        size_t n = strlen(schemes[i]), len;

        if (strncasecmp(target, schemes[i], n) != 0)
            continue;
        len = strcspn(target + n, "/?");
        /* Moved to the front to make room for its NUL. */
        (void)memmove(target, target + n, len);
        m->host = target;
        m->target = target + n + len;
        target[len] = '\0';
        if (*m->target == '\0')
            m->target = "/";
        if (*m->target != '/' || len == 0)
            return err_set(err, -EBADMSG, "the target has no host, or no path");
        return 0;
    }
    return err_set(err, -EBADMSG, "the target is neither a path nor a URL");
}

int read_request_line(struct message *m, char *line, int *status, struct err *err)
{
    char *target = strchr(line, ' '), *version;
    int r;

    if (target == NULL || (version = strchr(target + 1, ' ')) == NULL)
        return err_set(err, -EBADMSG, "malformed request line");
    *target++ = '\0';
    *version++ = '\0';
    r = message_read_version(m, version, err);
    if (r < 0)
        return r;
    m->method = line;
    if (!is_token(line))
        return err_set(err, -EBADMSG, "malformed request line");
    if (strcmp(line, "CONNECT") == 0) {
        *status = 405;
        return err_set(err, -EOPNOTSUPP, "CONNECT has no meaning here");
    }
    for (const char *p = target; *p != '\0'; p++)
        if ((unsigned char)*p <= ' ' || (unsigned char)*p >= 0x7f || *p == '#')
            return err_set(err, -EBADMSG, "the target holds what no target can");
    m->target = target;
    m->host = NULL;
    if (*target == '/' || (strcmp(target, "*") == 0 && strcmp(line, "OPTIONS") == 0))
        return 0;
    return target_split_absolute(m, target, err);
}

int read_status_line(struct message *m, char *line, struct err *err)
{
    char *status = strchr(line, ' ');
    const char *reason;
    int64_t code;
    int r;

    if (status == NULL)
        return err_set(err, -EBADMSG, "malformed status line");
    *status++ = '\0';
    r = message_read_version(m, line, err);
    if (r < 0)
        return r;
    reason = status;
    code = number_take(&reason, 3);
    if (code < 100 || (*reason != ' ' && *reason != '\0'))
        return err_set(err, -EBADMSG, "malformed status line");
    m->status = (int)code;
    m->reason = *reason == ' ' ? reason + 1 : "";
    if (strlen(m->reason) > MESSAGE_REASON_MAX)
        return err_set(err, -EBADMSG, "a reason of more than %d bytes", MESSAGE_REASON_MAX);
    return 0;
}

/* ---- headers ---- */

/* The headers seen so far. */
struct head_gathered {
    const char *length, *host, *upgrade;
    bool chunked, close, keep, names_upgrade;
};

static int message_take_header(struct message *m, const struct msg_header *h, bool response,
                               int *status, struct head_gathered *g, struct err *err)
{
    if (strcasecmp(h->name, "content-length") == 0) {
        if (g->length != NULL)
            return err_set(err, -EBADMSG, "Content-Length is there twice");
        g->length = h->value;
    } else if (strcasecmp(h->name, "transfer-encoding") == 0) {
        if (g->chunked || m->http10 || strcasecmp(h->value, "chunked") != 0)
            return err_set(err, -EBADMSG,
                           "Transfer-Encoding must be 'chunked', once, and in HTTP/1.1");
        g->chunked = true;
    } else if (strcasecmp(h->name, "connection") == 0) {
        g->close = g->close || list_has(h->value, "close");
        g->keep = g->keep || list_has(h->value, "keep-alive");
        g->names_upgrade = g->names_upgrade || list_has(h->value, "upgrade");
    } else if (strcasecmp(h->name, "upgrade") == 0) {
        g->upgrade = g->upgrade == NULL ? h->value : ""; /* twice: refuse to upgrade */
    } else if (!response && strcasecmp(h->name, "host") == 0) {
        if (g->host != NULL)
            return err_set(err, -EBADMSG, "Host is there twice");
        g->host = h->value;
    } else if (!response && strcasecmp(h->name, "expect") == 0) {
        if (m->expect_continue || strcasecmp(h->value, "100-continue") != 0) {
            *status = 417;
            return err_set(err, -EOPNOTSUPP, "Expect can only be '100-continue'");
        }
        m->expect_continue = true;
    }
    return 0;
}

static int message_read_length(struct message *m, const char *text, struct err *err)
{
    uint64_t value = 0;

    if (*text == '\0' || strspn(text, "0123456789") != strlen(text) || strlen(text) > 18)
        return err_set(err, -EBADMSG, "Content-Length is no number");
    for (; *text != '\0'; text++)
        value = value * 10 + (uint64_t)(*text - '0');
    m->length = value;
    return 0;
}

bool is_bodiless(int status)
{
    return status < 200 || status == 204 || status == 304;
}

static int message_decide_framing(struct message *m, const struct head_gathered *g, bool response,
                                  bool head_of_get, struct err *err)
{
    int r;

    if (g->chunked && g->length != NULL)
        return err_set(err, -EBADMSG, "Content-Length beside Transfer-Encoding");
    if (g->length != NULL) {
        r = message_read_length(m, g->length, err);
        if (r < 0)
            return r;
    }
    if (response && (head_of_get || is_bodiless(m->status)))
        m->framing = FRAMING_NONE;
    else if (g->chunked)
        m->framing = FRAMING_CHUNKED;
    else if (g->length != NULL)
        m->framing = FRAMING_LENGTH;
    else
        m->framing = response ? FRAMING_CLOSE : FRAMING_NONE;
    return 0;
}

/* Absolute form and Host must agree: another reader might use the one that the gateway did not. */
static int message_decide_host(struct message *m, const struct head_gathered *g, struct err *err)
{
    if (g->host == NULL && !m->http10)
        return err_set(err, -EBADMSG, "Host is missing");
    if (m->host != NULL && g->host != NULL && strcasecmp(m->host, g->host) != 0)
        return err_set(err, -EBADMSG, "Host is not the host of the target");
    if (m->host == NULL)
        m->host = g->host != NULL ? g->host : "";
    return 0;
}

int read_headers(struct message *m, bool response, bool head_of_get, int *status, struct err *err)
{
    struct head_gathered g = {.length = NULL};
    int r = 0;

    for (size_t i = 0; r == 0 && i < m->header_count; i++)
        r = message_take_header(m, &m->headers[i], response, status, &g, err);
    if (r == 0)
        r = message_decide_framing(m, &g, response, head_of_get, err);
    if (r == 0 && !response)
        r = message_decide_host(m, &g, err);
    if (r < 0)
        return r;
    m->keep_alive = !g.close && m->framing != FRAMING_CLOSE && (!m->http10 || g.keep);
    /* If headers announce a body where none is allowed (HEAD, 204, 304), the server might send
     * one later, and it would be taken for the reply to the next request. */
    if (response && m->framing == FRAMING_NONE && (g.chunked || m->length > 0))
        m->keep_alive = false;
    m->expect_continue = m->expect_continue && !m->http10;
    /* A request with a body is not upgraded: it would be unclear where the new protocol begins.
     * h2c is refused, as it is a known way to smuggle requests past a proxy. */
    if (g.names_upgrade && g.upgrade != NULL && *g.upgrade != '\0' && !m->http10 &&
        !list_has(g.upgrade, "h2c") &&
        (response || m->framing == FRAMING_NONE ||
         (m->framing == FRAMING_LENGTH && m->length == 0)))
        m->upgrade = g.upgrade;
    return 0;
}
