#pragma once

/* Shared by the native resources. A typical handler:
 *
 *     static void put_thing(struct http_request *req)
 *     {
 *         struct sandbox *s = api_sandbox(req);       NULL: 404 or 403 was answered
 *         struct api_call *call = s != NULL ? api_call_new(req, s) : NULL;
 *         struct err err = ERR_NONE;
 *
 *         if (call != NULL && thing_put(s, api_done_empty, call, &err) < 0)
 *             api_call_fail(call, &err);
 *     }
 *
 * The request stays valid until it is ended, even if the client is gone (http/server.h), so `req`
 * may be the data of any callback. A sandbox may be removed meanwhile: callbacks get it by
 * api_call_sandbox.
 *
 * Runs in the supervisor's loop thread. */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/native/native.h"
#include "base/err.h"
#include "http/server.h"
#include "sandbox/caller.h"
#include "sandbox/rights.h"

struct egress_rules;
struct jpair;
struct sandbox;
struct spec;

/* ---- the caller, and the sandbox of a request ---- */

struct native *native_of(const struct http_request *req);
struct supervisor *api_supervisor(const struct http_request *req);

/* route_set.admit: true if the peer may use the API; otherwise answers 403. */
bool api_admit(struct http_request *req);
/* True if the peer is the owner or root: then no client policy applies. */
bool api_is_owner(struct http_request *req);
/* Returns the caller; its fd is borrowed from the request. */
struct caller native_caller(struct http_request *req);
/* Checks the body of a request that makes or changes a sandbox. -EINVAL if its labels include
 * SPEC_LABEL_OWN, which only the Docker façade may set. */
int api_check_labels(const json_t *body, struct err *err);
/* Checks a spec against the client policy. 0, or -EPERM with the field's name in err. */
int api_check_spec(struct http_request *req, const struct spec *spec, struct err *err);
/*
 * The same for a spec that `patch` has changed. Limits of a member's sandbox are bounded by the
 * client policy whichever user changes them: more would not be given.
 */
int api_check_change(struct http_request *req, const struct sandbox *s, const struct spec *changed,
                     const json_t *patch, struct err *err);
/* Returns the right that the route of the request needs to the object that it names. */
enum right api_right(const struct http_request *req);
/* Checks that the peer has the right to this sandbox, and to use it also that the client policy
 * still allows what its maker has asked for. 0, -EPERM, or -ENOENT if the peer does not see it. */
int api_check_sandbox(struct http_request *req, const struct sandbox *s, enum right need,
                      struct err *err);
/* Finds a sandbox that the peer sees (sandbox_find_for) and has the right to. Borrowed. */
int api_find_sandbox(struct http_request *req, const char *text, enum right need,
                     struct sandbox **ret, struct err *err);
/* Checks that the peer may use egress rules (may be NULL) in this sandbox. -EPERM if they name
 * unix sockets, which are connected with the creator's rights, and the peer is not the creator. */
int api_check_handlers(struct http_request *req, const struct sandbox *s,
                       const struct egress_rules *rules, struct err *err);
/* -EBUSY for a broken sandbox: its spec is unreliable. */
int api_check_intact(const struct sandbox *s, struct err *err);
/* True if the peer sees the sandbox: in lists, counts and events. */
bool api_may_see(struct http_request *req, const struct sandbox *s);
/* True if the sandbox is the peer's own: for what is done to all of its own (prune). */
bool api_is_own(struct http_request *req, const struct sandbox *s);
/* Returns the sandbox named by {id} (id, prefix of an id, or name), if the peer has the right that
 * the route needs. NULL: answered. Restarts the sandbox's inactivity timer. */
struct sandbox *api_sandbox(struct http_request *req);

/* Decodes the query of a DELETE: ?force, or nothing. */
int api_query_force(struct http_request *req, bool *ret, struct err *err);

/* ---- calls with a callback ---- */

enum { API_ID_MAX = 63 };

/* The data of a sandbox_cb; one per request (req->data), freed with the answer. */
struct api_call {
    struct http_request *req;
    struct supervisor *sup;
    char id[API_ID_MAX + 1]; /* of the sandbox */
    void *more;              /* for the resource; not freed */
};

/* NULL: out of memory, answered 503. */
struct api_call *api_call_new(struct http_request *req, struct sandbox *s);
void api_call_free(struct api_call *call);
/* Returns the sandbox, or NULL if it was removed meanwhile. */
struct sandbox *api_call_sandbox(const struct api_call *call);

/* sandbox_cb's for a struct api_call: answer the request and free the call. On failure the
 * error; otherwise 204, or the sandbox like inspect (204 if it was removed). */
void api_done_empty(void *data, int r, const struct err *err);
void api_done_sandbox(void *data, int r, const struct err *err);
/* Answers the error of a call that could not be started, and frees it. */
void api_call_fail(struct api_call *call, const struct err *err);

/* ---- limits ---- */

/* Counts a stream against maxWatchers. False: limit reached, answered 429. */
bool api_watcher_take(struct http_request *req);
void api_watcher_drop(struct native *n);

/* ---- JSON ---- */

/* "2006-01-02T15:04:05.000Z", or null for 0. */
json_t *api_time(int64_t ms);
/* Converts labels of a body to "K=V" strings; the caller frees them with json_strings_free;
 * pairs may be NULL. -EINVAL: a key contains '='. */
int api_labels(const struct jpair *pairs, char ***ret, struct err *err);
