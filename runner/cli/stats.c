/* rind stats: prints resource usage of sandboxes, once or continuously. */

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "cli/human.h"
#include "cli/listing.h"
#include "cli/text-table.h"
#include "json/parse.h"

enum {
    INTERVAL_MS = 1000, /* time between two tables */
    FIRST_MS = 200,     /* time between the first two samples, which the first CPU share needs */
};

struct stats_args {
    struct remote remote; /* first */
    bool no_stream;
};

static const struct opt stats_options[] = {
    {.name = "no-stream",
     .set = opt_flag,
     .off = offsetof(struct stats_args, no_stream),
     .help = "Print once and end; what is not a terminal gets this, too, but for --json"},
    {0},
};
static const struct opt_group groups[] = {
    {.title = "Options", .rows = stats_options}, FORMAT_GROUP, {0}};

static const char *const details[] = {
    "Shows processor time, memory and processes of the sandboxes that run, or of those that are "
    "named, once a second until it is ended. CPU % is of one processor, since the line before.",
    "With --json each look is one line, an array with an object for each sandbox, also once a "
    "second until it is ended; `--json --no-stream` prints one and ends.",
    NULL,
};

/* ---- one sample ---- */

/* Appends one sandbox's usage, as the daemon reports it, with "id" and "name". */
static int stats_add(struct client *c, const json_t *sandbox, json_t *all, struct err *err)
{
    json_t *one = NULL;
    int r = remote_get(c, "/v1/sandboxes/%s/stats", member(sandbox, "id"), &one, err);

    if (r == -EBUSY || r == -ENOENT)
        return 0; /* the sandbox has stopped meanwhile */
    if (r < 0)
        return r;
    (void)json_object_set(one, "id", json_object_get(sandbox, "id"));
    (void)json_object_set(one, "name", json_object_get(sandbox, "name"));
    return json_array_append_new(all, one) < 0 ? err_errno(err, -ENOMEM, "stats") : 0;
}

static int stats_add_running(struct client *c, json_t *all, struct err *err)
{
    struct list_filter filter = {.query = BUF_INIT(4096)};
    auto_ptr(json_decref) json_t *list = NULL;
    json_t *sandbox;
    size_t i;
    int r = list_state(&filter, "running", err);

    if (r == 0)
        r = list_state(&filter, "paused", err);
    if (r == 0)
        r = list_get(c, &filter, &list, err);
    buf_done(&filter.query);
    json_array_foreach(list, i, sandbox)
        if (r == 0)
            r = stats_add(c, sandbox, all, err);
    return r;
}

static int stats_sample(struct client *c, char **names, json_t **ret, struct err *err)
{
    auto_ptr(json_decref) json_t *all = json_array();
    int r = 0;

    if (names[0] == NULL)
        r = stats_add_running(c, all, err);
    for (; r == 0 && *names != NULL; names++) {
        auto_ptr(json_decref) json_t *sandbox = NULL;

        r = remote_get(c, "/v1/sandboxes/%s", *names, &sandbox, err);
        if (r == 0)
            r = stats_add(c, sandbox, all, err);
    }
    if (r == 0)
        *ret = take(all);
    return r;
}

/* ---- CPU share ---- */

static const json_t *find_sandbox(const json_t *all, const char *id)
{
    json_t *one;
    size_t i;

    json_array_foreach(all, i, one)
        if (strcmp(member(one, "id"), id) == 0)
            return one;
    return NULL;
}

static json_int_t number_of(const json_t *one, const char *key)
{
    return json_integer_value(json_object_get(one, key));
}

/* Adds "cpuPercent" to sandboxes that are also in the sample before. */
static void add_shares(json_t *all, const json_t *before)
{
    json_t *one;
    size_t i;

    json_array_foreach(all, i, one) {
        const json_t *old = find_sandbox(before, member(one, "id"));
        int64_t ms = human_parse_time(member(one, "time")) -
                     (old != NULL ? human_parse_time(member(old, "time")) : 0);

        if (old == NULL || ms <= 0 || number_of(one, "cpuMicros") < number_of(old, "cpuMicros"))
            continue;
        (void)json_object_set_new(
            one, "cpuPercent",
            json_real((double)(number_of(one, "cpuMicros") - number_of(old, "cpuMicros")) / 10 /
                      (double)ms));
    }
}

/* ---- output ---- */

