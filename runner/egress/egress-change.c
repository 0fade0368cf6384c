/*
 * Changes the egress rules of a running sandbox: replaces them, sets the first ones, removes the
 * last ones. Runs in the supervisor's event loop.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "egress/egress-internal.h"
#include "launch/request.h"
#include "policy/egress.h"
#include "sandbox/launcher-client.h"
#include "sandbox/policies.h"
#include "sandbox/sandbox-request.h"
#include "sandbox/shared.h"
#include "sandbox/store.h"

/* ---- replacing the nft table ---- */

struct table_change {
    struct sandbox *s; /* a reference */
    void (*cb)(void *data, int r);
    void *data;
};

static void on_table(void *data, int r, const struct launch_reply *reply, int fds[2],
                     const struct err *err)
{
    struct table_change *c = data;
    struct sandbox *s = c->s;

    (void)reply;
    (void)fds;
    if (c->cb != NULL)
        c->cb(c->data, r);
    free(c);
    if (r < 0 && r != -ECANCELED && s->parts.egress.open != NULL && s->init != INIT_ENDING) {
        log_error("egress", "id=%s: %s; the sandbox is ended", s->id, err->msg);
        sandbox_end_init(s);
    }
    sandbox_unref(s);
}

void egress_set_table(struct sandbox *s, bool lets_out, void (*cb)(void *data, int r), void *data)
{
    uint64_t flags = LAUNCH_EGRESS_TABLE | (lets_out ? LAUNCH_EGRESS_OPEN : 0);
    struct table_change *c = calloc(1, sizeof(*c));
    struct err err = ERR_NONE;
    int r;

    if (c == NULL) {
        log_error("egress", "id=%s: out of memory; the sandbox is ended", s->id);
        if (cb != NULL)
            cb(data, -ENOMEM);
        sandbox_end_init(s);
        return;
    }
    *c = (struct table_change){.s = s, .cb = cb, .data = data};
    sandbox_ref(s);
    s->parts.egress.open->lets_out = lets_out;
    r = egress_send(s, 4, flags, on_table, c, &err);
    if (r < 0)
        on_table(c, r, NULL, NULL, &err);
}

/* ---- setting the first rules, removing the last ---- */

/* A change of rules that waits for the launcher. */
struct egress_change {
    egress_put_cb *cb;
    void *data;
    struct egress_rules *old; /* owned, or NULL: the rules before the change */
};

static int begin_change(struct sandbox *s, egress_put_cb *cb, void *data, struct err *err)
{
    s->parts.egress.change = calloc(1, sizeof(*s->parts.egress.change));
    if (s->parts.egress.change == NULL)
        return err_errno(err, -ENOMEM, "egress");
    *s->parts.egress.change = (struct egress_change){.cb = cb, .data = data};
    return 0;
}

static void end_change(struct sandbox *s, int r, const struct err *err)
{
    struct egress_change *c = take(s->parts.egress.change);

    c->cb(c->data, r, err);
    egress_free(c->old);
    free(c);
}

/*
 * Makes rules the sandbox's own and writes its spec to disk. On success the caller owns the former
 * ones, *ret_old. On failure the caller still owns rules.
 */
static int save_rules(struct sandbox *s, struct egress_rules *rules, struct egress_rules **ret_old,
                      struct err *err)
{
    struct egress_rules *old = s->spec->egress;
    int r;

    s->spec->egress = rules;
    r = store_save_spec(s->sup->store, s->id, s->spec, err);
    if (r < 0)
        s->spec->egress = old;
    else
        *ret_old = old;
    return r;
}

static bool lives(const struct sandbox *s)
{
    return s->channel != NULL && s->init != INIT_ENDING;
}

/*
 * Opening the first rules has failed. If the table cannot be removed either, the sandbox would keep
 * a table without rules; so it is stopped.
 */
static void on_taken_out(void *data, int r, const struct launch_reply *reply, int fds[2],
                         const struct err *err)
{
    struct sandbox *s = data;

    (void)reply;
    (void)fds;
    if (r < 0 && r != -ECANCELED && lives(s)) {
        log_error("egress", "id=%s: %s; the sandbox is ended", s->id, err->msg);
        sandbox_end_init(s);
    }
    sandbox_unref(s);
}

static void take_out(struct sandbox *s)
{
    struct err err = ERR_NONE;
    int r;

    sandbox_ref(s);
    r = egress_send(s, 4, LAUNCH_EGRESS_NONE, on_taken_out, s, &err);
    if (r < 0)
        on_taken_out(s, r, NULL, NULL, &err);
}

static void on_added(struct sandbox *s, int r, const struct err *err)
{
    struct egress_rules *rules;
    struct err why = ERR_NONE, own = ERR_NONE;

    /*
     * The change also counts if the sandbox has ended: its next start uses the saved rules. If the
     * supervisor stops, the next one applies them.
     */
    if (r == 0 || r == -ECANCELED || !lives(s)) {
        end_change(s, 0, NULL);
        return;
    }
    if (r == -EADDRINUSE)
        r = err_set(&why, -EBUSY, "%s: a program in sandbox %s has it; stop it first", err->msg,
                    sandbox_name(s));
    else
        why = *err;
    if (save_rules(s, s->parts.egress.change->old, &rules, &own) < 0) {
        log_error("egress", "id=%s: %s; the rules count from its next start on", s->id, own.msg);
    } else {
        s->parts.egress.change->old = NULL;
        egress_free(rules);
    }
    /*
     * A sandbox that had rules before and lost its listeners keeps its table, so nothing leaves it.
     */
    if (s->spec->egress == NULL)
        take_out(s);
    end_change(s, r, &why);
}

