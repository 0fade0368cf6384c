/* rind stop, rind restart: sends the stop signal, SIGKILL after the time-out, and restarts. */

#include <errno.h>
#include <stddef.h>

#include "base/err.h"
#include "cli/remote.h"
#include "spec/parse.h"

struct stop_args {
    struct remote remote; /* first */
    const char *verb;
    int64_t timeout_ms; /* -1: the sandbox's own time-out */
};

/* Parses as --timeout of rind run, but accepts 0, which kills at once. */
static int opt_timeout(void *target, const struct opt *o, const char *text, struct err *err)
{
    struct stop_args *args = target;

    (void)o;
    if (text[0] == '0' && text[1] == '\0') {
        args->timeout_ms = 0;
        return 0;
    }
    return parse_duration("timeout", text, &args->timeout_ms, err);
}

static const struct opt stop_options[] = {
    {.name = "timeout",
     .letter = 't',
     .arg = "TIME",
     .set = opt_timeout,
     .help = "From the stop signal to SIGKILL: seconds, or a number with ms, s, m, or h; 0 kills "
             "at once. Default: what the sandbox was created with (10 s)"},
    {.name = "time", .arg = "TIME", .set = opt_timeout, .flags = OPT_HIDDEN}, /* of docker */
    {0},
};
static const struct opt_group groups[] = {
    {.title = "Options", .rows = stop_options}, REMOTE_GROUP, {0}};

static const char *const stop_details[] = {
    "Sends each sandbox's main process its stop signal (SIGTERM unless it was created with "
    "another) "
    "and kills what is left when the time is over. Files are kept, for rind start, until rind rm. "
    "Ends when nothing of it runs any more. Several are stopped at the same time.",
    "A main process that does not handle its stop signal waits for the whole time: it is process 1 "
    "of its sandbox, to which signals without a handler do nothing. rind create --init puts a "
    "small "
    "init in front of it.",
    NULL,
};
static const char *const restart_details[] = {
    "As rind stop and rind start.",
    NULL,
};

static int send_stop(struct client *c, const char *name, void *data, struct err *err)
{
    const struct stop_args *args = data;
    json_t *body = NULL;

    if (args->timeout_ms >= 0) {
        body = json_pack("{s:I}", "timeoutMs", (json_int_t)args->timeout_ms);
        if (body == NULL)
            return err_errno(err, -ENOMEM, "stop");
    }
    return remote_post_send(c, name, args->verb, body, err);
}

static int stop_main(const struct verb *v, const struct globals *g, char **argv)
{
    struct stop_args args = {.remote.globals = *g, .verb = v->name, .timeout_ms = -1};
    char **names;
    int status;

    if (remote_begin(v, &args, argv, 1, REMOTE_ANY, "sandbox", &names, &status) == VERB_DONE)
        return status;
    return remote_each_at_once(&args.remote, names, send_stop, &args);
}

const struct verb verb_stop = {
    .name = "stop",
    .operands = "NAME...",
    .summary = "Stop sandboxes",
    .details = stop_details,
    .groups = groups,
    .main = stop_main,
};

const struct verb verb_restart = {
    .name = "restart",
    .operands = "NAME...",
    .summary = "Stop sandboxes and start them again",
    .details = restart_details,
    .groups = groups,
    .main = stop_main,
};
