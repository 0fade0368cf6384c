/* rind inspect: prints all data of sandboxes as JSON. */

#include <errno.h>
#include <stddef.h>

#include "base/auto.h"
#include "base/err.h"
#include "cli/foreign-options.h"
#include "cli/list-format.h"
#include "cli/remote.h"
#include "json/parse.h"

static const struct opt inspect_options[] = {
    {.name = "format",
     .letter = 'f',
     .arg = "TEMPLATE",
     .set = opt_text,
     .off = offsetof(struct remote, format),
     .help = "Print a line for each by a template, such as '{{.state}}'"},
    {0},
};
static const struct opt_group groups[] = {{.title = "Options", .rows = inspect_options},
                                          REMOTE_GROUP,
                                          FOREIGN_GROUP(foreign_inspect_options),
                                          {0}};

static const char *const details[] = {
    "Prints one JSON array with an object for each sandbox: its state, the times and the exit code "
    "of its last run, and under \"spec\" what it was created with. --json makes no difference.",
    NULL,
};

static const struct example examples[] = {
    {"rind inspect -f '{{.state}} {{.spec.command}}' web", "state and command"},
    {"rind inspect web | jq -r '.[0].state'", "the state alone"},
    {0},
};

static int inspect_main(const struct verb *v, const struct globals *g, char **argv)
{
    auto_client struct client *c = NULL;
    struct remote args = {.globals = *g};
    json_t *all;
    struct err err = ERR_NONE;
    char **names;
    int status = 0;

    if (remote_begin(v, &args, argv, 1, REMOTE_ANY, "sandbox", &names, &status) == VERB_DONE)
        return status;
    if (remote_open(&args, &c, &err) < 0)
        return cli_fail(&err);
    all = json_array();
    for (status = 0; *names != NULL; names++) {
        json_t *one = NULL;

        if (remote_get(c, "/v1/sandboxes/%s", *names, &one, &err) < 0 ||
            (args.format != NULL && format_one(&args, one, &err) < 0)) {
            status = one != NULL || err.code != -ENOENT
                         ? cli_fail(&err)
                         : cli_failf("%s; of others: rind images inspect, volume inspect, network "
                                     "inspect",
                                     err.msg);
            json_decref(one);
        } else if (json_array_append_new(all, one) < 0)
            status = cli_failf("inspect: out of memory");
    }
    if (args.format == NULL)
        print_json(all);
    else
        json_decref(all);
    return cli_flush(status);
}

const struct verb verb_inspect = {
    .name = "inspect",
    .operands = "NAME...",
    .summary = "Show all about sandboxes as JSON",
    .details = details,
    .groups = groups,
    .examples = examples,
    .main = inspect_main,
};
