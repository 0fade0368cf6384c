/* rind update: changes settings of existing sandboxes. */

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "cli/remote.h"
#include "cli/share-names.h"
#include "cli/url.h"
#include "json/parse.h"
#include "spec/json.h"
#include "spec/spec.h"

struct update_args {
    struct remote remote; /* first */
    json_t *patch;        /* owned; body of the request */
};

/* Parses a value as rind create does, into a temporary spec, and copies its JSON into the patch. */
static int put_parsed(json_t *patch, int (*set)(struct spec *, const char *, struct err *),
                      const char *key, const char *text, struct err *err)
{
    auto_ptr(spec_free) struct spec *spec = spec_new();
    auto_ptr(json_decref) json_t *root = NULL;
    int r = spec == NULL ? err_errno(err, -ENOMEM, "update") : set(spec, text, err);

    if (r == 0)
        r = spec_to_json(spec, &root, err);
    if (r == 0 && json_object_set(patch, key, json_object_get(root, key)) < 0)
        r = err_errno(err, -ENOMEM, "update");
    return r;
}

#define HANDLER(name, set, key)                                                                    \
    static int on_##name(void *target, const struct opt *o, const char *text, struct err *err)     \
    {                                                                                              \
        (void)o;                                                                                   \
        return put_parsed(((struct update_args *)target)->patch, set, key, text, err);             \
    }
HANDLER(restart, spec_set_restart, "restart")
HANDLER(stop_signal, spec_set_stop_signal, "stopSignal")
HANDLER(stop_timeout, spec_set_stop_timeout, "stopTimeoutMs")

/* Parses a limit as rind create does, and puts it into the patch's limits. */
static int put_limit(json_t *patch, int (*set)(struct spec *, const char *, struct err *),
                     const char *text, struct err *err)
{
    auto_ptr(json_decref) json_t *one = json_object();
    json_t *limits = json_object_get(patch, "limits");
    int r;

    if (limits == NULL && json_object_set_new(patch, "limits", json_object()) == 0)
        limits = json_object_get(patch, "limits");
    if (one == NULL || limits == NULL)
        return err_errno(err, -ENOMEM, "update");
    r = put_parsed(one, set, "limits", text, err);
    if (r == 0 && json_object_update(limits, json_object_get(one, "limits")) < 0)
        r = err_errno(err, -ENOMEM, "update");
    return r;
}

#define LIMIT_HANDLER(name, set)                                                                   \
    static int on_##name(void *target, const struct opt *o, const char *text, struct err *err)     \
    {                                                                                              \
        (void)o;                                                                                   \
        return put_limit(((struct update_args *)target)->patch, set, text, err);                   \
    }
LIMIT_HANDLER(memory, spec_set_memory)
LIMIT_HANDLER(memory_swap, spec_set_memory_swap)
LIMIT_HANDLER(memory_reservation, spec_set_memory_reservation)
LIMIT_HANDLER(cpus, spec_set_cpus)
LIMIT_HANDLER(cpu_shares, spec_set_cpu_shares)
LIMIT_HANDLER(cpuset_cpus, spec_set_cpuset_cpus)
LIMIT_HANDLER(cpuset_mems, spec_set_cpuset_mems)
LIMIT_HANDLER(pids, spec_set_pids)
LIMIT_HANDLER(io_weight, spec_set_io_weight)
LIMIT_HANDLER(io_read_bps, spec_set_io_read_bps)
LIMIT_HANDLER(io_write_bps, spec_set_io_write_bps)
LIMIT_HANDLER(io_read_iops, spec_set_io_read_iops)
LIMIT_HANDLER(io_write_iops, spec_set_io_write_iops)

static int opt_inactivity(void *target, const struct opt *o, const char *text, struct err *err)
{
    json_t *patch = ((struct update_args *)target)->patch;

    (void)o;
    if (strcmp(text, "none") == 0)
        return json_object_set_new(patch, "inactivityTimeoutMs", json_null()) < 0
                   ? err_errno(err, -ENOMEM, "update")
                   : 0;
    return put_parsed(patch, spec_set_inactivity, "inactivityTimeoutMs", text, err);
}

