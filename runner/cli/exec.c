/* rind exec: runs a command in a sandbox. */

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/terminal.h"
#include "cli/attach-options.h"
#include "cli/attached.h"
#include "cli/foreign-options.h"
#include "cli/remote.h"
#include "cli/url.h"
#include "json/parse.h"
#include "spec/parse.h"
#include "spec/spec.h"

struct exec_args {
    struct remote remote; /* first */
    struct attached_options attached;
    struct spec *spec; /* owned: env, cwd, user, parsed as for rind run */
    int64_t timeout_ms;
    bool detach;
};

/* ---- options ---- */

#define SPEC_HANDLER(fn)                                                                           \
    static int on_##fn(void *target, const struct opt *o, const char *text, struct err *err)       \
    {                                                                                              \
        (void)o;                                                                                   \
        return fn(((struct exec_args *)target)->spec, text, err);                                  \
    }                                                                                              \
    struct rind_swallow_semicolon_

SPEC_HANDLER(spec_add_env);
SPEC_HANDLER(spec_add_env_file);
SPEC_HANDLER(spec_set_workdir);
SPEC_HANDLER(spec_set_user);

static int opt_timeout(void *target, const struct opt *o, const char *text, struct err *err)
{
    (void)o;
    return parse_duration("timeout", text, &((struct exec_args *)target)->timeout_ms, err);
}

/* clang-format off */
static const struct opt exec_options[] = {
    { .name = "interactive", .letter = 'i', .set = opt_flag,
      .off = offsetof(struct exec_args, attached.input),
      .help = "Pass standard input on; without it the command reads end of file" },
    { .name = "tty",         .letter = 't', .set = opt_flag,
      .off = offsetof(struct exec_args, attached.tty),
      .help = "Give the command a terminal of its own" },
    { .name = "env",         .letter = 'e', .arg = "KEY=VALUE", .set = on_spec_add_env,
      .flags = OPT_REPEAT,
      .help = "Set an environment variable, beside the sandbox's own; KEY alone takes its value "
              "from rind's environment" },
    { .name = "env-file",    .arg = "FILE", .set = on_spec_add_env_file, .flags = OPT_REPEAT,
      .help = "Read environment variables from FILE, one KEY=VALUE a line" },
    { .name = "workdir",     .letter = 'w', .arg = "DIR", .set = on_spec_set_workdir,
      .help = "Start the command in DIR (default: where the sandbox's own began)" },
    { .name = "user",        .letter = 'u', .arg = "USER[:GROUP]", .set = on_spec_set_user,
      .help = "Run the command as USER (default: as the sandbox's own)" },
    { .name = "timeout",     .arg = "TIME", .set = opt_timeout,
      .help = "Kill the command, and all that it has started, after TIME" },
    { .name = "detach",      .letter = 'd', .set = opt_flag,
      .off = offsetof(struct exec_args, detach),
      .help = "Print the command's id as soon as it runs, and let it go on; rind attach takes it "
              "up" },
    { .name = "detach-keys", .arg = "KEYS", .set = opt_detach_keys,
      .off = offsetof(struct exec_args, attached.detach), .help = DETACH_HELP },
    {0},
};
/* clang-format on */
static const struct opt_group groups[] = {
    {.title = "The command", .rows = exec_options},
    {.title = "Daemon", .rows = socket_options},
    FOREIGN_GROUP(foreign_exec_options),
    {0},
};

static const char *const details[] = {
    "Runs CMD in a sandbox that runs, with everything that its policy says, and ends with the "
    "command's exit status. Signals are passed on. When rind is killed, so is the command and all "
    "that it has started. When the daemon is restarted the command goes on, and rind with it.",
    "The third INT or TERM without a pause of 3 s kills the command, the fourth ends rind without "
    "waiting.",
    "With --tty and --interactive, the keys ctrl-p ctrl-q leave the command, and rind attach comes "
    "back to it.",
    NULL,
};

static const struct example examples[] = {
    {"rind exec web -- ls /srv", "one command"},
    {"rind exec -it web sh", "a shell"},
    {"tar c . | rind exec -i web -- tar x -C /srv", "through standard input"},
    {0},
};

/* ---- the request ---- */

static int put_strings(json_t *body, char *const *argv, struct err *err)
{
    json_t *list = json_array();

    for (; *argv != NULL; argv++)
        if (json_array_append_new(list, json_string(*argv)) < 0) {
            json_decref(list);
            return err_set(err, -EILSEQ, "the command is not UTF-8, which the daemon's API needs");
        }
    return json_object_set_new(body, "argv", list) < 0 ? err_errno(err, -ENOMEM, "exec") : 0;
}

static int put_env(json_t *body, char *const *env, struct err *err)
{
    json_t *object = json_object();

    for (; env != NULL && *env != NULL; env++) {
        const char *equals = strchr(*env, '=');

        if (json_object_setn_new(object, *env, (size_t)(equals - *env), json_string(equals + 1)) <
            0) {
            json_decref(object);
            return err_set(err, -EILSEQ, "--env: is not UTF-8, which the daemon's API needs");
        }
    }
    return json_object_set_new(body, "env", object) < 0 ? err_errno(err, -ENOMEM, "exec") : 0;
}

static void put_size(json_t *body)
{
    uint16_t rows, cols;

    terminal_size(&rows, &cols);
    (void)json_object_set_new(body, "rows", json_integer(rows));
    (void)json_object_set_new(body, "cols", json_integer(cols));
}

