/* rind docker-env: prints the environment variables with which Docker's clients find rind. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "cli/remote.h"

struct env_args {
    struct remote remote; /* first */
};

static const struct opt_group groups[] = {{.title = "Daemon", .rows = socket_options}, {0}};

static const char *const details[] = {
    "Prints exports for a shell: DOCKER_HOST for every client of Docker's API, and for wrangler "
    "and miniflare also WRANGLER_DOCKER_HOST and WRANGLER_DOCKER_BIN, a link to rind by the name "
    "docker, which is made beside the socket, or in the state directory where that is not ours.",
    NULL,
};

static const struct example examples[] = {
    {"eval \"$(rind docker-env)\"", "then docker and wrangler dev of this shell use rind"},
    {0},
};

/* Prints an assignment in single quotes, valid in every POSIX shell. */
static void print_export(const char *name, const char *prefix, const char *value)
{
    (void)printf("export %s='%s", name, prefix);
    for (; *value != '\0'; value++)
        if (*value == '\'')
            (void)fputs("'\\''", stdout);
        else
            (void)fputc(*value, stdout);
    (void)puts("'");
}

/*
 * Creates dir/docker, a link to this program. An existing link to another target is left alone:
 * -EEXIST.
 */
static int make_link(const char *dir, char *ret, size_t size)
{
    char self[CLI_PATH_MAX], there[CLI_PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

    if (n < 0 || snprintf(ret, size, "%s/docker", dir) >= (int)size)
        return n < 0 ? -errno : -ENAMETOOLONG;
    self[n] = '\0';
    if (symlink(self, ret) == 0)
        return 0;
    if (errno != EEXIST)
        return -errno;
    n = readlink(ret, there, sizeof(there) - 1);
    if (n < 0)
        return -errno;
    there[n] = '\0';
    return strcmp(there, self) == 0 ? 0 : -EEXIST;
}

/* Links in the socket's directory, unless other users could replace the link there. */
static int link_beside(const char *socket, char *ret, size_t size)
{
    char dir[REMOTE_PATH_MAX];
    struct stat st;
    char *slash;

    (void)snprintf(dir, sizeof(dir), "%s", socket);
    slash = strrchr(dir, '/');
    if (slash == NULL || slash == dir)
        return -ENOTDIR;
    *slash = '\0';
    if (stat(dir, &st) < 0)
        return -errno;
    if ((st.st_uid != 0 && st.st_uid != geteuid()) || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return -EPERM;
    return make_link(dir, ret, size);
}

static int env_main(const struct verb *v, const struct globals *g, char **argv)
{
    struct env_args args = {.remote.globals = *g};
    char socket[REMOTE_PATH_MAX], link[CLI_PATH_MAX + 8];
    struct cli_dirs dirs;
    struct opt_rest rest;
    struct err err = ERR_NONE;
    bool named;
    int status, r;

    if (verb_begin(v, &args, argv, &rest, &status) == VERB_DONE)
        return status;
    if (rest.operands[0] != NULL)
        return cli_failf("docker-env: takes no operands");
    r = remote_socket(&args.remote, socket, &named, &err);
    if (r == 0)
        r = cli_dirs(g, &dirs, &err);
    if (r < 0)
        return cli_fail(&err);
    print_export("DOCKER_HOST", "unix://", socket);
    print_export("WRANGLER_DOCKER_HOST", "unix://", socket);
    r = link_beside(socket, link, sizeof(link));
    if (r < 0)
        r = make_link(dirs.state, link, sizeof(link));
    if (r == 0)
        print_export("WRANGLER_DOCKER_BIN", "", link);
    else
        (void)fprintf(stderr,
                      "rind: no link by the name docker could be made (%s): make one to rind "
                      "yourself, and set WRANGLER_DOCKER_BIN to it\n",
                      strerror(-r));
    return cli_flush(0);
}

const struct verb verb_docker_env = {
    .name = "docker-env",
    .operands = "",
    .summary = "Print the environment in which programs find rind for Docker",
    .details = details,
    .groups = groups,
    .examples = examples,
    .main = env_main,
};
