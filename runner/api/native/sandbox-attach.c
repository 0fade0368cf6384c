/* Attaches to a sandbox's main process: to a running one, or from its first byte by the request
 * that starts or creates the sandbox. Called by sandboxes.c and sandbox-verbs.c. */
#include "api/native/sandbox-attach.h"

#include <errno.h>
#include <stdlib.h>

#include "api/common.h"
#include "api/native/exec-body.h"
#include "api/native/exec-forms.h"
#include "base/err.h"
#include "http/json-body.h"
#include "http/reply.h"
#include "json/decode.h"
#include "sandbox/exec.h"
#include "sandbox/sandbox.h"
#include "spec/spec.h"

/* ---- options ---- */

/* clang-format off */
static const struct jfield attach_fields[] = {
    {.name = "own",  .decode = j_bool,  .off = offsetof(struct attach_options, own)},
    {.name = "rows", .decode = j_int64, .off = offsetof(struct attach_options, rows), .min = 1, .max = EXEC_SIDE_MAX},
    {.name = "cols", .decode = j_int64, .off = offsetof(struct attach_options, cols), .min = 1, .max = EXEC_SIDE_MAX},
    {0},
};
/* clang-format on */

static int attach_read_options(struct http_request *req, struct attach_options *ret,
                               struct err *err)
{
    *ret = (struct attach_options){.rows = 0};
    return json_body(req, attach_fields, ret, err);
}

int attach_options_take(json_t *root, struct attach_options *ret, struct err *err)
{
    json_t *own = json_object();
    int r = 0;

    *ret = (struct attach_options){.rows = 0};
    for (const struct jfield *f = attach_fields; own != NULL && f->name != NULL; f++) {
        json_t *value = json_object_get(root, f->name);

        if (value == NULL)
            continue;
        ret->given = true;
        (void)json_object_set(own, f->name, value);
        (void)json_object_del(root, f->name);
    }
    if (own == NULL)
        return err_errno(err, -ENOMEM, "a request");
    r = json_decode(own, attach_fields, ret, err);
    json_decref(own);
    return r;
}

static void sandbox_apply_size(struct sandbox *s, const struct attach_options *o)
{
    if (o->rows != 0 && o->cols != 0)
        sandbox_set_size(s, (uint16_t)o->rows, (uint16_t)o->cols);
}

/* ---- a running sandbox ---- */

void sandbox_post_attach(struct http_request *req)
{
    struct sandbox *s = api_sandbox(req);
    struct attach_options o;
    struct err err = ERR_NONE;
    int r;

    if (s == NULL)
        return;
    r = attach_read_options(req, &o, &err);
    if (r == 0)
        r = exec_main_attach(req, s, o.own, &err);
    if (r < 0)
        reply_error(req, &err);
    else
        sandbox_apply_size(s, &o);
}

/* ---- a starting sandbox ---- */

struct attach_start_request {
    struct http_request *req;
    struct sandbox *s; /* a reference */
    bool own;
};

static void start_reply_failed(struct attach_start_request *st, int r, const struct err *err)
{
    struct sandbox_info info;
    struct err own = ERR_NONE;

    if (err == NULL || err->code == 0) {
        (void)err_errno(&own, r, "sandbox %s", sandbox_name(st->s));
        err = &own;
    }
    sandbox_get_info(st->s, &info);
    exec_reply_failed(st->req, err, info.exit_code);
}

/* Attaches within the callback that reports the start, so that no output of a short-lived
 * process is missed. */
static void on_sandbox_running(void *data, int r, const struct err *why)
{
    struct attach_start_request *st = data;
    struct err err = ERR_NONE;

    if (r < 0) {
        start_reply_failed(st, r, why);
    } else if (exec_main_take(st->req, st->s, st->own, &err) < 0) {
        if (st->own)
            (void)sandbox_remove(st->s, true, NULL, NULL, NULL);
        reply_error(st->req, &err);
    }
    if (st->s != NULL)
        sandbox_unref(st->s);
    free(st);
}

static struct attach_start_request *start_new(struct http_request *req, bool own)
{
    struct attach_start_request *st = calloc(1, sizeof(*st));

    if (st == NULL)
        reply_errorf(req, -ENOMEM, "out of memory");
    else
        *st = (struct attach_start_request){.req = req, .own = own};
    return st;
}

void attach_start(struct http_request *req, struct sandbox *s)
{
    struct attach_options o;
    struct attach_start_request *st;
    struct err err = ERR_NONE;
    int r = attach_read_options(req, &o, &err);

    if (r == 0 && !sandbox_is_attachable(s))
        r = err_set(&err, -EINVAL, "sandbox %s: " NATIVE_LOGGED, sandbox_name(s));
    if (r == 0 && sandbox_spec(s)->argv[0] == NULL)
        r = err_set(&err, -EINVAL, "sandbox %s has no command to start", sandbox_name(s));
    if (r < 0) {
        reply_error(req, &err);
        return;
    }
    st = start_new(req, o.own);
    if (st == NULL)
        return;
    sandbox_apply_size(s, &o);
    sandbox_ref(s);
    st->s = s;
    if (sandbox_start(s, on_sandbox_running, st, &err) < 0) {
        reply_error(req, &err);
        sandbox_unref(s);
        free(st);
    }
}

int attach_create(struct http_request *req, struct spec *spec, const struct caller *creator,
                  const struct attach_options *o, struct err *err)
{
    struct attach_start_request *st;
    int r;

    if (!spec->attach && !spec->tty && !spec->interactive)
        return err_set(err, -EINVAL, "attach: must be true (or tty, or stdin) to be attached to");
    st = start_new(req, o->own);
    if (st == NULL)
        return 1;
    r = sandbox_create(api_supervisor(req), spec, creator, true, on_sandbox_running, st, &st->s,
                       err);
    if (r < 0) {
        free(st);
        return r;
    }
    sandbox_ref(st->s);
    sandbox_apply_size(st->s, o);
    return 0;
}
