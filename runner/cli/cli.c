/* The command line: global options, the table of verbs, dispatch, and the start of every verb. */

#include "cli/cli.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "cli/foreign-options.h"
#include "sandbox/paths.h"

/* clang-format off */
const struct opt global_options[] = {
    { .name = "state",   .arg = "DIR", .set = opt_text, .off = offsetof(struct globals, state),
      .help = "Keep images and sandboxes in DIR (default " CORE_STATE_DIR "; "
              "for other users than root $XDG_DATA_HOME/rind)" },
    { .name = "runtime", .arg = "DIR", .set = opt_text, .off = offsetof(struct globals, runtime),
      .help = "Keep sockets and locks in DIR (default " CORE_RUNTIME_DIR "; "
              "for other users than root $XDG_RUNTIME_DIR/rind)" },
    { .name = "debug",   .set = opt_flag, .off = offsetof(struct globals, debug),
      .help = "Log what is done to stderr" },
    { .name = "help",    .letter = 'h', .set = opt_flag, .off = offsetof(struct globals, help),
      .flags = OPT_STOP, .help = "Show this help" },
    {0},
};

const struct verb *const verbs[] = {
    &verb_run, &verb_create, &verb_start, &verb_exec, &verb_attach, &verb_ps,
    &verb_ls, &verb_inspect, &verb_logs, &verb_cp, &verb_diff, &verb_stop, &verb_restart,
    &verb_kill, &verb_pause, &verb_resume, &verb_update, &verb_rename, &verb_wait, &verb_rm, &verb_stats, &verb_egress,
    &verb_events, &verb_port, &verb_images, &verb_load, &verb_snapshot, &verb_clone, &verb_volume, &verb_network, &verb_expose, &verb_unexpose,
    &verb_exposures, &verb_system, &verb_info, &verb_serve, &verb_doctor,
    &verb_docker, &verb_docker_env, &verb_completion, &verb_version, &verb_help,
    NULL,
};
/* clang-format on */

struct top_args {
    struct globals globals;
    bool version;
    const char *socket;
};

/* Options that belong after the command, but may be written before it, as with docker. */
static int on_misplaced_option(void *target, const struct opt *o, const char *text, struct err *err)
{
    (void)target;
    (void)text;
    return err_set(err, -EINVAL, "stands behind the command: rind COMMAND --%s%s%s", o->name,
                   o->arg != NULL ? " " : "", o->arg != NULL ? o->arg : "");
}

static const struct opt top_options[] = {
    {.name = "socket",
     .arg = "PATH",
     .set = opt_text,
     .off = offsetof(struct top_args, socket),
     .flags = OPT_HIDDEN},
    {.name = "json", .set = on_misplaced_option, .flags = OPT_HIDDEN},
    {.name = "version",
     .letter = 'v',
     .set = opt_flag,
     .off = offsetof(struct top_args, version),
     .flags = OPT_STOP,
     .help = "Show the version"},
    {0},
};

/* The global options' handlers write at offsets from the start of each verb's arguments. */
static_assert(offsetof(struct top_args, globals) == 0, "globals come first");

const struct verb *verb_find(const char *name)
{
    for (size_t i = 0; verbs[i] != NULL; i++)
        if (strcmp(verbs[i]->name, name) == 0)
            return verbs[i];
    return NULL;
}

/* Commands of docker that rind names differently or lacks. */
static const struct {
    const char *word, *instead;
} elsewhere[] = {
    {"build", "rind builds no images yet; rind load takes one that was built elsewhere"},
    {"commit", "rind snapshot SANDBOX IMAGE"},
    {"compose", "docker-compose, with what rind docker-env prints"},
    {"export", "rind images export NAME"},
    {"history", "rind images history NAME"},
    {"image", "rind images"},
    {"import", "rind images import FILE NAME"},
    {"container", "rind run, create, ls, inspect, rm: the verbs alone"},
    {"context", "rind --socket PATH, or $RIND_SOCKET"},
    {"login", "there are no registries yet"},
    {"logout", "there are no registries yet"},
    {"prune", "rind system prune, rind images prune, rind volume prune"},
    {"pull", "there are no registries yet; rind load takes an image from an archive"},
    {"push", "there are no registries yet; rind images save writes an archive"},
    {"rmi", "rind images rm NAME"},
    {"save", "rind images save NAME"},
    {"search", "there are no registries yet; rind images lists what is here, rind load takes an "
               "image from an archive"},
    {"tag", "rind images tag NAME NEW-NAME"},
    {"top", "rind ps NAME"},
    {"unpause", "rind resume NAME"},
};

