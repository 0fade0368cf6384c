#pragma once

/*
 * One HTTP exchange by libcurl: one request, one answer, no redirect. It knows nothing of
 * registries. All bounds are here: connection, head, idle and floor times, sizes of heads and
 * bodies, and which addresses may be connected to.
 *
 * struct http_client is what all threads share (CAs, resolver, job); struct http is one thread's
 * handle with its open connections.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "challenge.h"
#include "image/manifest.h"
#include "job.h"
#include "resolver.h"
#include "trouble.h"
#include "url.h"

struct http;
struct http_client;

enum { HTTP_HEAD_MAX = 64 << 10, HTTP_REFUSAL_MAX = 64 << 10 };

/* job and resolver are borrowed; ca: PEM, copied. To be made before the process is confined. */
int http_client_new(const struct registry_job *job, struct resolver *resolver, const char *ca,
                    struct http_client **ret, struct err *err);
void http_client_free(struct http_client *c);

/* canceled is borrowed. To be made before the process is confined, used by one thread at a time. */
struct http *http_new(struct http_client *c, const atomic_bool *canceled);
void http_free(struct http *h);

struct http_response;

/* Gets the body of an answer with status 200 or 206, in pieces. May block. 0, or a negative errno
 * with trouble set, which ends the exchange. */
typedef int http_body_fn(void *data, const struct http_response *p, const void *bytes, size_t len,
                         struct trouble *t);
/* Told now and then how much of the request's body was sent. */
typedef void http_sent_fn(void *data, int64_t bytes);

struct http_query {
    const char *method;
    const struct url *url;
    const char *const *headers; /* "Name: value", NULL-terminated; or NULL */
    bool insecure;              /* the certificate is not checked */
    bool exempt;                /* any address may be connected to */
    /* body: bytes, or a file; with body_fd it is sent with its length */
    const char *bytes;
    size_t bytes_len;
    int body_fd; /* borrowed; FD_NONE: there is none */
    int64_t body_size;
    bool body_is_stream; /* a pipe: it is read once */
    http_sent_fn *on_sent;
    /* answer */
    size_t answer_max;     /* bytes of a body in memory; HTTP_REFUSAL_MAX for other statuses */
    http_body_fn *on_body; /* NULL: in memory */
    void *data;
};

struct http_response {
    int status;
    struct challenge challenge;
    int64_t length; /* Content-Length; -1 = not given */
    char media_type[MEDIA_TYPE_MAX + 1], digest[DIGEST_LEN + 1], etag[256], content_range[80],
        retry_after[64];
    char location[URL_TARGET_MAX + 1], link[URL_TARGET_MAX + 1];
    struct buf body; /* what on_body did not get; owned: http_response_done */
};

void http_response_done(struct http_response *p);

/* 0: there is an answer, whatever its status. */
int http_perform(struct http *h, const struct http_query *q, struct http_response *ret,
                 struct trouble *t);
bool http_is_canceled(const struct http *h);
/* Waits; false: it was canceled meanwhile. */
bool http_sleep(const struct http *h, int64_t ms);
/* True if all addresses of the host are in one of the CIDRs of the list; other entries are skipped.
 */
bool http_in_cidrs(struct http *h, const char *host, char *const *list);
