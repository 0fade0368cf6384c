/*
 * The exchanges behind http.h, by libcurl's easy interface. Runs in the threads of rind-registry,
 * each with a handle of its own; a thread blocks for the time of an exchange.
 *
 * libcurl looks no name up: each exchange tells it the addresses (CURLOPT_RESOLVE). Whatever
 * address it is going to connect to is checked once more as a socket address (http_open_socket), so
 * there is no second lookup between check and connection.
 */
#include "http.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/address.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/number.h"
#include "header.h"
#include "http-tls.h"
#include "policy/internet.h"
#include "policy/net-rule.h"
#include "refusal.h"

enum {
    BUFFER = 256 << 10,
    SLEEP_MS = 100,
    RESOLVE_ROOM = URL_HOST_MAX + 24 + 17 * ADDRESS_TEXT_MAX
};

struct http_client {
    const struct registry_job *job; /* borrowed */
    struct resolver *resolver;      /* borrowed */
    struct http_tls *tls;           /* owned */
};

struct http {
    struct http_client *client;
    CURL *curl;                  /* owned */
    const atomic_bool *canceled; /* borrowed */
    /* of the current exchange */
    const struct http_query *q;
    struct http_response *p;
    struct trouble *t;
    bool failed; /* t is set, by a callback */
    size_t head_bytes;
    bool head_done;
    int64_t sent; /* bytes of the body that were read */
    bool connected;
    int64_t head_since;        /* when the answer's head began to be due; 0 = not yet */
    int64_t active, seen;      /* when, and at how many bytes, something moved */
    int64_t window, in_window; /* begin of the floor's window, and bytes at that time */
    struct address proxies[RESOLVER_ADDRESSES_MAX]; /* with their port: the owner's choice */
    size_t proxy_count;
    char refused[ADDRESS_TEXT_MAX]; /* an address that may not be connected to; "" = none */
    char error[CURL_ERROR_SIZE];
};

bool http_is_canceled(const struct http *h)
{
    return atomic_load(h->canceled);
}

static bool http_lookup_canceled(void *data)
{
    return http_is_canceled(data);
}

bool http_sleep(const struct http *h, int64_t ms)
{
    const int64_t until = clock_mono_ms() + ms;

    for (;;) {
        int64_t left = until - clock_mono_ms();

        if (http_is_canceled(h))
            return false;
        if (left <= 0)
            return true;
        (void)poll(NULL, 0, left < SLEEP_MS ? (int)left : SLEEP_MS);
    }
}

static int http_set_canceled(struct trouble *t)
{
    return trouble_set(t, REGISTRY_CANCELED, -ECANCELED, "canceled");
}

/* ---- callbacks of libcurl: addresses ---- */

/* True for an address of this host, whose connection would go out and come in again. Connecting a
 * datagram socket sends nothing, but chooses the source. */
