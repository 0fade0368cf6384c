/* rind system, rind info: the daemon as a whole: what there is, what it takes, what can go. */

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "cli/human.h"
#include "cli/list-format.h"
#include "cli/remote.h"
#include "cli/text-table.h"
#include "cli/url.h"
#include "json/parse.h"
#include "policy/policy.h"

struct system_args {
    struct remote remote; /* first */
    bool all, volumes, force;
};

/* ---- info ---- */

enum { COUNT_REFUSED = -1 };

/* The number of elements of a list, or COUNT_REFUSED if members may not see it. */
static int count_list(struct client *c, const char *target, const char *key, json_int_t *ret,
                      struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    int r = client_json(c, "GET", target, NULL, &root, err);

    *ret = r == 0 ? (json_int_t)json_array_size(json_object_get(root, key)) : COUNT_REFUSED;
    return r == -EPERM || r == -EACCES ? 0 : r;
}

static int add_counts(struct client *c, json_t *info, struct err *err)
{
    static const struct {
        const char *target, *key;
    } lists[] = {
        {"/v1/images", "images"}, {"/v1/volumes", "volumes"}, {"/v1/networks", "networks"}};
    json_int_t count;
    int r = 0;

    for (size_t i = 0; r == 0 && i < sizeof(lists) / sizeof(lists[0]); i++) {
        r = count_list(c, lists[i].target, lists[i].key, &count, err);
        if (r == 0)
            (void)json_object_set_new(info, lists[i].key,
                                      count == COUNT_REFUSED ? json_null() : json_integer(count));
    }
    return r;
}

/* {"total": 3, "running": 1, ...}: a member for each state that a sandbox is in. */
static int add_sandboxes(struct client *c, json_t *info, struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    json_t *counts =
        json_pack("{s:i, s:i, s:i, s:i}", "total", 0, "running", 0, "paused", 0, "stopped", 0);
    json_t *s;
    size_t i;
    int r = client_json(c, "GET", "/v1/sandboxes", NULL, &root, err);

    json_array_foreach(json_object_get(root, "sandboxes"), i, s) {
        json_int_t n = json_integer_value(json_object_get(counts, member(s, "state")));

        (void)json_object_set_new(counts, member(s, "state"), json_integer(n + 1));
        (void)json_object_set_new(counts, "total", json_integer((json_int_t)i + 1));
    }
    (void)json_object_set_new(info, "sandboxes", counts);
    return r;
}

static json_t *policy_names(void)
{
    json_t *list = json_array();

    for (const char *const *name = policy_builtin_names(); *name != NULL; name++)
        (void)json_array_append_new(list, json_string(*name));
    return list;
}

static void print_count(const json_t *info, const char *title, const char *key)
{
    const json_t *count = json_object_get(info, key);

    if (json_is_integer(count))
        (void)printf("%s: %lld\n", title, (long long)json_integer_value(count));
    else
        (void)printf("%s: the client policy does not show them\n", title);
}

static void print_info(const json_t *info)
{
    json_t *sandboxes = json_object_get(info, "sandboxes"), *value;
    const json_t *daemon = json_object_get(info, "daemon");
    const char *key;
    size_t i;

    (void)printf("Client: rind %s\n", member(info, "client"));
    (void)printf("Daemon: rind %s, API %s, at %s\n", member(daemon, "version"),
                 member(daemon, "apiVersion"), member(info, "socket"));
    (void)printf("Host: Linux %s, %s\n", member(daemon, "kernel"), member(daemon, "architecture"));
    (void)printf("Sandboxes: %lld",
                 (long long)json_integer_value(json_object_get(sandboxes, "total")));
    json_object_foreach(sandboxes, key, value)
        if (strcmp(key, "total") != 0)
            (void)printf(", %s %lld", key, (long long)json_integer_value(value));
    (void)printf("\n");
    print_count(info, "Images", "images");
    print_count(info, "Volumes", "volumes");
    print_count(info, "Networks", "networks");
    (void)printf("Policies:");
    json_array_foreach(json_object_get(info, "policies"), i, value)
        (void)printf("%s %s", i > 0 ? "," : "", json_string_value(value));
    (void)printf(" (built in)\nMore: rind doctor says what this machine can do\n");
}

