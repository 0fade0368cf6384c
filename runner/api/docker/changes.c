/* GET /containers/{id}/changes */
#include "api/native/changes.h"

#include <errno.h>
#include <string.h>

#include "api/docker/common.h"
#include "api/docker/containers.h"
#include "api/native/files.h"
#include "base/err.h"
#include "sandbox/sandbox.h"

/* Encodes a change with Docker's numbers; bytes that are not UTF-8 are replaced in the path. */
static json_t *change_encode(enum change_kind kind, const char *path)
{
    static const int numbers[CHANGE_MAX] = {
        [CHANGE_CHANGED] = 0, [CHANGE_ADDED] = 1, [CHANGE_DELETED] = 2};
    json_t *root = json_pack("{s:i}", "Kind", numbers[kind]);

    if (root != NULL && file_set_name(root, "Path", path, strlen(path)) < 0) {
        json_decref(root);
        root = NULL;
    }
    return root;
}

/* The clean-up of the last run has ended. */
static void on_changes_settled(void *data, int r, const struct err *err)
{
    static const struct changes_form form = {"[", "]", change_encode};
    struct api_call *call = data;
    struct http_request *req = call->req;
    struct sandbox *s = api_call_sandbox(call);

    (void)r;
    (void)err;
    if (s == NULL) {
        struct err own = ERR_NONE;

        (void)err_set(&own, -ENOENT, "No such container: %s", call->id);
        api_call_fail(call, &own);
        return;
    }
    api_call_free(call);
    if (req->gone)
        http_abort(req);
    else
        native_changes(req, s, &form);
}

void docker_get_changes(struct http_request *req)
{
    struct sandbox *s = docker_sandbox(req);
    struct api_call *call = s != NULL ? api_call_new(req, s) : NULL;
    struct err err = ERR_NONE;

    if (call != NULL && docker_when_settled(s, on_changes_settled, call, &err) < 0)
        api_call_fail(call, &err);
}
