/* rind network: manages named networks, which exist even while no sandbox uses them. */

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
#include "cli/words.h"
#include "json/parse.h"

struct network_args {
    struct remote remote;                      /* first */
    json_t *labels;                            /* owned; an object, or NULL */
    json_t *aliases;                           /* owned; an array, or NULL */
    const char *subnet, *gateway, *range, *ip; /* borrowed, or NULL */
    bool internal, quiet;
};

static int opt_label(void *target, const struct opt *o, const char *text, struct err *err)
{
    struct network_args *args = target;
    size_t key = strcspn(text, "=");

    if (args->labels == NULL)
        args->labels = json_object();
    if (json_object_setn_new(args->labels, text, key,
                             json_string(text[key] == '=' ? text + key + 1 : "")) < 0)
        return err_set(err, -EINVAL, "%s '%.64s': is not UTF-8", o->name, text);
    return 0;
}

static int opt_alias(void *target, const struct opt *o, const char *text, struct err *err)
{
    struct network_args *args = target;

    if (args->aliases == NULL)
        args->aliases = json_array();
    if (json_array_append_new(args->aliases, json_string(text)) < 0)
        return err_set(err, -EINVAL, "%s '%.64s': is not UTF-8", o->name, text);
    return 0;
}

static const struct opt network_options[] = {
    {.name = "alias",
     .arg = "NAME",
     .set = opt_alias,
     .flags = OPT_REPEAT,
     .help = "connect: a further name by which its members find the sandbox"},
    {.name = "label",
     .arg = "KEY[=VALUE]",
     .set = opt_label,
     .flags = OPT_REPEAT,
     .help = "create: give it this label"},
    {.name = "internal",
     .set = opt_flag,
     .off = offsetof(struct network_args, internal),
     .help = "create: its members cannot have the internet beside it"},
    {.name = "subnet",
     .arg = "CIDR",
     .set = opt_text,
     .off = offsetof(struct network_args, subnet),
     .help = "create: its members have addresses of this subnet, such as 172.28.0.0/16"},
    {.name = "gateway",
     .arg = "ADDRESS",
     .set = opt_text,
     .off = offsetof(struct network_args, gateway),
     .help = "create: the address in the subnet that is none of a member; by default the first"},
    {.name = "ip-range",
     .arg = "CIDR",
     .set = opt_text,
     .off = offsetof(struct network_args, range),
     .help = "create: the part of the subnet that addresses are chosen from"},
    {.name = "ip",
     .arg = "ADDRESS",
     .set = opt_text,
     .off = offsetof(struct network_args, ip),
     .help = "connect: the address that the sandbox gets in the subnet"},
    {.name = "quiet",
     .letter = 'q',
     .set = opt_flag,
     .off = offsetof(struct network_args, quiet),
     .help = "ls: print names alone"},
    {0},
};
static const struct opt_group groups[] = {
    {.title = "Options", .rows = network_options}, FORMAT_GROUP, {0}};

/* ---- create, ls ---- */

static void put_text(json_t *body, const char *key, const char *text)
{
    if (text != NULL)
        (void)json_object_set_new(body, key, json_string(text));
}

static int create_network(void *data, struct client *c, char **names, struct err *err)
{
    struct network_args *args = data;
    auto_ptr(json_decref) json_t *made = NULL;
    json_t *body = json_pack("{s:s, s:b}", "name", names[0], "internal", (int)args->internal);
    int r;

    if (body == NULL)
        return err_set(err, -EINVAL, "network '%.64s': is not UTF-8", names[0]);
    if (args->labels != NULL)
        (void)json_object_set(body, "labels", args->labels);
    put_text(body, "subnet", args->subnet);
    put_text(body, "gateway", args->gateway);
    put_text(body, "ipRange", args->range);
    r = client_json(c, "POST", "/v1/networks", body, &made, err);
    if (r < 0)
        return r;
    words_print_made(&args->remote, made);
    return 0;
}

static int print_list(const json_t *list)
{
    static const char *const titles[] = {"NAME", "CREATED", "SANDBOXES", "INTERNAL", NULL};
    auto_table struct text_table *t = table_new(titles);
    int64_t now = clock_wall_ms();
    char ago[HUMAN_MAX];
    json_t *n;
    size_t i;

    if (t == NULL)
        return -ENOMEM;
    json_array_foreach(list, i, n) {
        table_add(t, member(n, "name"));
        table_addf(t, "%s ago", human_ago(member(n, "createdAt"), now, ago));
        table_addf(t, "%d", (int)json_integer_value(json_object_get(n, "users")));
        table_add(t, json_is_true(json_object_get(n, "internal")) ? "yes" : "no");
    }
    return table_print(t, stdout);
}