static int do_info(const struct system_args *args, struct client *c, struct err *err)
{
    auto_ptr(json_decref) json_t *daemon = NULL;
    auto_ptr(json_decref) json_t *info = NULL;
    char path[REMOTE_PATH_MAX];
    bool named;
    int r = remote_socket(&args->remote, path, &named, err);

    if (r == 0)
        r = client_json(c, "GET", "/v1/version", NULL, &daemon, err);
    if (r < 0)
        return r;
    info = json_pack("{s:s, s:s, s:O, s:o}", "client", RIND_VERSION, "socket", path, "daemon",
                     daemon, "policies", policy_names());
    if (info == NULL)
        return err_errno(err, -ENOMEM, "info");
    r = add_sandboxes(c, info, err);
    if (r == 0)
        r = add_counts(c, info, err);
    if (r < 0)
        return r;
    if (args->remote.json)
        print_json(json_incref(info));
    else if (args->remote.format != NULL)
        return format_one(&args->remote, info, err);
    else
        print_info(info);
    return 0;
}

/* ---- df ---- */

static json_int_t number_of(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

/* Sums up one kind. A size below 0 is one that the daemon does not count. */
struct usage {
    json_int_t total, active, bytes, free_bytes;
    bool unknown; /* of one object at least the size is not known */
};

static void usage_add(struct usage *u, bool active, json_int_t bytes)
{
    u->total++;
    u->active += active;
    if (bytes < 0)
        u->unknown = true;
    else
        u->bytes += bytes;
    if (bytes > 0 && !active)
        u->free_bytes += bytes;
}

/* df: the answer of Docker's route, which counts what this verb shows. */
static void usage_of(const json_t *df, struct usage ret[3])
{
    json_t *one;
    size_t i;

    (void)memset(ret, 0, 3 * sizeof(*ret));
    json_array_foreach(json_object_get(df, "Images"), i, one)
        usage_add(&ret[0], number_of(one, "Containers") > 0, number_of(one, "Size"));
    json_array_foreach(json_object_get(df, "Containers"), i, one) {
        const json_t *size = json_object_get(one, "SizeRw");

        usage_add(&ret[1], strcmp(member(one, "State"), "running") == 0,
                  json_is_integer(size) ? json_integer_value(size) : -1);
    }
    json_array_foreach(json_object_get(df, "Volumes"), i, one) {
        const json_t *use = json_object_get(one, "UsageData");

        usage_add(&ret[2], number_of(use, "RefCount") > 0, number_of(use, "Size"));
    }
    /* Beside its archives an image takes its unpacked layers, of which several may be one's. */
    if (ret[0].total > 0 && number_of(df, "LayersSize") > ret[0].bytes)
        ret[0].bytes = number_of(df, "LayersSize");
}

static const char *const kinds[] = {"Images", "Sandboxes", "Volumes"};

static json_t *usage_rows(const struct usage *u)
{
    json_t *rows = json_array();

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        bool known = !u[i].unknown;

        (void)json_array_append_new(
            rows,
            json_pack("{s:s, s:I, s:I, s:o, s:o}", "type", kinds[i], "total", u[i].total, "active",
                      u[i].active, "bytes", known ? json_integer(u[i].bytes) : json_null(),
                      "reclaimableBytes", known ? json_integer(u[i].free_bytes) : json_null()));
    }
    return rows;
}

static const char *bytes_or(const json_t *bytes, const char *other, char buf[HUMAN_MAX])
{
    return json_is_integer(bytes) ? human_bytes((uint64_t)json_integer_value(bytes), buf) : other;
}

