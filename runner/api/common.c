#include "api/common.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/audit.h"
#include "api/lease.h"
#include "api/native/sandbox-json.h"
#include "api/rights-table.h"
#include "base/err.h"
#include "http/reply.h"
#include "http/route-query.h"
#include "json/decode.h"
#include "json/parse.h"
#include "policy/client.h"
#include "policy/egress.h"
#include "sandbox/rights.h"
#include "sandbox/sandbox.h"
#include "sandbox/services.h"
#include "spec/client-check.h"
#include "spec/spec.h"

/* ---- the caller and its rights ---- */

struct native *native_of(const struct http_request *req)
{
    return req->context;
}

struct supervisor *api_supervisor(const struct http_request *req)
{
    return native_of(req)->config.supervisor;
}

bool api_is_owner(struct http_request *req)
{
    const struct http_peer *peer = http_peer(req);

    return peer->known && (peer->uid == 0 || peer->uid == native_of(req)->config.owner);
}

struct caller native_caller(struct http_request *req)
{
    const struct http_peer *peer = http_peer(req);

    return (struct caller){.uid = peer->uid,
                           .limited = !api_is_owner(req),
                           .daemon = native_of(req)->config.owner,
                           .fd = http_peer_fd(req),
                           .gid = peer->gid,
                           .groups = peer->groups,
                           .group_count = peer->group_count};
}

static bool client_is_member(struct http_request *req)
{
    const struct native_config *config = &native_of(req)->config;
    const struct http_peer *peer = http_peer(req);

    if (!config->has_group || config->clients == NULL || !peer->known)
        return false;
    if (peer->gid == config->group)
        return true;
    for (size_t i = 0; i < peer->group_count; i++)
        if (peer->groups[i] == config->group)
            return true;
    return false;
}

bool api_admit(struct http_request *req)
{
    audit_note(req);
    if (api_is_owner(req))
        return true;
    if (!client_is_member(req))
        reply_errorf(req, -EPERM,
                     "only the owner of this daemon, root and members of the group rind "
                     "may use it");
    else if (rights_need(native_of(req)->rights, req->route) == NEED_DAEMON)
        reply_errorf(req, -EPERM, "only the owner of this daemon and root may use %s", req->path);
    else
        return true;
    return false;
}

enum right api_right(const struct http_request *req)
{
    return need_right(rights_need(native_of(req)->rights, req->route));
}

int api_check_labels(const json_t *body, struct err *err)
{
    if (json_object_get(json_object_get(body, "labels"), SPEC_LABEL_OWN) == NULL)
        return 0;
    return err_set(err, -EINVAL, "labels[\"%s\"]: is rind's own", SPEC_LABEL_OWN);
}

static bool caller_made(const struct caller *c, const struct sandbox *s)
{
    return sandbox_made_by(s) == (int64_t)c->uid;
}

static int caller_check_handlers(const struct caller *c, const struct sandbox *s,
                                 const struct egress_rules *rules, struct err *err)
{
    bool any = false;

    /* Loopback ports of the host are open to every local user. */
    for (size_t i = 0; rules != NULL && i < rules->count; i++)
        any |= rules->list[i].handler != NULL && rules->list[i].handler[0] == '/';
    if (!any || !c->limited || caller_made(c, s))
        return 0;
    return err_set(err, -EPERM,
                   "sandbox %s: handlers of egress are reached with the rights of its maker",
                   sandbox_name(s));
}

int api_check_handlers(struct http_request *req, const struct sandbox *s,
                       const struct egress_rules *rules, struct err *err)
{
    const struct caller c = native_caller(req);

    return caller_check_handlers(&c, s, rules, err);
}

