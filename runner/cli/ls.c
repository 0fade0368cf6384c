/* rind ls: lists sandboxes. */

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "cli/foreign-options.h"
#include "cli/human.h"
#include "cli/listing.h"
#include "cli/text-table.h"
#include "cli/url.h"
#include "json/parse.h"
#include "sys/users.h"

enum { PORTS_MAX = 16 << 10 /* bytes of one sandbox's ports as text */ };

static int add_filter(struct list_filter *f, const char *key, const char *value, struct err *err)
{
    int r = buf_append_str(&f->query, f->query.len == 0 ? "?" : "&");

    if (r == 0)
        r = buf_append_str(&f->query, key);
    if (r == 0)
        r = url_add(&f->query, value);
    return r < 0 ? err_errno(err, r, "%s%.64s", key, value) : 0;
}

int list_state(struct list_filter *f, const char *state, struct err *err)
{
    return add_filter(f, "state=", state, err);
}

int list_get(struct client *c, const struct list_filter *f, json_t **ret, struct err *err)
{
    auto_buf struct buf url = BUF_INIT(URL_MAX);
    auto_ptr(json_decref) json_t *root = NULL;
    json_t *list;
    int r = buf_append_str(&url, "/v1/sandboxes");

    if (r == 0 && f->query.len > 0)
        r = buf_append_str(&url, f->query.data);
    if (r < 0)
        return err_errno(err, r, "filters");
    r = client_json(c, "GET", url.data, NULL, &root, err);
    if (r < 0)
        return r;
    list = json_object_get(root, "sandboxes");
    if (!json_is_array(list))
        return err_set(err, -EPROTO, "the daemon's list of sandboxes is none");
    *ret = json_incref(list);
    return 0;
}

enum { STATUS_MAX = TABLE_CELL_MAX * 4, COMMAND_SHOWN = 32 /* characters in the table */ };

/* "running 5 min (healthy)", "stopped (137)", with docker's words for health. */
static const char *status_text(const json_t *s, int64_t now, char ret[STATUS_MAX])
{
    const char *state = member(s, "state");
    const json_t *health = json_object_get(s, "health");
    json_t *code = json_object_get(s, "exitCode");
    char ago[HUMAN_MAX];
    int len;

    if (json_is_string(json_object_get(s, "error")) && member(s, "error")[0] != '\0')
        len = snprintf(ret, STATUS_MAX, "%s: %s", state, member(s, "error"));
    else if (json_is_integer(code))
        len = snprintf(ret, STATUS_MAX, "%s (%d%s)", state, (int)json_integer_value(code),
                       json_is_true(json_object_get(s, "oomKilled")) ? ", out of memory" : "");
    else if (json_is_string(json_object_get(s, "startedAt")))
        len =
            snprintf(ret, STATUS_MAX, "%s %s", state, human_ago(member(s, "startedAt"), now, ago));
    else
        len = snprintf(ret, STATUS_MAX, "%s", state);
    if (json_is_object(health) && strcmp(state, "running") == 0 && len > 0 && len < STATUS_MAX)
        (void)snprintf(ret + len, STATUS_MAX - (size_t)len, " (%s%s)",
                       strcmp(member(health, "status"), "starting") == 0 ? "health: " : "",
                       member(health, "status"));
    return ret;
}

/* Published ports that are open: "127.0.0.1:8000->80, [::1]:53->53/udp". */
static int ports_text(const json_t *s, struct buf *b)
{
    json_t *port;
    size_t i;
    int r = buf_append_str(b, "");

    json_array_foreach(json_object_get(s, "ports"), i, port) {
        const char *host = member(port, "hostAddress");
        const json_t *number = json_object_get(port, "hostPort");
        bool six = strchr(host, ':') != NULL;

        if (!json_is_integer(number))
            continue;
        r = buf_printf(b, "%s%s%s%s:%d->%d%s", b->len > 0 ? ", " : "", six ? "[" : "", host,
                       six ? "]" : "", (int)json_integer_value(number),
                       (int)json_integer_value(json_object_get(port, "port")),
                       strcmp(member(port, "protocol"), "udp") == 0 ? "/udp" : "");
        if (r < 0)
            break;
    }
    return r;
}

