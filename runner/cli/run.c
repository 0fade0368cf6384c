/* rind run: one sandbox, supervised by this process, from start to removal. */

#include "core/run.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>

#include "base/err.h"
#include "cli/cli.h"
#include "cli/spec_options.h"
#include "spec/spec.h"

static const struct opt_group groups[] = {
    {.title = "The command", .rows = command_options},
    {.title = "Files", .rows = root_options},
    {.title = "Limits", .rows = limit_options},
    {.title = "Isolation", .rows = isolation_options},
    {0},
};

static const char *const details[] = {
    "Runs CMD in a new sandbox and ends with its exit status. The sandbox has its own user, mount, "
    "pid, network, uts, ipc, and cgroup namespaces, its own range of user ids, a system call "
    "filter, and the limits of its policy. When the command ends, or rind is killed, nothing of it "
    "stays behind.",
    "No daemon is needed. The first word that is not an option ends the options; `--` in front of "
    "the command makes that explicit, and scripts should write it: without `--` and --rootfs, the "
    "first word will name an image once rind stores images.",
    NULL,
};

static const struct example examples[] = {
    {"rind run -- ps", "see what a program sees"},
    {"rind run -it -- sh", "a shell"},
    {"rind run -m 256m --pids 64 --timeout 10s -v \"$PWD\":/src:ro -w /src -- ./untrusted",
     "an untrusted program with limits, on this directory read-only"},
    {0},
};

static_assert(offsetof(struct sandbox_args, globals) == 0, "globals come first");

static int run_spec(const struct globals *g, const struct spec *spec, int *ret_status,
                    struct err *err)
{
    struct cli_dirs dirs;
    struct core_config cfg;
    int r;

    r = cli_dirs(g, &dirs, err);
    if (r < 0)
        return r;
    cfg = (struct core_config){
        .state_dir = dirs.state, .runtime_dir = dirs.runtime, .debug = g->debug};
    return core_run(&cfg, spec, ret_status, err);
}

static int run_with(const struct verb *v, const struct globals *g, char **argv, struct spec *spec)
{
    struct sandbox_args args = {.globals = *g, .spec = spec};
    struct opt_rest rest;
    struct err err = ERR_NONE;
    /* core_run says 126 or 127 here when the command's own execve failed, 137 when the whole
     * sandbox was killed, and why in err. */
    int r, status = EXIT_RIND;

    if (verb_begin(v, &args, argv, &rest, &status) == VERB_DONE)
        return status;

    r = spec_operands(spec, &rest, &err);
    if (r == 0)
        r = spec_validate(spec, &err);
    if (r == 0)
        r = run_spec(&args.globals, spec, &status, &err);
    if (r < 0)
        (void)cli_fail(&err);
    return status;
}

static int run_main(const struct verb *v, const struct globals *g, char **argv)
{
    struct spec *spec = spec_new();
    int status;

    if (spec == NULL)
        return cli_failf("out of memory");
    status = run_with(v, g, argv, spec);
    spec_free(spec);
    return status;
}

const struct verb verb_run = {
    .name = "run",
    .operands = "[--] CMD [ARG...]",
    .summary = "Run a command in a new sandbox",
    .details = details,
    .groups = groups,
    .examples = examples,
    .takes_command = true,
    .command_exit = true,
    .main = run_main,
};
