/* rind create: makes a sandbox that the daemon keeps. */

#include <errno.h>
#include <stddef.h>
#include <stdio.h>

#include "base/auto.h"
#include "base/err.h"
#include "cli/foreign-options.h"
#include "cli/spec-options.h"
#include "json/parse.h"
#include "spec/spec.h"

static int opt_attach(void *target, const struct opt *o, const char *text, struct err *err)
{
    (void)o;
    (void)text;
    (void)err;
    ((struct sandbox_args *)target)->spec->attach = true;
    return 0;
}

static const struct opt create_options[] = {
    {.name = "attach",
     .letter = 'a',
     .set = opt_attach,
     .help = "Hand the command's output to who attaches (rind attach, rind start --attach) instead "
             "of to a log; --tty and --interactive imply it. It waits while no client is attached"},
    {0},
};

static const struct opt_group groups[] = {
    {.title = "The command", .rows = command_options},
    {.title = "Files", .rows = root_options},
    {.title = "Limits", .rows = limit_options},
    {.title = "Isolation", .rows = isolation_options},
    {.title = "Keeping", .rows = kept_options},
    {.title = "Output", .rows = create_options},
    REMOTE_GROUP,
    FOREIGN_GROUP(foreign_run_options),
    {0},
};

static const char *const details[] = {
    "Makes a sandbox that the daemon keeps, with its files, until rind rm, and prints its id. CMD "
    "is "
    "its main process, which rind start starts; what it says goes to a log (rind logs). Without "
    "CMD "
    "the sandbox is there for rind exec and rind cp.",
    NULL,
};

static const struct example examples[] = {
    {"rind create --name web -v /srv/www:/srv:ro -- httpd -f", "a server, not started yet"},
    {"rind create --name box && rind exec -it box sh", "a place to work in"},
    {0},
};

static int create_sandbox(struct sandbox_args *args, char **operands, bool dashes, struct err *err)
{
    auto_client struct client *c = NULL;
    auto_ptr(json_decref) json_t *root = NULL;
    json_t *body = NULL;
    int r = 0;

    if (operands[0] != NULL)
        r = spec_operands(args->spec, operands, dashes, err);
    if (r == 0)
        r = spec_validate_kept(args->spec, err);
    if (r == 0)
        r = spec_check_remove(args, err);
    if (r == 0)
        r = spec_request(args->spec, &body, err);
    if (r < 0)
        return r;
    (void)json_object_set_new(body, "autoRemove", json_boolean(args->remove));
    r = cidfile_open(&args->cidfile, err);
    if (r == 0)
        r = remote_open(&args->remote, &c, err);
    if (r < 0) {
        json_decref(body);
        return r;
    }
    r = client_json(c, "POST", "/v1/sandboxes", body, &root, err);
    if (r == 0)
        r = cidfile_write(&args->cidfile, member(root, "id"), err);
    if (r < 0)
        return r;
    if (args->remote.json)
        print_json(json_incref(root));
    else
        (void)printf("%s\n", member(root, "id"));
    return 0;
}

static int create_main(const struct verb *v, const struct globals *g, char **argv)
{
    struct sandbox_args args = {.remote.globals = *g, .spec = spec_new(), .cidfile.fd = FD_NONE};
    struct err err = ERR_NONE;
    struct opt_rest rest;
    int status;

    if (args.spec == NULL)
        return cli_failf("out of memory");
    if (verb_begin(v, &args, argv, &rest, &status) == VERB_GO)
        status = create_sandbox(&args, rest.operands, rest.dashes, &err) < 0
                     ? cli_fail_image(&err, &rest)
                     : cli_flush(0);
    cidfile_done(&args.cidfile);
    spec_free(args.spec);
    return status;
}

const struct verb verb_create = {
    .name = "create",
    .operands = "[IMAGE [CMD [ARG...]]] | [-- CMD [ARG...]]",
    .summary = "Make a sandbox that is kept",
    .details = details,
    .groups = groups,
    .examples = examples,
    .takes_command = true,
    .main = create_main,
};
