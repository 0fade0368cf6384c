/* rind start: starts the main process of sandboxes. */

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/terminal.h"
#include "cli/attach-options.h"
#include "cli/attached.h"
#include "cli/remote.h"
#include "cli/url.h"
#include "json/parse.h"

struct start_args {
    struct remote remote; /* first */
    bool attach;
};

static const struct opt start_options[] = {
    {.name = "attach",
     .letter = 'a',
     .set = opt_flag,
     .off = offsetof(struct start_args, attach),
     .help = "Connect with it from its first byte on, and end with its exit status; for one that "
             "was created with --attach, --tty or --interactive"},
    {0},
};
static const struct opt_group groups[] = {
    {.title = "Options", .rows = start_options}, REMOTE_GROUP, {0}};

static const char *const details[] = {
    "Starts the main process of each sandbox that was created or has stopped; one that runs is "
    "left "
    "as it is. What it has written to its files before is still there. One without a command that "
    "has stopped is there for "
    "rind exec again.",
    NULL,
};

/* States in which the main process runs, or is about to: a start has nothing to do. */
static bool is_started(const json_t *sandbox)
{
    const char *state = member(sandbox, "state");

    return strcmp(state, "running") == 0 || strcmp(state, "starting") == 0;
}

/* One that runs is what was asked for. */
static int start_one(struct client *c, const char *name, void *args, json_t **ret, struct err *err)
{
    auto_ptr(json_decref) json_t *sandbox = NULL;
    int r = remote_post(c, name, "start", NULL, ret, err);

    (void)args;
    if (r != -EBUSY || remote_get(c, "/v1/sandboxes/%s", name, &sandbox, NULL) < 0 ||
        !is_started(sandbox))
        return r;
    *ret = take(sandbox);
    *err = (struct err)ERR_NONE;
    return 0;
}

/*
 * Starts the sandbox and attaches to it, with the terminal and input settings it was created with.
 */
static int start_attached(struct client *c, const char *name, const char *target, json_t *spec,
                          const char *again)
{
    struct attached_options options = {.tty = json_is_true(json_object_get(spec, "tty")),
                                       .input = json_is_true(json_object_get(spec, "stdin"))};
    struct client_request request = {.method = "POST", .target = target, .flags = CLIENT_UPGRADE};
    auto_attached struct attached *a = NULL;
    struct attached_end end = {.status = EXIT_RIND};
    struct err err = ERR_NONE;
    uint16_t rows, cols;
    int r;

    if (options.tty && options.input && !isatty(STDIN_FILENO))
        return cli_failf(
            "--attach: the sandbox has a terminal, and standard input is none; start it "
            "without, and use rind attach --no-stdin");
    (void)keys_parse(DETACH_KEYS, &options.detach);
    r = attached_new(&options, &a, &err);
    terminal_size(&rows, &cols);
    request.json = options.tty ? json_pack("{s:i, s:i}", "rows", rows, "cols", cols) : NULL;
    if (r < 0)
        json_decref(request.json);
    if (r == 0)
        r = attached_request(a, c, &request, &err);
    if (r < 0) {
        (void)cli_fail(&err);
        return client_exit_code(c) != 0 ? client_exit_code(c) : EXIT_RIND;
    }
    r = attached_run(a, c, again, false, &end, &err);
    attached_free(take(a));
    if (r < 0)
        (void)cli_fail(&err);
    attached_explain(&end, name, NULL, 0);
    return end.status;
}

static int attach_one(const struct remote *remote, const char *name)
{
    auto_client struct client *c = NULL;
    auto_ptr(json_decref) json_t *root = NULL;
    auto_buf struct buf target = BUF_INIT(URL_MAX), again = BUF_INIT(URL_MAX);
    struct err err = ERR_NONE;

    if (remote_open(remote, &c, &err) < 0 ||
        remote_get(c, "/v1/sandboxes/%s", name, &root, &err) < 0)
        return cli_fail(&err);
    if (url_make(&target, is_started(root) ? "/v1/sandboxes/%s/attach" : "/v1/sandboxes/%s/start",
                 name) < 0 ||
        url_make(&again, "/v1/sandboxes/%s/attach", name) < 0)
        return cli_failf("%.64s: too long", name);
    return start_attached(c, name, target.data, json_object_get(root, "spec"), again.data);
}

static int start_main(const struct verb *v, const struct globals *g, char **argv)
{
    struct start_args args = {.remote.globals = *g};
    char **names;
    int status;

    if (remote_begin(v, &args, argv, 1, REMOTE_ANY, "sandbox", &names, &status) == VERB_DONE)
        return status;
    if (!args.attach)
        return remote_each(&args.remote, names, start_one, NULL);
    if (names[1] != NULL)
        return cli_failf("--attach: to one sandbox only");
    return attach_one(&args.remote, names[0]);
}

const struct verb verb_start = {
    .name = "start",
    .operands = "NAME...",
    .summary = "Start sandboxes",
    .details = details,
    .groups = groups,
    .main = start_main,
};