static bool address_is_own(const struct sockaddr *to, socklen_t len)
{
    auto_close int fd = socket(to->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sockaddr_storage from;
    socklen_t from_len = sizeof(from);
    struct address a, b;

    return fd >= 0 && connect(fd, to, len) == 0 &&
           getsockname(fd, (struct sockaddr *)&from, &from_len) == 0 &&
           address_from_socket(to, &a) && address_from_socket((struct sockaddr *)&from, &b) &&
           a.family == b.family && memcmp(a.bytes, b.bytes, sizeof(a.bytes)) == 0;
}

static bool http_is_proxy(const struct http *h, const struct address *a)
{
    for (size_t i = 0; i < h->proxy_count; i++)
        if (address_equal(&h->proxies[i], a))
            return true;
    return false;
}

static curl_socket_t http_open_socket(void *data, curlsocktype purpose, struct curl_sockaddr *to)
{
    struct http *h = data;
    struct address a;

    if (purpose != CURLSOCKTYPE_IPCXN || !address_from_socket(&to->addr, &a))
        return CURL_SOCKET_BAD;
    if (h->client->job->addresses != JOB_ADDRESSES_ANY && !h->q->exempt && !http_is_proxy(h, &a) &&
        (!internet_has(a.family, a.bytes) || address_is_own(&to->addr, to->addrlen))) {
        address_format_host(&a, h->refused);
        errno = EACCES;
        return CURL_SOCKET_BAD;
    }
    return socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
}

static CURLcode http_set_ssl(CURL *curl, void *ssl, void *data)
{
    struct http *h = data;

    (void)curl;
    return http_tls_prepare(h->client->tls, h->client->job, h->q->url, ssl) == 0
               ? CURLE_OK
               : CURLE_SSL_CERTPROBLEM;
}

/* ---- callbacks of libcurl: time ---- */

static int http_fail_time(struct http *h, const char *what, int64_t ms, bool may_pass)
{
    (void)trouble_set(h->t, REGISTRY_CONNECT, -ETIMEDOUT, "%s for %lld seconds", what,
                      (long long)(ms / 1000));
    h->t->may_pass = may_pass;
    h->failed = true;
    return 1;
}

/* Called at least once a second, and when something moved. Other than 0 ends the exchange. */
static int http_on_progress(void *data, curl_off_t down_total, curl_off_t down, curl_off_t up_total,
                            curl_off_t up)
{
    struct http *h = data;
    const struct registry_job *j = h->client->job;
    const int64_t now = clock_mono_ms(), moved = down + up + (int64_t)h->head_bytes;
    const bool sending = h->q->body_fd >= 0 && h->sent < h->q->body_size;

    (void)down_total;
    (void)up_total;
    if (http_is_canceled(h)) {
        (void)http_set_canceled(h->t);
        h->failed = true;
        return 1;
    }
    if (!h->connected) /* libcurl's own time */
        return 0;
    if (moved != h->seen) {
        h->seen = moved;
        h->active = now;
    }
    if (sending)
        h->head_since = now;
    /* A head that drips is active: it has a time for the whole. */
    if (!h->head_done && now - h->head_since > j->head_ms)
        return http_fail_time(h, "no answer", j->head_ms, false);
    if ((h->head_done || sending) && now - h->active > j->idle_ms)
        return http_fail_time(h, "not a byte has moved", j->idle_ms, true);
    if (now - h->window > j->floor_ms) {
        if ((h->head_done || sending) && moved - h->in_window < j->floor_bytes)
            return http_fail_time(h, "next to nothing has moved", j->floor_ms, true);
        h->window = now;
        h->in_window = moved;
    }
    return 0;
}

/* Called when there is a connection, new or not, right before the request is sent. */
static int http_on_connected(void *data, char *ip, char *local_ip, int port, int local_port)
{
    struct http *h = data;

    (void)ip;
    (void)local_ip;
    (void)port;
    (void)local_port;
    h->connected = true;
    h->head_since = h->active = h->window = clock_mono_ms();
    return CURL_PREREQFUNC_OK;
}

/* Time in which this side held the transfer up is none of the server's. */
static void http_excuse(struct http *h, int64_t since)
{
    const int64_t now = clock_mono_ms();

    h->window += now - since;
    h->active = now;
}

/* ---- callbacks of libcurl: the answer ---- */

static void header_copy(char *ret, size_t size, const char *value)
{
    if (strlen(value) < size) /* else it is as if it were missing */
        (void)memcpy(ret, value, strlen(value) + 1);
}

static void response_add_header(struct http_response *p, const char *name, const char *value)
{
    if (strcasecmp(name, "www-authenticate") == 0) {
        challenge_add(&p->challenge, value);
    } else if (strcasecmp(name, "content-type") == 0) {
        header_media_type(value, p->media_type, sizeof(p->media_type));
    } else if (strcasecmp(name, "content-length") == 0) {
        p->length = number_whole(value, NUMBER_DIGITS_MAX);
        if (p->length < 0)
            p->length = -1;
    } else if (strcasecmp(name, "docker-content-digest") == 0) {
        header_copy(p->digest, sizeof(p->digest), value);
    } else if (strcasecmp(name, "etag") == 0) {
        header_copy(p->etag, sizeof(p->etag), value);
    } else if (strcasecmp(name, "content-range") == 0) {
        header_copy(p->content_range, sizeof(p->content_range), value);
    } else if (strcasecmp(name, "retry-after") == 0) {
        header_copy(p->retry_after, sizeof(p->retry_after), value);
    } else if (strcasecmp(name, "location") == 0) {
        header_copy(p->location, sizeof(p->location), value);
    } else if (strcasecmp(name, "link") == 0) {
        header_copy(p->link, sizeof(p->link), value);
    }
}

/* One line of the head, CRLF included. */
static size_t http_on_header(char *line, size_t one, size_t len, void *data)
{
    struct http *h = data;
    char text[URL_TARGET_MAX + 128], *colon, *value;
    size_t n = len * one;

    h->head_bytes += n;
    if (h->head_bytes > HTTP_HEAD_MAX) {
        (void)trouble_set(h->t, REGISTRY_LIMIT, -EFBIG,
                          "an answer whose head is larger than %d KiB", HTTP_HEAD_MAX >> 10);
        h->failed = true;
        return 0;
    }
    while (n > 0 && (line[n - 1] == '\r' || line[n - 1] == '\n'))
        n--;
    if (n == 0) {
        long status = 0;

        (void)curl_easy_getinfo(h->curl, CURLINFO_RESPONSE_CODE, &status);
        h->p->status = (int)status;
        h->head_done = status >= 200;
        h->active = clock_mono_ms();
        return len * one;
    }
    if (n > 5 && strncasecmp(line, "HTTP/", 5) == 0) { /* a further head: behind a 1xx */
        struct buf body = h->p->body;

        *h->p = (struct http_response){.length = -1, .body = body};
        return len * one;
    }
    if (n >= sizeof(text) || memchr(line, '\0', n) != NULL)
        return len * one;
    (void)memcpy(text, line, n);
    text[n] = '\0';
    colon = strchr(text, ':');
    if (colon == NULL)
        return len * one;
    *colon = '\0';
    value = colon + 1 + strspn(colon + 1, " \t");
    response_add_header(h->p, text, value);
    return len * one;
}

static bool status_is_body(int status)
{
    return status == 200 || status == 206;
}

static size_t http_on_body(char *bytes, size_t one, size_t len, void *data)
{
    struct http *h = data;
    const size_t n = len * one;
    const bool wanted = status_is_body(h->p->status);
    const int64_t since = clock_mono_ms();

    if (wanted && h->q->on_body != NULL) {
        if (h->q->on_body(h->q->data, h->p, bytes, n, h->t) < 0) {
            h->failed = true;
            return 0;
        }
        http_excuse(h, since);
        return n;
    }
    h->p->body.max =
        wanted || (h->p->status >= 200 && h->p->status < 300) ? h->q->answer_max : HTTP_REFUSAL_MAX;
    if (buf_append(&h->p->body, bytes, n) < 0) {
        /* The rest of a refusal is not worth an error of its own. */
        if (h->p->status >= 300)
            return 0;
        (void)trouble_set(h->t, REGISTRY_LIMIT, -EFBIG, "an answer larger than %zu KiB",
                          h->p->body.max >> 10);
        h->failed = true;
        return 0;
    }
    return n;
}

/* ---- callbacks of libcurl: the request's body ---- */

static size_t http_read_body(char *into, size_t one, size_t room, void *data)
{
    struct http *h = data;
    const struct http_query *q = h->q;
    const int64_t since = clock_mono_ms();
    size_t want = one * room;
    ssize_t n;

    if ((int64_t)want > q->body_size - h->sent)
        want = (size_t)(q->body_size - h->sent);
    if (want == 0)
        return 0;
    do
        n = q->body_is_stream ? read(q->body_fd, into, want)
                              : pread(q->body_fd, into, want, h->sent);
    while (n < 0 && errno == EINTR);
    http_excuse(h, since);
    if (n <= 0) {
        (void)trouble_set(h->t, REGISTRY_LOCAL, n < 0 ? -errno : -EIO,
                          "read what is to be sent: %s",
                          n < 0 ? strerror(errno) : "it is shorter than was said");
        h->failed = true;
        return CURL_READFUNC_ABORT;
    }
    h->sent += n;
    if (q->on_sent != NULL)
        q->on_sent(q->data, h->sent);
    return (size_t)n;
}

static int http_seek_body(void *data, curl_off_t offset, int origin)
{
    struct http *h = data;

    if (h->q->body_is_stream || origin != SEEK_SET)
        return offset == 0 && h->sent == 0 ? CURL_SEEKFUNC_OK : CURL_SEEKFUNC_CANTSEEK;
    h->sent = offset;
    return CURL_SEEKFUNC_OK;
}

/* ---- addresses of an exchange ---- */

/* Adds "host:port:address,address" for libcurl. */
static int resolve_add(struct curl_slist **list, const char *host, uint16_t port,
                       const struct address *addresses, int count, struct trouble *t)
{
    char text[RESOLVE_ROOM];
    struct curl_slist *more;
    struct address literal;
    size_t at;

    if (address_parse_host(host, &literal) == 0)
        return 0; /* libcurl reads it by itself */
    at = (size_t)snprintf(text, sizeof(text), "%s:%u:", host, port);
    for (int i = 0; i < count; i++) {
        char one[ADDRESS_TEXT_MAX];
        const bool six = addresses[i].family == 6;

        address_format_host(&addresses[i], one);
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s%s%s", i > 0 ? "," : "",
                               six ? "[" : "", one, six ? "]" : "");
    }
    more = curl_slist_append(*list, text);
    if (more == NULL)
        return trouble_set(t, REGISTRY_LOCAL, -ENOMEM, "out of memory");
    *list = more;
    return 0;
}

