/* Owns the records of Docker's execs; core owns the processes. The record of an ended exec is
 * kept for inspect. When there are too many (maxDockerExecs) the oldest is dropped.
 *
 * Like in Docker a process continues when its client leaves, and its output is read and
 * discarded. A process on a terminal is hung up. */
#include "api/docker/exec.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/audit.h"
#include "api/docker/body.h"
#include "api/docker/common.h"
#include "api/docker/create-body.h"
#include "api/docker/frames.h"
#include "api/docker/state.h"
#include "base/auto.h"
#include "base/err.h"
#include "base/list.h"
#include "exec/exec-io.h"
#include "http/json-body.h"
#include "http/reply.h"
#include "http/route-query.h"
#include "sandbox/exec.h"
#include "sandbox/sandbox.h"
#include "sandbox/services.h"
#include "spec/json.h"
#include "spec/spec.h"

enum { STATUS_CANNOT_EXECUTE = 126, SIDE_MAX = 65535 };

enum record_state { RECORD_MADE = 0, RECORD_RUNNING, RECORD_ENDED };

struct exec_record {
    struct exec_record *next, **link; /* in all->records */
    struct docker_execs *all;
    char id[DOCKER_ID_LEN + 1];
    char sandbox[API_ID_MAX + 1];
    int64_t uid;       /* of the creator */
    struct spec *spec; /* owned: argv, env, cwd, user */
    bool tty, in, out, errors;
    uint16_t rows, cols;
    enum record_state state;
    int exit_code;
    pid_t pid;
    struct exec_io *io;       /* owned while it runs */
    struct http_request *req; /* of the attached client, or of the one that waits for the start;
                               * NULL */
    bool detach, raw;
    struct docker_detach keys; /* owned */
};

struct docker_execs {
    struct native *native;             /* borrowed */
    QUEUE(struct exec_record) records; /* the oldest first */
    unsigned count;
};

/* ---- the table ---- */

static void record_free(struct exec_record *x)
{
    exec_io_close(x->io);
    spec_free(x->spec);
    docker_detach_done(&x->keys);
    free(x);
}

static void execs_remove(struct docker_execs *all, struct exec_record *x)
{
    queue_remove(&all->records, x);
    all->count--;
}

static void execs_append(struct docker_execs *all, struct exec_record *x)
{
    queue_add(&all->records, x);
    all->count++;
}

struct docker_execs *docker_execs_new(struct native *native)
{
    struct docker_execs *all = calloc(1, sizeof(*all));

    if (all != NULL)
        all->native = native;
    return all;
}

void docker_execs_free(struct docker_execs *all)
{
    while (all != NULL && all->records.first != NULL) {
        struct exec_record *x = all->records.first;

        execs_remove(all, x);
        record_free(x);
    }
    free(all);
}

/* Records of running execs remain until on_exec_ended. */
void docker_execs_drop(struct docker_execs *all, const char *sandbox_id)
{
    for (struct exec_record *x = all->records.first, *next; x != NULL; x = next) {
        next = x->next;
        if (strcmp(x->sandbox, sandbox_id) != 0 || x->state == RECORD_RUNNING || x->req != NULL)
            continue;
        execs_remove(all, x);
        record_free(x);
    }
}

static struct exec_record *execs_find(struct docker_execs *all, const char *id)
{
    struct exec_record *x = all->records.first;

    while (x != NULL && strcmp(x->id, id) != 0)
        x = x->next;
    return x;
}

enum { ANYBODY = -1 };

/* Drops the oldest idle record of this user (or of any), preferably one that has ended. False:
 * none. */
static bool execs_make_room(struct docker_execs *all, int64_t uid)
{
    struct exec_record *oldest = NULL;

    for (struct exec_record *x = all->records.first; x != NULL; x = x->next) {
        if (x->state == RECORD_RUNNING || x->req != NULL || (uid != ANYBODY && x->uid != uid))
            continue;
        if (oldest == NULL)
            oldest = x;
        if (x->state == RECORD_ENDED) {
            oldest = x;
            break;
        }
    }
    if (oldest == NULL)
        return false;
    execs_remove(all, oldest);
    record_free(oldest);
    return true;
}