static int make_body(const struct exec_args *args, char *const *argv, json_t **ret, struct err *err)
{
    auto_ptr(json_decref) json_t *body =
        json_pack("{s:b, s:b}", "tty", args->attached.tty, args->detach ? "detach" : "own", 1);
    int r;

    if (body == NULL)
        return err_errno(err, -ENOMEM, "exec");
    r = put_strings(body, argv, err);
    if (r == 0)
        r = put_env(body, args->spec->env, err);
    if (r < 0)
        return r;
    if (args->attached.tty)
        put_size(body);
    if (args->spec->cwd != NULL)
        (void)json_object_set_new(body, "cwd", json_string(args->spec->cwd));
    if (args->spec->user != NULL)
        (void)json_object_set_new(body, "user", json_string(args->spec->user));
    if (args->timeout_ms > 0)
        (void)json_object_set_new(body, "timeoutMs", json_integer(args->timeout_ms));
    *ret = take(body);
    return 0;
}

/* ---- running ---- */

static int run_detached(struct client *c, const char *target, json_t *body)
{
    auto_ptr(json_decref) json_t *root = NULL;
    struct err err = ERR_NONE;

    if (client_json(c, "POST", target, body, &root, &err) < 0) {
        (void)cli_fail(&err);
        return client_exit_code(c) != 0 ? client_exit_code(c) : EXIT_RIND;
    }
    (void)printf("%s\n", member(root, "execId"));
    return cli_flush(0);
}

/* Removes the daemon's record of the exit status, which is kept for reattaching clients. */
static void forget_exec(struct client *c, const char *target)
{
    (void)client_json(c, "DELETE", target, NULL, NULL, NULL);
}

static int run_attached(const struct exec_args *args, struct client *c, const char *target,
                        const char *name, json_t *body)
{
    const struct client_request request = {
        .method = "POST", .target = target, .json = body, .flags = CLIENT_UPGRADE};
    auto_attached struct attached *a = NULL;
    auto_buf struct buf one = BUF_INIT(URL_MAX), again = BUF_INIT(URL_MAX);
    struct attached_end end = {.status = EXIT_RIND};
    struct err err = ERR_NONE;
    const char *id;
    struct attached_options options = args->attached;
    int r;

    options.no_input = !options.input && !options.tty;
    r = attached_new(&options, &a, &err);

    if (r < 0)
        json_decref(body);
    if (r == 0)
        r = attached_request(a, c, &request, &err);
    if (r < 0) {
        remote_hint(&err, name);
        (void)cli_fail(&err);
        return client_exit_code(c) != 0 ? client_exit_code(c) : EXIT_RIND;
    }
    id = client_header(c, "rind-exec-id");
    if (url_make(&one, "/v1/sandboxes/%s/exec/%s", name, id != NULL ? id : "") < 0 ||
        url_make(&again, "/v1/sandboxes/%s/exec/%s/attach", name, id != NULL ? id : "") < 0)
        return cli_failf("exec: out of memory");
    r = attached_run(a, c, again.data, true, &end, &err);
    attached_free(take(a));
    if (r < 0)
        (void)cli_fail(&err);
    if (!end.detached)
        forget_exec(c, one.data);
    attached_explain(&end, name, id, args->timeout_ms);
    return end.status;
}

static int run_exec(const struct exec_args *args, char **operands)
{
    auto_client struct client *c = NULL;
    auto_buf struct buf target = BUF_INIT(URL_MAX);
    struct err err = ERR_NONE;
    char **argv = operands + 1;
    json_t *body = NULL;
    int r;

    if (*argv != NULL && strcmp(*argv, "--") == 0)
        argv++;
    else if (*argv != NULL && (*argv)[0] == '-')
        return cli_failf("%.64s: options stand before the sandbox: rind exec [OPTIONS] NAME CMD; a "
                         "command that begins so stands behind --",
                         *argv);
    if (*argv == NULL)
        return cli_failf("no command; write it behind the sandbox: rind exec [OPTIONS] NAME CMD");
    if (args->attached.tty && args->attached.input && !isatty(STDIN_FILENO))
        return cli_failf("%s", no_terminal);
    r = url_make(&target, "/v1/sandboxes/%s/exec", operands[0]);
    if (r < 0)
        (void)err_errno(&err, r, "sandbox '%.64s'", operands[0]);
    if (r == 0)
        r = remote_open(&args->remote, &c, &err);
    if (r == 0)
        r = make_body(args, argv, &body, &err);
    if (r < 0)
        return cli_fail(&err);
    if (!args->detach) {
        char how[160];

        (void)snprintf(how, sizeof(how), "rind exec -it %.64s %.64s", operands[0], argv[0]);
        hint_shell(args->attached.tty, args->attached.input, argv, how);
    }
    return args->detach ? run_detached(c, target.data, body)
                        : run_attached(args, c, target.data, operands[0], body);
}

static int exec_main(const struct verb *v, const struct globals *g, char **argv)
{
    struct exec_args args = {.remote.globals = *g, .spec = spec_new()};
    char **operands;
    int status;

    if (args.spec == NULL)
        return cli_failf("out of memory");
    (void)keys_parse(DETACH_KEYS, &args.attached.detach);
    if (remote_begin(v, &args, argv, 1, REMOTE_ANY, "sandbox", &operands, &status) == VERB_GO)
        status = run_exec(&args, operands);
    spec_free(args.spec);
    return status;
}

const struct verb verb_exec = {
    .name = "exec",
    .operands = "NAME [--] CMD [ARG...]",
    .summary = "Run a command in a sandbox",
    .details = details,
    .groups = groups,
    .examples = examples,
    .takes_command = true,
    .command_exit = true,
    .main = exec_main,
};