int verb_unknown(const char *name)
{
    struct nearest n = {.name = NULL};

    for (size_t i = 0; i < sizeof(elsewhere) / sizeof(elsewhere[0]); i++)
        if (strcmp(elsewhere[i].word, name) == 0)
            return cli_failf("%s: unknown command; instead: %s", name, elsewhere[i].instead);
    for (size_t i = 0; verbs[i] != NULL; i++)
        nearest_offer(&n, name, verbs[i]->name);
    if (n.name == NULL)
        return cli_failf("%.64s: unknown command; rind --help lists them", name);
    return cli_failf("%.64s: unknown command; the nearest is %s", name, n.name);
}

/* Prefix of the store's message, with and without a daemon. */
#define NO_IMAGE "no such image: "

static int print_failure(const struct err *err, bool maybe_command)
{
    const char *msg = err->msg[0] != '\0' ? err->msg : strerror(-err->code);
    bool no_image = strncmp(msg, NO_IMAGE, strlen(NO_IMAGE)) == 0;

    (void)fprintf(stderr, "rind: %s%s%s\n", msg,
                  no_image ? "; rind images lists those that are there, rind load adds some" : "",
                  no_image && maybe_command ? "; a command without an image stands behind --" : "");
    return EXIT_RIND;
}

int cli_fail(const struct err *err)
{
    return print_failure(err, false);
}

int cli_fail_image(const struct err *err, const struct opt_rest *rest)
{
    return print_failure(err, !rest->dashes);
}

void cli_hint_root(struct err *err)
{
    size_t len = strlen(err->msg);

    if ((err->code == -EACCES || err->code == -EPERM) && geteuid() != 0)
        (void)snprintf(
            err->msg + len, sizeof(err->msg) - len,
            "; rind starts sandboxes as root, or by root's daemon (rind serve) for members "
            "of the group rind");
}

int cli_failf(const char *fmt, ...)
{
    struct err err = ERR_NONE;
    char text[ERR_MSG_MAX];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    (void)err_set(&err, -EINVAL, "%s", text);
    return cli_fail(&err);
}

int cli_flush(int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    return cli_failf("standard output: %s", strerror(errno));
}

/* Resolves against the working directory, since `rind run` changes it later. */
static int make_absolute(const char *path, char *ret)
{
    char cwd[CLI_PATH_MAX];

    if (path[0] == '/')
        return snprintf(ret, CLI_PATH_MAX, "%s", path);
    if (getcwd(cwd, sizeof(cwd)) == NULL)
        return -errno;
    return snprintf(ret, CLI_PATH_MAX, "%s/%s", cwd, path);
}

static int dir_default(char *ret, const char *given, const char *root_default, const char *xdg,
                       const char *home_part, struct err *err)
{
    const char *base = getenv(xdg), *home = getenv("HOME");
    int n;

    if (given != NULL)
        n = make_absolute(given, ret);
    else if (geteuid() == 0)
        n = snprintf(ret, CLI_PATH_MAX, "%s", root_default);
    else if (base != NULL && base[0] == '/')
        n = snprintf(ret, CLI_PATH_MAX, "%s/rind", base);
    else if (home_part != NULL && home != NULL && home[0] == '/')
        n = snprintf(ret, CLI_PATH_MAX, "%s/%s/rind", home, home_part);
    else if (home_part == NULL)
        n = snprintf(ret, CLI_PATH_MAX, "/run/user/%u/rind", (unsigned)geteuid());
    else
        return err_set(err, -ENOENT, "$HOME: not set; say where to keep sandboxes with --state");
    if (n < 0)
        return err_errno(err, n, "working directory");
    if (n >= CLI_PATH_MAX)
        return err_set(err, -ENAMETOOLONG, "%.64s...: longer than %d bytes", ret, CLI_PATH_MAX - 1);
    return 0;
}

