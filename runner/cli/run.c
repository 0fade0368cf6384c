/*
 * rind run: runs one sandbox from start to removal, through the daemon (run-remote.h) or in this
 * process (run/run.h).
 */

#include "run/run.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <unistd.h>

#include "base/err.h"
#include "cli/attach-options.h"
#include "cli/cli.h"
#include "cli/foreign-options.h"
#include "cli/run-remote.h"
#include "cli/spec-options.h"
#include "spec/spec.h"

/* clang-format off */
static const struct opt daemon_options[] = {
    { .name = "alone",  .set = opt_flag, .off = offsetof(struct sandbox_args, alone),
      .help = "Do without the daemon, also where there is one" },
    { .name = "socket", .arg = "PATH", .set = opt_text,
      .off = offsetof(struct sandbox_args, remote.socket),
      .help = "Run by the daemon that has this socket; without it by the one of $RIND_SOCKET or of "
              "the runtime directory, if it is there" },
    { .name = "detach", .letter = 'd', .set = opt_flag,
      .off = offsetof(struct sandbox_args, detach),
      .help = "Print the sandbox's id as soon as the command runs, and let it go on; needs the "
              "daemon" },
    { .name = "detach-keys", .arg = "KEYS", .set = opt_detach_keys,
      .off = offsetof(struct sandbox_args, attached.detach), .help = DETACH_HELP },
    {0},
};
/* clang-format on */

static const struct opt_group groups[] = {
    {.title = "The command", .rows = command_options},
    {.title = "Files", .rows = root_options},
    {.title = "Limits", .rows = limit_options},
    {.title = "Isolation", .rows = isolation_options},
    {.title = "Daemon", .rows = daemon_options},
    {.title = "Kept by the daemon (--detach)", .rows = kept_options},
    FOREIGN_GROUP(foreign_run_options),
    {0},
};

static const char *const details[] = {
    "Runs CMD in a new sandbox and ends with its exit status. The sandbox has its own user, mount, "
    "pid, network, uts, ipc, and cgroup namespaces, its own range of user ids, a system call "
    "filter, and the limits of its policy. When the command ends, or rind is killed, nothing of it "
    "stays behind.",
    "No daemon is needed. Where one answers, it runs the command, and everything else is the same: "
    "its output, its exit status, its signals, and that nothing stays behind. A daemon that is "
    "restarted meanwhile does not disturb it, and in a terminal the keys ctrl-p ctrl-q leave it. "
    "With --alone, with --state, or with a policy file, rind runs it itself.",
    "Signals are passed on to the command. As process 1 of its sandbox it does not even see an INT "
    "or "
    "TERM that it has no handler for (--init changes that); the third one without a pause of 3 s "
    "kills it, the fourth removes the sandbox without waiting.",
    "The first word that is not an option ends the options. It names an image, whose file system, "
    "command, environment, user and working directory count, and what follows it replaces the "
    "image's command. Behind `--` all words are the command, in the file system of --image, of "
    "--rootfs, or the small one that rind carries.",
    NULL,
};

static const struct example examples[] = {
    {"rind run -- ps", "see what a program sees"},
    {"rind run --rm -it alpine", "an image's own command (rind load first)"},
    {"rind run -it -- sh", "a shell"},
    {"rind run -m 256m --pids 64 --timeout 10s -v \"$PWD\":/src:ro -w /src -- ./untrusted",
     "an untrusted program with limits, on this directory read-only"},
    {0},
};

static_assert(offsetof(struct sandbox_args, remote.globals) == 0, "globals come first");

static int on_core_id(void *data, const char *id, struct err *err)
{
    return cidfile_write(data, id, err);
}

static int run_spec(const struct globals *g, struct sandbox_args *args, int *ret_status,
                    struct err *err)
{
    struct cli_dirs dirs;
    struct core_config cfg;
    int r;

    r = cli_dirs(g, &dirs, err);
    if (r < 0)
        return r;
    cfg = (struct core_config){.state_dir = dirs.state,
                               .runtime_dir = dirs.runtime,
                               .debug = g->debug,
                               .on_id = on_core_id,
                               .data = &args->cidfile};
    return core_run(&cfg, args->spec, ret_status, err);
}

static int check_choice(const struct sandbox_args *args, struct err *err)
{
    if (args->alone && args->remote.socket != NULL)
        return err_set(err, -EINVAL, "--alone: not with --socket; either says where it runs");
    if (args->alone && args->detach)
        return err_set(err, -EINVAL, "--alone: not with --detach, which needs the daemon");
    /* This process ends with the first run, so no client would see a second one. */
    if (!args->detach && args->spec->restart != RESTART_NO)
        return err_set(err, -EINVAL,
                       "--restart %s: only with --detach, as a run that is attached ends with its "
                       "command; add --detach or leave --restart out",
                       spec_restart_name(args->spec->restart));
    if (!args->detach && args->spec->console)
        return err_set(err, -EINVAL, "--log-times: only with --detach, as else there is no log");
    return spec_check_remove(args, err);
}

static int run_with(const struct verb *v, const struct globals *g, char **argv, struct spec *spec)
{
    struct sandbox_args args = {.remote.globals = *g, .spec = spec, .cidfile.fd = FD_NONE};
    struct opt_rest rest;
    struct err err = ERR_NONE;
    /*
     * core_run sets 126 or 127 if the command's execve failed, 137 if the whole sandbox was killed,
     * and err to the cause.
     */
    int r, status = EXIT_RIND;

    (void)keys_parse(DETACH_KEYS, &args.attached.detach);
    if (verb_begin(v, &args, argv, &rest, &status) == VERB_DONE)
        return status;

    r = check_choice(&args, &err);
    if (r == 0)
        r = spec_operands(spec, rest.operands, rest.dashes, &err);
    if (r == 0 && spec->tty && spec->interactive && !args.detach && !isatty(STDIN_FILENO))
        r = err_set(&err, -ENOTTY, "%s", no_terminal);
    if (r == 0)
        r = spec_validate(spec, &err);
    if (r == 0)
        r = cidfile_open(&args.cidfile, &err);
    if (r == 0 && !args.detach)
        hint_shell(spec->tty, spec->interactive, spec->argv, "rind run -it ...");
    if (r == 0 && !args.alone)
        r = run_remote(&args, &status, &err);
    if (r == RUN_ALONE || (r == 0 && args.alone))
        r = run_spec(&args.remote.globals, &args, &status, &err);
    if (r < 0 && status == EXIT_RIND)
        cli_hint_root(&err);
    if (r < 0)
        (void)cli_fail_image(&err, &rest);
    cidfile_done(&args.cidfile);
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
    .operands = "IMAGE [CMD [ARG...]] | -- CMD [ARG...]",
    .summary = "Run a command in a new sandbox",
    .details = details,
    .groups = groups,
    .examples = examples,
    .takes_command = true,
    .command_exit = true,
    .main = run_main,
};
