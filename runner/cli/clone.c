/* rind clone: makes another sandbox with the same files. */

#include <errno.h>
#include <stddef.h>
#include <stdio.h>

#include "base/auto.h"
#include "base/err.h"
#include "cli/remote.h"
#include "json/parse.h"

struct clone_args {
    struct remote remote; /* first */
    bool start;
};

static const struct opt clone_options[] = {
    {.name = "start",
     .set = opt_flag,
     .off = offsetof(struct clone_args, start),
     .help = "Also start it"},
    {0},
};
static const struct opt_group groups[] = {
    {.title = "Options", .rows = clone_options}, REMOTE_GROUP, {0}};

static const char *const details[] = {
    "Makes a sandbox with the files and the options of SANDBOX, which is paused meanwhile where it "
    "runs, and prints its name. Anonymous volumes are copied, named ones are shared, published "
    "ports "
    "get other numbers. Processes are not copied.",
    NULL,
};

static int clone_sandbox(const struct clone_args *args, char **names, struct err *err)
{
    auto_client struct client *c = NULL;
    auto_ptr(json_decref) json_t *made = NULL;
    json_t *body = json_pack("{s:b}", "start", (int)args->start);
    int r = 0;

    if (names[1] != NULL && json_object_set_new(body, "name", json_string(names[1])) < 0)
        r = err_set(err, -EINVAL, "name '%.64s': is not UTF-8", names[1]);
    if (r == 0)
        r = remote_open(&args->remote, &c, err);
    if (r < 0) {
        json_decref(body);
        return r;
    }
    r = remote_post(c, names[0], "clone", body, &made, err);
    if (r < 0)
        return r;
    if (args->remote.json)
        print_json(json_incref(made));
    else
        (void)printf("%s\n", member(made, "name"));
    return 0;
}

static int clone_main(const struct verb *v, const struct globals *g, char **argv)
{
    struct clone_args args = {.remote.globals = *g};
    struct err err = ERR_NONE;
    char **names;
    int status;

    if (remote_begin(v, &args, argv, 1, 2, "sandbox", &names, &status) == VERB_DONE)
        return status;
    return cli_flush(clone_sandbox(&args, names, &err) < 0 ? cli_fail(&err) : 0);
}

const struct verb verb_clone = {
    .name = "clone",
    .operands = "SANDBOX [NAME]",
    .summary = "Make another sandbox with the same files",
    .details = details,
    .groups = groups,
    .main = clone_main,
};
