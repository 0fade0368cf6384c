/* rind diff: lists what a sandbox has changed against its root file system. */

#include <errno.h>
#include <stdio.h>

#include "base/auto.h"
#include "base/err.h"
#include "cli/remote.h"
#include "cli/text-table.h"
#include "json/parse.h"

static const struct opt_group groups[] = {REMOTE_GROUP, {0}};

static const char *const details[] = {
    "Lists what was added, changed or deleted since the sandbox was created, in its own layer: not "
    "in volumes and tmpfs. A directory is changed when something in it is. The sandbox may run.",
    NULL,
};

static const struct example examples[] = {
    {"rind diff web", "what it has written"},
    {0},
};

static int print_changes(const json_t *list)
{
    static const char *const titles[] = {"CHANGE", "PATH", NULL};
    auto_table struct text_table *t = table_new(titles);
    json_t *one;
    size_t i;

    if (t == NULL)
        return -ENOMEM;
    json_array_foreach(list, i, one) {
        table_add(t, member(one, "kind"));
        table_add(t, member(one, "path"));
    }
    return table_print(t, stdout);
}

static int diff_main(const struct verb *v, const struct globals *g, char **argv)
{
    auto_client struct client *c = NULL;
    auto_ptr(json_decref) json_t *root = NULL;
    struct remote args = {.globals = *g};
    struct err err = ERR_NONE;
    char **names;
    int status, r;

    if (remote_begin(v, &args, argv, 1, 1, "sandbox", &names, &status) == VERB_DONE)
        return status;
    r = remote_open(&args, &c, &err);
    if (r == 0)
        r = remote_get(c, "/v1/sandboxes/%s/changes", names[0], &root, &err);
    if (r < 0)
        return cli_fail(&err);
    if (args.json)
        print_json(json_incref(json_object_get(root, "changes")));
    else if (print_changes(json_object_get(root, "changes")) < 0)
        return cli_failf("diff: out of memory");
    return cli_flush(0);
}

const struct verb verb_diff = {
    .name = "diff",
    .operands = "NAME",
    .summary = "List the files that a sandbox has changed",
    .details = details,
    .groups = groups,
    .examples = examples,
    .main = diff_main,
};
