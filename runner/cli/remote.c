/*
 * Shared code of the verbs that are clients of the daemon: its socket, requests for each name, JSON
 * output.
 */

#include "cli/remote.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "cli/list-format.h"
#include "cli/url.h"
#include "json/parse.h"
#include "sandbox/paths.h"

/* clang-format off */
#define SOCKET_ROW                                                                                 \
    { .name = "socket", .arg = "PATH", .set = opt_text, .off = offsetof(struct remote, socket),    \
      .help = "The daemon's socket; default $RIND_SOCKET, else rind.sock in the runtime "          \
              "directory" }

#define JSON_ROW                                                                                   \
    { .name = "json", .set = opt_flag, .off = offsetof(struct remote, json),                       \
      .help = "Print JSON for programs" }

const struct opt socket_options[] = {SOCKET_ROW, {0}};
const struct opt remote_options[] = {SOCKET_ROW, JSON_ROW, {0}};
const struct opt format_options[] = {
    SOCKET_ROW,
    JSON_ROW,
    { .name = "format", .arg = "TEMPLATE", .set = opt_text, .off = offsetof(struct remote, format),
      .help = FORMAT_HELP },
    {0},
};
/* clang-format on */

int remote_socket(const struct remote *r, char ret[REMOTE_PATH_MAX], bool *ret_named,
                  struct err *err)
{
    const char *named = r->socket != NULL ? r->socket : getenv("RIND_SOCKET");
    struct cli_dirs dirs;
    int n;

    *ret_named = named != NULL && named[0] != '\0';
    if (*ret_named) {
        (void)snprintf(ret, REMOTE_PATH_MAX, "%s", named);
        return 0;
    }
    n = cli_dirs(&r->globals, &dirs, err);
    if (n < 0)
        return n;
    (void)snprintf(ret, REMOTE_PATH_MAX, "%s/rind.sock", dirs.runtime);
    if (r->globals.runtime == NULL && geteuid() != 0 && access(ret, F_OK) < 0 &&
        access(CORE_RUNTIME_DIR "/rind.sock", F_OK) == 0)
        (void)snprintf(ret, REMOTE_PATH_MAX, "%s", CORE_RUNTIME_DIR "/rind.sock");
    return 0;
}

int remote_open(const struct remote *r, struct client **ret, struct err *err)
{
    char path[REMOTE_PATH_MAX];
    bool named;
    int n = remote_socket(r, path, &named, err);

    return n < 0 ? n : client_open(path, ret, err);
}

enum verb_step remote_begin(const struct verb *v, void *args, char **argv, size_t min, size_t max,
                            const char *what, char ***ret_operands, int *ret_status)
{
    struct opt_rest rest;
    size_t n = 0;

    if (verb_begin(v, args, argv, &rest, ret_status) == VERB_DONE)
        return VERB_DONE;
    while (n <= max && rest.operands[n] != NULL)
        n++;
    if (n >= min && n <= max) {
        *ret_operands = rest.operands;
        return VERB_GO;
    }
    if (n > max)
        *ret_status = cli_failf("%.64s: one operand too many; rind %s --help shows how it is used",
                                rest.operands[max], v->name);
    else
        *ret_status = cli_failf("no %s; write it behind the options: rind %s [OPTIONS] %s", what,
                                v->name, v->operands);
    return VERB_DONE;
}

void remote_hint(struct err *err, const char *name)
{
    static const struct {
        const char *end, *verb, *what;
    } hints[] = {
        {" is stopped", "start", "starts it"},
        {" is paused", "resume", "lets it go on"},
    };
    size_t len = strlen(err->msg);

    for (size_t i = 0; err->code == -EBUSY && i < sizeof(hints) / sizeof(hints[0]); i++) {
        size_t end = strlen(hints[i].end);

        if (len >= end && strcmp(err->msg + len - end, hints[i].end) == 0)
            (void)snprintf(err->msg + len, sizeof(err->msg) - len, "; rind %s %.64s %s",
                           hints[i].verb, name, hints[i].what);
    }
}

