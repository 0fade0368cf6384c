/*
 * The requests behind call.h. Runs in the threads of rind-registry.
 */
#include "call.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "auth.h"
#include "base/address.h"
#include "base/auto.h"
#include "header.h"
#include "refusal.h"

enum { HOPS_MAX = 10, TOKENS_MAX = 3, PATH_MAX_BYTES = 1024, PORT_HTTP = 80, PORT_HTTPS = 443 };

/* ---- what the job says of a host ---- */

static bool port_is_default(const struct url *u)
{
    return u->port == (u->https ? PORT_HTTPS : PORT_HTTP);
}

static bool name_is_loopback(const char *host)
{
    struct address a;

    if (strcmp(host, "localhost") == 0)
        return true;
    return address_parse_host(host, &a) == 0 &&
           (a.family == 4 ? a.bytes[0] == 127
                          : memcmp(a.bytes, in6addr_loopback.s6_addr, sizeof(a.bytes)) == 0);
}

bool call_is_insecure(struct errand *e, const struct url *u)
{
    char *const *list = e->session->job->insecure;

    return name_is_loopback(u->host) ||
           job_lists_host(list, u->host, u->port, port_is_default(u)) ||
           http_in_cidrs(e->http, u->host, list);
}

bool call_is_exempt(const struct errand *e, const struct url *u)
{
    return job_lists_host(e->session->job->exempt, u->host, u->port, port_is_default(u));
}

/* ---- hops ---- */

static bool status_is_redirect(int status, const char *method)
{
    const bool plain = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;

    return status == 307 || status == 308 ||
           (plain && (status == 301 || status == 302 || status == 303));
}

/* The next URL. -EACCES and others with t set. */
static int hop_next(const struct url *from, const struct http_response *p, struct url *ret,
                    struct trouble *t)
{
    struct err err = ERR_NONE;
    char shown[URL_HOST_MAX + 16];

    if (url_join(from, p->location, ret, &err) < 0)
        return trouble_set(t, REGISTRY_ADDRESS, err.code, "%s: redirected to %s", from->host,
                           err.msg);
    url_format_host(ret, shown, sizeof(shown));
    if (from->https && !ret->https)
        return trouble_set(t, REGISTRY_ADDRESS, -EPROTONOSUPPORT,
                           "%s: redirected from https to http, to %s, which is refused", from->host,
                           shown);
    return 0;
}

static int hop_perform(struct errand *e, const struct call *c, const struct url *u,
                       const char *auth, struct http_response *ret, struct trouble *t)
{
    const char *headers[CALL_HEADERS_MAX + 2] = {NULL};
    size_t n = 0;
    const struct http_query q = {.method = c->method,
                                 .url = u,
                                 .headers = headers,
                                 .insecure = call_is_insecure(e, u),
                                 .exempt = call_is_exempt(e, u),
                                 .bytes = c->bytes,
                                 .bytes_len = c->bytes_len,
                                 .body_fd = c->body_fd,
                                 .body_size = c->body_size,
                                 .body_is_stream = c->body_is_stream,
                                 .on_sent = c->on_sent,
                                 .answer_max = c->answer_max,
                                 .on_body = c->on_body,
                                 .data = c->data};

    for (size_t i = 0; i < CALL_HEADERS_MAX && c->headers[i] != NULL; i++)
        headers[n++] = c->headers[i];
    if (auth != NULL)
        headers[n] = auth;
    return http_perform(e->http, &q, ret, t);
}

int call_follow(struct errand *e, const struct call *c, const struct url *first, const char *auth,
                struct http_response *ret, struct url *ret_url, struct trouble *t)
{
    struct url at = *first, next;

