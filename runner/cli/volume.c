/* rind volume: manages named volumes of the daemon. */

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
#include "policy/policy.h"
#include "spec/parse.h"

struct volume_args {
    struct remote remote; /* first */
    json_t *labels;       /* owned; ["K=V"], or NULL */
    json_t *names;        /* owned; parts of names, or NULL */
    int64_t bytes;        /* 0: not given */
    bool all, quiet;
};

static int add_text(json_t **list, const char *what, const char *text, struct err *err)
{
    if (*list == NULL)
        *list = json_array();
    if (json_array_append_new(*list, json_string(text)) < 0)
        return err_set(err, -EINVAL, "%s '%.64s': is not UTF-8", what, text);
    return 0;
}

static int opt_label(void *target, const struct opt *o, const char *text, struct err *err)
{
    return add_text(&((struct volume_args *)target)->labels, o->name, text, err);
}

static int opt_name(void *target, const struct opt *o, const char *text, struct err *err)
{
    return add_text(&((struct volume_args *)target)->names, o->name, text, err);
}

static int opt_size(void *target, const struct opt *o, const char *text, struct err *err)
{
    return parse_bytes(o->name, text, LIMIT_DISK_MIN, LIMIT_DISK_MAX,
                       &((struct volume_args *)target)->bytes, err);
}

static const struct opt volume_options[] = {
    {.name = "label",
     .arg = "KEY[=VALUE]",
     .set = opt_label,
     .flags = OPT_REPEAT,
     .help = "create: give it this label; ls, prune: only those with it"},
    {.name = "size",
     .arg = "BYTES",
     .set = opt_size,
     .help = "create: what it may hold at most (512m, 10g), in a file system of its own"},
    {.name = "name",
     .arg = "PART",
     .set = opt_name,
     .flags = OPT_REPEAT,
     .help = "ls: only those with PART in the name"},
    {.name = "all",
     .letter = 'a',
     .set = opt_flag,
     .off = offsetof(struct volume_args, all),
     .help = "prune: not only anonymous ones, but every one that no sandbox has"},
    {.name = "quiet",
     .letter = 'q',
     .set = opt_flag,
     .off = offsetof(struct volume_args, quiet),
     .help = "ls: print names alone"},
    {0},
};
static const struct opt_group groups[] = {
    {.title = "Options", .rows = volume_options}, FORMAT_GROUP, {0}};

/* ---- create ---- */

/* Converts "K=V" texts to an object; a text without = has an empty value. */
static json_t *label_object(const json_t *labels)
{
    json_t *object = json_object(), *label;
    size_t i;

    json_array_foreach(labels, i, label) {
        const char *text = json_string_value(label);
        size_t key = strcspn(text, "=");

        (void)json_object_setn_new(object, text, key,
                                   json_string(text[key] == '=' ? text + key + 1 : ""));
    }
    return object;
}

static int create_volume(void *data, struct client *c, char **names, struct err *err)
{
    struct volume_args *args = data;
    auto_ptr(json_decref) json_t *made = NULL;
    json_t *body = json_object();
    int r;

    if (names[0] != NULL && json_object_set_new(body, "name", json_string(names[0])) < 0)
        r = err_set(err, -EINVAL, "volume '%.64s': is not UTF-8", names[0]);
    else
        r = args->labels == NULL ? 0
                                 : json_object_set_new(body, "labels", label_object(args->labels));
    if (r == 0 && args->bytes != 0)
        r = json_object_set_new(body, "sizeBytes", json_integer(args->bytes));
    if (r < 0) {
        json_decref(body);
        return r == -1 ? err_errno(err, -ENOMEM, "volume") : r;
    }
    r = client_json(c, "POST", "/v1/volumes", body, &made, err);
    if (r < 0)
        return r;
    words_print_made(&args->remote, made);
    return 0;
}

/* ---- ls ---- */

static int add_filters(struct buf *url, const char *key, const json_t *values)
{
    const json_t *value;
    size_t i;
    int r = 0;

    json_array_foreach(values, i, value) {
        if (r == 0)
            r = buf_append_str(url, strchr(url->data, '?') == NULL ? "?" : "&");
        if (r == 0)
            r = buf_append_str(url, key);
        if (r == 0)
            r = url_add(url, json_string_value(value));
    }
    return r;
}

static int get_list(const struct volume_args *args, struct client *c, json_t **ret, struct err *err)
{
    auto_buf struct buf url = BUF_INIT(URL_MAX);
    auto_ptr(json_decref) json_t *root = NULL;
    json_t *list;
    int r = buf_append_str(&url, "/v1/volumes");

    if (r == 0)
        r = add_filters(&url, "label=", args->labels);
    if (r == 0)
        r = add_filters(&url, "name=", args->names);
    if (r < 0)
        return err_errno(err, r, "filters");
    r = client_json(c, "GET", url.data, NULL, &root, err);
    if (r < 0)
        return r;
    list = json_object_get(root, "volumes");
    if (!json_is_array(list))
        return err_set(err, -EPROTO, "the daemon's list of volumes is none");
    *ret = json_incref(list);
    return 0;
}

