/* rind ls: lists sandboxes. */

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
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

/* Adds the status column: "running 5 min", "stopped (137) 2 h". */
static void add_status(struct text_table *t, const json_t *s, int64_t now)
{
    const char *state = member(s, "state");
    json_t *code = json_object_get(s, "exitCode");
    char ago[HUMAN_MAX];

    if (json_is_string(json_object_get(s, "error")) && member(s, "error")[0] != '\0')
        table_addf(t, "%s: %s", state, member(s, "error"));
    else if (json_is_integer(code))
        table_addf(t, "%s (%d%s)", state, (int)json_integer_value(code),
                   json_is_true(json_object_get(s, "oomKilled")) ? ", out of memory" : "");
    else if (json_is_string(json_object_get(s, "startedAt")))
        table_addf(t, "%s %s", state, human_ago(member(s, "startedAt"), now, ago));
    else
        table_add(t, state);
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

static bool any_ports(const json_t *list)
{
    json_t *s;
    size_t i;

    json_array_foreach(list, i, s)
        if (json_array_size(json_object_get(s, "ports")) > 0)
            return true;
    return false;
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

static int list_print(const json_t *list)
{
    const bool ports = any_ports(list), owners = any_owners(list);
    const char *titles[] = {"ID", "NAME", "STATUS", "CREATED", "RESTARTS", NULL, NULL, NULL};
    size_t n = 5;
    auto_table struct text_table *t = NULL;
    int64_t now = clock_wall_ms();
    char ago[HUMAN_MAX];
    json_t *s;
    size_t i;

    if (owners)
        titles[n++] = "OWNER";
    if (ports)
        titles[n++] = "PORTS";
    t = table_new(titles);
    if (t == NULL)
        return -ENOMEM;
    json_array_foreach(list, i, s) {
        table_add(t, member(s, "id"));
        table_add(t, member(s, "name"));
        add_status(t, s, now);
        table_addf(t, "%s ago", human_ago(member(s, "createdAt"), now, ago));
        table_addf(t, "%d", (int)json_integer_value(json_object_get(s, "restarts")));
        if (owners)
            add_owner(t, s);
        if (ports) {
            auto_buf struct buf text = BUF_INIT(PORTS_MAX);

            if (ports_text(s, &text) < 0)
                return -ENOMEM;
            table_add(t, text.data);
        }
    }
    return table_print(t, stdout);
}

int list_output(json_t *list, bool json, bool quiet, const char *key,
                int (*print)(const json_t *list))
{
    json_t *one;
    size_t i;

    if (!json && !quiet)
        return print(list);
    if (json)
        print_json(json_incref(list));
    else
        json_array_foreach(list, i, one)
            (void)printf("%s\n", member(one, key));
    return 0;
}

int list_show(const struct remote *r, const struct list_filter *f)
{
    auto_client struct client *c = NULL;
    auto_ptr(json_decref) json_t *list = NULL;
    struct err err = ERR_NONE;

    if (remote_open(r, &c, &err) < 0 || list_get(c, f, &list, &err) < 0)
        return cli_fail(&err);
    if (list_output(list, r->json, f->quiet, "id", list_print) < 0)
        return cli_failf("out of memory");
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
    {0},
};
static const struct opt_group groups[] = {{.title = "States", .rows = state_options},
                                          {.title = "Lists", .rows = list_options},
                                          REMOTE_GROUP,
                                          {0}};

static const char *const details[] = {
    "Lists all sandboxes, created and stopped ones included; rind ps lists those that run.",
    NULL,
};

static const struct example examples[] = {
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
