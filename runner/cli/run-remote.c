/* rind run as a client of the daemon's API. */

#include "cli/run-remote.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/terminal.h"
#include "cli/attach-options.h"
#include "cli/attached.h"
#include "cli/remote.h"
#include "cli/spec-options.h"
#include "cli/url.h"
#include "json/parse.h"
#include "spec/spec.h"

static const char target[] = "/v1/sandboxes";

/* True for a path. This process reads policy files; the daemon only knows names. */
static bool is_policy_file(const char *policy)
{
    return strchr(policy, '/') != NULL || strchr(policy, '.') != NULL;
}

/* True if only the daemon will do, so that its absence is an error. */
static bool is_wanted(const struct sandbox_args *args, bool named)
{
    return named || args->detach;
}

static int open_daemon(const struct sandbox_args *args, struct client **ret, struct err *err)
{
    char path[REMOTE_PATH_MAX];
    struct err why = ERR_NONE;
    bool named = false;
    int r = remote_socket(&args->remote, path, &named, &why);

    if (!is_wanted(args, named) &&
        (r < 0 || args->remote.globals.state != NULL || is_policy_file(args->spec->policy)))
        return RUN_ALONE;
    if (r == 0 && is_policy_file(args->spec->policy))
        r = err_set(&why, -EINVAL, "--policy \"%.64s\": a file is only read by rind run --alone",
                    args->spec->policy);
    if (r == 0)
        r = client_open(path, ret, &why);
    if (r < 0 && !is_wanted(args, named) &&
        (r == -ENOENT || r == -ECONNREFUSED || r == -EACCES || r == -ENAMETOOLONG || r == -ENOTDIR))
        return RUN_ALONE;
    if (r < 0 && err != NULL && named && !args->detach && args->remote.socket == NULL)
        return err_set(err, r, "%s ($RIND_SOCKET says so; --alone does without)", why.msg);
    if (r < 0 && err != NULL)
        *err = why;
    return r;
}

static int make_body(const struct sandbox_args *args, json_t **ret, struct err *err)
{
    auto_ptr(json_decref) json_t *body = NULL;
    uint16_t rows, cols;
    int r = spec_request(args->spec, &body, err);

    if (r < 0)
        return r;
    (void)json_object_set_new(body, "start", json_true());
    (void)json_object_set_new(body, "autoRemove", json_boolean(!args->detach || args->remove));
    if (!args->detach) {
        (void)json_object_set_new(body, "attach", json_true());
        (void)json_object_set_new(body, "own", json_true());
    }
    if (!args->detach && args->spec->tty) {
        terminal_size(&rows, &cols);
        (void)json_object_set_new(body, "rows", json_integer(rows));
        (void)json_object_set_new(body, "cols", json_integer(cols));
    }
    *ret = take(body);
    return 0;
}

static int run_error_status(struct client *c, int code, int *ret_status)
{
    if (client_exit_code(c) != 0)
        *ret_status = client_exit_code(c);
    return code;
}

static int run_detached(struct sandbox_args *args, struct client *c, json_t *body, int *ret_status,
                        struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    int r = client_json(c, "POST", target, body, &root, err);

    if (r < 0)
        return run_error_status(c, r, ret_status);
    r = cidfile_write(&args->cidfile, member(root, "id"), err);
    if (r < 0)
        return r;
    (void)printf("%s\n", member(root, "id"));
    *ret_status = cli_flush(0);
    return 0;
}

static int run_attached(struct sandbox_args *args, struct client *c, json_t *body, int *ret_status,
                        struct err *err)
{
    const struct attached_options options = {
        .tty = args->spec->tty, .input = args->spec->interactive, .detach = args->attached.detach};
    const struct client_request request = {
        .method = "POST", .target = target, .json = body, .flags = CLIENT_UPGRADE};
    auto_attached struct attached *a = NULL;
    auto_buf struct buf again = BUF_INIT(URL_MAX);
    struct attached_end end;
    const char *id;
    int r = attached_new(&options, &a, err);

    if (r < 0)
        json_decref(body);
    if (r == 0)
        r = attached_request(a, c, &request, err);
    if (r < 0)
        return run_error_status(c, r, ret_status);
    id = client_header(c, "rind-sandbox-id");
    r = url_make(&again, "/v1/sandboxes/%s/attach", id != NULL ? id : "");
    if (r < 0)
        return err_errno(err, r, "run");
    r = cidfile_write(&args->cidfile, id != NULL ? id : "", err);
    if (r < 0)
        return r;
    r = attached_run(a, c, again.data, true, &end, err);
    attached_free(take(a));
    *ret_status = end.status;
    if (r == 0)
        attached_explain(&end, id, NULL,
                         args->spec->timeout_ms != LIMIT_UNSET ? args->spec->timeout_ms : 0);
    return r;
}

int run_remote(struct sandbox_args *args, int *ret_status, struct err *err)
{
    auto_client struct client *c = NULL;
    json_t *body = NULL;
    int r = open_daemon(args, &c, err);

    *ret_status = EXIT_RIND;
    if (r != 0)
        return r;
    r = make_body(args, &body, err);
    /* JSON cannot hold such bytes, but a run without the daemon can pass them on. */
    if (r == -EILSEQ && args->remote.socket == NULL && !args->detach)
        return RUN_ALONE;
    if (r < 0)
        return r;
    return args->detach ? run_detached(args, c, body, ret_status, err)
                        : run_attached(args, c, body, ret_status, err);
}
