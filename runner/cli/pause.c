/* rind pause: freezes sandboxes. */

#include "base/err.h"
#include "cli/remote.h"

static const struct opt_group groups[] = {REMOTE_GROUP, {0}};

static const char *const details[] = {
    "Freezes every process of each sandbox, until rind resume. Files can still be copied.",
    NULL,
};

static int pause_one(struct client *c, const char *name, void *args, json_t **ret, struct err *err)
{
    (void)args;
    return remote_post(c, name, "pause", NULL, ret, err);
}

static int pause_main(const struct verb *v, const struct globals *g, char **argv)
{
    struct remote args = {.globals = *g};
    char **names;
    int status;

    if (remote_begin(v, &args, argv, 1, REMOTE_ANY, "sandbox", &names, &status) == VERB_DONE)
        return status;
    return remote_each(&args, names, pause_one, NULL);
}

const struct verb verb_pause = {
    .name = "pause",
    .operands = "NAME...",
    .summary = "Freeze sandboxes",
    .details = details,
    .groups = groups,
    .main = pause_main,
};
