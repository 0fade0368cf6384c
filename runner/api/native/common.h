#pragma once

/*
 * What the native resources share. A handler looks like this:
 *
 *     static void put_thing(struct http_request *req)
 *     {
 *         struct sandbox *s = native_sandbox(req);       404, 403 have been answered when NULL
 *         struct native_call *call = s != NULL ? native_call_new(req, s) : NULL;
 *         struct err err = ERR_NONE;
 *
 *         if (call != NULL && thing_put(s, native_done_empty, call, &err) < 0)
 *             native_call_fail(call, &err);
 *     }
 *
 * The request outlives the client (http.h), so `req` may be the data of any callback. A sandbox
 * does not outlive its deletion: whoever needs it in a callback asks native_call_sandbox.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/http.h"
#include "api/native/native.h"
#include "base/err.h"

struct egress_rules;
struct jpair;
struct sandbox;
struct spec;

/* ---- whose request, and about what ---- */

struct native *native_of(const struct http_request *req);
struct supervisor *native_supervisor(const struct http_request *req);

/* Whether the peer may use the API at all; else the request has been answered (403). Every handler
 * that does not call native_sandbox calls this first. */
bool native_admit(struct http_request *req);
/* The peer is the owner or root: no client policy applies. */
bool native_is_owner(struct http_request *req);
/* Of the body of a request that makes or changes a sandbox: -EINVAL with SPEC_LABEL_OWN among its
 * labels, which would make it what the Docker façade did not. */
int native_check_labels(const json_t *body, struct err *err);
/* What the client policy says to this spec from this peer: 0, or -EPERM with the field's name. */
int native_check_spec(struct http_request *req, const struct spec *spec, struct err *err);
/* Whether the peer may see and use this sandbox: it would have been allowed to make it. 0, or
 * -EPERM, which says why not. */
int native_check_use(struct http_request *req, const struct sandbox *s, struct err *err);
/* Whether the peer may have these rules, which may be NULL, work for this sandbox: -EPERM where
 * they name unix sockets, which are reached with the rights of who made it, and that was another.
 */
int native_check_handlers(struct http_request *req, const struct sandbox *s,
                          const struct egress_rules *rules, struct err *err);
/* -EBUSY for a broken one: its spec is not what it was made with. */
int native_check_intact(const struct sandbox *s, struct err *err);
bool native_may_use(struct http_request *req, const struct sandbox *s);
/* native_admit, and the sandbox that {id} names (id, prefix of an id, or name); NULL: answered. The
 * sandbox's inactivity timer begins again. */
struct sandbox *native_sandbox(struct http_request *req);

/* The query of what is deleted: ?force, or nothing. */
int native_query_force(struct http_request *req, bool *ret, struct err *err);

/* ---- calls with a callback ---- */

enum { NATIVE_ID_MAX = 63 };

/* What a sandbox_cb needs; one a request (req->data), freed with the answer. */
struct native_call {
    struct http_request *req;
    struct supervisor *sup;
    char id[NATIVE_ID_MAX + 1]; /* of the sandbox */
    void *more;                 /* the resource's own; not freed */
};

/* Answers 503 and returns NULL without memory. */
struct native_call *native_call_new(struct http_request *req, struct sandbox *s);
void native_call_free(struct native_call *call);
/* The sandbox, or NULL when it has gone meanwhile. */
struct sandbox *native_call_sandbox(const struct native_call *call);

/* sandbox_cb's whose data is a struct native_call: they answer the request and free the call.
 * Failed: the error. Else 204, or the sandbox as inspect shows it (204 when it has gone). */
void native_done_empty(void *data, int r, const struct err *err);
void native_done_sandbox(void *data, int r, const struct err *err);
/* For a call that could not be started: the error, and frees the call. */
void native_call_fail(struct native_call *call, const struct err *err);

/* ---- limits ---- */

/* Counts a stream against maxWatchers. False: the request has been answered (429). */
bool native_watcher_take(struct http_request *req);
void native_watcher_drop(struct native *n);

/* ---- JSON ---- */

/* "2006-01-02T15:04:05.000Z", or null for 0. */
json_t *native_time(int64_t ms);
/* Labels of a body as "K=V" strings, to be freed with json_strings_free; pairs may be NULL.
 * -EINVAL: a key holds =. */
int native_labels(const struct jpair *pairs, char ***ret, struct err *err);