static struct docker_execs *execs_of(const struct http_request *req)
{
    return native_of(req)->docker->execs;
}

void docker_exec_list(struct docker *d, const struct sandbox *s, json_t *container)
{
    json_t *list = json_array();

    for (const struct exec_record *x = d->execs->records.first; x != NULL; x = x->next)
        if (x->state == RECORD_RUNNING && strcmp(x->sandbox, sandbox_id(s)) == 0)
            (void)json_array_append_new(list, json_string(x->id));
    if (json_array_size(list) > 0)
        (void)docker_put(container, "ExecIDs", list);
    else
        json_decref(list);
}

/* ---- creation ---- */

struct make_body {
    json_t *cmd, *env;
    const char *user, *cwd, *detach_keys;
    bool tty, in, out, errors;
};

static const struct body_field make_fields[] = {
    {.name = "Cmd", .take = b_value, .off = offsetof(struct make_body, cmd)},
    {.name = "Env", .take = b_value, .off = offsetof(struct make_body, env)},
    {.name = "User", .take = b_string, .off = offsetof(struct make_body, user)},
    {.name = "WorkingDir", .take = b_string, .off = offsetof(struct make_body, cwd)},
    {.name = "Tty", .take = b_bool, .off = offsetof(struct make_body, tty)},
    {.name = "AttachStdin", .take = b_bool, .off = offsetof(struct make_body, in)},
    {.name = "AttachStdout", .take = b_bool, .off = offsetof(struct make_body, out)},
    {.name = "AttachStderr", .take = b_bool, .off = offsetof(struct make_body, errors)},
    {.name = "Detach", .take = b_ignore},      /* repeated at the start */
    {.name = "ConsoleSize", .take = b_ignore}, /* repeated at the start */
    {.name = "DetachKeys", .take = b_string, .off = offsetof(struct make_body, detach_keys)},
    {.name = "Privileged", .code = -EPERM, .why = "an exec may do no more than its container"},
    {0},
};

/* Splits Env: a name alone takes the container's variable away. ret: two new arrays. */
static int exec_split_env(const json_t *env, json_t *ret_set, json_t *ret_unset, struct err *err)
{
    json_t *element;
    size_t i;

    if (env != NULL && !json_is_array(env))
        return err_set(err, -EINVAL, "Env: must be an array of strings");
    json_array_foreach(env, i, element) {
        const char *text = json_string_value(element);

        if (text == NULL)
            return err_set(err, -EINVAL, "Env: must be an array of strings");
        if (text[0] == '\0' || text[0] == '=')
            return err_set(err, -EINVAL, "Env: invalid environment variable: %.64s", text);
        if (json_array_append(strchr(text, '=') != NULL ? ret_set : ret_unset, element) < 0)
            return err_errno(err, -ENOMEM, "exec");
    }
    return 0;
}

/* Appends names alone to the environment of an exec (sandbox_env). */
static int exec_add_unset(struct spec *spec, const json_t *names, struct err *err)
{
    size_t count = 0;
    json_t *name;
    char **more;
    size_t i;

    while (spec->env[count] != NULL)
        count++;
    more = reallocarray(spec->env, count + json_array_size(names) + 1, sizeof(*more));
    if (more == NULL)
        return err_errno(err, -ENOMEM, "exec");
    spec->env = more;
    json_array_foreach(names, i, name) {
        more[count] = strdup(json_string_value(name));
        if (more[count] == NULL)
            return err_errno(err, -ENOMEM, "exec");
        more[++count] = NULL;
    }
    return 0;
}

