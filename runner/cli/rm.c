/* rind rm: removes sandboxes with their files. */

#include <errno.h>
#include <stddef.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "cli/remote.h"
#include "cli/url.h"

struct rm_args {
    struct remote remote; /* first */
    bool force, volumes;
};

static const struct opt rm_options[] = {
    {.name = "force",
     .letter = 'f',
     .set = opt_flag,
     .off = offsetof(struct rm_args, force),
     .help = "Also those that run: they are killed"},
    {.name = "volumes", /* of docker; anonymous volumes go with their sandbox in any case */
     .letter = 'v',
     .set = opt_flag,
     .off = offsetof(struct rm_args, volumes),
     .flags = OPT_HIDDEN},
    {0},
};
static const struct opt_group groups[] = {
    {.title = "Options", .rows = rm_options}, REMOTE_GROUP, {0}};

static const char *const details[] = {
    "Removes each sandbox with all of its files. One that runs is refused without --force.",
    NULL,
};

static int rm_one(struct client *c, const char *name, void *data, json_t **ret, struct err *err)
{
    const struct rm_args *args = data;
    auto_buf struct buf url = BUF_INIT(URL_MAX);
    struct err copy;
    int r = url_make(&url, args->force ? "/v1/sandboxes/%s?force=true" : "/v1/sandboxes/%s", name);

    if (r < 0)
        return err_errno(err, r, "sandbox '%.64s'", name);
    r = client_json(c, "DELETE", url.data, NULL, ret, err);
    if (r != -EBUSY || args->force)
        return r;
    copy = *err;
    return err_set(err, r, "%s; rind rm --force kills and removes it", copy.msg);
}

static int rm_main(const struct verb *v, const struct globals *g, char **argv)
{
    struct rm_args args = {.remote.globals = *g};
    char **names;
    int status;

    if (remote_begin(v, &args, argv, 1, REMOTE_ANY, "sandbox", &names, &status) == VERB_DONE)
        return status;
    return remote_each(&args.remote, names, rm_one, &args);
}

const struct verb verb_rm = {
    .name = "rm",
    .operands = "NAME...",
    .summary = "Remove sandboxes with their files",
    .details = details,
    .groups = groups,
    .main = rm_main,
};