/* "Get "https://host/path"", as Go's clients say it, which users search for. */
static void http_format_request(const struct http_query *q, char *ret, size_t size)
{
    char url[512];

    url_format_shown(q->url, url, sizeof(url));
    (void)snprintf(ret, size, "%s \"%s\"",
                   strcmp(q->method, "GET") == 0      ? "Get"
                   : strcmp(q->method, "HEAD") == 0   ? "Head"
                   : strcmp(q->method, "POST") == 0   ? "Post"
                   : strcmp(q->method, "PATCH") == 0  ? "Patch"
                   : strcmp(q->method, "DELETE") == 0 ? "Delete"
                                                      : "Put",
                   url);
}

static int http_fail_address(const struct http *h, struct trouble *t)
{
    return trouble_set(t, REGISTRY_ADDRESS, -EACCES,
                       "%s has the address %s, which is not of the internet: only rind's owner and "
                       "configured registries may be connected to there",
                       h->q->url->host, h->refused);
}

static int http_find(struct http *h, const char *host, struct address *addresses, struct trouble *t)
{
    struct err err = ERR_NONE;
    int n = resolver_find(h->client->resolver, host, (int)h->client->job->connect_ms,
                          http_lookup_canceled, h, addresses, &err);

    if (n == -ECANCELED)
        return http_set_canceled(t);
    if (n < 0) {
        (void)trouble_set(t, REGISTRY_CONNECT, n, "dial tcp: lookup %s: %s", host, err.msg);
        t->may_pass = n != -ENOENT;
        t->no_tls = true;
    }
    return n;
}