/* Makes a spec with only these keys, by the same parser as for sandboxes. */
static int exec_make_spec(const struct make_body *b, struct spec **ret, struct err *err)
{
    auto_ptr(json_decref) json_t *root = json_object(), *env = json_array(), *unset = json_array();
    bool ok = root != NULL && env != NULL && unset != NULL;
    int r = ok ? exec_split_env(b->env, env, unset, err) : 0;

    if (r < 0)
        return r;
    if (!json_is_array(b->cmd) || json_array_size(b->cmd) == 0)
        return err_set(err, -EINVAL, "Cmd: No exec command specified");
    ok = ok && json_object_set(root, "command", b->cmd) == 0;
    ok = ok && json_object_set(root, "env", env) == 0;
    if (b->user != NULL)
        ok = ok && docker_put(root, "user", json_string(b->user));
    if (b->cwd != NULL)
        ok = ok && docker_put(root, "cwd", json_string(b->cwd));
    r = ok ? spec_from_json(root, ret, err) : err_errno(err, -ENOMEM, "exec");
    return r < 0 || json_array_size(unset) == 0 ? r : exec_add_unset(*ret, unset, err);
}

static int sandbox_check_runs(const struct sandbox *s, struct err *err)
{
    if (!docker_is_running(s) || sandbox_main(s) == NULL)
        return err_set(err, -EBUSY, "container %s is not running", sandbox_name(s));
    if (sandbox_get_state(s) == SANDBOX_PAUSED)
        return err_set(err, -EBUSY, "Container %s is paused, unpause the container before exec",
                       sandbox_name(s));
    return 0;
}

static int execs_check_room(struct http_request *req, struct err *err)
{
    struct docker_execs *all = execs_of(req);
    const unsigned max = supervisor_limits(api_supervisor(req))->docker_execs;
    const int64_t uid = http_peer(req)->uid;
    unsigned own = 0;

    /* Other users than the owner get a quarter each, so that they cannot displace other users'
     * execs. */
    for (const struct exec_record *x = all->records.first; x != NULL && !api_is_owner(req);
         x = x->next)
        own += x->uid == uid;
    if (own > max / 4 ? execs_make_room(all, uid)
                      : all->count < max || execs_make_room(all, ANYBODY))
        return 0;
    return err_set(err, -EUSERS, "limit maxDockerExecs: %u execs are there already",
                   own > max / 4 ? own : all->count);
}

static int record_make(struct http_request *req, struct sandbox *s, struct exec_record **ret,
                       struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    auto_ptr(spec_free) struct spec *spec = NULL;
    struct docker_detach keys = {0};
    struct make_body b = {0};
    struct exec_record *x;
    int r;

    r = sandbox_check_runs(s, err);
    if (r == 0)
        r = json_body_tree(req, &root, err);
    if (r == 0)
        r = body_decode_whole(root, make_fields, create_body_elsewhere, &b, err);
    if (r == 0)
        r = docker_detach_parse(b.detach_keys, b.tty, &keys, err);
    if (r == 0)
        r = exec_make_spec(&b, &spec, err);
    if (r == 0)
        r = execs_check_room(req, err);
    if (r < 0)
        return r;
    x = calloc(1, sizeof(*x));
    if (x == NULL || docker_random_id(x->id) < 0) {
        free(x);
        return err_errno(err, -ENOMEM, "exec");
    }
    (void)snprintf(x->sandbox, sizeof(x->sandbox), "%s", sandbox_id(s));
    x->uid = http_peer(req)->uid;
    x->all = execs_of(req);
    x->spec = take(spec);
    x->keys = keys;
    x->tty = b.tty;
    x->in = b.in;
    x->out = b.out;
    x->errors = b.errors;
    execs_append(x->all, x);
    *ret = x;
    return 0;
}

void docker_post_exec(struct http_request *req)
{
    struct sandbox *s = docker_sandbox(req);
    struct exec_record *x = NULL;
    struct err err = ERR_NONE;

    if (s == NULL)
        return;
    if (record_make(req, s, &x, &err) < 0) {
        reply_error(req, &err);
        return;
    }
    audit_add(req, "made", x->id);
    reply_json(req, 201, json_pack("{s:s}", "Id", x->id));
}

