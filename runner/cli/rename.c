/* rind rename: gives a sandbox another name. */

#include <errno.h>

#include "base/auto.h"
#include "base/err.h"
#include "cli/remote.h"
#include "json/parse.h"

static const struct opt_group groups[] = {REMOTE_GROUP, {0}};

static const char *const details[] = {
    "Gives a sandbox in any state another name. Its id stays, and what names it by that. The names "
    "by which members of its network find it are the new ones from its next start on.",
    NULL,
};

static int rename_main(const struct verb *v, const struct globals *g, char **argv)
{
    auto_client struct client *c = NULL;
    auto_ptr(json_decref) json_t *root = NULL;
    struct remote args = {.globals = *g};
    struct err err = ERR_NONE;
    json_t *body;
    char **names;
    int status, r;

    if (remote_begin(v, &args, argv, 2, 2, "sandbox and new name", &names, &status) == VERB_DONE)
        return status;
    if (remote_open(&args, &c, &err) < 0)
        return cli_fail(&err);
    body = json_pack("{s:s}", "name", names[1]);
    if (body == NULL)
        return cli_failf("%.64s: is not UTF-8, which the daemon's API needs", names[1]);
    r = remote_post(c, names[0], "rename", body, &root, &err);
    if (r < 0)
        return cli_fail(&err);
    if (args.json)
        print_json_line(json_incref(root));
    else
        (void)printf("%s\n", names[1]);
    return cli_flush(0);
}

const struct verb verb_rename = {
    .name = "rename",
    .operands = "NAME NEW-NAME",
    .summary = "Give a sandbox another name",
    .details = details,
    .groups = groups,
    .main = rename_main,
};
