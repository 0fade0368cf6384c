#pragma once

/*
 * A request to a registry: with the scheme that it speaks, with credentials or a token, through
 * redirects hop by hop, again where that may help. The credentials go to the registry's own scheme,
 * host and port and to its token server alone.
 */

#include <stddef.h>
#include <stdint.h>

#include "http.h"
#include "session.h"

enum { CALL_HEADERS_MAX = 6 };

struct call {
    const char *method;
    const char *path;      /* behind "/v2/NAME/", "" for "/v2/" itself; not used with url */
    const struct url *url; /* borrowed: where an upload goes on; NULL: path */
    const char *headers[CALL_HEADERS_MAX + 1];
    const char *mount_from; /* another repository whose right to pull is needed, too; or NULL */
    const char *bytes;      /* body, as in struct http_query */
    size_t bytes_len;
    int body_fd;
    int64_t body_size;
    bool body_is_stream;
    http_sent_fn *on_sent;
    size_t answer_max;
    http_body_fn *on_body;
    void *data;
    bool once;   /* the caller tries again by itself */
    bool secret; /* the body goes to no other origin, also by redirect */
};

/*
 * Performs a call. 0: there is a final answer, of whatever status; *ret_url (may be NULL) is where
 * it came from, for a Location relative to it. The caller frees *ret by http_response_done.
 */
int call_perform(struct errand *e, struct registry_host *r, const struct call *c,
                 struct http_response *ret, struct url *ret_url, struct trouble *t);
/* Turns the status of an answer into a failure: what the registry said, with its host. `what` is
 * what was asked for. Returns the code. */
int call_refused(const struct registry_host *r, const struct http_response *p, const char *what,
                 struct trouble *t);
/* Fails if the status is of the kind that may pass by itself (408, 429, 5xx but 501). */
int call_check_busy(const struct registry_host *r, const struct http_response *p,
                    struct trouble *t);

/* The checks of a hop: schemes, and what the job says of the host. */
bool call_is_insecure(struct errand *e, const struct url *u);
bool call_is_exempt(const struct errand *e, const struct url *u);

/* One exchange with its redirects; auth: a header for the first URL's origin alone, or NULL. */
int call_follow(struct errand *e, const struct call *c, const struct url *first, const char *auth,
                struct http_response *ret, struct url *ret_url, struct trouble *t);
