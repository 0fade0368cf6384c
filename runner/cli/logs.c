/* rind logs: prints the output of a main process or background process. */

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/number.h"
#include "base/rfc3339.h"
#include "cli/console-print.h"
#include "cli/foreign-options.h"
#include "cli/human.h"
#include "cli/log-print.h"
#include "cli/remote.h"
#include "json/parse.h"
#include "spec/parse.h"

struct logs_args {
    struct remote remote; /* first */
    struct log_reader reader;
    bool follow;
};

static int opt_offset(void *target, const struct opt *o, const char *text, struct err *err)
{
    if (text[0] == '\0' || strlen(text) > 18 || strspn(text, "0123456789") != strlen(text))
        return err_set(err, -EINVAL, "\"%.64s\" is no number of bytes", text);
    *(const char **)(void *)((char *)target + o->off) = text;
    return 0;
}

static int opt_tail(void *target, const struct opt *o, const char *text, struct err *err)
{
    if (number_whole(text, NUMBER_DIGITS_MAX) < 0)
        return err_set(err, -EINVAL, "\"%.64s\" is no number of lines", text);
    *(const char **)(void *)((char *)target + o->off) = text;
    return 0;
}

/* A time (RFC 3339), seconds since the epoch, or how long ago ("10m"), as docker takes it. */
static int opt_time(void *target, const struct opt *o, const char *text, struct err *err)
{
    int64_t *ret = (int64_t *)(void *)((char *)target + o->off), ms = 0;
    struct timespec t;
    size_t digits = strspn(text, "0123456789");

    if (digits >= 9 && digits <= 12 && text[digits] == '\0')
        *ret = (int64_t)number_whole(text, NUMBER_DIGITS_MAX) * 1000;
    else if (digits >= 4 && text[digits] == '-' && rfc3339_parse(text, &t) == 0)
        *ret = (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
    else if (parse_duration(o->name, text, &ms, NULL) == 0)
        *ret = clock_wall_ms() - ms;
    else
        return err_set(err, -EINVAL,
                       "\"%.64s\": must be how long ago (10m), a time (2006-01-02T15:04:05Z), or "
                       "seconds since 1970",
                       text);
    if (*ret < 1)
        *ret = 1;
    return 0;
}

static const struct opt logs_options[] = {
    {.name = "follow",
     .letter = 'f',
     .set = opt_flag,
     .off = offsetof(struct logs_args, follow),
     .help = "Go on with what follows, until the process has ended"},
    {.name = "tail",
     .letter = 'n',
     .arg = "LINES",
     .set = opt_tail,
     .off = offsetof(struct logs_args, reader.tail),
     .help = "Begin with so many last lines of each of the two"},
    {.name = "timestamps",
     .letter = 't',
     .set = opt_flag,
     .off = offsetof(struct logs_args, reader.timestamps),
     .help = "Begin each line with the time at which it came; of a log with times"},
    {.name = "since",
     .arg = "TIME",
     .set = opt_time,
     .off = offsetof(struct logs_args, reader.since_ms),
     .help =
         "Only what came since TIME: how long ago (10m), 2006-01-02T15:04:05Z, or seconds since "
         "1970"},
    {.name = "until",
     .arg = "TIME",
     .set = opt_time,
     .off = offsetof(struct logs_args, reader.until_ms),
     .help = "Only what came until TIME"},
    {.name = "stdout",
     .set = opt_flag,
     .off = offsetof(struct logs_args, reader.out),
     .help = "Only standard output"},
    {.name = "stderr",
     .set = opt_flag,
     .off = offsetof(struct logs_args, reader.errors),
     .help = "Only standard error"},
    {.name = "stdout-offset",
     .arg = "BYTES",
     .set = opt_offset,
     .off = offsetof(struct logs_args, reader.out_offset),
     .help = "Leave out so many bytes from the beginning of standard output"},
    {.name = "stderr-offset",
     .arg = "BYTES",
     .set = opt_offset,
     .off = offsetof(struct logs_args, reader.errors_offset),
     .help = "The same of standard error"},
    {.name = "last-run",
     .set = opt_flag,
     .off = offsetof(struct logs_args, reader.last_run),
     .help = "Of a main process only what its last run has said"},
    {0},
};
static const struct opt_group groups[] = {{.title = "Options", .rows = logs_options},
                                          REMOTE_GROUP,
                                          FOREIGN_GROUP(foreign_logs_options),
                                          {0}};

static const char *const details[] = {
    "Prints what the main process of a sandbox has said, or the background process PROCESS: its "
    "standard output on standard output, its standard error on standard error. The daemon keeps "
    "the last megabyte of each; what was lost before is told. A main process's log goes on from "
    "run to run: what the one before a restart has said last is there, too.",
    "With --follow it goes on over a restart of the daemon, with no gap and nothing twice.",
    "Of a sandbox that was made with --log-times, or over Docker's API, it is the log of its "
    "console, "
    "which has lines with times, and no offsets. The other logs are bytes without times: --since "
    "and "
    "--until are answered where the sandbox's own times say it, as when it was made since then, "
    "and "
    "refused else.",
    NULL,
};

static const struct example examples[] = {
    {"rind logs -f web", "follow what a server says"},
    {"rind logs -t --since 10m web", "the last ten minutes, with times"},
    {"rind logs -n 20 --last-run web", "the end of what it has said since it was started last"},
    {0},
};

/*
 * Answers --since and --until of a log without times by the times of the sandbox: LOG_ALL,
 * LOG_NONE, or an error if a part would have to be chosen.
 */
enum log_part { LOG_ALL = 0, LOG_NONE };

static int log_part(const struct log_reader *l, const json_t *sandbox, bool follow, struct err *err)
{
    int64_t begin = human_parse_time(json_string_value(json_object_get(sandbox, "createdAt")));
    int64_t end = human_parse_time(json_string_value(json_object_get(sandbox, "finishedAt")));
    bool over = end > 0 && strcmp(member(sandbox, "state"), "stopped") == 0;

    if (l->timestamps)
        return err_set(err, -EOPNOTSUPP,
                       "--timestamps: this log is bytes without times; a sandbox made with "
                       "--log-times has them");
    if (over && l->since_ms > end && !follow)
        return LOG_NONE;
    if (l->until_ms != 0 && l->until_ms < begin)
        return LOG_NONE;
    if ((l->since_ms == 0 || l->since_ms <= begin) &&
        (l->until_ms == 0 || (over ? l->until_ms >= end : l->until_ms >= clock_wall_ms())))
        return LOG_ALL;
    return err_set(
        err, -EOPNOTSUPP,
        "%s: this log is bytes without times, and it goes on over that time; a sandbox "
        "made with --log-times has them; --last-run and --tail choose a part of this one",
        l->since_ms > begin ? "--since" : "--until");
}

/* The main process may have a console log instead of its own. */
static int print_main(struct logs_args *args, const char *name, struct err *err)
{
    auto_client struct client *c = NULL;
    auto_ptr(json_decref) json_t *sandbox = NULL;
    int r = remote_open(&args->remote, &c, err);

    if (r == 0)
        r = remote_get(c, "/v1/sandboxes/%s", name, &sandbox, err);
    if (r < 0)
        return r;
    if (has_console(sandbox))
        return console_print(&args->reader, c, sandbox, args->follow, err);
    r = log_part(&args->reader, sandbox, args->follow, err);
    if (r != LOG_ALL)
        return r < 0 ? r : 0;
    return (args->follow ? log_print_follow : log_print_kept)(&args->reader, name, "main", err);
}

static int logs_main(const struct verb *v, const struct globals *g, char **argv)
{
    struct logs_args args = {.remote.globals = *g};
    struct err err = ERR_NONE;
    char **names;
    int status, r;

    if (remote_begin(v, &args, argv, 1, 2, "sandbox", &names, &status) == VERB_DONE)
        return status;
    args.reader.remote = &args.remote;
    if (!args.reader.out && !args.reader.errors)
        args.reader.out = args.reader.errors = true;
    if (names[1] != NULL && strcmp(names[1], "main") != 0 &&
        (args.reader.timestamps || args.reader.since_ms != 0 || args.reader.until_ms != 0))
        return cli_failf("logs: the log of a background process has no times; leave --timestamps, "
                         "--since and --until out");
    if (names[1] == NULL || strcmp(names[1], "main") == 0)
        r = print_main(&args, names[0], &err);
    else
        r = (args.follow ? log_print_follow : log_print_kept)(&args.reader, names[0], names[1],
                                                              &err);
    return cli_flush(r < 0 ? cli_fail(&err) : 0);
}

const struct verb verb_logs = {
    .name = "logs",
    .operands = "NAME [PROCESS]",
    .summary = "Show what a sandbox's main process has said",
    .details = details,
    .groups = groups,
    .examples = examples,
    .main = logs_main,
};