/* Returns the patch's labels object, creating it if needed; borrowed. NULL = out of memory. */
static json_t *labels_of(json_t *patch)
{
    json_t *labels = json_object_get(patch, "labels");

    if (labels == NULL && json_object_set_new(patch, "labels", json_object()) == 0)
        labels = json_object_get(patch, "labels");
    return labels;
}

static int opt_label(void *target, const struct opt *o, const char *text, struct err *err)
{
    auto_ptr(json_decref) json_t *one = json_object();
    json_t *labels = labels_of(((struct update_args *)target)->patch);
    int r;

    (void)o;
    if (one == NULL || labels == NULL)
        return err_errno(err, -ENOMEM, "update");
    r = put_parsed(one, spec_add_label, "labels", text, err);
    if (r == 0 && json_object_update(labels, json_object_get(one, "labels")) < 0)
        r = err_errno(err, -ENOMEM, "update");
    return r;
}

static int opt_label_remove(void *target, const struct opt *o, const char *text, struct err *err)
{
    json_t *labels = labels_of(((struct update_args *)target)->patch);

    (void)o;
    if (labels == NULL)
        return err_errno(err, -ENOMEM, "update");
    return json_object_set_new(labels, text, json_null()) < 0
               ? err_set(err, -EILSEQ, "label \"%.64s\": is not UTF-8", text)
               : 0;
}

/* The shares given replace those before; none: there are none. */
static int opt_share(void *target, const struct opt *o, const char *text, struct err *err)
{
    json_t *patch = ((struct update_args *)target)->patch;
    json_t *list = json_object_get(patch, "share");
    char id[SHARE_TEXT_MAX];
    int r = strcmp(text, "none") == 0 ? 0 : share_resolve(text, id, err);

    (void)o;
    if (r < 0)
        return r;
    if (list == NULL && json_object_set_new(patch, "share", json_array()) == 0)
        list = json_object_get(patch, "share");
    if (list == NULL)
        return err_errno(err, -ENOMEM, "update");
    if (strcmp(text, "none") == 0)
        return json_array_clear(list);
    return json_array_append_new(list, json_string(id)) < 0 ? err_errno(err, -ENOMEM, "update") : 0;
}

/* clang-format off */
static const struct opt update_options[] = {
    { .name = "label", .letter = 'l', .arg = "KEY[=VALUE]", .set = opt_label, .flags = OPT_REPEAT,
      .help = "Put a label on the sandbox, or change it" },
    { .name = "label-rm", .arg = "KEY", .set = opt_label_remove, .flags = OPT_REPEAT,
      .help = "Take a label away" },
    { .name = "share", .arg = "USER|GROUP[:ro]", .set = opt_share, .flags = OPT_REPEAT,
      .help = "Share it with these instead of those before; none: with no other user. Requests of "
              "whoever may no longer are broken" },
    { .name = "restart", .arg = "POLICY", .set = on_restart,
      .help = "When the main process has ended by itself, start it again: no, "
              "on-failure[:TIMES], always, or unless-stopped" },
    { .name = "stop-signal", .arg = "SIGNAL", .set = on_stop_signal,
      .help = "What rind stop sends first" },
    { .name = "stop-timeout", .arg = "TIME", .set = on_stop_timeout,
      .help = "From that to SIGKILL" },
    { .name = "inactivity-timeout", .arg = "TIME", .set = opt_inactivity,
      .help = "Stop the sandbox when no client has used it for so long, from now on; none: never" },
    {0},
};

