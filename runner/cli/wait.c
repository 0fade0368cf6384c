/* rind wait: waits for main processes to end. */

#include <errno.h>

#include "base/auto.h"
#include "base/err.h"
#include "cli/remote.h"
#include "json/parse.h"

static const struct opt_group groups[] = {REMOTE_GROUP, {0}};

static const char *const details[] = {
    "Waits until the main process of each sandbox has ended, in their order, and prints each "
    "exit code. Ends with the last one's: 128 + n when it was ended by signal n. The exit code of "
    "one that has ended already is there at once.",
    NULL,
};

static int wait_all(struct client *c, const struct remote *args, char **names)
{
    struct err err = ERR_NONE;
    int status = 0;

    for (; *names != NULL; names++) {
        json_t *root = NULL;

        if (remote_get(c, "/v1/sandboxes/%s/wait", *names, &root, &err) < 0) {
            status = cli_fail(&err);
            continue;
        }
        status = (int)json_integer_value(json_object_get(root, "exitCode"));
        if (args->json) {
            (void)json_object_set_new(root, "name", json_string(*names));
            print_json_line(root);
            continue;
        }
        (void)printf("%d\n", status);
        json_decref(root);
    }
    return cli_flush(status);
}

static int wait_main(const struct verb *v, const struct globals *g, char **argv)
{
    auto_client struct client *c = NULL;
    struct remote args = {.globals = *g};
    struct err err = ERR_NONE;
    char **names;
    int status;

    if (remote_begin(v, &args, argv, 1, REMOTE_ANY, "sandbox", &names, &status) == VERB_DONE)
        return status;
    if (remote_open(&args, &c, &err) < 0)
        return cli_fail(&err);
    return wait_all(c, &args, names);
}

const struct verb verb_wait = {
    .name = "wait",
    .operands = "NAME...",
    .summary = "Wait for sandboxes to end, and end with their exit code",
    .details = details,
    .groups = groups,
    .command_exit = true,
    .main = wait_main,
};