/* The command, cut for the table as docker cuts it. whole: not cut. */
static void add_command(struct text_table *t, const json_t *s, bool whole)
{
    const char *command = json_string_value(json_object_get(s, "command"));
    size_t shown = 0, at = 0;

    if (command == NULL || whole) {
        table_add(t, command);
        return;
    }
    while (command[at] != '\0' && shown < COMMAND_SHOWN)
        shown += ((unsigned char)command[++at] & 0xc0) != 0x80;
    table_addf(t, "%.*s%s", (int)at, command, command[at] != '\0' ? "..." : "");
}

/* True if the sandboxes listed are not all of one user. */
static bool any_owners(const json_t *list)
{
    json_t *s;
    size_t i;

    json_array_foreach(list, i, s)
        if (!json_equal(json_object_get(s, "owner"),
                        json_object_get(json_array_get(list, 0), "owner")))
            return true;
    return false;
}

static void add_owner(struct text_table *t, const json_t *s)
{
    const json_t *owner = json_object_get(s, "owner");
    char name[HUMAN_MAX] = "";

    if (json_is_integer(owner))
        host_user_name((uid_t)json_integer_value(owner), name, sizeof(name));
    if (name[0] == '\0' && json_is_integer(owner))
        table_addf(t, "%lld", (long long)json_integer_value(owner));
    else
        table_add(t, name[0] != '\0' ? name : NULL);
}

/*
 * Columns are only added behind the others, as programs read the first ones by their number.
 */
static int list_print_columns(const json_t *list, bool whole)
{
    const bool owners = any_owners(list);
    const char *const titles[] = {"ID",      "NAME",     "STATUS",
                                  "CREATED", "RESTARTS", "PORTS",
                                  "IMAGE",   "COMMAND",  owners ? "OWNER" : NULL,
                                  NULL};
    auto_table struct text_table *t = table_new(titles);
    int64_t now = clock_wall_ms();
    char ago[HUMAN_MAX], status[STATUS_MAX];
    json_t *s;
    size_t i;

    if (t == NULL)
        return -ENOMEM;
    json_array_foreach(list, i, s) {
        auto_buf struct buf ports = BUF_INIT(PORTS_MAX);

        if (ports_text(s, &ports) < 0)
            return -ENOMEM;
        table_add(t, member(s, "id"));
        table_add(t, member(s, "name"));
        table_add(t, status_text(s, now, status));
        table_addf(t, "%s ago", human_ago(member(s, "createdAt"), now, ago));
        table_addf(t, "%d", (int)json_integer_value(json_object_get(s, "restarts")));
        table_add(t, ports.len > 0 ? ports.data : NULL);
        table_add(t, json_string_value(json_object_get(s, "image")));
        add_command(t, s, whole);
        if (owners)
            add_owner(t, s);
    }
    return table_print(t, stdout);
}

static int list_print(const json_t *list)
{
    return list_print_columns(list, false);
}

static int list_print_whole(const json_t *list)
{
    return list_print_columns(list, true);
}

static json_t *list_row(const json_t *s)
{
    auto_buf struct buf ports = BUF_INIT(PORTS_MAX);
    const json_t *health = json_object_get(s, "health");
    json_t *row = row_new(s);
    char status[STATUS_MAX];

    if (row == NULL || ports_text(s, &ports) < 0) {
        json_decref(row);
        return NULL;
    }
    row_text(row, "ID", member(s, "id"));
    row_text(row, "Name", member(s, "name"));
    row_text(row, "Names", member(s, "name"));
    row_text(row, "Image", json_string_value(json_object_get(s, "image")));
    row_text(row, "Command", json_string_value(json_object_get(s, "command")));
    row_text(row, "CreatedAt", member(s, "createdAt"));
    row_ago(row, "RunningFor", json_object_get(s, "createdAt"));
    row_text(row, "State", member(s, "state"));
    row_text(row, "Status", status_text(s, clock_wall_ms(), status));
    row_text(row, "Health", json_is_object(health) ? member(health, "status") : "");
    row_text(row, "Ports", ports.data);
    row_labels(row, "Labels", json_object_get(s, "labels"));
    (void)json_object_set(row, "Restarts", json_object_get(s, "restarts"));
    return row;
}

