/* rind ps: lists running sandboxes, or all; with a name, the processes of that sandbox. */

#include <errno.h>
#include <stddef.h>
#include <stdio.h>

#include "base/auto.h"
#include "base/err.h"
#include "cli/foreign-options.h"
#include "cli/human.h"
#include "cli/listing.h"
#include "cli/text-table.h"
#include "cli/url.h"
#include "json/parse.h"

static const struct opt ps_options[] = {
    {.name = "all",
     .letter = 'a',
     .set = opt_flag,
     .off = offsetof(struct list_args, all),
     .help = "Also sandboxes that do not run: created, stopped, broken"},
    {0},
};
static const struct opt_group groups[] = {{.title = "States", .rows = ps_options},
                                          {.title = "Lists", .rows = list_options},
                                          FORMAT_GROUP,
                                          FOREIGN_GROUP(foreign_list_options),
                                          {0}};

static const char *const details[] = {
    "Without NAME: lists the sandboxes that run or are paused. One that was created and not "
    "started "
    "yet, or has stopped, is listed with --all, as rind ls does it.",
    "With NAME: lists what was started in that sandbox by request: its main process, commands of "
    "rind exec, and background processes. What these have started themselves is in "
    "`rind exec NAME -- ps`.",
    NULL,
};

/* ---- processes of one sandbox ---- */

/* Appends {kind, id, state, pid, command}; a missing value is null. */
static int add_row(json_t *rows, const char *kind, const json_t *id, const json_t *state,
                   const json_t *pid, json_t *command)
{
    json_t *row = json_pack("{s:s, s:O?, s:O?, s:O?, s:o?}", "kind", kind, "id", id, "state", state,
                            "pid", pid, "command", command);

    return json_array_append_new(rows, row);
}

static int add_main(struct client *c, const char *name, json_t *rows, struct err *err)
{
    auto_ptr(json_decref) json_t *sandbox = NULL;
    json_t *command;
    int r = remote_get(c, "/v1/sandboxes/%s", name, &sandbox, err);

    if (r < 0 || !json_is_integer(json_object_get(sandbox, "pid")))
        return r;
    command = json_object_get(json_object_get(sandbox, "spec"), "command");
    return add_row(rows, "main", NULL, json_object_get(sandbox, "state"),
                   json_object_get(sandbox, "pid"), json_incref(command));
}

static int add_execs(struct client *c, const char *name, json_t *rows, struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    json_t *e;
    size_t i;
    int r = remote_get(c, "/v1/sandboxes/%s/exec", name, &root, err);

    json_array_foreach(json_object_get(root, "execs"), i, e) {
        json_t *command = json_object_get(e, "command");

        if (r == 0)
            r = add_row(rows, "exec", json_object_get(e, "execId"), json_object_get(e, "state"),
                        json_object_get(e, "pid"),
                        json_is_string(command) ? json_pack("[O]", command) : NULL);
    }
    return r;
}

static int add_processes(struct client *c, const char *name, json_t *rows, struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    json_t *p;
    size_t i;
    int r = remote_get(c, "/v1/sandboxes/%s/processes", name, &root, err);

    json_array_foreach(json_object_get(root, "processes"), i, p)
        if (r == 0)
            r = add_row(rows, "process", json_object_get(p, "id"), json_object_get(p, "state"),
                        json_object_get(p, "pid"), json_incref(json_object_get(p, "argv")));
    return r;
}

static void add_command(struct text_table *t, const json_t *command)
{
    char text[TABLE_CELL_MAX] = "";
    size_t len = 0, i;
    json_t *word;

    json_array_foreach(command, i, word) {
        int n = snprintf(text + len, sizeof(text) - len, "%s%s", i > 0 ? " " : "",
                         json_string_value(word));

        len += n > 0 ? (size_t)n : 0;
        if (len >= sizeof(text))
            break;
    }
    table_add(t, text[0] != '\0' ? text : NULL);
}

static int print_rows(const json_t *rows)
{
    static const char *const titles[] = {"KIND", "ID", "STATE", "PID", "COMMAND", NULL};
    auto_table struct text_table *t = table_new(titles);
    json_t *row;
    size_t i;

    if (t == NULL)
        return -ENOMEM;
    json_array_foreach(rows, i, row) {
        json_int_t pid = json_integer_value(json_object_get(row, "pid"));

        table_add(t, member(row, "kind"));
        table_add(t, member(row, "id"));
        table_add(t, member(row, "state"));
        if (pid > 0)
            table_addf(t, "%lld", (long long)pid);
        else
            table_add(t, NULL);
        add_command(t, json_object_get(row, "command"));
    }
    return table_print(t, stdout);
}

static void print_ids(const json_t *rows)
{
    json_t *row;
    size_t i;

    json_array_foreach(rows, i, row)
        if (json_is_string(json_object_get(row, "id")))
            (void)printf("%s\n", member(row, "id"));
}

static int show_one(const struct list_args *args, const char *name)
{
    auto_client struct client *c = NULL;
    auto_ptr(json_decref) json_t *rows = json_array();
    struct err err = ERR_NONE;
    int r = remote_open(&args->remote, &c, &err);

    if (r == 0)
        r = add_main(c, name, rows, &err);
    if (r == 0)
        r = add_execs(c, name, rows, &err);
    if (r == 0)
        r = add_processes(c, name, rows, &err);
    if (r < 0)
        return err.code != 0 ? cli_fail(&err) : cli_failf("ps: out of memory");
    if (args->remote.json)
        print_json(json_incref(rows));
    else if (args->filter.quiet)
        print_ids(rows);
    else if (format_is_given(&args->remote) && format_list(&args->remote, rows, NULL, &err) < 0)
        return cli_fail(&err);
    else if (!format_is_given(&args->remote) && print_rows(rows) < 0)
        return cli_failf("ps: out of memory");
    return cli_flush(0);
}

/* ---- the verb ---- */

static int show_sandboxes(struct list_args *args)
{
    static const char *const states[] = {"starting", "running", "paused", "stopping"};
    struct err err = ERR_NONE;

    for (size_t i = 0; !args->all && i < sizeof(states) / sizeof(states[0]); i++)
        if (list_state(&args->filter, states[i], &err) < 0)
            return cli_fail(&err);
    return list_show(&args->remote, &args->filter);
}

static int show_ps(struct list_args *args, const char *name)
{
    if (name == NULL)
        return show_sandboxes(args);
    if (args->all || args->filter.query.len > 0)
        return cli_failf("ps: --all and --label choose sandboxes, which a NAME does, too");
    return show_one(args, name);
}

static int ps_main(const struct verb *v, const struct globals *g, char **argv)
{
    return list_main(v, g, argv, 1, show_ps);
}

const struct verb verb_ps = {
    .name = "ps",
    .operands = "[NAME]",
    .summary = "List the sandboxes that run, or what runs in one",
    .details = details,
    .groups = groups,
    .main = ps_main,
};
