/*
 * rind docker: replaces the docker command for programs that call it (wrangler, miniflare,
 * scripts). It runs as `rind docker`, or when rind is called by the name "docker" through a link.
 * People should prefer Docker's own command with DOCKER_HOST, which rind serves.
 */
#include "cli/docker.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "cli/docker-template.h"

enum { EXIT_DOCKER = 1, EXIT_USAGE = 125 };

char docker_address[REMOTE_PATH_MAX + 8];

struct docker_verb_args {
    struct remote remote; /* first */
    const char *host;
};

static const struct opt host_options[] = {
    {.name = "host",
     .letter = 'H',
     .arg = "ADDRESS",
     .set = opt_text,
     .off = offsetof(struct docker_verb_args, host),
     .help = "The engine, as unix:///PATH; default $DOCKER_HOST, else rind's own socket"},
    {0},
};

static const struct opt_group groups[] = {
    {.title = "Options", .rows = host_options},
    {.title = "Daemon", .rows = socket_options},
    {0},
};

static const char *const details[] = {
    "Takes the place of the docker command for programs that call it, as wrangler and miniflare "
    "do. "
    "It knows info, version, pull, tag, image inspect, image ls, image rm, images, rmi, ps, rm, "
    "login, context ls, manifest inspect and build, and of their options those that such programs "
    "use. What it cannot do it says in one sentence.",
    "rind is the same when it is called docker, through a link; rind docker-env makes one. "
    "Docker's own command works with rind, too: set DOCKER_HOST.",
    NULL,
};

static const struct example examples[] = {
    {"rind docker pull my/app:1", "fine when the image is in the store"},
    {"rind docker image inspect my/app:1 --format '{{len .Config.ExposedPorts}}'", "one fact"},
    {0},
};

/* ---- options ---- */

enum option_kind { OPTION_FLAG = 1, OPTION_TEXT, OPTION_LIST, OPTION_IGNORED };

/* letter: key in docker_command.options, and the short option if is_short. */
static const struct option {
    char letter;
    const char *name;
    enum option_kind kind;
    size_t off;
    bool is_short;
} options[] = {
#define AT(member) offsetof(struct docker_args, member)
    {'f', "force", OPTION_FLAG, AT(force), true},
    {'a', "all", OPTION_FLAG, AT(all), true},
    {'q', "quiet", OPTION_FLAG, AT(quiet), true},
    {'v', "verbose", OPTION_FLAG, AT(verbose), true},
    {'V', "volumes", OPTION_FLAG, AT(verbose), false},
    {'F', "format", OPTION_TEXT, AT(format), false},
    {'L', "filter", OPTION_LIST, AT(filters), false},
    {'n', "no-trunc", OPTION_FLAG, AT(no_trunc), false},
    {'u', "username", OPTION_TEXT, AT(username), true},
    {'p', "password", OPTION_TEXT, AT(password), true},
    {'s', "password-stdin", OPTION_FLAG, AT(password_stdin), false},
    {'P', "platform", OPTION_IGNORED, 0, false},
#undef AT
};

static const struct option *find_option(const struct docker_command *cmd, const char *name,
                                        size_t len)
{
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        const struct option *o = &options[i];

        if (strchr(cmd->options, o->letter) == NULL)
            continue;
        if (len == 1 ? o->is_short && o->letter == *name
                     : strlen(o->name) == len && strncmp(o->name, name, len) == 0)
            return o;
    }
    return NULL;
}

static int set_option(const struct option *o, const char *value, struct docker_args *args,
                      struct err *err)
{
    void *member = (char *)args + o->off;

    if (o->kind == OPTION_FLAG)
        *(bool *)member = value == NULL || strcmp(value, "false") != 0;
    else if (o->kind == OPTION_TEXT)
        *(const char **)member = value;
    else if (o->kind == OPTION_LIST && args->filter_count == DOCKER_VALUES_MAX)
        return err_set(err, -E2BIG, "--%s: more than %d", o->name, DOCKER_VALUES_MAX);
    else if (o->kind == OPTION_LIST)
        args->filters[args->filter_count++] = value;
    return 0;
}

/* A group of flags, such as "-aq". */
static int parse_flags(const struct docker_command *cmd, char ***argv, struct docker_args *args,
                       struct err *err)
{
    for (const char *at = **argv + 1; *at != '\0'; at++) {
        const struct option *o = find_option(cmd, at, 1);

        if (o == NULL || o->kind != OPTION_FLAG)
            return err_set(err, -EINVAL, "rind docker %s: option %.64s is not known", cmd->name,
                           **argv);
        (void)set_option(o, NULL, args, err);
    }
    ++*argv;
    return 0;
}

/* Parses one argument that begins with '-'; moves *argv behind it and its value. */
static int parse_option(const struct docker_command *cmd, char ***argv, struct docker_args *args,
                        struct err *err)
{
    const char *text = **argv, *name = text + strspn(text, "-"), *value = NULL;
    size_t len = strcspn(name, "=");
    bool is_long = text[1] == '-';
    const struct option *o;

