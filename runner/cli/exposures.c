/* rind exposures: lists the ports that preview URLs lead to. */

#include <errno.h>
#include <stddef.h>
#include <stdio.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "cli/listing.h"
#include "cli/text-table.h"
#include "cli/url.h"
#include "json/parse.h"

struct exposures_args {
    struct remote remote; /* first */
    const char *hostname;
    bool quiet;
};

static const struct opt exposures_options[] = {
    {.name = "hostname",
     .arg = "HOST[:PORT]",
     .set = opt_text,
     .off = offsetof(struct exposures_args, hostname),
     .help = "Print the URLs below this host name, rather than the one of each"},
    {.name = "quiet",
     .letter = 'q',
     .set = opt_flag,
     .off = offsetof(struct exposures_args, quiet),
     .help = "Print URLs alone"},
    {0},
};
static const struct opt_group groups[] = {
    {.title = "Options", .rows = exposures_options}, FORMAT_GROUP, {0}};

static const char *const details[] = {
    "Lists the ports of the sandboxes that are named, or of all, that preview URLs lead to, those "
    "of stopped ones too. Whoever knows a URL may use it.",
    NULL,
};

static const struct example examples[] = {
    {"rind exposures web", "the URLs of one sandbox"},
    {0},
};

/* Appends the exposures of one sandbox to `all`, with the sandbox's name added to each. */
static int add_exposures(struct client *c, const struct exposures_args *args, const json_t *sandbox,
                         json_t *all, struct err *err)
{
    auto_buf struct buf url = BUF_INIT(URL_MAX);
    auto_ptr(json_decref) json_t *root = NULL;
    json_t *one;
    size_t i;
    int r = url_make(&url, "/v1/sandboxes/%s/exposures", member(sandbox, "id"));

    if (r == 0 && args->hostname != NULL)
        r = buf_append_str(&url, "?hostname=");
    if (r == 0 && args->hostname != NULL)
        r = url_add(&url, args->hostname);
    if (r < 0)
        return err_errno(err, r, "exposures");
    r = client_json(c, "GET", url.data, NULL, &root, err);
    if (r < 0)
        return r;
    json_array_foreach(json_object_get(root, "exposures"), i, one)
        if (json_object_set(one, "sandbox", json_object_get(sandbox, "name")) < 0 ||
            json_array_append(all, one) < 0)
            return err_errno(err, -ENOMEM, "exposures");
    return 0;
}

static int add_all_exposures(struct client *c, const struct exposures_args *args, json_t *all,
                             struct err *err)
{
    const struct list_filter filter = {.query = BUF_INIT(0)};
    auto_ptr(json_decref) json_t *list = NULL;
    json_t *sandbox;
    size_t i;
    int r = list_get(c, &filter, &list, err);

    json_array_foreach(list, i, sandbox) {
        r = r == 0 ? add_exposures(c, args, sandbox, all, err) : r;
        r = r == -ENOENT ? 0 : r; /* the sandbox was removed meanwhile */
    }
    return r;
}

static int get_exposures(const struct exposures_args *args, char **names, json_t *all,
                         struct err *err)
{
    auto_client struct client *c = NULL;
    int r = remote_open(&args->remote, &c, err);

    if (r == 0 && names[0] == NULL)
        return add_all_exposures(c, args, all, err);
    for (; r == 0 && *names != NULL; names++) {
        auto_ptr(json_decref) json_t *sandbox = NULL;

        r = remote_get(c, "/v1/sandboxes/%s", *names, &sandbox, err);
        if (r == 0)
            r = add_exposures(c, args, sandbox, all, err);
    }
    return r;
}

static int print_exposures(const json_t *all)
{
    static const char *const titles[] = {"SANDBOX", "PORT", "URL", NULL};
    auto_table struct text_table *t = table_new(titles);
    json_t *one;
    size_t i;

    if (t == NULL)
        return -ENOMEM;
    json_array_foreach(all, i, one) {
        table_add(t, member(one, "sandbox"));
        table_addf(t, "%d", (int)json_integer_value(json_object_get(one, "port")));
        table_add(t, member(one, "url"));
    }
    return table_print(t, stdout);
}

static json_t *exposure_row(const json_t *one)
{
    json_t *row = row_new(one);

    row_text(row, "Sandbox", member(one, "sandbox"));
    row_text(row, "URL", member(one, "url"));
    (void)json_object_set_new(row, "Port",
                              json_integer(json_integer_value(json_object_get(one, "port"))));
    return row;
}

static int exposures_main(const struct verb *v, const struct globals *g, char **argv)
{
    struct exposures_args args = {.remote.globals = *g};
    struct list_style style = {.key = "url", .row = exposure_row, .print = print_exposures};
    auto_ptr(json_decref) json_t *all = json_array();
    struct err err = ERR_NONE;
    char **names;
    int status;

    if (remote_begin(v, &args, argv, 0, REMOTE_ANY, "", &names, &status) == VERB_DONE)
        return status;
    style.quiet = args.quiet;
    if (get_exposures(&args, names, all, &err) < 0 ||
        list_output(&args.remote, all, &style, &err) < 0)
        return cli_fail(&err);
    return cli_flush(0);
}

const struct verb verb_exposures = {
    .name = "exposures",
    .operands = "[NAME...]",
    .summary = "List the ports that preview URLs lead to",
    .details = details,
    .groups = groups,
    .examples = examples,
    .main = exposures_main,
};