    for (int hops = 0;; hops++) {
        int r = hop_perform(e, c, &at, url_same_origin(&at, first) ? auth : NULL, ret, t);

        if (r < 0)
            return r;
        if (!status_is_redirect(ret->status, c->method) || ret->location[0] == '\0') {
            if (ret_url != NULL)
                *ret_url = at;
            return 0;
        }
        if (hops == HOPS_MAX)
            r = trouble_set(t, REGISTRY_MALFORMED, -ELOOP, "%s: redirected more than %d times",
                            first->host, HOPS_MAX);
        else if (c->body_is_stream && c->body_fd >= 0)
            r = trouble_set(t, REGISTRY_MALFORMED, -EOPNOTSUPP,
                            "%s: redirected an upload that cannot be sent again", first->host);
        else
            r = hop_next(&at, ret, &next, t);
        if (r == 0 && c->secret && !url_same_origin(&next, first))
            r = trouble_set(t, REGISTRY_ADDRESS, -EPERM,
                            "%s: redirected credentials to %s, which is refused", first->host,
                            next.host);
        http_response_done(ret);
        if (r < 0)
            return r;
        at = next;
    }
}

/* ---- answers that are refusals ---- */

static const struct {
    int status;
    enum registry_fault fault;
    int code;
    const char *text; /* for an answer without words; NULL: what was asked for */
} status_faults[] = {
    {401, REGISTRY_UNAUTHORIZED, -EACCES, "unauthorized: authentication required"},
    {403, REGISTRY_DENIED, -EPERM, "denied: requested access to the resource is denied"},
    {404, REGISTRY_NOT_FOUND, -ENOENT, NULL},
    {429, REGISTRY_BUSY, -EBUSY, "toomanyrequests"},
};

int call_refused(const struct registry_host *h, const struct http_response *p, const char *what,
                 struct trouble *t)
{
    enum registry_fault fault = REGISTRY_SERVER;
    char text[REFUSAL_TEXT_MAX + 1];
    const char *word = "unauthorized: ";
    int code = -EREMOTEIO;

    refusal_text(p->body.data != NULL ? p->body.data : "", p->body.len, text);
    for (size_t i = 0; i < sizeof(status_faults) / sizeof(status_faults[0]); i++)
        if (status_faults[i].status == p->status) {
            fault = status_faults[i].fault;
            code = status_faults[i].code;
            if (text[0] == '\0' && status_faults[i].text != NULL)
                (void)snprintf(text, sizeof(text), "%s", status_faults[i].text);
        }
    /* Docker's code for a right that is missing; some registries send it with 401 or 404. */
    if (strncmp(text, "denied", 6) == 0)
        fault = REGISTRY_DENIED;
    if (strncmp(text, "toomanyrequests", 15) == 0)
        fault = REGISTRY_BUSY;
    if (fault != REGISTRY_UNAUTHORIZED || strncmp(text, "unauthorized", 12) == 0)
        word = "";
    (void)trouble_set(t, fault, code, "%s: %s%s%s", h->shown, word, text[0] != '\0' ? "" : what,
                      text);
    if (fault == REGISTRY_SERVER || text[0] == '\0') {
        size_t len = strlen(t->text);

        (void)snprintf(t->text + len, sizeof(t->text) - len, " (status %d)", p->status);
    }
    t->status = (uint32_t)p->status;
    return code;
}

int call_check_busy(const struct registry_host *h, const struct http_response *p, struct trouble *t)
{
    const int s = p->status;

    if (s != 408 && s != 429 && (s < 500 || s == 501))
        return 0;
    (void)call_refused(h, p, "too busy", t);
    t->may_pass = true;
    t->wait_s = p->retry_after[0] != '\0' ? header_retry_after(p->retry_after, time(NULL)) : -1;
    if (t->wait_s < 0)
        t->wait_s = -1;
    return t->code;
}

/* ---- the first look ---- */

static int host_base(const struct registry_host *h, bool https, struct url *ret, struct trouble *t)
{
    *ret = (struct url){.https = https, .target = "/"};
    if (url_parse_host(h->host, strlen(h->host), ret->host, &ret->port) < 0)
        return trouble_set(t, REGISTRY_LOCAL, -EINVAL, "%s: not a host", h->host);
    if (ret->port == 0)
        ret->port = https ? PORT_HTTPS : PORT_HTTP;
    return 0;
}

/* One look at /v2/ with one scheme. */
static int host_look(struct errand *e, struct registry_host *h, bool https, struct trouble *t)
{
    const struct call c = {.method = "GET", .body_fd = FD_NONE, .answer_max = HTTP_REFUSAL_MAX};
    struct url base, first;
    struct http_response p;
    int r = host_base(h, https, &base, t);

    if (r < 0)
        return r;
    first = base;
    (void)strcpy(first.target, "/v2/");
    r = call_follow(e, &c, &first, NULL, &p, NULL, t);
    if (r < 0)
        return r;
    r = call_check_busy(h, &p, t);
    if (r == 0) {
        h->base = base;
        h->challenge = p.challenge;
        h->ready = true;
    }
    http_response_done(&p);
    return r;
}

