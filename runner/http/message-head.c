/* Judges a head as a proxy must: the target, the body's framing, the host. Pure; called by
 * message.c. */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "http/message-internal.h"

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
    char *target;
    int r = head_request_line(line, &target, &m->http10, err);

    if (r < 0)
        return r;
    m->method = line;
    if (strcmp(line, "CONNECT") == 0) {
        *status = 405;
        return err_set(err, -EOPNOTSUPP, "CONNECT has no meaning here");
    }
    m->target = target;
    m->host = NULL;
    if (*target == '/' || (strcmp(target, "*") == 0 && strcmp(line, "OPTIONS") == 0))
        return 0;
    return target_split_absolute(m, target, err);
}

int read_status_line(struct message *m, char *line, struct err *err)
{
    int r = head_status_line(line, &m->status, &m->reason, &m->http10, err);

    if (r == 0 && strlen(m->reason) > MESSAGE_REASON_MAX)
        return err_set(err, -EBADMSG, "a reason of more than %d bytes", MESSAGE_REASON_MAX);
    return r;
}

/* ---- headers ---- */

bool is_bodiless(int status)
{
    return status < 200 || status == 204 || status == 304;
}

static enum msg_framing message_framing(const struct message *m, const struct head_fields *f,
                                        bool response, bool head_of_get)
{
    if (response && (head_of_get || is_bodiless(m->status)))
        return FRAMING_NONE;
    if (f->chunked)
        return FRAMING_CHUNKED;
    if (f->has_length)
        return FRAMING_LENGTH;
    return response ? FRAMING_CLOSE : FRAMING_NONE;
}

/* Absolute form and Host must agree: another reader might use the one that the gateway did not. */
static int message_decide_host(struct message *m, const struct head_fields *f, struct err *err)
{
    if (f->host == NULL && !m->http10)
        return err_set(err, -EBADMSG, "Host is missing");
    if (m->host != NULL && f->host != NULL && strcasecmp(m->host, f->host) != 0)
        return err_set(err, -EBADMSG, "Host is not the host of the target");
    if (m->host == NULL)
        m->host = f->host != NULL ? f->host : "";
    return 0;
}

int read_headers(struct message *m, bool response, bool head_of_get, int *status, struct err *err)
{
    struct head_fields f;
    int r = head_fields(m->headers, m->header_count, response, m->http10, &f, status, err);

    if (r == 0 && !response)
        r = message_decide_host(m, &f, err);
    if (r < 0)
        return r;
    m->length = f.length;
    m->framing = message_framing(m, &f, response, head_of_get);
    m->keep_alive = !f.close && m->framing != FRAMING_CLOSE && (!m->http10 || f.keep_alive);
    /* If headers announce a body where none is allowed (HEAD, 204, 304), the server might send
     * one later, and it would be taken for the reply to the next request. */
    if (response && m->framing == FRAMING_NONE && (f.chunked || m->length > 0))
        m->keep_alive = false;
    m->expect_continue = f.expect_continue;
    /* A request with a body is not upgraded: it would be unclear where the new protocol begins.
     * h2c is refused, as it is a known way to smuggle requests past a proxy. */
    if (f.names_upgrade && f.upgrade != NULL && *f.upgrade != '\0' && !m->http10 &&
        !header_lists(f.upgrade, "h2c") &&
        (response || m->framing == FRAMING_NONE ||
         (m->framing == FRAMING_LENGTH && m->length == 0)))
        m->upgrade = f.upgrade;
    return 0;
}
