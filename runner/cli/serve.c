/* rind serve: runs the daemon. */

#include "daemon/serve.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "cli/cli.h"

struct serve_args {
    struct globals globals;
    const char *socket, *config, *gateway;
    bool stop_sandboxes;
};

static const struct opt serve_options[] = {
    {.name = "socket",
     .arg = "PATH",
     .set = opt_text,
     .off = offsetof(struct serve_args, socket),
     .help = "The API's unix socket; default rind.sock in the runtime directory. A socket that a "
             "service manager hands over (LISTEN_FDS) goes first"},
    {.name = "config",
     .arg = "FILE",
     .set = opt_text,
     .off = offsetof(struct serve_args, config),
     .help = "Limits and other settings, JSON"},
    {.name = "gateway",
     .arg = "ADDRESS:PORT",
     .set = opt_text,
     .off = offsetof(struct serve_args, gateway),
     .help = "Serve preview URLs of exposed ports there, as 127.0.0.1:8080; with TLS where the "
             "configuration has a certificate"},
    {.name = "stop-sandboxes",
     .set = opt_flag,
     .off = offsetof(struct serve_args, stop_sandboxes),
     .help = "Stop all sandboxes on a clean stop; otherwise they go on running"},
    {0},
};
static const struct opt_group groups[] = {{.title = "Options", .rows = serve_options}, {0}};

static const char *const details[] = {
    "Keeps sandboxes and serves the API on a unix socket until it is told to stop (SIGTERM, "
    "SIGINT). It is two processes: a launcher with the privileges and a confined supervisor that "
    "talks to clients. Sandboxes outlive both: what starts next takes them up again.",
    "Access to the socket is for its owner, and for members of the group rind when there is one; "
    "what those may ask is in the client policy.",
    NULL,
};

static const struct example examples[] = {
    {"rind serve", "as root, with the default directories"},
    {"curl --unix-socket /run/rind/rind.sock http://rind/v1/version", "ask it something"},
    {0},
};

static int serve_main(const struct verb *v, const struct globals *g, char **argv)
{
    struct serve_args args = {.globals = *g};
    struct err err = ERR_NONE;
    struct cli_dirs dirs;
    struct opt_rest rest;
    char socket[CLI_PATH_MAX + sizeof("/rind.sock")];
    int status;

    if (verb_begin(v, &args, argv, &rest, &status) == VERB_DONE)
        return status;
    if (rest.operands[0] != NULL)
        return cli_failf("%.64s: serve takes no operand", rest.operands[0]);
    if (cli_dirs(&args.globals, &dirs, &err) < 0)
        return cli_fail(&err);
    (void)snprintf(socket, sizeof(socket), "%s/rind.sock", dirs.runtime);

    const struct serve_config config = {.state_dir = dirs.state,
                                        .runtime_dir = dirs.runtime,
                                        .socket = args.socket != NULL ? args.socket : socket,
                                        .config_file = args.config,
                                        .gateway = args.gateway,
                                        .stop_sandboxes = args.stop_sandboxes,
                                        .debug = args.globals.debug};

    if (serve_run(&config, &err) < 0) {
        cli_hint_root(&err);
        return cli_fail(&err);
    }
    return 0;
}

const struct verb verb_serve = {
    .name = "serve",
    .operands = "",
    .summary = "Keep sandboxes and serve the API",
    .details = details,
    .groups = groups,
    .examples = examples,
    .main = serve_main,
};