/* ---- inspect, resize ---- */

/* Returns the exec named by {exec}, if the peer may use its container.
 * NULL: answered. */
static struct exec_record *exec_requested(struct http_request *req, struct sandbox **ret)
{
    const char *id = http_param(req, "exec");
    struct err err = ERR_NONE;
    struct exec_record *x;

    x = execs_find(execs_of(req), id);
    *ret = x != NULL ? sandbox_by_id(api_supervisor(req), x->sandbox) : NULL;
    /* One of a container that the peer does not see is not there either. */
    if (*ret == NULL || !api_may_see(req, *ret))
        (void)err_set(&err, -ENOENT, "No such exec instance: %.128s", id);
    else if (api_find_sandbox(req, x->sandbox, api_right(req), ret, &err) == 0)
        return x;
    reply_error(req, &err);
    return NULL;
}

static void get_exec(struct http_request *req)
{
    struct sandbox *s;
    struct exec_record *x = exec_requested(req, &s);
    char container[DOCKER_ID_LEN + 1];
    json_t *root;

    if (x == NULL)
        return;
    docker_id(x->sandbox, container);
    root = json_pack("{s:s, s:b, s:o, s:{s:b, s:s, s:o, s:b, s:s}, s:b, s:b, s:b, s:b, s:s, s:s, "
                     "s:i}",
                     "ID", x->id, "Running", x->state == RECORD_RUNNING, "ExitCode",
                     x->state == RECORD_ENDED ? json_integer(x->exit_code) : json_null(),
                     "ProcessConfig", "tty", (int)x->tty, "entrypoint", x->spec->argv[0],
                     "arguments", docker_strings(x->spec->argv + 1), "privileged", 0, "user",
                     x->spec->user != NULL ? x->spec->user : "", "OpenStdin", (int)x->in,
                     "OpenStderr", (int)x->errors, "OpenStdout", (int)x->out, "CanRemove", 0,
                     "ContainerID", container, "DetachKeys", "", "Pid", (int)x->pid);
    reply_json(req, 200, root);
}

struct exec_resize_query {
    int64_t rows, cols;
};

static const struct query_field resize_fields[] = {
    {.name = "h",
     .type = QUERY_INT,
     .off = offsetof(struct exec_resize_query, rows),
     .min = 1,
     .max = SIDE_MAX,
     .required = true},
    {.name = "w",
     .type = QUERY_INT,
     .off = offsetof(struct exec_resize_query, cols),
     .min = 1,
     .max = SIDE_MAX,
     .required = true},
    {0},
};

/* Before the start it sets the initial size. */
static void post_exec_resize(struct http_request *req)
{
    struct sandbox *s;
    struct exec_record *x = exec_requested(req, &s);
    struct exec_resize_query q = {0};
    struct err err = ERR_NONE;
    int r;

    if (x == NULL)
        return;
    r = http_query_known(req, resize_fields, &q, &err);
    if (r == 0 && !x->tty)
        r = err_set(&err, -EINVAL, "exec %s has no terminal", x->id);
    if (r == 0) {
        x->rows = (uint16_t)q.rows;
        x->cols = (uint16_t)q.cols;
        if (x->state == RECORD_RUNNING && x->io != NULL)
            (void)exec_resize(exec_io_exec(x->io), x->rows, x->cols);
    }
    if (r < 0)
        reply_error(req, &err);
    else
        reply_empty(req, 200);
}

/* ---- the process ---- */

static void on_exec_drain(struct http_request *req)
{
    exec_io_resume(((struct exec_record *)req->data)->io);
}

