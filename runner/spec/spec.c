/* Fills a spec from option texts; see spec.h. Pure, except for getcwd. */

#include "spec/spec.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/strtab.h"
#include "json/decode.h"
#include "policy/egress.h"
#include "policy/tables.h"
#include "proto/userdb.h"
#include "spec/env-index.h"
#include "spec/parse.h"
#include "spec/strings.h"

struct spec *spec_new(void)
{
    auto_ptr(spec_free) struct spec *s = NULL;

    s = calloc(1, sizeof(*s));
    if (s == NULL)
        return NULL;
    s->limits = limits_unset();
    s->resources = resources_unset();
    s->timeout_ms = s->restart_max = s->inactivity_ms = LIMIT_UNSET;
    s->stop_timeout_ms = SPEC_STOP_TIMEOUT_MS;
    s->stop_signal = SIGTERM;
    s->health.interval_ms = s->health.timeout_ms = s->health.start_period_ms =
        s->health.start_interval_ms = s->health.retries = LIMIT_UNSET;
    s->labels = strings_new();
    s->policy = strdup("untrusted");
    s->env = strings_new();
    s->argv = strings_new();
    if (s->policy == NULL || s->env == NULL || s->argv == NULL || s->labels == NULL)
        return NULL;
    return take(s);
}

void spec_free(struct spec *s)
{
    if (s == NULL)
        return;
    for (size_t i = 0; i < s->volume_count; i++) {
        free(s->volumes[i].source);
        free(s->volumes[i].target);
        free(s->volumes[i].from);
    }
    for (size_t i = 0; i < s->tmpfs_count; i++)
        free(s->tmpfs[i].target);
    free(s->volumes);
    free(s->tmpfs);
    resources_done(&s->resources);
    free(s->ports);
    json_strings_free(s->argv);
    json_strings_free(s->env);
    json_strings_free(s->labels);
    env_index_free(s->env_index);
    share_list_done(&s->shares);
    json_strings_free(s->entrypoint);
    json_strings_free(s->image_layers);
    json_strings_free(s->groups);
    json_strings_free(s->sysctls);
    health_check_done(&s->health);
    free(s->image);
    free(s->image_id);
    free(s->name);
    free(s->rootfs);
    free(s->hostname);
    free(s->domainname);
    free(s->dns_search);
    free(s->dns_options);
    free(s->policy);
    free(s->cwd);
    free(s->user);
    free(s->net_container);
    free(s->net_name);
    free(s->net_aliases);
    free(s->net_links);
    for (size_t i = 0; i < s->more_net_count; i++)
        spec_net_done(&s->more_nets[i]);
    egress_free(s->egress);
    free(s);
}

/* ---- names ---- */

static int replace_string(char **member, const char *text, struct err *err)
{
    char *copy = strdup(text);

    if (copy == NULL)
        return err_errno(err, -ENOMEM, "spec");
    free(*member);
    *member = copy;
    return 0;
}

int spec_set_name(struct spec *s, const char *text, struct err *err)
{
    if (!parse_is_name(text, SPEC_NAME_MAX))
        return err_set(err, -EINVAL,
                       "name \"%.*s\": must be 1 to %d letters, digits, _ . - and begin "
                       "with a letter or digit",
                       QUOTE_MAX, text, SPEC_NAME_MAX);
    return replace_string(&s->name, text, err);
}