static int caller_check_spec(const struct native *native, const struct caller *c,
                             const struct spec *spec, struct err *err)
{
    enum { DEPTH_MAX = 8 }; /* guards against sandboxes that share each other's network */
    const char *joined = spec->net_container;
    struct sandbox *other = NULL;
    int r;

    if (!c->limited)
        return 0;
    r = client_check_spec(native->config.clients, spec, err);
    if (r == 0 && joined != NULL &&
        (sandbox_find_for(native->config.supervisor, c, joined, &other, NULL) < 0 ||
         sandbox_check_right(other, c, RIGHT_USE, NULL) < 0))
        return 0; /* sandbox_create refuses it, in one place for both APIs */
    /* The sandbox whose network is shared may have been made by a user with more rights, and so
     * on along the chain. What is refused is named by what the caller has named. */
    for (int i = 0; r == 0 && other != NULL && sandbox_spec(other) != spec; i++) {
        if (sandbox_spec(other) == NULL)
            return 0; /* no network to share */
        if (i == DEPTH_MAX)
            return err_set(err, -EPERM, "network: it is shared by way of too many sandboxes");
        r = client_check_spec(native->config.clients, sandbox_spec(other), err);
        if (r < 0)
            return err_wrap(err, r, "network: sandbox %s", joined);
        r = caller_check_handlers(c, other, sandbox_spec(other)->egress, err);
        other = sandbox_spec(other)->net_container != NULL
                    ? sandbox_find_beside(other, sandbox_spec(other)->net_container)
                    : NULL;
    }
    return r;
}

int api_check_spec(struct http_request *req, const struct spec *spec, struct err *err)
{
    const struct caller c = native_caller(req);

    return caller_check_spec(native_of(req), &c, spec, err);
}

int api_check_change(struct http_request *req, const struct sandbox *s, const struct spec *changed,
                     const json_t *patch, struct err *err)
{
    int r = api_check_spec(req, changed, err);

    if (r < 0 || !api_is_owner(req) || sandbox_most(s) == NULL ||
        json_object_get(patch, "limits") == NULL)
        return r;
    r = client_check_limits(native_of(req)->config.clients, changed, err);
    return r < 0 ? err_wrap(err, r, "sandbox %s is a member's (uid %d)", sandbox_name(s),
                            (int)sandbox_made_by(s))
                 : 0;
}

int api_check_intact(const struct sandbox *s, struct err *err)
{
    if (sandbox_spec(s) != NULL && sandbox_get_state(s) != SANDBOX_BROKEN)
        return 0;
    return err_set(err, -EBUSY, "sandbox %s: its files cannot be read", sandbox_name(s));
}

/*
 * The maker may only use what the client policy allows now: it may have become narrower. A share is
 * the maker's word that others may use what the sandbox has, its host directories included.
 */
static int caller_check_use(struct http_request *req, const struct caller *c,
                            const struct sandbox *s, struct err *err)
{
    int r;

    if (!c->limited || !caller_made(c, s))
        return 0;
    r = sandbox_spec(s) == NULL ? api_check_intact(s, err)
                                : caller_check_spec(native_of(req), c, sandbox_spec(s), err);
    return r < 0 ? err_wrap(err, r, "sandbox %s", sandbox_name(s)) : 0;
}

int api_check_sandbox(struct http_request *req, const struct sandbox *s, enum right need,
                      struct err *err)
{
    const struct caller c = native_caller(req);
    int r = sandbox_check_right(s, &c, need, err);

    return r == 0 && need == RIGHT_USE ? caller_check_use(req, &c, s, err) : r;
}

bool api_may_see(struct http_request *req, const struct sandbox *s)
{
    const struct caller c = native_caller(req);

    return sandbox_right(s, &c) >= RIGHT_SEE;
}

bool api_is_own(struct http_request *req, const struct sandbox *s)
{
    const struct caller c = native_caller(req);

    return right_is_own(&c, sandbox_made_by(s));
}

int api_find_sandbox(struct http_request *req, const char *text, enum right need,
                     struct sandbox **ret, struct err *err)
{
    const struct caller c = native_caller(req);
    struct sandbox *s;
    int r = sandbox_find_for(api_supervisor(req), &c, text, &s, err);

    if (r == 0)
        r = api_check_sandbox(req, s, need, err);
    if (r == 0) {
        lease_take(req, s, need);
        *ret = s;
    }
    return r;
}

struct sandbox *api_sandbox(struct http_request *req)
{
    struct err err = ERR_NONE;
    struct sandbox *s;

