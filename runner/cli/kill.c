/* rind kill: sends a signal to the main process. */

#include <errno.h>
#include <stddef.h>

#include "base/err.h"
#include "cli/remote.h"
#include "spec/signals.h"

struct kill_args {
    struct remote remote; /* first */
    int signo;
};

static int opt_signal(void *target, const struct opt *o, const char *text, struct err *err)
{
    (void)o;
    return signal_parse("signal", text, &((struct kill_args *)target)->signo, err);
}

static const struct opt kill_options[] = {
    {.name = "signal",
     .letter = 's',
     .arg = "SIGNAL",
     .set = opt_signal,
     .help = "A name or a number: HUP, SIGTERM, 15, RTMIN+3. Default: KILL"},
    {0},
};
static const struct opt_group groups[] = {
    {.title = "Options", .rows = kill_options}, REMOTE_GROUP, {0}};

static const char *const details[] = {
    "Sends a signal to the main process of each sandbox. When that ends, the sandbox stops. As "
    "process 1 it only gets signals that it catches, and SIGKILL.",
    NULL,
};

static int kill_one(struct client *c, const char *name, void *data, json_t **ret, struct err *err)
{
    json_t *body = json_pack("{s:i}", "signal", ((const struct kill_args *)data)->signo);

    if (body == NULL)
        return err_errno(err, -ENOMEM, "kill");
    return remote_post(c, name, "signal", body, ret, err);
}

static int kill_main(const struct verb *v, const struct globals *g, char **argv)
{
    struct kill_args args = {.remote.globals = *g, .signo = 9};
    char **names;
    int status;

    if (remote_begin(v, &args, argv, 1, REMOTE_ANY, "sandbox", &names, &status) == VERB_DONE)
        return status;
    return remote_each(&args.remote, names, kill_one, &args);
}

const struct verb verb_kill = {
    .name = "kill",
    .operands = "NAME...",
    .summary = "Send a signal to the main process of sandboxes",
    .details = details,
    .groups = groups,
    .main = kill_main,
};
