/*
 * rind attach: connects to a sandbox's main process, or to a command of rind exec that is still
 * running.
 */

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "cli/attach-options.h"
#include "cli/attached.h"
#include "cli/log-print.h"
#include "cli/remote.h"
#include "cli/url.h"
#include "json/parse.h"

struct attach_args {
    struct remote remote; /* first */
    struct attached_options attached;
    bool no_stdin;
};

static const struct opt attach_rows[] = {
    {.name = "no-stdin",
     .set = opt_flag,
     .off = offsetof(struct attach_args, no_stdin),
     .help = "Do not pass standard input on"},
    {.name = "detach-keys",
     .arg = "KEYS",
     .set = opt_detach_keys,
     .off = offsetof(struct attach_args, attached.detach),
     .help = DETACH_HELP},
    {0},
};
static const struct opt_group groups[] = {
    {.title = "Options", .rows = attach_rows}, {.title = "Daemon", .rows = socket_options}, {0}};

static const char *const details[] = {
    "Connects standard streams, terminal and signals with the main process of a sandbox, or with "
    "the command of rind exec that has the id EXEC (rind ps NAME lists them), and ends with its "
    "exit status. One client at a time.",
    "When rind is killed, the command goes on. In a terminal the keys ctrl-p ctrl-q leave it, and "
    "so "
    "does the third INT or TERM without a pause of 3 s.",
    "A main process can be typed to when the sandbox was created with --interactive, --tty or "
    "--attach. What others say goes to a log, and is followed from now on.",
    NULL,
};

/* ---- logged processes ---- */

/* The main process is logged instead of attached to: prints its output from now on. */
static int attach_log(const struct attach_args *args, struct client *c, const char *name)
{
    struct log_reader l = {.remote = &args->remote, .out = true, .errors = true};
    auto_ptr(json_decref) json_t *root = NULL;
    char out[24], errors[24];
    struct err err = ERR_NONE;
    int r = remote_get(c, "/v1/sandboxes/%s/processes/main/logs?limit=1", name, &root, &err);

    if (r == 0) {
        (void)snprintf(
            out, sizeof(out), "%lld",
            (long long)json_integer_value(json_object_get(json_object_get(root, "stdout"), "end")));
        (void)snprintf(
            errors, sizeof(errors), "%lld",
            (long long)json_integer_value(json_object_get(json_object_get(root, "stderr"), "end")));
        l.out_offset = out;
        l.errors_offset = errors;
        r = log_print_follow(&l, name, "main", &err);
    }
    if (r < 0)
        return cli_fail(&err);
    if (l.exit_code < 0)
        return cli_failf("sandbox '%.64s' has gone, and with it how it ended", name);
    return cli_flush(l.exit_code);
}

/* ---- attachable processes ---- */

static int attach_stream(struct attach_args *args, struct client *c, const char *target,
                         const char *name, const char *exec)
{
    const struct client_request request = {
        .method = "POST", .target = target, .flags = CLIENT_UPGRADE};
    auto_attached struct attached *a = NULL;
    struct attached_end end = {.status = EXIT_RIND};
    struct err err = ERR_NONE;
    int r;

    if (args->attached.tty && args->attached.input && !isatty(STDIN_FILENO))
        return cli_failf("the command has a terminal, and standard input is none, whose end could "
                         "not be told to it; use --no-stdin");
    r = attached_new(&args->attached, &a, &err);

    if (r == 0)
        r = attached_request(a, c, &request, &err);
    if (r < 0)
        return cli_fail(&err);
    r = attached_run(a, c, target, false, &end, &err);
    attached_free(take(a));
    if (r < 0)
        (void)cli_fail(&err);
    attached_explain(&end, name, exec, 0);
    return end.status;
}

static int attach_main_process(struct attach_args *args, struct client *c, const char *name)
{
    auto_ptr(json_decref) json_t *root = NULL;
    auto_buf struct buf target = BUF_INIT(URL_MAX);
    struct err err = ERR_NONE;
    json_t *spec;

    if (remote_get(c, "/v1/sandboxes/%s", name, &root, &err) < 0)
        return cli_fail(&err);
    if (url_make(&target, "/v1/sandboxes/%s/attach", name) < 0)
        return cli_failf("%.64s: too long", name);
    spec = json_object_get(root, "spec");
    args->attached.tty = json_is_true(json_object_get(spec, "tty"));
    args->attached.input = !args->no_stdin && json_is_true(json_object_get(spec, "stdin"));
    if (!args->attached.tty && !args->attached.input &&
        !json_is_true(json_object_get(spec, "attach")))
        return attach_log(args, c, name);
    return attach_stream(args, c, target.data, name, NULL);
}

static int attach_exec(struct attach_args *args, struct client *c, const char *name,
                       const char *exec)
{
    auto_ptr(json_decref) json_t *root = NULL;
    auto_buf struct buf one = BUF_INIT(URL_MAX), target = BUF_INIT(URL_MAX);
    struct err err = ERR_NONE;
    int status;

    if (url_make(&one, "/v1/sandboxes/%s/exec/%s", name, exec) < 0 ||
        url_make(&target, "/v1/sandboxes/%s/exec/%s/attach", name, exec) < 0)
        return cli_failf("%.64s: too long", name);
    if (client_json(c, "GET", one.data, NULL, &root, &err) < 0)
        return cli_fail(&err);
    args->attached.tty = json_is_true(json_object_get(root, "tty"));
    args->attached.input = !args->no_stdin;
    status = attach_stream(args, c, target.data, name, exec);
    /*
     * attached_run has told the exit status, so the record is not needed. The daemon keeps a
     * running command.
     */
    (void)client_json(c, "DELETE", one.data, NULL, NULL, NULL);
    return status;
}

static int attach_main(const struct verb *v, const struct globals *g, char **argv)
{
    struct attach_args args = {.remote.globals = *g};
    auto_client struct client *c = NULL;
    struct err err = ERR_NONE;
    char **names;
    int status;

    (void)keys_parse(DETACH_KEYS, &args.attached.detach);
    if (remote_begin(v, &args, argv, 1, 2, "sandbox", &names, &status) == VERB_DONE)
        return status;
    if (remote_open(&args.remote, &c, &err) < 0)
        return cli_fail(&err);
    return names[1] != NULL ? attach_exec(&args, c, names[0], names[1])
                            : attach_main_process(&args, c, names[0]);
}

const struct verb verb_attach = {
    .name = "attach",
    .operands = "NAME [EXEC]",
    .summary = "Connect with a command that runs in a sandbox",
    .details = details,
    .groups = groups,
    .command_exit = true,
    .main = attach_main,
};