static json_t *usage_row(const json_t *one)
{
    json_t *row = row_new(one);
    char size[HUMAN_MAX];

    row_text(row, "Type", member(one, "type"));
    (void)json_object_set_new(row, "TotalCount", json_integer(number_of(one, "total")));
    (void)json_object_set_new(row, "Active", json_integer(number_of(one, "active")));
    row_text(row, "Size", bytes_or(json_object_get(one, "bytes"), "not counted", size));
    row_text(row, "Reclaimable",
             bytes_or(json_object_get(one, "reclaimableBytes"), "not counted", size));
    return row;
}

static int print_usage(const json_t *rows)
{
    static const char *const titles[] = {"TYPE", "TOTAL", "ACTIVE", "SIZE", "RECLAIMABLE", NULL};
    auto_table struct text_table *t = table_new(titles);
    char size[HUMAN_MAX];
    json_t *one;
    size_t i;

    if (t == NULL)
        return -ENOMEM;
    json_array_foreach(rows, i, one) {
        table_add(t, member(one, "type"));
        table_addf(t, "%lld", (long long)number_of(one, "total"));
        table_addf(t, "%lld", (long long)number_of(one, "active"));
        table_add(t, bytes_or(json_object_get(one, "bytes"), "not counted", size));
        table_add(t, bytes_or(json_object_get(one, "reclaimableBytes"), "not counted", size));
    }
    return table_print(t, stdout);
}

static int do_df(const struct system_args *args, struct client *c, struct err *err)
{
    auto_ptr(json_decref) json_t *df = NULL;
    auto_ptr(json_decref) json_t *rows = NULL;
    struct usage u[3];
    int r = client_json(c, "GET", "/system/df", NULL, &df, err);

    if (r < 0)
        return r;
    usage_of(df, u);
    rows = usage_rows(u);
    if (args->remote.json)
        print_json(json_incref(rows));
    else if (format_is_given(&args->remote))
        return format_list(&args->remote, rows, usage_row, err);
    else if (print_usage(rows) < 0)
        return err_errno(err, -ENOMEM, "df");
    return 0;
}

/* ---- prune ---- */

/*
 * Deletes what is listed at `list` and `goes`; one that is used by now, or gone, is passed over.
 * Appends the names to `removed`.
 */
static int prune_list(struct client *c, const char *list, const char *key, const char *target,
                      bool (*goes)(const json_t *one), json_t *removed, struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    json_t *one;
    size_t i;
    int r = client_json(c, "GET", list, NULL, &root, err);

    json_array_foreach(json_object_get(root, key), i, one) {
        auto_buf struct buf url = BUF_INIT(URL_MAX);
        const char *name = member(one, "name");

        if (r < 0 || !goes(one))
            continue;
        r = url_make(&url, target, name);
        if (r == 0)
            r = client_json(c, "DELETE", url.data, NULL, NULL, err);
        if (r == 0)
            (void)json_array_append_new(removed, json_string(name));
        if (r == -EBUSY || r == -ENOENT)
            r = 0;
    }
    return r;
}

static bool sandbox_goes(const json_t *s)
{
    return strcmp(member(s, "state"), "stopped") == 0 || strcmp(member(s, "state"), "created") == 0;
}

static bool network_goes(const json_t *n)
{
    return number_of(n, "users") == 0;
}

static int post_prune(struct client *c, const char *target, bool all, const char *key,
                      json_t *removed, json_int_t *bytes, struct err *err)
{
    auto_ptr(json_decref) json_t *reply = NULL;
    int r = client_json(c, "POST", target, json_pack("{s:b}", "all", (int)all), &reply, err);

    (void)json_array_extend(removed, json_object_get(reply, key));
    *bytes += number_of(reply, "bytes");
    return r;
}

static bool is_removed(const json_t *names, const char *name)
{
    const json_t *one;
    size_t i;

    json_array_foreach(names, i, one)
        if (strcmp(json_string_value(one), name) == 0)
            return true;
    return false;
}

