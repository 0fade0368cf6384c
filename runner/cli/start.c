/* rind start: starts the main process of sandboxes. */

#include "base/err.h"
#include "cli/remote.h"

static const struct opt_group groups[] = {REMOTE_GROUP, {0}};

static const char *const details[] = {
    "Starts the main process of each sandbox that was created or has stopped. What it has written "
    "to its files before is still there.",
    NULL,
};

static int start_one(struct client *c, const char *name, void *args, json_t **ret, struct err *err)
{
    (void)args;
    return remote_post(c, name, "start", NULL, ret, err);
}

static int start_main(const struct verb *v, const struct globals *g, char **argv)
{
    struct remote args = {.globals = *g};
    char **names;
    int status;

    if (remote_begin(v, &args, argv, 1, REMOTE_ANY, "sandbox", &names, &status) == VERB_DONE)
        return status;
    return remote_each(&args, names, start_one, NULL);
}

const struct verb verb_start = {
    .name = "start",
    .operands = "NAME...",
    .summary = "Start sandboxes",
    .details = details,
    .groups = groups,
    .main = start_main,
};
