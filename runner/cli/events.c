/* rind events: prints events of sandboxes. */

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "cli/follow.h"
#include "cli/remote.h"
#include "cli/url.h"
#include "json/parse.h"

struct events_args {
    struct remote remote; /* first */
    struct buf query;     /* "type=…&" */
    const char *since;
    bool all; /* --since 0: a gap before the first kept event is not reported */
    bool audit;
};

static int opt_type(void *target, const struct opt *o, const char *text, struct err *err)
{
    struct events_args *args = target;
    int r = url_make(&args->query, "type=%s&", text);

    (void)o;
    return r < 0 ? err_errno(err, r, "%.64s", text) : 0;
}

static int opt_since(void *target, const struct opt *o, const char *text, struct err *err)
{
    (void)o;
    if (text[0] == '\0' || strlen(text) > 18 || strspn(text, "0123456789") != strlen(text))
        return err_set(err, -EINVAL, "\"%.64s\" is no number of an event", text);
    /*
     * For the API 0 means "from now on". Starting after id 1 gives all kept events, after a gap
     * event.
     */
    ((struct events_args *)target)->all = strspn(text, "0") == strlen(text);
    ((struct events_args *)target)->since = ((struct events_args *)target)->all ? "1" : text;
    return 0;
}

static const struct opt events_options[] = {
    {.name = "type",
     .arg = "TYPE",
     .set = opt_type,
     .flags = OPT_REPEAT,
     .help = "Only events of this type: create, adopt, start, restart, exec, exec_exit, "
             "process_start, process_exit, pause, resume, timeout, inactive, oom, exit, stop, "
             "destroy, update, rename, egress, health, snapshot, image_load, image_tag, "
             "image_untag, image_remove, network_limit, disk_hold, disk_go_on, network_closed, "
             "network_open, "
             "volume_create, volume_mount, volume_unmount, volume_remove, network_create, "
             "network_destroy, network_connect, network_disconnect, attach"},
    {.name = "since",
     .arg = "ID",
     .set = opt_since,
     .help = "Also those behind this id, as far as they are kept; with 0 all that are. Default: "
             "from now on"},
    {.name = "audit",
     .set = opt_flag,
     .off = offsetof(struct events_args, audit),
     .help = "The record of requests instead, for root and the owner of the daemon: which user and "
             "process has changed what, or was refused. With --since 0 all that is kept"},
    {0},
};
static const struct opt_group groups[] = {
    {.title = "Options", .rows = events_options}, REMOTE_GROUP, {0}};

static const char *const details[] = {
    "Prints what happens, to all sandboxes or to NAME, until it is ended: one line an event, which "
    "begins with its id. When the daemon is restarted, it goes on. A gap in what the daemon has "
    "kept is told.",
    NULL,
};

/* {"exitCode":1} as "exitCode=1". */
static void print_detail(json_t *detail)
{
    const char *key;
    json_t *value;

    json_object_foreach(detail, key, value) {
        auto_free char *text =
            json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII);

        (void)printf(" %s=%s", key, text != NULL ? text : "?");
    }
}

static int on_stream_event(void *data, const char *name, const char *text, size_t len,
                           struct err *err)
{
    const struct events_args *args = data;
    auto_ptr(json_decref) json_t *root = NULL;
    int r = json_parse(text, len, EVENT_LINE_MAX, &root, err);

    if (r < 0)
        return err_wrap(err, r, "an event");
    if (args->all && strcmp(name, "gap") == 0 &&
        json_integer_value(json_object_get(root, "after")) == 1)
        return 0;
    if (args->remote.json) {
        if (json_object_get(root, "type") == NULL)
            (void)json_object_set_new(
                root, "type",
                json_string(name)); /* gap and dropped events have no type of their own */
        print_json_line(json_incref(root));
    } else if (json_object_get(root, "id") == NULL) {
        (void)printf("%s", name);
        print_detail(root);
        (void)putchar('\n');
    } else {
        (void)printf("%lld %s %s %s", (long long)json_integer_value(json_object_get(root, "id")),
                     member(root, "time"), member(root, "name"), member(root, "type"));
        print_detail(json_object_get(root, "detail"));
        (void)putchar('\n');
    }
    return fflush(stdout) == 0 ? 0 : err_errno(err, -errno, "standard output");
}

/* The object's members, and the sandbox where its name is another. */
static int on_audit_record(void *data, const char *name, const char *text, size_t len,
                           struct err *err)
{
    const struct events_args *args = data;
    auto_ptr(json_decref) json_t *root = NULL;
    int r = json_parse(text, len, EVENT_LINE_MAX, &root, err);

    if (r < 0)
        return err_wrap(err, r, "a record");
    if (args->remote.json) {
        print_json_line(json_incref(root));
    } else if (json_object_get(root, "route") == NULL) {
        (void)printf("%s", name);
        print_detail(root);
        (void)putchar('\n');
    } else {
        json_t *uid = json_object_get(root, "uid");

        (void)printf("%lld %s", (long long)json_integer_value(json_object_get(root, "id")),
                     member(root, "time"));
        if (uid != NULL)
            (void)printf(" uid=%lld pid=%lld", (long long)json_integer_value(uid),
                         (long long)json_integer_value(json_object_get(root, "pid")));
        (void)printf(" %s %s %lld", member(root, "method"), member(root, "route"),
                     (long long)json_integer_value(json_object_get(root, "status")));
        if (json_object_get(root, "error") != NULL)
            (void)printf(" %s", member(root, "error"));
        print_detail(json_object_get(root, "object"));
        if (json_object_get(root, "sandbox") != NULL)
            (void)printf(" sandbox=%s", member(root, "sandbox"));
        (void)putchar('\n');
    }
    return fflush(stdout) == 0 ? 0 : err_errno(err, -errno, "standard output");
}

static int show_audit(struct events_args *args, const char *name)
{
    struct err err = ERR_NONE;
    int r;

    if (name != NULL || args->query.len > 0)
        return cli_failf("--audit: the record is of all sandboxes, without NAME and --type");
    r = follow(&args->remote, "/v1/audit", args->since, on_audit_record, args, &err);
    return cli_flush(r < 0 ? cli_fail(&err) : 0);
}

static int show_events(struct events_args *args, const char *name)
{
    auto_buf struct buf url = BUF_INIT(URL_MAX);
    struct err err = ERR_NONE;
    int r = buf_append_str(&url, "/v1/events?");

    if (r == 0 && args->query.len > 0)
        r = buf_append_str(&url, args->query.data);
    if (r == 0 && name != NULL)
        r = url_make(&url, "sandbox=%s&", name);
    if (r < 0)
        return cli_failf("%.64s: too long", name != NULL ? name : "--type");
    url.data[--url.len] = '\0'; /* removes the trailing & or ? */
    r = follow(&args->remote, url.data, args->since, on_stream_event, args, &err);
    return cli_flush(r < 0 ? cli_fail(&err) : 0);
}

static int events_main(const struct verb *v, const struct globals *g, char **argv)
{
    struct events_args args = {.remote.globals = *g, .query = BUF_INIT(URL_MAX)};
    char **names;
    int status;

    if (remote_begin(v, &args, argv, 0, 1, "", &names, &status) == VERB_GO)
        status = args.audit ? show_audit(&args, names[0]) : show_events(&args, names[0]);
    buf_done(&args.query);
    return status;
}

const struct verb verb_events = {
    .name = "events",
    .operands = "[NAME]",
    .summary = "Show what happens to sandboxes",
    .details = details,
    .groups = groups,
    .main = events_main,
};