/* The space that removed sandboxes and volumes took, as df, asked before, has it. */
static json_int_t removed_bytes(const json_t *df, const json_t *result)
{
    json_int_t sum = 0, bytes;
    const char *name;
    json_t *one;
    size_t i;

    json_array_foreach(json_object_get(df, "Containers"), i, one) {
        name = json_string_value(json_array_get(json_object_get(one, "Names"), 0));
        bytes = number_of(one, "SizeRw");
        if (name != NULL && name[0] == '/' && bytes > 0 &&
            is_removed(json_object_get(result, "sandboxes"), name + 1))
            sum += bytes;
    }
    json_array_foreach(json_object_get(df, "Volumes"), i, one) {
        bytes = number_of(json_object_get(one, "UsageData"), "Size");
        if (bytes > 0 && is_removed(json_object_get(result, "volumes"), member(one, "Name")))
            sum += bytes;
    }
    return sum;
}

/* In the order in which one holds the next: sandboxes hold networks, images and volumes. */
static int prune_all(const struct system_args *args, struct client *c, json_t *result,
                     struct err *err)
{
    json_t *sandboxes = json_object_get(result, "sandboxes");
    auto_ptr(json_decref) json_t *df = NULL;
    json_int_t bytes = 0;
    int r = client_json(c, "GET", "/system/df?type=container&type=volume", NULL, &df, err);

    if (r == 0)
        r = prune_list(c, "/v1/sandboxes", "sandboxes", "/v1/sandboxes/%s", sandbox_goes, sandboxes,
                       err);
    if (r == 0)
        r = prune_list(c, "/v1/networks", "networks", "/v1/networks/%s", network_goes,
                       json_object_get(result, "networks"), err);
    if (r == 0 && args->volumes)
        r = post_prune(c, "/v1/volumes/prune", args->all, "removed",
                       json_object_get(result, "volumes"), &bytes, err);
    if (r == 0)
        r = post_prune(c, "/v1/images/prune", args->all, "deleted",
                       json_object_get(result, "images"), &bytes, err);
    bytes += removed_bytes(df, result);
    (void)json_object_set_new(result, "bytes", json_integer(bytes));
    return r;
}

static void print_pruned(const json_t *result)
{
    json_t *list, *name;
    char size[HUMAN_MAX];
    const char *kind;
    size_t i;

    json_object_foreach((json_t *)(uintptr_t)result, kind, list)
        json_array_foreach(list, i, name)
            (void)printf("%.*s %s\n", (int)strlen(kind) - (strcmp(kind, "sandboxes") == 0 ? 2 : 1),
                         kind, json_string_value(name));
    (void)printf("freed %s\n", human_bytes((uint64_t)number_of(result, "bytes"), size));
}

/* Asks on a terminal; elsewhere --force is the answer. */
static int prune_confirm(const struct system_args *args, struct err *err)
{
    char answer[16] = "";

    if (args->force)
        return 0;
    if (!isatty(STDIN_FILENO))
        return err_set(err, -EINVAL,
                       "system prune: removes sandboxes with their files, and there is no terminal "
                       "to ask; --force does it without");
    (void)fprintf(stderr,
                  "This removes all sandboxes that do not run with their files, networks that none "
                  "is in, %simages%s%s.\nGo on? [y/N] ",
                  args->all ? "all unused " : "", args->all ? "" : " without a name",
                  !args->volumes ? ""
                  : args->all    ? ", and all volumes that none has"
                                 : ", and anonymous volumes that none has");
    if (fgets(answer, sizeof(answer), stdin) == NULL || (answer[0] != 'y' && answer[0] != 'Y'))
        return err_set(err, -ECANCELED, "system prune: nothing was removed");
    return 0;
}