/*
 * Prints the result for one name: err, or root (taken; NULL: only the name). Returns the exit
 * status.
 */
static int report_result(const struct remote *r, const char *name, int code, json_t *root,
                         struct err *err)
{
    if (code < 0) {
        remote_hint(err, name);
        return cli_fail(err);
    }
    if (r->json) {
        print_json_line(root != NULL ? root : json_pack("{s:s}", "name", name));
    } else {
        (void)printf("%s\n", name);
        json_decref(root);
    }
    return 0;
}

int remote_each(const struct remote *r, char **names, remote_fn *fn, void *args)
{
    auto_client struct client *c = NULL;
    struct err err = ERR_NONE;
    int status = 0;

    if (remote_open(r, &c, &err) < 0)
        return cli_fail(&err);
    for (; *names != NULL; names++) {
        json_t *root = NULL;
        int code = fn(c, *names, args, &root, &err);

        if (report_result(r, *names, code, root, &err) != 0)
            status = EXIT_RIND;
    }
    return cli_flush(status);
}

/* One name's connection and the result of its request. */
struct sent_request {
    struct client *client; /* owned */
    struct err err;
    int code;
};

static int finish_request(const struct remote *r, const char *name, struct sent_request *a)
{
    json_t *root = NULL;

    if (a->code == 0)
        a->code = client_json_answer(a->client, &root, &a->err);
    client_close(a->client);
    return report_result(r, name, a->code, root, &a->err);
}

int remote_each_at_once(const struct remote *r, char **names, remote_send_fn *fn, void *args)
{
    static struct sent_request asked[REMOTE_AT_ONCE];
    int status = 0;

    while (*names != NULL) {
        size_t n = 0;

        for (; n < REMOTE_AT_ONCE && names[n] != NULL; n++) {
            struct sent_request *a = &asked[n];

            *a = (struct sent_request){.err = ERR_NONE};
            a->code = remote_open(r, &a->client, &a->err);
            if (a->code < 0 && n == 0)
                return cli_fail(&a->err); /* the other names would fail alike */
            if (a->code == 0)
                a->code = fn(a->client, names[n], args, &a->err);
        }
        for (size_t i = 0; i < n; i++)
            if (finish_request(r, names[i], &asked[i]) != 0)
                status = EXIT_RIND;
        names += n;
    }
    return cli_flush(status);
}

int remote_post_send(struct client *c, const char *name, const char *verb, json_t *body,
                     struct err *err)
{
    auto_buf struct buf url = BUF_INIT(URL_MAX);
    struct client_request request = {.method = "POST", .json = body};
    int r = url_make(&url, "/v1/sandboxes/%s/%s", name, verb);

    if (r < 0) {
        json_decref(body);
        return err_errno(err, r, "sandbox '%.64s'", name);
    }
    request.target = url.data;
    return client_send(c, &request, err);
}

int remote_post(struct client *c, const char *name, const char *verb, json_t *body, json_t **ret,
                struct err *err)
{
    int r = remote_post_send(c, name, verb, body, err);

    return r < 0 ? r : client_json_answer(c, ret, err);
}

int remote_get(struct client *c, const char *format, const char *name, json_t **ret,
               struct err *err)
{
    auto_buf struct buf url = BUF_INIT(URL_MAX);
    int r = url_make(&url, format, name);

    if (r < 0)
        return err_errno(err, r, "sandbox '%.64s'", name);
    return client_json(c, "GET", url.data, NULL, ret, err);
}

/* Write errors are reported by cli_flush. */
void print_json(json_t *root)
{
    if (root != NULL)
        (void)json_dumpf(root, stdout, JSON_INDENT(2));
    (void)putchar('\n');
    json_decref(root);
}

void print_json_line(json_t *root)
{
    if (root != NULL)
        (void)json_dumpf(root, stdout, JSON_COMPACT);
    (void)putchar('\n');
    json_decref(root);
}

const char *member(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text != NULL ? text : "-";
}