/* Through a proxy the address is the proxy's affair. What this host knows of it must be allowed all
 * the same. */
static int http_check_behind_proxy(struct http *h, const struct address *addresses, int count,
                                   struct trouble *t)
{
    for (int i = 0; i < count; i++)
        if (h->client->job->addresses != JOB_ADDRESSES_ANY && !h->q->exempt &&
            !internet_has(addresses[i].family, addresses[i].bytes)) {
            address_format_host(&addresses[i], h->refused);
            return http_fail_address(h, t);
        }
    return 0;
}

struct http_proxy {
    bool used;
    char url[1024]; /* for libcurl, with user and port; "" = none */
    char host[URL_HOST_MAX + 1];
    uint16_t port;
};

static bool host_is_loopback(const char *host)
{
    struct address a;

    if (strcmp(host, "localhost") == 0)
        return true;
    return address_parse_host(host, &a) == 0 &&
           (a.family == 4 ? a.bytes[0] == 127
                          : memcmp(a.bytes, in6addr_loopback.s6_addr, sizeof(a.bytes)) == 0);
}

/* The proxy for a URL, as HTTP_PROXY and HTTPS_PROXY name it: "http://user:password@host:port". */
static int proxy_parse(const struct registry_job *j, const struct url *u, struct http_proxy *ret,
                       struct trouble *t)
{
    const char *text = u->https ? j->proxy_https : j->proxy_http, *host, *at;
    bool https;