static int do_prune(const struct system_args *args, struct client *c, struct err *err)
{
    auto_ptr(json_decref) json_t *result =
        json_pack("{s:[], s:[], s:[], s:[]}", "sandboxes", "networks", "volumes", "images");
    int r = prune_confirm(args, err);

    if (r == 0)
        r = prune_all(args, c, result, err);
    if (r == 0 && args->remote.json)
        print_json(json_incref(result));
    else if (r == 0)
        print_pruned(result);
    return r;
}

/* ---- the verbs ---- */

static const struct opt system_options[] = {
    {.name = "all",
     .letter = 'a',
     .set = opt_flag,
     .off = offsetof(struct system_args, all),
     .help =
         "prune: also images with names that no sandbox is made from; with --volumes also named "
         "volumes"},
    {.name = "volumes",
     .set = opt_flag,
     .off = offsetof(struct system_args, volumes),
     .help = "prune: also anonymous volumes that no sandbox has"},
    {.name = "force",
     .letter = 'f',
     .set = opt_flag,
     .off = offsetof(struct system_args, force),
     .help = "prune: do not ask"},
    {0},
};
static const struct opt_group system_groups[] = {
    {.title = "Options", .rows = system_options}, FORMAT_GROUP, {0}};
static const struct opt_group info_groups[] = {FORMAT_GROUP, {0}};

static const char *const system_details[] = {
    "df shows how many images, sandboxes and volumes there are, how many are in use, and the disk "
    "space that they take. The size is not counted if one of them has too many files, or is being "
    "started, stopped or removed.",
    "prune removes the sandboxes that do not run with their files, networks that no sandbox is in, "
    "and images without a name that no sandbox is made from. It asks before.",
    "info is rind info.",
    NULL,
};
static const char *const info_details[] = {
    "Shows which daemon answers, of which version, on which kernel, and how much it keeps. rind "
    "doctor says what this machine can do.",
    NULL,
};
static const struct example system_examples[] = {
    {"rind system prune --all --volumes", "all that nothing uses"}, {0}};

static const struct system_word {
    const char *name;
    int (*run)(const struct system_args *args, struct client *c, struct err *err);
} subs[] = {{"df", do_df}, {"prune", do_prune}, {"info", do_info}};

static int system_run(const struct system_args *args, const struct system_word *s)
{
    auto_client struct client *c = NULL;
    struct err err = ERR_NONE;

    if (s->run == do_prune && args->remote.format != NULL)
        return cli_failf("--format: only of system df and info");
    if (remote_open(&args->remote, &c, &err) < 0 || s->run(args, c, &err) < 0)
        return cli_fail(&err);
    return cli_flush(0);
}

static int system_main(const struct verb *v, const struct globals *g, char **argv)
{
    struct system_args args = {.remote.globals = *g};
    char **names;
    int status;

    if (remote_begin(v, &args, argv, 1, 1, "command (df, prune, info)", &names, &status) ==
        VERB_DONE)
        return status;
    for (size_t i = 0; i < sizeof(subs) / sizeof(subs[0]); i++)
        if (strcmp(subs[i].name, names[0]) == 0)
            return system_run(&args, &subs[i]);
    if (strcmp(names[0], "events") == 0)
        return cli_failf("system events: here it is rind events");
    return cli_failf("system %.64s: there is df, prune and info", names[0]);
}

static int info_main(const struct verb *v, const struct globals *g, char **argv)
{
    struct system_args args = {.remote.globals = *g};
    char **names;
    int status;

    if (remote_begin(v, &args, argv, 0, 0, "", &names, &status) == VERB_DONE)
        return status;
    return system_run(&args, &subs[2]);
}

const struct verb verb_system = {
    .name = "system",
    .operands = "COMMAND",
    .words = "df prune info",
    .summary = "Show and free what all of it takes",
    .details = system_details,
    .groups = system_groups,
    .examples = system_examples,
    .main = system_main,
};

const struct verb verb_info = {
    .name = "info",
    .operands = "",
    .summary = "Show the daemon and what it keeps",
    .details = info_details,
    .groups = info_groups,
    .main = info_main,
};