static json_t *network_row(const json_t *n)
{
    json_t *row = row_new(n);

    row_text(row, "Name", member(n, "name"));
    row_text(row, "Driver", "bridge");
    row_text(row, "Scope", "local");
    row_text(row, "Internal", json_is_true(json_object_get(n, "internal")) ? "true" : "false");
    row_text(row, "CreatedAt", member(n, "createdAt"));
    row_ago(row, "RunningFor", json_object_get(n, "createdAt"));
    row_labels(row, "Labels", json_object_get(n, "labels"));
    (void)json_object_set_new(row, "Sandboxes",
                              json_integer(json_integer_value(json_object_get(n, "users"))));
    return row;
}

static int list_networks(void *data, struct client *c, char **names, struct err *err)
{
    struct network_args *args = data;
    struct list_style style = {.key = "name", .row = network_row, .print = print_list};
    auto_ptr(json_decref) json_t *root = NULL;
    int r = client_json(c, "GET", "/v1/networks", NULL, &root, err);

    (void)names;
    if (r < 0)
        return r;
    style.quiet = args->quiet;
    return list_output(&args->remote, json_object_get(root, "networks"), &style, err);
}

/* ---- connect, disconnect ---- */

static int network_move(struct network_args *args, struct client *c, const char *format,
                        char **names, struct err *err)
{
    auto_buf struct buf target = BUF_INIT(URL_MAX);
    json_t *body = json_pack("{s:s}", "sandbox", names[1]);

    if (body == NULL || url_make(&target, format, names[0]) < 0) {
        json_decref(body);
        return err_set(err, -EINVAL, "network '%.64s', sandbox '%.64s': not UTF-8", names[0],
                       names[1]);
    }
    if (args->aliases != NULL)
        (void)json_object_set(body, "aliases", args->aliases);
    put_text(body, "address", args->ip);
    return client_json(c, "POST", target.data, body, NULL, err);
}

static int connect_network(void *data, struct client *c, char **names, struct err *err)
{
    return network_move(data, c, "/v1/networks/%s/connect", names, err);
}

static int disconnect_network(void *data, struct client *c, char **names, struct err *err)
{
    return network_move(data, c, "/v1/networks/%s/disconnect", names, err);
}

/* ---- the verb ---- */

static const struct word word_list[] = {
    {"create", 1, 1, create_network},
    {"ls", 0, 0, list_networks},
    {"connect", 2, 2, connect_network},
    {"disconnect", 2, 2, disconnect_network},
    {0},
};

static const struct words words = {.noun = "network",
                                   .must_be = "create, ls, inspect, rm, connect or disconnect",
                                   .list = word_list,
                                   .target = "/v1/networks/%s"};

static const char *const details[] = {
    "Sandboxes of `rind run --network NAME` reach each other. That needs no network that a client "
    "has made; but such a one is there also while no sandbox is in it, has labels, and is its "
    "maker's: "
    "members "
    "of the group rind use their own.",
    "COMMAND is create NAME, ls (of those that a client has made), inspect NAME..., rm NAME..., "
    "connect NETWORK SANDBOX or disconnect NETWORK SANDBOX. One in which a sandbox runs is not "
    "removed. A sandbox may be connected to several networks, also while it runs.",
    NULL,
};

static const struct example examples[] = {
    {"rind network create --internal back", "one whose members have no internet"},
    {"rind network create --subnet 172.28.0.0/16 lan", "one whose members have addresses of it"},
    {"rind network connect --alias db back box", "box is in it from now on, also as db"},
    {0},
};

static int network_main(const struct verb *v, const struct globals *g, char **argv)
{
    struct network_args args = {.remote.globals = *g};
    int status = words_main(v, &words, &args, argv);

    json_decref(args.labels);
    json_decref(args.aliases);
    return status;
}

const struct verb verb_network = {
    .name = "network",
    .operands = "COMMAND [NAME...]",
    .words = "create ls inspect rm connect disconnect",
    .summary = "Make, show and remove named networks",
    .details = details,
    .groups = groups,
    .examples = examples,
    .main = network_main,
};