static const struct opt limit_rows[] = {
    { .name = "memory", .letter = 'm', .arg = "SIZE", .set = on_memory,
      .help = "Limit memory: bytes, or a number with k, m, g, or t" },
    { .name = "memory-swap", .arg = "SIZE", .set = on_memory_swap,
      .help = "Limit memory and swap together; -1: swap without a limit" },
    { .name = "memory-reservation", .arg = "SIZE", .set = on_memory_reservation,
      .help = "Memory that the kernel should take from others first" },
    { .name = "cpus", .arg = "NUMBER", .set = on_cpus,
      .help = "Limit processor time to NUMBER processors, such as 0.5" },
    { .name = "cpu-shares", .letter = 'c', .arg = "NUMBER", .set = on_cpu_shares,
      .help = "Weight of its processor time; others have 1024" },
    { .name = "cpuset-cpus", .arg = "LIST", .set = on_cpuset_cpus,
      .help = "Run on these processors only, such as 0-3,8" },
    { .name = "cpuset-mems", .arg = "LIST", .set = on_cpuset_mems,
      .help = "Use the memory of these nodes only" },
    { .name = "pids", .arg = "COUNT", .set = on_pids,
      .help = "Limit the number of processes and threads" },
    { .name = "io-weight", .arg = "NUMBER", .set = on_io_weight,
      .help = "Weight of its accesses to the disk, 10 to 1000; others have 100" },
    { .name = "io-read-bps", .arg = "SIZE", .set = on_io_read_bps,
      .help = "Limit reads from the disk where sandboxes are kept, in bytes a second" },
    { .name = "io-write-bps", .arg = "SIZE", .set = on_io_write_bps,
      .help = "Limit writes to it, in bytes a second" },
    { .name = "io-read-iops", .arg = "COUNT", .set = on_io_read_iops,
      .help = "Limit the number of reads from it a second" },
    { .name = "io-write-iops", .arg = "COUNT", .set = on_io_write_iops,
      .help = "Limit the number of writes to it a second" },
    {0},
};
/* clang-format on */
static const struct opt_group groups[] = {{.title = "Options", .rows = update_options},
                                          {.title = "Limits", .rows = limit_rows},
                                          REMOTE_GROUP,
                                          {0}};

static const char *const details[] = {
    "Changes what the daemon looks at when something happens to a sandbox, in whatever state it "
    "is, and its limits, at once if it runs. Nothing in it is started again. What the command runs "
    "with (files, network, policy, environment) is decided when a sandbox is made.",
    NULL,
};

static const struct example examples[] = {
    {"rind update --inactivity-timeout 30m web", "it may be unused for longer"},
    {"rind update --memory 1g --cpus 2 web", "more room, while it runs"},
    {"rind update --label team=red --label-rm temporary web", "one label more, one less"},
    {0},
};

static int update_one(struct client *c, const char *name, void *data, json_t **ret, struct err *err)
{
    auto_buf struct buf url = BUF_INIT(URL_MAX);
    int r = url_make(&url, "/v1/sandboxes/%s", name);

    if (r < 0)
        return err_errno(err, r, "sandbox '%.64s'", name);
    return client_json(c, "PATCH", url.data, json_incref(((const struct update_args *)data)->patch),
                       ret, err);
}

static int update_main(const struct verb *v, const struct globals *g, char **argv)
{
    struct update_args args = {.remote.globals = *g, .patch = json_object()};
    char **names;
    int status;

    if (args.patch == NULL)
        return cli_failf("update: out of memory");
    if (remote_begin(v, &args, argv, 1, REMOTE_ANY, "sandbox", &names, &status) != VERB_DONE)
        status = json_object_size(args.patch) == 0
                     ? cli_failf("update: nothing to change; rind update --help lists the options")
                     : remote_each(&args.remote, names, update_one, &args);
    json_decref(args.patch);
    return status;
}

const struct verb verb_update = {
    .name = "update",
    .operands = "NAME...",
    .summary = "Change labels, shares, limits, time-outs and restarting of sandboxes",
    .details = details,
    .examples = examples,
    .groups = groups,
    .main = update_main,
};