/*
 * Finds out scheme and challenge, once. https first; http only for hosts that may have it, and only
 * if https has not answered at all: later requests never fall back.
 */
static int host_prepare(struct errand *e, struct registry_host *h, struct trouble *t)
{
    int attempt = 0, r = 0;

    (void)pthread_mutex_lock(&h->lock);
    while (!h->ready) {
        struct trouble https;
        struct url base;

        r = host_look(e, h, true, t);
        if (r < 0 && t->no_tls && host_base(h, true, &base, &https) == 0 &&
            call_is_insecure(e, &base)) {
            https = *t;
            r = host_look(e, h, false, t);
            if (r < 0 && https.fault == REGISTRY_TLS && t->fault == REGISTRY_CONNECT)
                *t = https;
        }
        if (r == 0 || (h->is_mirror && t->no_tls) || !errand_try_again(e, &attempt, t))
            break;
    }
    (void)pthread_mutex_unlock(&h->lock);
    return r;
}

/* ---- calls ---- */

static int call_url(const struct registry_host *h, const struct call *c, struct url *ret,
                    struct trouble *t)
{
    int n;

    if (c->url != NULL) {
        *ret = *c->url;
        return 0;
    }
    *ret = h->base;
    n = c->path[0] == '\0'
            ? snprintf(ret->target, sizeof(ret->target), "/v2/")
            : snprintf(ret->target, sizeof(ret->target), "/v2/%s/%s", h->repository, c->path);
    return n > 0 && n < PATH_MAX_BYTES
               ? 0
               : trouble_set(t, REGISTRY_LOCAL, -ENAMETOOLONG, "a name that is too long");
}

/* One attempt: with what is known of the host, and again if it asks for another token. A token that
 * was made because of a 401 and is refused is the end; one that another request has made meanwhile
 * may be used up as well. */
static int call_attempt(struct errand *e, struct registry_host *h, const struct call *c,
                        struct http_response *ret, struct url *ret_url, struct trouble *t)
{
    bool fresh = false;
    uint64_t number = 0;

    for (int tries = 0;; tries++) {
        char *auth = NULL;
        struct url u, from;
        bool own;
        int r = call_url(h, c, &u, t);

        if (r < 0)
            return r;
        own = url_same_origin(&u, &h->base);
        if (own)
            r = auth_make_header(e, h, c->mount_from, number, &auth, &number, &fresh, t);
        if (r == 0)
            r = call_follow(e, c, &u, auth, ret, &from, t);
        if (r == 0 && ret_url != NULL)
            *ret_url = from;
        if (r == 0 && ret->status == 401 && own && tries < TOKENS_MAX && (tries == 0 || !fresh) &&
            url_same_origin(&from, &u) && !(c->body_is_stream && c->body_fd >= 0)) {
            auth_challenge(h, &ret->challenge);
            if (auth_has_answer(h, auth != NULL)) {
                http_response_done(ret);
                r = 1;
            }
        }
        if (auth != NULL)
            explicit_bzero(auth, strlen(auth));
        free(auth);
        if (r <= 0)
            return r;
    }
}

int call_perform(struct errand *e, struct registry_host *h, const struct call *c,
                 struct http_response *ret, struct url *ret_url, struct trouble *t)
{
    int attempt = 0, r = host_prepare(e, h, t);

    while (r == 0) {
        r = call_attempt(e, h, c, ret, ret_url, t);
        if (r == 0) {
            r = call_check_busy(h, ret, t);
            if (r < 0)
                http_response_done(ret);
        }
        /* Of a mirror that cannot be reached the next one is the second attempt. */
        if (r == 0 || c->once || (c->body_is_stream && c->body_fd >= 0) ||
            (h->is_mirror && t->no_tls) || !errand_try_again(e, &attempt, t))
            return r;
        r = 0;
    }
    return r;
}