/* The client is gone: the process continues, but one on a terminal is hung up. */
static void on_exec_gone(struct http_request *req)
{
    struct exec_record *x = req->data;

    http_abort(req);
    x->req = NULL;
    if (x->state != RECORD_RUNNING)
        return;
    if (x->tty) {
        exec_io_hang_up(x->io);
        return;
    }
    exec_io_end_input(x->io);
    exec_io_resume(x->io);
}

/* Unlike one that leaves, a client that has typed the detach keys lets its process run on. */
static void record_detach(struct exec_record *x)
{
    struct http_request *req = take(x->req);

    exec_io_resume(x->io);
    http_end(req);
}

static void on_exec_body(struct http_request *req, const char *data, size_t len)
{
    struct exec_record *x = req->data;

    if (x->state != RECORD_RUNNING || !x->in)
        return;
    if (data != NULL) {
        int r = docker_detach_filter(&x->keys, data, len, &data, &len);

        if (r < 0)
            on_exec_gone(req);
        else if (len > 0 && !exec_io_write(x->io, data, len) && r == 0)
            http_body_pause(req);
        if (r == 1)
            record_detach(x);
    } else if (!x->tty) {
        /* A terminal's input does not end; clients that only read half-close at once. */
        exec_io_end_input(x->io);
    }
}

static void on_exec_started(void *data)
{
    struct exec_record *x = data;

    x->state = RECORD_RUNNING;
    x->pid = exec_pid(exec_io_exec(x->io));
    if (x->req == NULL)
        return;
    if (x->detach) {
        http_reply(take(x->req), 200, NULL, NULL, NULL, 0);
        return;
    }
    x->req->on_drain = on_exec_drain;
    docker_upgrade(x->req, x->raw, on_exec_body);
}

static void record_end(struct exec_record *x, int exit_code)
{
    exec_io_close(take(x->io));
    x->state = RECORD_ENDED;
    x->exit_code = exit_code;
}

/* Like in Docker the stream begins in any case, and contains the error. */
static void on_exec_failed(void *data, const struct err *err, int exit_code)
{
    struct exec_record *x = data;
    struct http_request *req = take(x->req);
    struct err own = ERR_NONE;
    char text[ERR_MSG_MAX + 128];
    int n;

    if (docker_explain_exec(exit_code, x->spec->argv[0], err->msg, &own) == 0)
        own = *err;
    n = snprintf(text, sizeof(text),
                 "OCI runtime exec failed: exec failed: unable to start container process: %s",
                 own.msg);
    record_end(x, exit_code > STATUS_CANNOT_EXECUTE ? exit_code : STATUS_CANNOT_EXECUTE);
    if (req == NULL)
        return;
    if (x->detach) {
        reply_errorf(req, -EINVAL, "%s", text);
        return;
    }
    n += snprintf(text + n, sizeof(text) - (size_t)n, "\r\n");
    if (!req->upgraded)
        docker_upgrade(req, x->raw, on_exec_body);
    (void)docker_send(req, x->raw, 1, text, (size_t)n);
    http_end(req);
}

static bool record_wants_stream(const struct exec_record *x, int stream)
{
    return x->req != NULL && !x->detach && (stream == 2 ? x->errors : x->out);
}

static bool on_exec_output(void *data, int stream, const char *bytes, size_t len)
{
    struct exec_record *x = data;

    return !record_wants_stream(x, stream) || docker_send(x->req, x->raw, stream, bytes, len);
}

static bool exec_takes_pipe(void *data)
{
    const struct exec_record *x = data;

    return x->req != NULL && !x->detach && http_all_taken(x->req);
}

static bool on_exec_piped(void *data, int stream, int pipe, size_t len)
{
    struct exec_record *x = data;

    return !record_wants_stream(x, stream) || docker_send_pipe(x->req, x->raw, stream, pipe, len);
}

static void on_exec_writable(void *data)
{
    struct exec_record *x = data;

    if (x->req != NULL)
        http_body_resume(x->req);
}