    if (api_find_sandbox(req, http_param(req, "id"), api_right(req), &s, &err) < 0) {
        reply_error(req, &err);
        return NULL;
    }
    sandbox_touch(s);
    return s;
}

int api_query_force(struct http_request *req, bool *ret, struct err *err)
{
    static const struct query_field fields[] = {{.name = "force", .type = QUERY_BOOL}, {0}};

    *ret = false;
    return http_query(req, fields, ret, err);
}

/* ---- calls with a callback ---- */

struct api_call *api_call_new(struct http_request *req, struct sandbox *s)
{
    struct api_call *call = calloc(1, sizeof(*call));

    if (call == NULL) {
        reply_errorf(req, -ENOMEM, "out of memory");
        return NULL;
    }
    *call = (struct api_call){.req = req, .sup = api_supervisor(req)};
    if (s != NULL)
        (void)snprintf(call->id, sizeof(call->id), "%s", sandbox_id(s));
    req->data = call;
    return call;
}

void api_call_free(struct api_call *call)
{
    free(call);
}

struct sandbox *api_call_sandbox(const struct api_call *call)
{
    return sandbox_by_id(call->sup, call->id);
}

void api_call_fail(struct api_call *call, const struct err *err)
{
    reply_error(call->req, err);
    api_call_free(call);
}

/* Some callbacks are called without err. */
static void call_fail(struct api_call *call, int r, const struct err *err)
{
    struct err own = ERR_NONE;

    if (err == NULL || err->code == 0) {
        (void)err_errno(&own, r, "sandbox %s", call->id);
        err = &own;
    }
    api_call_fail(call, err);
}

void api_done_empty(void *data, int r, const struct err *err)
{
    struct api_call *call = data;

    if (r < 0) {
        call_fail(call, r, err);
        return;
    }
    reply_empty(call->req, 204);
    api_call_free(call);
}

void api_done_sandbox(void *data, int r, const struct err *err)
{
    struct api_call *call = data;
    struct sandbox *s;

    if (r < 0) {
        call_fail(call, r, err);
        return;
    }
    s = api_call_sandbox(call);
    if (s == NULL)
        reply_empty(call->req, 204);
    else
        reply_json(call->req, 200, sandbox_encode(s, true));
    api_call_free(call);
}

/* ---- limits ---- */

bool api_watcher_take(struct http_request *req)
{
    struct native *n = native_of(req);
    unsigned max = supervisor_limits(n->config.supervisor)->watchers;

    /* A quarter of the limit is reserved for the owner. */
    if (!api_is_owner(req))
        max -= max / 4;
    if (n->watchers >= max) {
        reply_errorf(req, -EUSERS, "limit maxWatchers: %u streams are open already", n->watchers);
        return false;
    }
    n->watchers++;
    return true;
}

void api_watcher_drop(struct native *n)
{
    n->watchers--;
}

/* ---- JSON ---- */

json_t *api_time(int64_t ms)
{
    time_t seconds = (time_t)(ms / 1000);
    char date[32], text[48];
    struct tm tm;

    if (ms <= 0 || gmtime_r(&seconds, &tm) == NULL ||
        strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm) == 0)
        return json_null();
    (void)snprintf(text, sizeof(text), "%s.%03dZ", date, (int)(ms % 1000));
    return json_string(text);
}

int api_labels(const struct jpair *pairs, char ***ret, struct err *err)
{
    size_t n = 0;
    char **list;

    for (const struct jpair *p = pairs; p != NULL && p->key != NULL; p++, n++)
        if (strchr(p->key, '=') != NULL)
            return err_set(err, -EINVAL, "labels: a label's key must not hold =");
    list = calloc(n + 1, sizeof(*list));
    for (size_t i = 0; list != NULL && i < n; i++)
        if (asprintf(&list[i], "%s=%s", pairs[i].key, pairs[i].value) < 0) {
            list[i] = NULL;
            json_strings_free(list);
            list = NULL;
        }
    if (list == NULL)
        return err_errno(err, -ENOMEM, "labels");
    *ret = list;
    return 0;
}