/* "12 MiB of 1 GiB". */
static void add_disk(struct text_table *t, const json_t *disk)
{
    char used[HUMAN_MAX], size[HUMAN_MAX];

    if (!json_is_object(disk)) {
        table_add(t, "no limit");
        return;
    }
    table_addf(t, "%s of %s", human_bytes((uint64_t)number_of(disk, "usedBytes"), used),
               human_bytes((uint64_t)number_of(disk, "sizeBytes"), size));
}

static int print_table(const json_t *all)
{
    static const char *const titles[] = {"ID",   "NAME", "CPU %",     "MEMORY", "PEAK",
                                         "PIDS", "DISK", "OOM KILLS", NULL};
    auto_table struct text_table *t = table_new(titles);
    char size[HUMAN_MAX];
    json_t *one;
    size_t i;

    if (t == NULL)
        return -ENOMEM;
    json_array_foreach(all, i, one) {
        json_t *share = json_object_get(one, "cpuPercent");

        table_add(t, member(one, "id"));
        table_add(t, member(one, "name"));
        if (share != NULL)
            table_addf(t, "%.1f", json_real_value(share));
        else
            table_add(t, NULL);
        table_add(t, human_bytes((uint64_t)number_of(one, "memoryBytes"), size));
        table_add(t, human_bytes((uint64_t)number_of(one, "memoryPeakBytes"), size));
        table_addf(t, "%lld", (long long)number_of(one, "pids"));
        add_disk(t, json_object_get(one, "disk"));
        table_addf(t, "%lld", (long long)number_of(one, "oomKills"));
    }
    return table_print(t, stdout);
}

static void row_bytes(json_t *row, const char *key, const json_t *one, const char *from)
{
    char size[HUMAN_MAX];

    row_text(row, key, human_bytes((uint64_t)number_of(one, from), size));
}

static json_t *stats_row(const json_t *one)
{
    json_t *row = row_new(one);
    char share[32];

    (void)snprintf(share, sizeof(share), "%.2f%%",
                   json_real_value(json_object_get(one, "cpuPercent")));
    row_text(row, "ID", member(one, "id"));
    row_text(row, "Name", member(one, "name"));
    row_text(row, "Container", member(one, "name"));
    row_text(row, "CPUPerc", share);
    row_bytes(row, "MemUsage", one, "memoryBytes");
    row_bytes(row, "MemPeak", one, "memoryPeakBytes");
    (void)json_object_set(row, "PIDs", json_object_get(one, "pids"));
    (void)json_object_set(row, "OOMKills", json_object_get(one, "oomKills"));
    return row;
}

static int print_sample(const struct stats_args *args, json_t *all, bool live, struct err *err)
{
    if (args->remote.json) {
        print_json_line(json_incref(all));
    } else if (format_is_given(&args->remote)) {
        int r = format_list(&args->remote, all, stats_row, err);

        if (r < 0)
            return r;
    } else {
        if (live)
            (void)fputs("\033[H\033[J", stdout); /* cursor home, clear to the end of the screen */
        if (print_table(all) < 0)
            return err_errno(err, -ENOMEM, "stats");
    }
    return fflush(stdout) == 0 ? 0 : err_errno(err, -errno, "standard output");
}

static int stats_run(const struct stats_args *args, char **names, struct err *err)
{
    bool live = !args->no_stream && !args->remote.json && isatty(STDOUT_FILENO) != 0;
    bool once = args->no_stream || (!live && !args->remote.json);
    auto_client struct client *c = NULL;
    auto_ptr(json_decref) json_t *before = NULL;
    int r = remote_open(&args->remote, &c, err), wait = FIRST_MS;

    if (r == 0)
        r = stats_sample(c, names, &before, err);
    while (r == 0) {
        json_t *now = NULL;

        (void)poll(NULL, 0, wait);
        r = stats_sample(c, names, &now, err);
        if (r < 0)
            break;
        add_shares(now, before);
        json_decref(before);
        before = now;
        r = print_sample(args, now, live, err);
        if (r < 0 || once)
            break;
        wait = INTERVAL_MS;
    }
    return r;
}

static int stats_main(const struct verb *v, const struct globals *g, char **argv)
{
    struct stats_args args = {.remote.globals = *g};
    struct err err = ERR_NONE;
    char **names;
    int status;

    if (remote_begin(v, &args, argv, 0, REMOTE_ANY, "", &names, &status) == VERB_DONE)
        return status;
    return cli_flush(stats_run(&args, names, &err) < 0 ? cli_fail(&err) : 0);
}

const struct verb verb_stats = {
    .name = "stats",
    .operands = "[NAME...]",
    .summary = "Show what sandboxes use",
    .details = details,
    .groups = groups,
    .main = stats_main,
};
