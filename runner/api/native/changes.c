#include "api/native/changes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/common.h"
#include "api/native/files.h"
#include "base/auto.h"
#include "base/err.h"
#include "http/reply.h"
#include "http/server.h"
#include "json/parse.h"

/* A request for the changes of a sandbox. */
struct changes_listing {
    struct http_request *req;
    const struct changes_form *form;
    struct changes *changes; /* NULL once it has ended */
    bool started;
};

static void listing_begin(struct changes_listing *l)
{
    http_start(l->req, 200, NULL, "application/json");
    (void)http_write(l->req, l->form->head, strlen(l->form->head));
}

static bool on_changes_entry(void *data, enum change_kind kind, const char *path)
{
    struct changes_listing *l = data;
    auto_ptr(json_decref) json_t *one = l->form->encode(kind, path);
    auto_free char *text = one != NULL ? json_dumps(one, JSON_COMPACT) : NULL;
    bool full;

    if (!l->started)
        listing_begin(l);
    else
        (void)http_write(l->req, ",", 1);
    l->started = true;
    /* Out of memory: an empty entry makes the JSON invalid, which the client notices; a missing
     * one would go unnoticed. */
    full = http_write(l->req, text != NULL ? text : "", text != NULL ? strlen(text) : 0);
    return full;
}

static void on_changes_done(void *data, int r, const struct err *err)
{
    struct changes_listing *l = data;
    struct http_request *req = l->req;

    if (r < 0 && l->started) {
        http_abort(req); /* the list is incomplete: break the connection */
    } else if (r < 0) {
        reply_error(req, err);
    } else {
        if (!l->started)
            listing_begin(l);
        (void)http_write(req, l->form->tail, strlen(l->form->tail));
        http_end(req);
    }
    free(l);
}

static void on_changes_drain(struct http_request *req)
{
    struct changes_listing *l = req->data;

    changes_resume(l->changes);
}

static void on_changes_gone(struct http_request *req)
{
    struct changes_listing *l = req->data;

    changes_cancel(l->changes);
    free(l);
    http_abort(req);
}

void native_changes(struct http_request *req, struct sandbox *s, const struct changes_form *form)
{
    static const struct changes_events events = {.on_change = on_changes_entry,
                                                 .on_done = on_changes_done};
    struct changes_listing *l = calloc(1, sizeof(*l));
    struct err err = ERR_NONE;

    if (l == NULL) {
        reply_errorf(req, -ENOMEM, "out of memory");
        return;
    }
    *l = (struct changes_listing){.req = req, .form = form};
    if (changes_start(s, &events, l, &l->changes, &err) < 0) {
        free(l);
        reply_error(req, &err);
        return;
    }
    req->data = l;
    req->on_drain = on_changes_drain;
    req->on_gone = on_changes_gone;
}

/* ---- native format ---- */

static json_t *encode_change(enum change_kind kind, const char *path)
{
    static const char *const words[CHANGE_MAX] = {
        [CHANGE_CHANGED] = "changed", [CHANGE_ADDED] = "added", [CHANGE_DELETED] = "deleted"};
    json_t *root = json_pack("{s:s}", "kind", words[kind]);

    if (root != NULL && file_set_name(root, "path", path, strlen(path)) < 0) {
        json_decref(root);
        root = NULL;
    }
    return root;
}

void sandbox_get_changes(struct http_request *req)
{
    static const struct changes_form form = {"{\"changes\":[", "]}", encode_change};
    struct sandbox *s = api_sandbox(req);

    if (s != NULL)
        native_changes(req, s, &form);
}