    *ret = (struct http_proxy){.used = false};
    if (text == NULL || text[0] == '\0' || host_is_loopback(u->host))
        return 0;
    https = strncasecmp(text, "https://", 8) == 0;
    host = strstr(text, "://");
    if (host != NULL && !https && strncasecmp(text, "http://", 7) != 0)
        return trouble_set(t, REGISTRY_LOCAL, -EINVAL, "the proxy is of neither http nor https");
    host = host != NULL ? host + 3 : text;
    at = strrchr(host, '@');
    if (url_parse_host(at != NULL ? at + 1 : host, strcspn(at != NULL ? at + 1 : host, "/"),
                       ret->host, &ret->port) < 0)
        return trouble_set(t, REGISTRY_LOCAL, -EINVAL, "the proxy has no valid host");
    if (ret->port == 0)
        ret->port = https ? 443 : 80;
    ret->used =
        snprintf(ret->url, sizeof(ret->url), "%s://%.*s%s%s%s:%u", https ? "https" : "http",
                 at != NULL ? (int)(at + 1 - host) : 0, host,
                 strchr(ret->host, ':') != NULL ? "[" : "", ret->host,
                 strchr(ret->host, ':') != NULL ? "]" : "", ret->port) < (int)sizeof(ret->url);
    return 0;
}

/* Tells libcurl all addresses that it may need. */
static int http_set_addresses(struct http *h, const struct http_proxy *proxy,
                              struct curl_slist **list, struct trouble *t)
{
    struct address addresses[RESOLVER_ADDRESSES_MAX];
    int n = http_find(h, h->q->url->host, addresses, t), r;

    if (n < 0 && (!proxy->used || t->fault == REGISTRY_CANCELED))
        return n;
    if (n > 0) {
        r = proxy->used ? http_check_behind_proxy(h, addresses, n, t) : 0;
        if (r == 0)
            r = resolve_add(list, h->q->url->host, h->q->url->port, addresses, n, t);
        if (r < 0)
            return r;
    }
    if (!proxy->used)
        return 0;
    n = http_find(h, proxy->host, h->proxies, t);
    if (n < 0)
        return n;
    h->proxy_count = (size_t)n;
    for (int i = 0; i < n; i++)
        h->proxies[i].port = proxy->port;
    return resolve_add(list, proxy->host, proxy->port, h->proxies, n, t);
}

/* ---- one exchange ---- */

static void http_set_body(struct http *h)
{
    const struct http_query *q = h->q;
    const bool sends = q->bytes != NULL || q->body_fd >= 0;

    if (q->body_fd >= 0) {
        (void)curl_easy_setopt(h->curl, CURLOPT_UPLOAD, 1L);
        (void)curl_easy_setopt(h->curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t)q->body_size);
        (void)curl_easy_setopt(h->curl, CURLOPT_READFUNCTION, http_read_body);
        (void)curl_easy_setopt(h->curl, CURLOPT_READDATA, h);
        (void)curl_easy_setopt(h->curl, CURLOPT_SEEKFUNCTION, http_seek_body);
        (void)curl_easy_setopt(h->curl, CURLOPT_SEEKDATA, h);
    } else if (q->bytes != NULL) {
        (void)curl_easy_setopt(h->curl, CURLOPT_POSTFIELDS, q->bytes);
        (void)curl_easy_setopt(h->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)q->bytes_len);
    }
    if (strcmp(q->method, "HEAD") == 0)
        (void)curl_easy_setopt(h->curl, CURLOPT_NOBODY, 1L);
    else if (sends || strcmp(q->method, "GET") != 0)
        (void)curl_easy_setopt(h->curl, CURLOPT_CUSTOMREQUEST, q->method);
}