    o = find_option(cmd, name, is_long ? len : 1);
    if (o == NULL || (is_long && len == 1))
        return err_set(err, -EINVAL, "rind docker %s: option %.64s is not known", cmd->name, text);
    if (name[is_long ? len : 1] == '=')
        value = name + (is_long ? len : 1) + 1;
    else if (!is_long && name[1] != '\0' && o->kind == OPTION_FLAG)
        return parse_flags(cmd, argv, args, err);
    else if (!is_long && name[1] != '\0')
        value = name + 1;
    else if (o->kind != OPTION_FLAG && (value = *++*argv) == NULL)
        return err_set(err, -EINVAL, "rind docker %s: %.64s needs a value", cmd->name, text);
    ++*argv;
    return set_option(o, value, args, err);
}

/* Options and operands may be mixed; moves the operands to the front of argv. */
static int parse_options(const struct docker_command *cmd, char **argv, struct docker_args *args,
                         struct err *err)
{
    char **keep = argv;
    int r = 0;

    while (r == 0 && *argv != NULL) {
        if (cmd->options == NULL || (*argv)[0] != '-' || (*argv)[1] == '\0')
            *keep++ = *argv++;
        else
            r = parse_option(cmd, &argv, args, err);
    }
    *keep = NULL;
    return r;
}

/* ---- dispatch ---- */

static const struct docker_command *find_command(char **argv, size_t *ret_words)
{
    for (const struct docker_command *c = docker_commands; c->name != NULL; c++) {
        if (strcmp(c->name, argv[0]) != 0)
            continue;
        if (c->sub == NULL || (argv[1] != NULL && strcmp(c->sub, argv[1]) == 0)) {
            *ret_words = c->sub == NULL ? 1 : 2;
            return c;
        }
    }
    return NULL;
}

int docker_sentence(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    (void)fputs("rind docker: ", stderr);
    (void)vfprintf(stderr, fmt, ap);
    (void)fputc('\n', stderr);
    va_end(ap);
    return EXIT_DOCKER;
}

int docker_print(const struct docker_args *args, json_t *root, struct err *err)
{
    auto_buf struct buf out = BUF_INIT(TEMPLATE_OUT_MAX);
    int r;

    if (args->format == NULL)
        return 0;
    if (strcmp(args->format, "json") == 0) {
        print_json_line(json_incref(root));
        return 1;
    }
    r = docker_template(args->format, root, &out, err);
    if (r < 0)
        return r;
    (void)printf("%s\n", out.len > 0 ? out.data : "");
    return 1;
}

/* ret: path of the socket. */
static int find_engine(const struct docker_verb_args *args, char ret[REMOTE_PATH_MAX],
                       struct err *err)
{
    const char *host = args->host != NULL ? args->host : getenv("DOCKER_HOST");
    bool named;
    int r = 0;

    if (args->remote.socket != NULL || host == NULL || host[0] == '\0')
        r = remote_socket(&args->remote, ret, &named, err);
    else if (strncmp(host, "unix:", 5) != 0)
        return err_set(err, -EOPNOTSUPP, "%.128s: rind is behind a unix socket (unix:///PATH)",
                       host);
    else
        (void)snprintf(ret, REMOTE_PATH_MAX, "%s",
                       strncmp(host, "unix://", 7) == 0 ? host + 7 : host + 5);
    if (r == 0)
        (void)snprintf(docker_address, sizeof(docker_address), "unix://%s", ret);
    return r;
}

static int docker_fail(const struct err *err)
{
    return docker_sentence("%s", err->msg[0] != '\0' ? err->msg : strerror(-err->code));
}

static int docker_run(const struct docker_command *cmd, const struct docker_verb_args *args,
                      char **argv)
{
    struct docker_args options_ = {.format = NULL};
    char path[REMOTE_PATH_MAX];
    auto_client struct client *c = NULL;
    struct err err = ERR_NONE;
    int r = parse_options(cmd, argv, &options_, &err);

    if (r < 0) {
        (void)docker_fail(&err);
        return EXIT_USAGE;
    }
    r = find_engine(args, path, &err);
    if (r == 0 && !cmd->offline)
        r = client_open(path, &c, &err);
    if (r == 0)
        r = cmd->main(c, &options_, argv, &err);
    return r < 0 ? docker_fail(&err) : cli_flush(r);
}

static int verb_docker_main(const struct verb *v, const struct globals *g, char **argv)
{
    struct docker_verb_args args = {.remote.globals = *g};
    const struct docker_command *cmd;
    struct opt_rest rest;
    size_t words = 0;
    int status;

    if (verb_begin(v, &args, argv, &rest, &status) == VERB_DONE)
        return status;
    if (rest.operands[0] == NULL)
        return cli_failf("docker: no command; rind docker --help lists them");
    cmd = find_command(rest.operands, &words);
    if (cmd == NULL)
        return docker_sentence("%.64s%s%.64s: not one of the commands that rind stands in for; "
                               "Docker's own docker works with rind (DOCKER_HOST)",
                               rest.operands[0], rest.operands[1] != NULL ? " " : "",
                               rest.operands[1] != NULL ? rest.operands[1] : "");
    return docker_run(cmd, &args, rest.operands + words);
}

int docker_main(char **argv)
{
    static const struct globals none = {.state = NULL};

    return verb_docker_main(&verb_docker, &none, argv);
}

const struct verb verb_docker = {
    .name = "docker",
    .operands = "COMMAND [ARG...]",
    .summary = "Stand in for the docker command",
    .details = details,
    .groups = groups,
    .examples = examples,
    .takes_command = true,
    .main = verb_docker_main,
};