/*
 * Sets the first rules of a running sandbox; takes rules. They are saved first, so that the next
 * supervisor applies them if this one crashes meanwhile.
 */
static int add(struct sandbox *s, struct egress_rules *rules, egress_put_cb *cb, void *data,
               struct err *err)
{
    struct egress_rules *mine = egress_copy_rules(rules, err);
    int r;

    if (mine == NULL) {
        egress_free(rules);
        return err->code;
    }
    r = begin_change(s, cb, data, err);
    if (r == 0 && (r = save_rules(s, rules, &s->parts.egress.change->old, err)) < 0)
        free(take(s->parts.egress.change));
    if (r < 0) {
        egress_free(mine);
        egress_free(rules);
        return r;
    }
    r = egress_open_with(s, mine, mine->open, EGRESS_WAIT_MS, on_added, err);
    if (r == 0)
        return 0;
    on_added(s, r, err); /* on_rules_opened has called cb */
    return 0;
}

static void on_removed(void *data, int r, const struct launch_reply *reply, int fds[2],
                       const struct err *err)
{
    struct sandbox *s = data;
    struct err own = ERR_NONE;

    (void)reply;
    (void)fds;
    if (!lives(s))
        r = 0;
    if (r == 0) {
        r = save_rules(s, NULL, &s->parts.egress.change->old, &own);
        err = &own;
    }
    if (r == 0 && s->parts.egress.open != NULL)
        egress_close(s);
    else if (r < 0 && r != -ECANCELED && s->parts.egress.open != NULL)
        egress_set_table(s, s->parts.egress.open->lets_out, NULL, NULL); /* undo, or stop s */
    else if (r < 0 && lives(s))
        sandbox_end_init(s); /* the rules stay, but there are no listeners, and perhaps no table */
    end_change(s, r, err);
    sandbox_unref(s);
}

/* Existing connections continue until the launcher has removed the table, and are reset then. */
static int remove_(struct sandbox *s, egress_put_cb *cb, void *data, struct err *err)
{
    int r = begin_change(s, cb, data, err);

    if (r == 0)
        r = egress_send(s, 4, LAUNCH_EGRESS_NONE, on_removed, s, err);
    if (r < 0)
        free(take(s->parts.egress.change));
    else
        sandbox_ref(s);
    return r;
}

/* ---- replacing rules ---- */

/*
 * Completes the client's request only after the launcher has replaced the table: a client must not
 * be told earlier that UDP and ICMP are blocked.
 */
static void on_turned(void *data, int r)
{
    struct sandbox *s = data;
    struct err err = ERR_NONE;

    if (r == -ECANCELED || !lives(s))
        r = 0; /* the saved rules apply from the next start on */
    if (r < 0)
        (void)err_errno(&err, r, "egress: the table of sandbox %s; it is ended", sandbox_name(s));
    end_change(s, r, &err);
}

static int check(const struct sandbox *s, const struct egress_rules *rules, struct err *err)
{
    const struct ready_policy *policy = policies_find(s->sup->policies, s->spec->policy);
    const struct sandbox_egress *e = s->parts.egress.open;

    if (s->spec->net_container != NULL)
        return err_set(err, -EINVAL,
                       "egress: sandbox %s is in the network of another, and has that one's rules",
                       sandbox_name(s));
    if (rules != NULL && policy != NULL && sandbox_administers_network(s->spec, policy->policy))
        return err_set(err, -EINVAL,
                       "egress: sandbox %s administers its network, and could take the table of "
                       "these rules away",
                       sandbox_name(s));
    if (e != NULL && e->sidecar != NULL)
        return err_set(err, -EBUSY, "egress: a sidecar has it");
    if (s->parts.egress.change != NULL || (e != NULL && e->cb != NULL))
        return err_set(err, -EBUSY, "egress: is being changed");
    /*
     * The CA variables in the environment would name missing files, and programs would trust no
     * certificate at all. A stopped sandbox's init, which only serves file access, does not need
     * them.
     */
    if (s->channel != NULL && s->state != SANDBOX_STOPPED && rules != NULL && rules->trust &&
        (s->spec->egress == NULL || !s->spec->egress->trust))
        return err_set(
            err, -EBUSY,
            "egress.trust: sandbox %s was started without the certificate; stop it first",
            sandbox_name(s));
    return 0;
}

int egress_put(struct sandbox *s, struct egress_rules *rules, egress_put_cb *cb, void *data,
               struct err *err)
{
    auto_ptr(egress_free) struct egress_rules *mine = rules, *ctx = NULL, *old = NULL;
    struct sandbox_egress *e = s->parts.egress.open;
    const bool turns = e != NULL && rules != NULL && e->lets_out != rules->open;
    int r = check(s, rules, err);

    if (r < 0)
        return r;
    if (lives(s) && e == NULL && rules != NULL)
        return add(s, take(mine), cb, data, err);
    if (lives(s) && rules == NULL && s->spec->egress != NULL)
        return remove_(s, cb, data, err);
    if (e != NULL && rules != NULL && (ctx = egress_copy_rules(rules, err)) == NULL)
        return err->code;
    if (turns && (r = begin_change(s, cb, data, err)) < 0)
        return r;
    r = save_rules(s, mine, &old, err);
    if (r < 0) {
        free(take(s->parts.egress.change));
        return r;
    }
    (void)take(mine);
    if (ctx == NULL)
        return 1;
    egress_ctx_rules(e->ctx, take(ctx));
    if (!turns)
        return 1;
    egress_set_table(s, rules->open, on_turned, s);
    return 0;
}
