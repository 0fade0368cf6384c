#include "api/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/file.h"
#include "json/decode.h"
#include "json/parse.h"

enum { PREFIXES_MAX = 64, PATH_BYTES_MAX = 4095 };

/* What the file's numbers are decoded into; the supervisor's and the HTTP front's own types differ.
 */
struct limits_text {
    int64_t sandboxes, processes, execs, connections, watchers, file_operations, file_queue,
        list_entries, output_bytes, body_bytes, log_bytes;
};

struct settings_text {
    char *policies_dir, *client_policy;
    char **bind_prefixes;
    struct limits_text limits;
};

/* clang-format off */
static const struct jfield limit_fields[] = {
    {.name = "maxSandboxes",   .decode = j_int64, .off = offsetof(struct limits_text, sandboxes),    .min = 1,       .max = 100000},
    {.name = "maxProcesses",   .decode = j_int64, .off = offsetof(struct limits_text, processes),    .min = 1,       .max = 256},
    {.name = "maxExecs",       .decode = j_int64, .off = offsetof(struct limits_text, execs),        .min = 1,       .max = 900},
    {.name = "maxConnections", .decode = j_int64, .off = offsetof(struct limits_text, connections),  .min = 8,       .max = 60000},
    {.name = "maxWatchers",    .decode = j_int64, .off = offsetof(struct limits_text, watchers),     .min = 1,       .max = 10000},
    {.name = "maxFileOperations", .decode = j_int64, .off = offsetof(struct limits_text, file_operations), .min = 1, .max = 100},
    {.name = "maxFileQueue",   .decode = j_int64, .off = offsetof(struct limits_text, file_queue),   .min = 0,       .max = 100000},
    {.name = "maxListEntries", .decode = j_int64, .off = offsetof(struct limits_text, list_entries), .min = 1,       .max = 100000000},
    {.name = "maxOutputBytes", .decode = j_int64, .off = offsetof(struct limits_text, output_bytes), .min = 1,       .max = 1 << 30},
    {.name = "maxBodyBytes",   .decode = j_int64, .off = offsetof(struct limits_text, body_bytes),   .min = 1 << 10, .max = 1 << 28},
    {.name = "logBytes",       .decode = j_int64, .off = offsetof(struct limits_text, log_bytes),    .min = 8192,    .max = 1 << 30},
    {0},
};

static const struct jfield fields[] = {
    {.name = "policiesDir",  .decode = j_string,  .off = offsetof(struct settings_text, policies_dir),  .min = 1, .max = PATH_BYTES_MAX},
    {.name = "clientPolicy", .decode = j_string,  .off = offsetof(struct settings_text, client_policy), .min = 1, .max = PATH_BYTES_MAX},
    {.name = "bindPrefixes", .decode = j_strings, .off = offsetof(struct settings_text, bind_prefixes), .min = 0, .max = PREFIXES_MAX},
    {.name = "limits",       .decode = j_object,  .off = offsetof(struct settings_text, limits),        .fields = limit_fields},
    {0},
};
/* clang-format on */

int settings_init(struct settings *s)
{
    *s = (struct settings){.limits = supervisor_limits_default()};
    http_config_init(&s->http);
    s->policies_dir = strdup("/etc/rind/policies");
    s->client_policy = strdup("/etc/rind/client.json");
    s->bind_prefixes = calloc(2, sizeof(*s->bind_prefixes));
    if (s->bind_prefixes != NULL)
        s->bind_prefixes[0] = strdup("/");
    if (s->policies_dir == NULL || s->client_policy == NULL || s->bind_prefixes == NULL ||
        s->bind_prefixes[0] == NULL)
        return -ENOMEM;
    return 0;
}

void settings_done(struct settings *s)
{
    free(s->policies_dir);
    free(s->client_policy);
    json_strings_free(s->bind_prefixes);
    *s = (struct settings){.policies_dir = NULL};
}

static void text_done(struct settings_text *t)
{
    free(t->policies_dir);
    free(t->client_policy);
    json_strings_free(t->bind_prefixes);
}

static int check_absolute(const char *key, const char *path, struct err *err)
{
    return path == NULL || path[0] == '/'
               ? 0
               : err_set(err, -EINVAL, "%s: '%s' is not an absolute path", key, path);
}

static int check(const struct settings_text *t, struct err *err)
{
    int r;

    r = check_absolute("policiesDir", t->policies_dir, err);
    if (r == 0)
        r = check_absolute("clientPolicy", t->client_policy, err);
    for (char **p = t->bind_prefixes; r == 0 && p != NULL && *p != NULL; p++)
        r = check_absolute("bindPrefixes", *p, err);
    return r;
}

static struct limits_text limits_of(const struct settings *s)
{
    const struct supervisor_limits *l = &s->limits;

    return (struct limits_text){.sandboxes = l->sandboxes,
                                .processes = l->processes,
                                .execs = l->execs,
                                .connections = l->connections,
                                .watchers = l->watchers,
                                .file_operations = l->file_operations,
                                .file_queue = l->file_queue,
                                .list_entries = l->list_entries,
                                .output_bytes = (int64_t)l->output_bytes,
                                .body_bytes = (int64_t)l->body_bytes,
                                .log_bytes = (int64_t)l->log_bytes};
}

static void apply(struct settings *s, struct settings_text *t)
{
    const struct limits_text *l = &t->limits;

    s->limits = (struct supervisor_limits){.sandboxes = (unsigned)l->sandboxes,
                                           .processes = (unsigned)l->processes,
                                           .execs = (unsigned)l->execs,
                                           .connections = (unsigned)l->connections,
                                           .watchers = (unsigned)l->watchers,
                                           .file_operations = (unsigned)l->file_operations,
                                           .file_queue = (unsigned)l->file_queue,
                                           .list_entries = (unsigned)l->list_entries,
                                           .output_bytes = (uint64_t)l->output_bytes,
                                           .body_bytes = (uint64_t)l->body_bytes,
                                           .log_bytes = (uint64_t)l->log_bytes};
    s->http.max_connections = s->limits.connections;
    s->http.max_body = s->limits.body_bytes;
    if (t->policies_dir != NULL) {
        free(s->policies_dir);
        s->policies_dir = take(t->policies_dir);
    }
    if (t->client_policy != NULL) {
        free(s->client_policy);
        s->client_policy = take(t->client_policy);
    }
    if (t->bind_prefixes != NULL) {
        json_strings_free(s->bind_prefixes);
        s->bind_prefixes = take(t->bind_prefixes);
    }
}

int settings_parse(struct settings *s, const char *text, size_t len, const char *where,
                   struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    struct settings_text t = {.limits = limits_of(s)};
    int r;

    r = json_parse(text, len, SETTINGS_TEXT_MAX, &root, err);
    if (r == 0)
        r = json_decode(root, fields, &t, err);
    if (r == 0)
        r = check(&t, err);
    if (r == 0)
        apply(s, &t);
    text_done(&t);
    return r < 0 ? err_wrap(err, r, "%s", where) : 0;
}

int settings_load(struct settings *s, const char *path, struct err *err)
{
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    auto_free char *text = NULL;
    size_t len = 0;
    int r;

    if (fd < 0)
        return err_errno(err, -errno, "configuration %s", path);
    r = file_read_fd(fd, SETTINGS_TEXT_MAX, &text, &len, err);
    return r < 0 ? err_wrap(err, r, "configuration %s", path)
                 : settings_parse(s, text, len, path, err);
}