static int print_list(const json_t *list)
{
    static const char *const titles[] = {"NAME", "CREATED", "SANDBOXES", "KIND", "SIZE", NULL};
    auto_table struct text_table *t = table_new(titles);
    int64_t now = clock_wall_ms();
    char ago[HUMAN_MAX], size[HUMAN_MAX];
    json_t *v;
    size_t i;

    if (t == NULL)
        return -ENOMEM;
    json_array_foreach(list, i, v) {
        table_add(t, member(v, "name"));
        if (json_is_string(json_object_get(v, "createdAt")))
            table_addf(t, "%s ago", human_ago(member(v, "createdAt"), now, ago));
        else
            table_add(t, NULL);
        table_addf(t, "%d", (int)json_integer_value(json_object_get(v, "users")));
        table_add(t, json_is_true(json_object_get(v, "anonymous")) ? "anonymous" : "named");
        if (json_is_integer(json_object_get(v, "sizeBytes")))
            table_add(t, human_bytes((uint64_t)json_integer_value(json_object_get(v, "sizeBytes")),
                                     size));
        else
            table_add(t, NULL);
    }
    return table_print(t, stdout);
}

static json_t *volume_row(const json_t *v)
{
    json_t *row = row_new(v);
    json_t *bytes = json_object_get(v, "sizeBytes");
    char size[HUMAN_MAX] = "";

    if (json_is_integer(bytes))
        (void)human_bytes((uint64_t)json_integer_value(bytes), size);
    row_text(row, "Name", member(v, "name"));
    row_text(row, "Driver", "local");
    row_text(row, "Scope", "local");
    row_text(row, "Kind", json_is_true(json_object_get(v, "anonymous")) ? "anonymous" : "named");
    row_text(row, "Size", size);
    row_ago(row, "RunningFor", json_object_get(v, "createdAt"));
    row_labels(row, "Labels", json_object_get(v, "labels"));
    (void)json_object_set_new(row, "Users",
                              json_integer(json_integer_value(json_object_get(v, "users"))));
    return row;
}

static int list_volumes(void *data, struct client *c, char **names, struct err *err)
{
    struct volume_args *args = data;
    struct list_style style = {.key = "name", .row = volume_row, .print = print_list};
    auto_ptr(json_decref) json_t *list = NULL;
    int r = get_list(args, c, &list, err);

    (void)names;
    if (r < 0)
        return r;
    style.quiet = args->quiet;
    return list_output(&args->remote, list, &style, err);
}

/* ---- prune ---- */

static int prune_volumes(void *data, struct client *c, char **names, struct err *err)
{
    struct volume_args *args = data;
    auto_ptr(json_decref) json_t *reply = NULL;
    json_t *body = json_pack("{s:b}", "all", (int)args->all), *name;
    size_t i;
    int r = 0;

    (void)names;
    if (args->labels != NULL)
        (void)json_object_set(body, "labels", args->labels);
    r = client_json(c, "POST", "/v1/volumes/prune", body, &reply, err);
    if (r < 0)
        return r;
    if (args->remote.json)
        print_json(json_incref(reply));
    else
        json_array_foreach(json_object_get(reply, "removed"), i, name)
            (void)printf("%s\n", json_string_value(name));
    return 0;
}

/* ---- the verb ---- */

static const struct word word_list[] = {
    {"create", 0, 1, create_volume},
    {"ls", 0, 0, list_volumes},
    {"prune", 0, 0, prune_volumes},
    {0},
};

static const struct words words = {.noun = "volume",
                                   .must_be = "create, ls, inspect, rm or prune",
                                   .list = word_list,
                                   .target = "/v1/volumes/%s"};

static const char *const details[] = {
    "Named volumes outlive sandboxes, and several sandboxes can have the same one. "
    "`rind run -v NAME:/data` makes one when there is none. At its first use it gets what the "
    "image "
    "has at that place. A volume without a name (`-v /data`) is removed with its sandbox.",
    "COMMAND is create [NAME], ls, inspect NAME..., rm NAME... or prune. Those that a sandbox has "
    "are not removed, also not when it is stopped.",
    NULL,
};

static const struct example examples[] = {
    {"rind volume create cache --label project=web", "an empty one, with a label"},
    {"rind volume prune --all --label project=web", "all of that project that no sandbox has"},
    {0},
};

static int volume_main(const struct verb *v, const struct globals *g, char **argv)
{
    struct volume_args args = {.remote.globals = *g};
    int status = words_main(v, &words, &args, argv);

    json_decref(args.labels);
    json_decref(args.names);
    return status;
}

const struct verb verb_volume = {
    .name = "volume",
    .operands = "COMMAND [NAME...]",
    .words = "create ls inspect rm prune",
    .summary = "Make, show and remove named volumes",
    .details = details,
    .groups = groups,
    .examples = examples,
    .main = volume_main,
};