/* RFC 1123: labels of letters, digits and inner hyphens, joined by dots. */
static bool is_hostname(const char *text)
{
    static const char accepted[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-";
    size_t total = strlen(text);

    if (total == 0 || total > SPEC_HOSTNAME_MAX)
        return false;
    for (;;) {
        size_t len = strspn(text, accepted);

        if (len == 0 || text[0] == '-' || text[len - 1] == '-')
            return false;
        if (text[len] == '\0')
            return true;
        if (text[len] != '.')
            return false;
        text += len + 1;
    }
}

int spec_set_hostname(struct spec *s, const char *text, struct err *err)
{
    if (!is_hostname(text))
        return err_set(err, -EINVAL,
                       "hostname \"%.*s\": must be at most %d letters, digits and hyphens (not at "
                       "an end), in parts joined by dots",
                       QUOTE_MAX, text, SPEC_HOSTNAME_MAX);
    return replace_string(&s->hostname, text, err);
}

int spec_set_policy_name(struct spec *s, const char *text, struct err *err)
{
    if (!policy_name_ok(text))
        return err_set(err, -EINVAL, "policy \"%.*s\": must be the name of a policy", QUOTE_MAX,
                       text);
    return replace_string(&s->policy, text, err);
}

int spec_set_policy(struct spec *s, const char *text, struct err *err)
{
    const char *const *names = policy_builtin_names();
    size_t unused;

    if (strchr(text, '/') != NULL) {
        auto_free char *path = NULL;
        int r = parse_host_path("policy", text, &path, err);

        return r < 0 ? r : replace_string(&s->policy, path, err);
    }
    if (policy_builtin(text, &unused) == NULL)
        return err_set(
            err, -ENOENT,
            "policy \"%.*s\": must be %s, %s, %s, %s, %s, %s, or the path of a policy file "
            "with a / in it",
            QUOTE_MAX, text, names[0], names[1], names[2], names[3], names[4], names[5]);
    return replace_string(&s->policy, text, err);
}

int spec_set_user(struct spec *s, const char *text, struct err *err)
{
    struct userdb_spec unused;
    const char *why = "";
    int r;

    r = userdb_parse(text, &unused, &why);
    if (r < 0)
        return err_set(err, r, "user \"%.*s\": %s", QUOTE_MAX, text, why);
    return replace_string(&s->user, text, err);
}

/* ---- paths ---- */

int spec_set_rootfs(struct spec *s, const char *text, struct err *err)
{
    auto_free char *path = NULL;
    int r = 0;

    /* A directory "host" in the working directory can be given as "./host". */
    if (strcmp(text, SPEC_ROOTFS_HOST) != 0)
        r = parse_host_path("rootfs", text, &path, err);
    return r < 0 ? r : replace_string(&s->rootfs, path != NULL ? path : text, err);
}

bool spec_shows_host(const struct spec *s)
{
    return s->rootfs != NULL && strcmp(s->rootfs, SPEC_ROOTFS_HOST) == 0;
}

int spec_set_workdir(struct spec *s, const char *text, struct err *err)
{
    auto_free char *path = NULL;
    int r = parse_inside_path("workdir", text, &path, err);

    return r < 0 ? r : replace_string(&s->cwd, path, err);
}

static bool is_below(const char *path, const char *top)
{
    size_t len = strlen(top);

    return strncmp(path, top, len) == 0 && (path[len] == '\0' || path[len] == '/');
}

/* Parses a mount target in the sandbox; targets below rind's own mounts are refused. */
static int parse_target(const char *what, const char *text, char **ret, struct err *err)
{
    static const char *const ours[] = {"/proc", "/sys", "/dev"};
    auto_free char *path = NULL;
    int r;

    r = parse_inside_path(what, text, &path, err);
    if (r < 0)
        return r;
    if (strcmp(path, "/") == 0)
        return err_set(err, -EINVAL, "%s \"%.*s\": the root is the image's; use --rootfs", what,
                       QUOTE_MAX, text);
    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
        if (is_below(path, ours[i]))
            return err_set(err, -EINVAL,
                           "%s \"%.*s\": %s is made by rind, nothing can be mounted there", what,
                           QUOTE_MAX, text, ours[i]);
    *ret = take(path);
    return 0;
}

/*
 * Splits text at colons, in place, into at most n parts. Returns their number; n + 1: more than n.
 */
static size_t split_colons(char *text, char **parts, size_t n)
{
    size_t count = 0;
    char *part;

    while ((part = strsep(&text, ":")) != NULL) {
        if (count == n)
            return n + 1;
        parts[count++] = part;
    }
    return count;
}

/* The same rules as in the launcher (launch/volume.h). */
static int parse_volume_name(const char *text, char **ret, struct err *err)
{
    if (!parse_is_name(text, SPEC_VOLUME_NAME_MAX))
        return err_set(err, -EINVAL,
                       "volume \"%.*s\": must be a path that begins with / or ., or a name of 1 to "
                       "%d letters, digits, _ . - that begins with a letter or digit",
                       QUOTE_MAX, text, SPEC_VOLUME_NAME_MAX);
    *ret = strdup(text);
    return *ret != NULL ? 0 : err_errno(err, -ENOMEM, "volume");
}

static int parse_volume(const char *source, const char *target, struct volume *v, struct err *err)
{
    auto_free char *from = NULL, *to = NULL;
    int r = 0;

    if (source != NULL)
        r = v->named ? parse_volume_name(source, &from, err)
                     : parse_host_path("volume", source, &from, err);
    if (r == 0)
        r = parse_target("volume", target, &to, err);
    if (r < 0)
        return r;
    v->source = take(from);
    v->target = take(to);
    return 0;
}

static int add_volume(struct spec *s, const char *source, const char *target, struct volume v,
                      struct err *err)
{
    struct volume *more;
    int r;

    if (s->volume_count == SPEC_VOLUMES_MAX)
        return err_set(err, -E2BIG, "volume \"%.*s:%.*s\": more than %d volumes", QUOTE_MAX,
                       source != NULL ? source : "", QUOTE_MAX, target, SPEC_VOLUMES_MAX);
    more = reallocarray(s->volumes, s->volume_count + 1, sizeof(*more));
    if (more == NULL)
        return err_errno(err, -ENOMEM, "volume");
    s->volumes = more;
    r = parse_volume(source, target, &v, err);
    if (r == 0)
        s->volumes[s->volume_count++] = v;
    return r;
}

int spec_put_volume(struct spec *s, const char *source, const char *target, bool read_only,
                    struct err *err)
{
    return add_volume(s, source, target, (struct volume){.read_only = read_only}, err);
}

int spec_put_named_volume(struct spec *s, const char *name, const char *target, bool read_only,
                          bool no_copy, struct err *err)
{
    return add_volume(s, name, target,
                      (struct volume){.read_only = read_only, .named = true, .no_copy = no_copy},
                      err);
}

void spec_volume_make(struct spec *s)
{
    s->volumes[s->volume_count - 1].make = true;
}

int spec_volume_from(struct spec *s, const char *from, struct err *err)
{
    struct volume *v = &s->volumes[s->volume_count - 1];

    free(take(v->from));
    return parse_volume_name(from, &v->from, err);
}

int spec_add_restore(struct spec *s, const char *text, struct err *err)
{
    const char *colon = strchr(text, ':');
    auto_free char *name = NULL;
    int r;

    if (colon == NULL)
        return err_set(err, -EINVAL, "restore \"%.*s\": must be VOLUME:DST", QUOTE_MAX, text);
    name = strndup(text, (size_t)(colon - text));
    if (name == NULL)
        return err_errno(err, -ENOMEM, "restore");
    r = spec_put_named_volume(s, NULL, colon + 1, false, false, err);
    return r < 0 ? r : spec_volume_from(s, name, err);
}

/* Parses "ro", "rw", "nocopy", joined by commas. */
static bool parse_volume_flags(char *text, struct volume *v)
{
    const char *word;

    while ((word = strsep(&text, ",")) != NULL) {
        if (strcmp(word, "ro") == 0)
            v->read_only = true;
        else if (strcmp(word, "nocopy") == 0 && v->named)
            v->no_copy = true;
        else if (strcmp(word, "rw") != 0)
            return false;
    }
    return true;
}

int spec_add_volume(struct spec *s, const char *text, struct err *err)
{
    auto_free char *copy = NULL;
    char *parts[3] = {NULL};
    struct volume v = {.read_only = false};
    size_t n;

    copy = strdup(text);
    if (copy == NULL)
        return err_errno(err, -ENOMEM, "volume");
    n = split_colons(copy, parts, 3);
    if (n == 1)
        return spec_put_named_volume(s, NULL, parts[0], false, false, err);
    v.named = n >= 2 && n <= 3 && parts[0][0] != '/' && parts[0][0] != '.';
    if (n < 2 || n > 3 || (n == 3 && !parse_volume_flags(parts[2], &v)))
        return err_set(
            err, -EINVAL,
            "volume \"%.*s\": must be SRC:DST, SRC:DST:ro or SRC:DST:rw; behind the name "
            "of a volume also nocopy",
            QUOTE_MAX, text);
    return add_volume(s, parts[0], parts[1], v, err);
}

int spec_put_tmpfs(struct spec *s, const char *target, const struct tmpfs *t, struct err *err)
{
    struct tmpfs own = *t, *more;
    int r;

    own.target = NULL;
    if (s->tmpfs_count == SPEC_TMPFS_MAX)
        return err_set(err, -E2BIG, "tmpfs \"%.*s\": more than %d of them", QUOTE_MAX, target,
                       SPEC_TMPFS_MAX);
    more = reallocarray(s->tmpfs, s->tmpfs_count + 1, sizeof(*more));
    if (more == NULL)
        return err_errno(err, -ENOMEM, "tmpfs");
    s->tmpfs = more;
    r = parse_target("tmpfs", target, &own.target, err);
    if (r == 0)
        s->tmpfs[s->tmpfs_count++] = own;
    return r;
}

/* ---- limits ---- */

int spec_set_memory(struct spec *s, const char *text, struct err *err)
{
    int r = parse_bytes("memory", text, 0, LIMIT_BYTES_MAX, &s->limits.memory_bytes, err);

    if (r < 0)
        return r;
    if (s->limits.memory_bytes >= LIMIT_MEMORY_MIN)
        return 0;
    s->limits.memory_bytes = LIMIT_UNSET;
    return err_set(err, -ERANGE, "memory \"%.*s\": no process starts with less than 4m", QUOTE_MAX,
                   text);
}

int spec_set_shm_size(struct spec *s, const char *text, struct err *err)
{
    return parse_bytes("shm size", text, LIMIT_SHM_MIN, LIMIT_BYTES_MAX, &s->limits.shm_bytes, err);
}

int spec_set_disk(struct spec *s, const char *text, struct err *err)
{
    return parse_bytes("disk", text, LIMIT_DISK_MIN, LIMIT_DISK_MAX, &s->limits.disk_bytes, err);
}

int spec_set_pids(struct spec *s, const char *text, struct err *err)
{
    return parse_number("pids", text, 1, LIMIT_PIDS_MAX, &s->limits.pids, err);
}

int spec_set_cpus(struct spec *s, const char *text, struct err *err)
{
    int64_t millis = 0;
    int r = parse_millis(text, strlen(text), &millis);

    if (r == 0 && (millis < LIMIT_CPU_MILLIS_MIN || millis > LIMIT_CPU_MILLIS_MAX))
        r = -ERANGE;
    if (r < 0)
        return err_set(err, r,
                       "cpus \"%.*s\": must be a number between 0.01 and 1024, with at most three "
                       "decimals",
                       QUOTE_MAX, text);
    s->limits.cpu_millis = millis;
    return 0;
}

int spec_add_ulimit(struct spec *s, const char *text, struct err *err)
{
    struct rlimit_value v;
    size_t i;
    int r;

    r = parse_ulimit(text, &v, err);
    if (r < 0)
        return r;
    for (i = 0; i < s->rlimit_count && s->rlimits[i].resource != v.resource; i++)
        ;
    s->rlimits[i] = v; /* the array has room for RLIMITS_MAX resources, each occurring once */
    if (i == s->rlimit_count)
        s->rlimit_count++;
    return 0;
}

int spec_set_timeout(struct spec *s, const char *text, struct err *err)
{
    return parse_duration("timeout", text, &s->timeout_ms, err);
}

/* ---- command, validation ---- */

static int check_command(char *const argv[], size_t n, struct err *err)
{
    if (n == 0 || argv[0][0] == '\0')
        return err_set(err, -EINVAL, "command: missing or empty");
    if (n > SPEC_ARGS_MAX)
        return err_set(err, -E2BIG, "command: more than %d arguments", SPEC_ARGS_MAX);
    for (size_t i = 0; i < n; i++)
        if (strlen(argv[i]) > SPEC_STRING_MAX)
            return err_set(err, -E2BIG, "command: argument %zu is longer than %d bytes", i,
                           SPEC_STRING_MAX);
    return 0;
}

int spec_set_command(struct spec *s, char *const argv[], struct err *err)
{
    char **copy = NULL;
    size_t n = 0;
    int r;

    while (argv[n] != NULL)
        n++;
    r = check_command(argv, n, err);
    if (r < 0)
        return r;
    copy = strings_new();
    r = copy != NULL ? 0 : -ENOMEM;
    for (size_t i = 0; i < n && r == 0; i++)
        r = strings_append(&copy, i, argv[i]);
    if (r < 0) {
        json_strings_free(copy);
        return err_errno(err, r, "command");
    }
    json_strings_free(s->argv);
    s->argv = copy;
    return 0;
}

/*
 * Of two mounts with one target, one would be hidden. Nested targets are allowed: the plan sorts
 * them.
 */
static int check_targets(const struct spec *s, struct err *err)
{
    const char *targets[SPEC_VOLUMES_MAX + SPEC_TMPFS_MAX];
    size_t n = 0;

    for (size_t i = 0; i < s->volume_count; i++)
        targets[n++] = s->volumes[i].target;
    for (size_t i = 0; i < s->tmpfs_count; i++)
        targets[n++] = s->tmpfs[i].target;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++)
            if (strcmp(targets[i], targets[j]) == 0)
                return err_set(err, -EINVAL, "\"%.*s\": two volumes or tmpfs have this target",
                               QUOTE_MAX, targets[i]);
    return 0;
}

static size_t strings_bytes(char *const *strings)
{
    size_t total = 0;

    for (; *strings != NULL; strings++)
        total += strlen(*strings) + 1 + sizeof(char *); /* execve counts the pointers as well */
    return total;
}

int spec_validate_kept(const struct spec *s, struct err *err)
{
    int r;

    if (s->image != NULL && s->rootfs != NULL)
        return err_set(err, -EINVAL, "image: not with a rootfs; either is the root file system");
    if (strings_bytes(s->argv) + strings_bytes(s->env) > SPEC_STRINGS_MAX)
        return err_set(err, -E2BIG, "command and environment together are longer than %d bytes",
                       SPEC_STRINGS_MAX);
    r = check_targets(s, err);
    /* Without a limit of its own the policy may have one, which a start knows. */
    if (r == 0 && s->limits.memory_bytes != LIMIT_UNSET)
        r = resources_check(&s->resources, s->limits.memory_bytes, err);
    return r < 0 ? r : spec_validate_network(s, err);
}

int spec_validate(const struct spec *s, struct err *err)
{
    if (s->argv[0] == NULL && s->image == NULL)
        return err_set(err, -EINVAL, "no command: name one behind --");
    return spec_validate_kept(s, err);
}
