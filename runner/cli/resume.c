/* rind resume: thaws frozen sandboxes. */

#include "base/err.h"
#include "cli/remote.h"

static const struct opt_group groups[] = {REMOTE_GROUP, {0}};

static const char *const details[] = {
    "Lets the processes of sandboxes that rind pause has frozen go on.",
    NULL,
};

static int resume_one(struct client *c, const char *name, void *args, json_t **ret, struct err *err)
{
    (void)args;
    return remote_post(c, name, "resume", NULL, ret, err);
}

static int resume_main(const struct verb *v, const struct globals *g, char **argv)
{
    struct remote args = {.globals = *g};
    char **names;
    int status;

    if (remote_begin(v, &args, argv, 1, REMOTE_ANY, "sandbox", &names, &status) == VERB_DONE)
        return status;
    return remote_each(&args, names, resume_one, NULL);
}

const struct verb verb_resume = {
    .name = "resume",
    .operands = "NAME...",
    .summary = "Let frozen sandboxes go on",
    .details = details,
    .groups = groups,
    .main = resume_main,
};
