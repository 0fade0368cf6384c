/* Writes heads as the proxy forwards them: without hop-by-hop fields, and with its own framing.
 * Pure; called by proxy-conn.c. */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "http/message-internal.h"

enum field_kind {
    FIELD_OTHER,
    FIELD_HOP,       /* hop-by-hop, or written by the proxy itself */
    FIELD_FORWARDED, /* set by proxies about the client */
    FIELD_ROUTING,   /* as FIELD_HOP in heads; never a trailer */
};

static const struct {
    const char *name;
    enum field_kind kind;
} kinds[] = {
    {"connection", FIELD_HOP},
    {"keep-alive", FIELD_HOP},
    {"proxy-connection", FIELD_HOP},
    {"proxy-authenticate", FIELD_HOP},
    {"proxy-authorization", FIELD_HOP},
    {"te", FIELD_HOP},
    {"transfer-encoding", FIELD_HOP},
    {"upgrade", FIELD_HOP},
    {"http2-settings", FIELD_HOP},
    {"content-length", FIELD_HOP},
    {"host", FIELD_ROUTING},
    {"x-forwarded-for", FIELD_FORWARDED},
    {"x-forwarded-proto", FIELD_FORWARDED},
    {"x-forwarded-host", FIELD_FORWARDED},
    {"forwarded", FIELD_FORWARDED},
};

/* '_' equals '-': servers that turn headers into variables do not distinguish the two. */
static bool field_name_equals(const char *name, const char *want)
{
    for (; *name != '\0' && *want != '\0'; name++, want++) {
        char c = *name == '_' ? '-' : *name;

        if (c >= 'A' && c <= 'Z')
            c = (char)(c - 'A' + 'a');
        if (c != *want)
            return false;
    }
    return *name == *want;
}

static enum field_kind field_kind_of(const char *name)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (field_name_equals(name, kinds[i].name))
            return kinds[i].kind;
    return FIELD_OTHER;
}

bool header_may_trail(const char *name)
{
    static const char *const never[] = {
        "set-cookie",       "cookie",        "authorization", "cache-control",   "content-type",
        "content-encoding", "content-range", "trailer",       "expect",          "location",
        "max-forwards",     "range",         "vary",          "www-authenticate"};

    if (field_kind_of(name) != FIELD_OTHER)
        return false;
    for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++)
        if (field_name_equals(name, never[i]))
            return false;
    return true;
}

/* A field named by Connection is hop-by-hop, too. */
static bool connection_names(const struct message *m, const char *name)
{
    for (size_t i = 0; i < m->header_count; i++)
        if (strcasecmp(m->headers[i].name, "connection") == 0 &&
            header_lists(m->headers[i].value, name))
            return true;
    return false;
}

static int put_field(struct buf *out, const char *name, const char *value)
{
    int r = buf_append_str(out, name);

    if (r == 0)
        r = buf_append_str(out, ": ");
    if (r == 0)
        r = buf_append_str(out, value);
    return r < 0 ? r : buf_append_str(out, "\r\n");
}

/* forwarded, cookies: also fields of these kinds. */
static int put_end_to_end_fields(const struct message *m, bool forwarded, bool cookies,
                                 struct buf *out)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < m->header_count; i++) {
        const struct http_header *h = &m->headers[i];

        if ((field_kind_of(h->name) == FIELD_OTHER ||
             (forwarded && field_kind_of(h->name) == FIELD_FORWARDED)) &&
            (cookies || !field_name_equals(h->name, "set-cookie")) && !connection_names(m, h->name))
            r = put_field(out, h->name, h->value);
    }
    return r;
}

/* Leaves the attribute Domain out: then the cookie is the one host's alone. */
static int put_cookie_of_host(const struct http_header *h, struct buf *out)
{
    static const char domain[] = "domain";
    const char *at = h->value;
    int r = buf_printf(out, "%s: ", h->name);

    for (bool first = true; r == 0; first = false) {
        const size_t len = strcspn(at, ";"), name = strspn(at, " \t");
        const size_t left = len > name ? len - name : 0;
        const size_t word = left < sizeof(domain) - 1 ? left : sizeof(domain) - 1;
        const size_t after = name + word + strspn(at + name + word, " \t");

        if (first || word < sizeof(domain) - 1 || strncasecmp(at + name, domain, word) != 0 ||
            (after < len && at[after] != '='))
            r = buf_printf(out, "%s%.*s", first ? "" : ";", (int)len, at);
        if (at[len] == '\0')
            break;
        at += len + 1;
    }
    return r < 0 ? r : buf_append_str(out, "\r\n");
}