/* The state changes before the client sees its stream end. */
static void on_exec_ended(void *data)
{
    struct exec_record *x = data;
    struct http_request *req = take(x->req);

    record_end(x, exec_exit_code(exec_io_exec(x->io)));
    if (req != NULL)
        http_end(req);
    if (sandbox_by_id(x->all->native->config.supervisor, x->sandbox) == NULL) {
        execs_remove(x->all, x);
        record_free(x);
    }
}

static const struct exec_io_ops ops = {.started = on_exec_started,
                                       .failed = on_exec_failed,
                                       .output = on_exec_output,
                                       .takes_pipe = exec_takes_pipe,
                                       .piped = on_exec_piped,
                                       .writable = on_exec_writable,
                                       .ended = on_exec_ended};

/* ---- starting ---- */

struct start_body {
    bool detach, tty;
    json_t *size;
};

static const struct body_field start_fields[] = {
    {.name = "Detach", .take = b_bool, .off = offsetof(struct start_body, detach)},
    {.name = "Tty", .take = b_bool, .off = offsetof(struct start_body, tty)},
    {.name = "ConsoleSize", .take = b_value, .off = offsetof(struct start_body, size)},
    {0},
};

/* Parses [rows, columns]; 0 = the default. */
static int record_take_size(struct exec_record *x, json_t *size, struct err *err)
{
    json_int_t side[2];

    if (size == NULL)
        return 0;
    for (size_t i = 0; i < 2; i++) {
        side[i] = json_integer_value(json_array_get(size, i));
        if (json_array_size(size) != 2 || side[i] < 0 || side[i] > SIDE_MAX)
            return err_set(err, -EINVAL, "ConsoleSize: must be [rows, columns]");
    }
    if (side[0] != 0)
        x->rows = (uint16_t)side[0];
    if (side[1] != 0)
        x->cols = (uint16_t)side[1];
    return 0;
}

static int record_read_start(struct http_request *req, struct exec_record *x, struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    struct start_body b = {0};
    int r;

    r = json_body_tree(req, &root, err);
    if (r == 0)
        r = body_decode_whole(root, start_fields, create_body_elsewhere, &b, err);
    if (r == 0)
        r = record_take_size(x, b.size, err);
    if (r == 0 && x->state != RECORD_MADE)
        r = err_set(err, -EBUSY, "Error: Exec command %s has already run", x->id);
    if (r == 0 && x->req != NULL)
        r = err_set(err, -EBUSY, "Error: Exec command %s is being started", x->id);
    if (r < 0)
        return r;
    x->detach = b.detach;
    x->raw = b.tty; /* as in Docker the start says how the output comes, whatever the exec has */
    return 0;
}

static void post_exec_start(struct http_request *req)
{
    struct sandbox *s;
    struct exec_record *x = exec_requested(req, &s);
    struct exec_options o = EXEC_OPTIONS_NONE;
    struct err err = ERR_NONE;
    int r;

    if (x == NULL)
        return;
    r = record_read_start(req, x, &err);
    if (r == 0)
        r = sandbox_check_runs(s, &err);
    if (r == 0) {
        o.argv = x->spec->argv;
        o.envp = x->spec->env;
        o.user = x->spec->user;
        o.cwd = x->spec->cwd;
        o.tty = x->tty;
        o.rows = x->rows;
        o.cols = x->cols;
        o.with_stdin = x->in && !x->detach;
        r = exec_io_start(s, &o, &ops, x, &x->io, &err);
    }
    if (r < 0) {
        reply_error(req, &err);
        return;
    }
    x->req = req;
    req->data = x;
    req->on_gone = on_exec_gone;
}

/* clang-format off */
const struct route docker_exec_routes[] = {
    {"POST", "/exec/{exec}/start",  post_exec_start,  ROUTE_BODY | ROUTE_UPGRADE, 0},
    {"POST", "/exec/{exec}/resize", post_exec_resize, ROUTE_BODY, 0},
    {"GET",  "/exec/{exec}/json",   get_exec,    0, 0},
    {0},
};
/* clang-format on */