int cli_dirs(const struct globals *g, struct cli_dirs *ret, struct err *err)
{
    int r;

    r = dir_default(ret->state, g->state, CORE_STATE_DIR, "XDG_DATA_HOME", ".local/share", err);
    if (r < 0)
        return err_wrap(err, r, "state directory");
    r = dir_default(ret->runtime, g->runtime, CORE_RUNTIME_DIR, "XDG_RUNTIME_DIR", NULL, err);
    if (r < 0)
        return err_wrap(err, r, "runtime directory");
    return 0;
}

enum { GROUPS_MAX = 12 };

/* Copies the verb's groups and appends the global options. */
static void groups_of(const struct opt_group *own, struct opt_group *ret)
{
    size_t n = 0;

    for (; own != NULL && own->rows != NULL && n < GROUPS_MAX - 2; own++)
        ret[n++] = *own;
    ret[n++] = (struct opt_group){.title = "Global options", .rows = global_options};
    ret[n] = (struct opt_group){.rows = NULL};
}

enum verb_step verb_begin(const struct verb *v, void *args, char **argv, struct opt_rest *ret,
                          int *ret_status)
{
    struct opt_group groups[GROUPS_MAX];
    const struct globals *g = args;
    struct err err = ERR_NONE;
    int r;

    groups_of(v->groups, groups);
    r = v->takes_command ? opts_parse(groups, args, argv, ret, &err)
                         : opts_parse_anywhere(groups, args, argv, ret, &err);
    if (r < 0) {
        *ret_status = cli_fail(&err);
        return VERB_DONE;
    }
    if (g->help) {
        help_verb(stdout, v);
        *ret_status = cli_flush(0);
        return VERB_DONE;
    }
    if (g->debug)
        log_set_level(LOG_LEVEL_DEBUG);
    return VERB_GO;
}

static bool verb_asks_daemon(const struct verb *v)
{
    for (const struct opt_group *g = v->groups; g != NULL && g->rows != NULL; g++)
        for (const struct opt *o = g->rows; o->name != NULL; o++)
            if (strcmp(o->name, "socket") == 0)
                return true;
    return false;
}

/*
 * Runs the verb with a --socket that stood in front of it, as if it were the verb's first option;
 * a second one behind the verb wins. operands: the verb's name and its arguments.
 */
static int verb_run_with_socket(const struct verb *v, const struct globals *g, const char *socket,
                                char **operands)
{
    static char name[] = "--socket";
    size_t count = 0;
    auto_free char *copy = NULL;
    auto_free char **argv = NULL;

    if (!verb_asks_daemon(v))
        return cli_failf("--socket: rind %s asks no daemon; leave it out", v->name);
    while (operands[count] != NULL)
        count++;
    copy = strdup(socket);
    argv = calloc(count + 2, sizeof(*argv));
    if (argv == NULL || copy == NULL)
        return cli_failf("out of memory");
    argv[0] = name;
    argv[1] = copy;
    (void)memcpy(argv + 2, operands + 1, count * sizeof(*argv)); /* the NULL included */
    return v->main(v, g, argv);
}

int cli_main(char **argv)
{
    static const struct opt_group own[] = {
        {.title = "Options", .rows = top_options}, FOREIGN_GROUP(foreign_top_options), {0}};
    struct opt_group groups[GROUPS_MAX];
    struct top_args args = {.version = false};
    struct opt_rest rest;
    struct err err = ERR_NONE;
    const struct verb *v;

    groups_of(own, groups);
    if (opts_parse(groups, &args, argv, &rest, &err) < 0)
        return cli_fail(&err);
    if (args.globals.help) {
        help_top(stdout);
        return cli_flush(0);
    }
    if (args.version)
        return verb_version.main(&verb_version, &args.globals, rest.operands);
    if (rest.operands[0] == NULL)
        return cli_failf("no command; rind --help lists them");
    v = verb_find(rest.operands[0]);
    if (v == NULL)
        return verb_unknown(rest.operands[0]);
    if (args.socket != NULL)
        return verb_run_with_socket(v, &args.globals, args.socket, rest.operands);
    return v->main(v, &args.globals, rest.operands + 1);
}