/* A reply by a preview URL: its host has siblings, which are other sandboxes, below one domain. */
static int put_preview_fields(const struct message *m, struct buf *out)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < m->header_count; i++)
        if (field_name_equals(m->headers[i].name, "set-cookie"))
            r = put_cookie_of_host(&m->headers[i], out);
    if (r == 0 && m->status >= 200 && message_header(m, "origin-agent-cluster") == NULL)
        r = put_field(out, "Origin-Agent-Cluster", "?1");
    return r;
}

static int put_framing(const struct message *m, enum msg_framing framing, struct buf *out)
{
    if (framing == FRAMING_LENGTH)
        return buf_printf(out, "Content-Length: %llu\r\n", (unsigned long long)m->length);
    if (framing == FRAMING_CHUNKED)
        return put_field(out, "Transfer-Encoding", "chunked");
    return 0;
}

/* ---- requests ---- */

static int put_forwarded_for(const struct message *m, const struct forward *f, struct buf *out)
{
    bool first = true;
    int r;

    r = buf_append_str(out, "X-Forwarded-For: ");
    for (size_t i = 0; r == 0 && f->trusted && i < m->header_count; i++) {
        const struct http_header *h = &m->headers[i];

        if (strcasecmp(h->name, "x-forwarded-for") != 0 || *h->value == '\0')
            continue;
        if (!first)
            r = buf_append_str(out, ", ");
        if (r == 0)
            r = buf_append_str(out, h->value);
        first = false;
    }
    if (r == 0 && *f->peer != '\0')
        r = buf_printf(out, "%s%s", first ? "" : ", ", f->peer);
    return r < 0 ? r : buf_append_str(out, "\r\n");
}

static int put_forwarded(const struct message *m, const struct forward *f, const char *name,
                         const char *value, struct buf *out)
{
    const char *said = f->trusted ? message_header(m, name) : NULL;

    return put_field(out, name, said != NULL ? said : value);
}

int message_forward_request(const struct message *m, const struct forward *f, bool upgrade,
                            struct buf *out)
{
    int r;

    r = buf_printf(out, "%s %s HTTP/1.1\r\n", m->method, m->target);
    if (r == 0)
        r = put_field(out, "Host", m->host);
    if (r == 0)
        r = put_end_to_end_fields(m, f->outbound, true, out);
    if (r == 0)
        r = put_framing(m, m->framing, out);
    if (r == 0 && !f->outbound)
        r = put_forwarded_for(m, f, out);
    if (r == 0 && !f->outbound)
        r = put_forwarded(m, f, "X-Forwarded-Proto", f->proto, out);
    if (r == 0 && !f->outbound)
        r = put_forwarded(m, f, "X-Forwarded-Host", m->host, out);
    if (r == 0 && upgrade) {
        r = put_field(out, "Connection", "Upgrade");
        if (r == 0)
            r = put_field(out, "Upgrade", m->upgrade);
    }
    return r < 0 ? r : buf_append_str(out, "\r\n");
}

/* ---- replies ---- */

int message_forward_reply(const struct message *m, enum msg_framing framing, bool close,
                          bool preview, struct buf *out)
{
    const char *length = message_header(m, "content-length");
    int r;

    r = buf_printf(out, "HTTP/1.1 %d %s\r\n", m->status, m->reason);
    if (r == 0)
        r = put_end_to_end_fields(m, false, !preview, out);
    if (r == 0 && preview)
        r = put_preview_fields(m, out);
    if (r == 0)
        r = put_framing(m, framing, out);
    /* HEAD and 304 announce the length of a body that is not sent. */
    if (r == 0 && framing == FRAMING_NONE && length != NULL && m->status != 204 && m->status >= 200)
        r = put_field(out, "Content-Length", length);
    if (r == 0 && m->status == 101 && m->upgrade != NULL) {
        r = put_field(out, "Connection", "Upgrade");
        if (r == 0)
            r = put_field(out, "Upgrade", m->upgrade);
    } else if (r == 0 && close) {
        r = put_field(out, "Connection", "close");
    }
    return r < 0 ? r : buf_append_str(out, "\r\n");
}

/* ---- bodies ---- */

int chunk_write(struct buf *out, const char *data, size_t len)
{
    int r;

    if (len == 0)
        return 0; /* an empty chunk would end the body */
    r = buf_printf(out, "%zx\r\n", len);
    if (r == 0)
        r = buf_append(out, data, len);
    return r < 0 ? r : buf_append(out, "\r\n", 2);
}

int chunk_end(struct buf *out, const struct buf *trailers)
{
    int r;

    r = buf_append(out, "0\r\n", 3);
    if (r == 0 && trailers->len > 0)
        r = buf_append(out, trailers->data, trailers->len);
    return r < 0 ? r : buf_append(out, "\r\n", 2);
}
