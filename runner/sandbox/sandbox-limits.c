/*
 * Changes of a sandbox that may need the launcher: limits of one that runs. Owns a change between
 * the request and the launcher's reply. Runs in the supervisor's loop thread.
 */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "launch/request.h"
#include "sandbox/launcher-client.h"
#include "sandbox/policies.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/sandbox-request.h"
#include "sandbox/sandbox.h"
#include "sandbox/shared.h"
#include "spec/json.h"
#include "spec/spec.h"

struct limits_change {
    struct sandbox *s;
    json_t *patch; /* owned */
    sandbox_cb cb;
    void *data;
};

static void limits_change_free(struct limits_change *c)
{
    json_decref(c->patch);
    free(c);
}

/* Applies the patch to the spec as it is now: another change may have come in between. */
static int limits_change_save(struct limits_change *c, struct err *err)
{
    auto_ptr(spec_free) struct spec *changed = NULL;
    int r;

    if (c->s->spec == NULL)
        return err_set(err, -ENOENT, "sandbox %s has been removed", sandbox_name(c->s));
    r = spec_patch(c->s->spec, c->patch, &changed, err);
    return r < 0 ? r : sandbox_update(c->s, changed, err);
}

static void on_limits_reply(void *data, int r, const struct launch_reply *reply, int *fds,
                            const struct err *err)
{
    struct limits_change *c = data;
    struct err own = ERR_NONE;

    (void)reply;
    (void)fds;
    /* -ENOENT: it has ended meanwhile. The next start has the new limits. */
    if (r == 0 || r == -ENOENT) {
        r = limits_change_save(c, &own);
        err = &own;
    }
    c->cb(c->data, r, err);
    sandbox_unref(c->s);
    limits_change_free(c);
}

static int limits_change_send(struct limits_change *c, const struct spec *changed, struct err *err)
{
    const struct ready_policy *policy = policies_find(c->s->sup->policies, changed->policy);
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
    int r;

    if (policy == NULL)
        return err_set(err, -ENOENT, "policy: \"%s\": there is none of this name", changed->policy);
    r = sandbox_limits_request(&b, c->s->id, changed, &policy->policy->limits, sandbox_most(c->s),
                               err);
    return r < 0 ? r : launcher_client_send(c->s->sup->launcher, &b, on_limits_reply, c, err);
}

int sandbox_change(struct sandbox *s, json_t *patch, struct spec *changed, sandbox_cb cb,
                   void *data, struct err *err)
{
    struct limits_change *c;
    int r = sandbox_check(s, REQ_UPDATE, err);

    if (r < 0)
        return r;
    if (s->channel == NULL || json_object_get(patch, "limits") == NULL) {
        r = sandbox_update(s, changed, err);
        return r < 0 ? r : sandbox_answer_soon(s, 0, cb, data, err);
    }
    c = calloc(1, sizeof(*c));
    if (c == NULL)
        return err_errno(err, -ENOMEM, "update");
    *c = (struct limits_change){.s = s, .patch = json_incref(patch), .cb = cb, .data = data};
    r = limits_change_send(c, changed, err);
    if (r < 0)
        limits_change_free(c);
    else
        sandbox_ref(s);
    return r;
}