static void http_set_security(struct http *h)
{
    const struct http_query *q = h->q;

    (void)curl_easy_setopt(h->curl, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(h->curl, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(h->curl, CURLOPT_FOLLOWLOCATION, 0L);
    (void)curl_easy_setopt(h->curl, CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_2);
    (void)curl_easy_setopt(h->curl, CURLOPT_CAINFO, NULL);
    (void)curl_easy_setopt(h->curl, CURLOPT_CAPATH, NULL);
    (void)curl_easy_setopt(h->curl, CURLOPT_SSL_CTX_FUNCTION, http_set_ssl);
    (void)curl_easy_setopt(h->curl, CURLOPT_SSL_CTX_DATA, h);
    (void)curl_easy_setopt(h->curl, CURLOPT_SSL_VERIFYPEER, q->insecure ? 0L : 1L);
    (void)curl_easy_setopt(h->curl, CURLOPT_SSL_VERIFYHOST, q->insecure ? 0L : 2L);
    (void)curl_easy_setopt(h->curl, CURLOPT_OPENSOCKETFUNCTION, http_open_socket);
    (void)curl_easy_setopt(h->curl, CURLOPT_OPENSOCKETDATA, h);
}

static void http_set_answer(struct http *h)
{
    const struct registry_job *j = h->client->job;

    (void)curl_easy_setopt(h->curl, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(h->curl, CURLOPT_ERRORBUFFER, h->error);
    (void)curl_easy_setopt(h->curl, CURLOPT_USERAGENT, j->user_agent);
    (void)curl_easy_setopt(h->curl, CURLOPT_PATH_AS_IS, 1L);
    (void)curl_easy_setopt(h->curl, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
    (void)curl_easy_setopt(h->curl, CURLOPT_HTTP_CONTENT_DECODING, 0L);
    (void)curl_easy_setopt(h->curl, CURLOPT_CONNECTTIMEOUT_MS, (long)j->connect_ms);
    (void)curl_easy_setopt(h->curl, CURLOPT_BUFFERSIZE, (long)BUFFER);
    (void)curl_easy_setopt(h->curl, CURLOPT_UPLOAD_BUFFERSIZE, (long)BUFFER);
    (void)curl_easy_setopt(h->curl, CURLOPT_TCP_KEEPALIVE, 1L);
    (void)curl_easy_setopt(h->curl, CURLOPT_MAXCONNECTS, 4L);
    (void)curl_easy_setopt(h->curl, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    (void)curl_easy_setopt(h->curl, CURLOPT_HEADEROPT, (long)CURLHEADER_SEPARATE);
    (void)curl_easy_setopt(h->curl, CURLOPT_HEADERFUNCTION, http_on_header);
    (void)curl_easy_setopt(h->curl, CURLOPT_HEADERDATA, h);
    (void)curl_easy_setopt(h->curl, CURLOPT_WRITEFUNCTION, http_on_body);
    (void)curl_easy_setopt(h->curl, CURLOPT_WRITEDATA, h);
    (void)curl_easy_setopt(h->curl, CURLOPT_NOPROGRESS, 0L);
    (void)curl_easy_setopt(h->curl, CURLOPT_XFERINFOFUNCTION, http_on_progress);
    (void)curl_easy_setopt(h->curl, CURLOPT_XFERINFODATA, h);
    (void)curl_easy_setopt(h->curl, CURLOPT_PREREQFUNCTION, http_on_connected);
    (void)curl_easy_setopt(h->curl, CURLOPT_PREREQDATA, h);
}

static int list_add(struct curl_slist **list, const char *text, struct trouble *t)
{
    struct curl_slist *more = curl_slist_append(*list, text);

    if (more == NULL)
        return trouble_set(t, REGISTRY_LOCAL, -ENOMEM, "out of memory");
    *list = more;
    return 0;
}

static int http_set_headers(const struct http_query *q, struct curl_slist **list, struct trouble *t)
{
    /* No waiting for a 100, no form's type for what is no form. */
    int r = list_add(list, "Accept-Encoding: identity", t);

    if (r == 0)
        r = list_add(list, "Expect:", t);
    for (const char *const *h = q->headers; r == 0 && h != NULL && *h != NULL; h++)
        r = list_add(list, *h, t);
    return r;
}

static int http_fail_tls(const struct http *h, CURLcode code, struct trouble *t)
{
    long verify = 0;
    const char *why = h->error;
    int r;

    (void)curl_easy_getinfo(h->curl, CURLINFO_SSL_VERIFYRESULT, &verify);
    if (code == CURLE_SSL_CONNECT_ERROR &&
        (strstr(why, "wrong version number") != NULL || strstr(why, "packet length") != NULL ||
         strstr(why, "http request") != NULL || strstr(why, "record layer") != NULL))
        r = trouble_set(t, REGISTRY_TLS, -EPROTO,
                        "http: server gave HTTP response to HTTPS client");
    else if (code != CURLE_PEER_FAILED_VERIFICATION)
        r = trouble_set(t, REGISTRY_TLS, -EPROTO, "tls: %s", why[0] != '\0' ? why : "failed");
    else
        r = trouble_set(t, REGISTRY_TLS, -EKEYREJECTED,
                        "tls: failed to verify certificate: x509: %s",
                        verify == 2 || (verify >= 18 && verify <= 21)
                            ? "certificate signed by unknown authority"
                        : verify == 10 ? "certificate has expired"
                        : verify == 9  ? "certificate is not yet valid"
                        : verify == 0 || strstr(why, "subject name") != NULL
                            ? "certificate is not valid for this host"
                            : why);
    t->no_tls = true;
    return r;
}

/* What libcurl says, in words that users know. */
static int http_fail(struct http *h, CURLcode code, struct trouble *t)
{
    char host[URL_HOST_MAX + 16];
    long os = 0;

    if (h->refused[0] != '\0' && !h->connected)
        return http_fail_address(h, t);
    url_format_host(h->q->url, host, sizeof(host));
    (void)curl_easy_getinfo(h->curl, CURLINFO_OS_ERRNO, &os);
    switch ((int)code) {
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_CACERT_BADFILE:
        return http_fail_tls(h, code, t);
    case CURLE_COULDNT_CONNECT:
        (void)trouble_set(t, REGISTRY_CONNECT, os > 0 ? -(int)os : -ECONNREFUSED,
                          "dial tcp %s: connect: %s", host,
                          strerror(os > 0 ? (int)os : ECONNREFUSED));
        t->no_tls = true;
        break;
    case CURLE_OPERATION_TIMEDOUT:
        (void)trouble_set(t, REGISTRY_CONNECT, -ETIMEDOUT, "dial tcp %s: i/o timeout", host);
        t->no_tls = true;
        break;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
        return trouble_set(t, REGISTRY_CONNECT, -ENOENT, "dial tcp: lookup %s: no such host",
                           h->q->url->host);
    case CURLE_OUT_OF_MEMORY:
        return trouble_set(t, REGISTRY_LOCAL, -ENOMEM, "out of memory");
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_PARTIAL_FILE:
        (void)trouble_set(t, REGISTRY_CONNECT, -ECONNRESET, "the connection broke off%s%s",
                          os > 0 ? ": " : "", os > 0 ? strerror((int)os) : "");
        break;
    default:
        (void)trouble_set(t, REGISTRY_CONNECT, -EPROTO, "%s",
                          h->error[0] != '\0' ? h->error : curl_easy_strerror(code));
        break;
    }
    t->may_pass = true;
    return t->code;
}

static int http_run(struct http *h, struct trouble *t)
{
    struct curl_slist *headers = NULL, *addresses = NULL;
    char url[URL_TEXT_MAX + 1];
    struct http_proxy proxy;
    CURLcode code = CURLE_OK;
    int r;

    curl_easy_reset(h->curl);
    url_format(h->q->url, url);
    r = proxy_parse(h->client->job, h->q->url, &proxy, t);
    if (r == 0)
        r = http_set_addresses(h, &proxy, &addresses, t);
    if (r == 0)
        r = http_set_headers(h->q, &headers, t);
    if (r == 0) {
        http_set_security(h);
        http_set_answer(h);
        http_set_body(h);
        (void)curl_easy_setopt(h->curl, CURLOPT_RESOLVE, addresses);
        (void)curl_easy_setopt(h->curl, CURLOPT_HTTPHEADER, headers);
        (void)curl_easy_setopt(h->curl, CURLOPT_PROXY, proxy.used ? proxy.url : "");
        (void)curl_easy_setopt(h->curl, CURLOPT_NOPROXY, h->client->job->proxy_no);
        if (curl_easy_setopt(h->curl, CURLOPT_URL, url) != CURLE_OK)
            r = trouble_set(t, REGISTRY_LOCAL, -ENOMEM, "out of memory");
    }
    if (r == 0)
        code = curl_easy_perform(h->curl);
    if (r == 0 && h->failed)
        r = t->code;
    else if (r == 0 && code == CURLE_WRITE_ERROR && h->p->status >= 300)
        r = 0; /* enough of a refusal */
    else if (r == 0 && code != CURLE_OK)
        r = http_fail(h, code, t);
    curl_slist_free_all(headers);
    curl_slist_free_all(addresses);
    return r;
}

int http_perform(struct http *h, const struct http_query *q, struct http_response *ret,
                 struct trouble *t)
{
    const int64_t now = clock_mono_ms();
    char what[700];
    int r;

    *ret = (struct http_response){.length = -1, .body = BUF_INIT(HTTP_REFUSAL_MAX)};
    h->q = q;
    h->p = ret;
    h->t = t;
    h->failed = h->head_done = h->connected = false;
    h->head_bytes = h->proxy_count = 0;
    h->sent = h->seen = h->in_window = 0;
    h->head_since = h->active = h->window = now;
    h->refused[0] = h->error[0] = '\0';
    r = http_run(h, t);
    h->q = NULL;
    h->p = NULL;
    if (r == 0)
        return 0;
    http_response_done(ret);
    if (t->fault == REGISTRY_CANCELED)
        return r;
    http_format_request(q, what, sizeof(what));
    return trouble_wrap(t, "%s", what);
}

void http_response_done(struct http_response *p)
{
    buf_done(&p->body);
}

/* ---- handles ---- */

int http_client_new(const struct registry_job *job, struct resolver *resolver, const char *ca,
                    struct http_client **ret, struct err *err)
{
    struct http_client *c = calloc(1, sizeof(*c));

    if (c == NULL)
        return err_errno(err, -ENOMEM, "http");
    c->job = job;
    c->resolver = resolver;
    c->tls = http_tls_new(ca);
    if (c->tls == NULL || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        http_client_free(c);
        return err_errno(err, -ENOMEM, "http");
    }
    *ret = c;
    return 0;
}

void http_client_free(struct http_client *c)
{
    if (c == NULL)
        return;
    http_tls_free(c->tls);
    free(c);
}

struct http *http_new(struct http_client *c, const atomic_bool *canceled)
{
    struct http *h = calloc(1, sizeof(*h));

    if (h == NULL)
        return NULL;
    h->client = c;
    h->canceled = canceled;
    h->curl = curl_easy_init();
    if (h->curl == NULL) {
        free(h);
        return NULL;
    }
    return h;
}

void http_free(struct http *h)
{
    if (h == NULL)
        return;
    curl_easy_cleanup(h->curl);
    free(h);
}

bool http_in_cidrs(struct http *h, const char *host, char *const *list)
{
    struct address addresses[RESOLVER_ADDRESSES_MAX];
    struct trouble t;
    int n = -1;

    for (char *const *one = list; one != NULL && *one != NULL; one++) {
        struct net_rule rule;
        bool all;

        if (strchr(*one, '/') == NULL || net_rule_parse(*one, false, &rule, NULL) < 0)
            continue;
        if (n < 0)
            n = http_find(h, host, addresses, &t);
        all = n > 0;
        for (int i = 0; i < n; i++)
            all = all && addresses[i].family == rule.family &&
                  net_same_prefix(addresses[i].bytes, rule.bytes, rule.prefix);
        if (all)
            return true;
    }
    return false;
}