int list_output(const struct remote *r, json_t *list, const struct list_style *style,
                struct err *err)
{
    json_t *one;
    size_t i;

    if (r->json && r->format != NULL)
        return err_set(err, -EINVAL, "--format: not with --json; --format json prints lines");
    if (r->json)
        print_json(json_incref(list));
    else if (style->quiet)
        json_array_foreach(list, i, one)
            (void)printf("%s\n", member(one, style->key));
    else if (format_is_given(r))
        return format_list(r, list, style->row, err);
    else if (style->print(list) < 0)
        return err_errno(err, -ENOMEM, "list");
    return 0;
}

int list_show(const struct remote *r, const struct list_filter *f)
{
    auto_client struct client *c = NULL;
    auto_ptr(json_decref) json_t *list = NULL;
    const struct list_style style = {.quiet = f->quiet,
                                     .key = "id",
                                     .row = list_row,
                                     .print = f->whole ? list_print_whole : list_print};
    struct err err = ERR_NONE;

    if (remote_open(r, &c, &err) < 0 || list_get(c, f, &list, &err) < 0 ||
        list_output(r, list, &style, &err) < 0)
        return cli_fail(&err);
    return cli_flush(0);
}

static int opt_label(void *target, const struct opt *o, const char *text, struct err *err)
{
    (void)o;
    return add_filter(&((struct list_args *)target)->filter, "label=", text, err);
}

const struct opt list_options[] = {
    {.name = "label",
     .arg = "KEY[=VALUE]",
     .set = opt_label,
     .flags = OPT_REPEAT,
     .help = "Only sandboxes with this label"},
    {.name = "quiet",
     .letter = 'q',
     .set = opt_flag,
     .off = offsetof(struct list_args, filter.quiet),
     .help = "Print ids alone"},
    {.name = "no-trunc",
     .set = opt_flag,
     .off = offsetof(struct list_args, filter.whole),
     .help = "Do not cut commands"},
    {0},
};

int list_main(const struct verb *v, const struct globals *g, char **argv, size_t max,
              int (*show)(struct list_args *args, const char *name))
{
    struct list_args args = {.remote.globals = *g, .filter.query = BUF_INIT(URL_MAX)};
    char **names;
    int status;

    if (remote_begin(v, &args, argv, 0, max, "", &names, &status) == VERB_GO)
        status = show(&args, names[0]);
    buf_done(&args.filter.query);
    return status;
}

/* ---- the verb ---- */

static int opt_state(void *target, const struct opt *o, const char *text, struct err *err)
{
    (void)o;
    return list_state(&((struct list_args *)target)->filter, text, err);
}

static const struct opt state_options[] = {
    {.name = "status",
     .arg = "STATE",
     .set = opt_state,
     .flags = OPT_REPEAT,
     .help = "Only those in this state: created, running, paused, stopped, broken"},
    {.name = "all", /* of docker; ls lists all in any case */
     .letter = 'a',
     .set = opt_flag,
     .off = offsetof(struct list_args, all),
     .flags = OPT_HIDDEN},
    {0},
};
static const struct opt_group groups[] = {{.title = "States", .rows = state_options},
                                          {.title = "Lists", .rows = list_options},
                                          FORMAT_GROUP,
                                          FOREIGN_GROUP(foreign_list_options),
                                          {0}};

static const char *const details[] = {
    "Lists all sandboxes, created and stopped ones included; rind ps lists those that run.",
    NULL,
};

static const struct example examples[] = {
    {"rind ls --format '{{.Names}}: {{.Status}}'", "a line for each"},
    {"rind ls --status stopped --quiet | xargs -r rind rm", "remove all that have stopped"},
    {0},
};

static int show_list(struct list_args *args, const char *name)
{
    (void)name; /* ls takes no operand */
    return list_show(&args->remote, &args->filter);
}

static int ls_main(const struct verb *v, const struct globals *g, char **argv)
{
    return list_main(v, g, argv, 0, show_list);
}

const struct verb verb_ls = {
    .name = "ls",
    .operands = "",
    .summary = "List sandboxes",
    .details = details,
    .groups = groups,
    .examples = examples,
    .main = ls_main,
};
