/*
 * The decoder behind job.h, by table. Runs in rind-registry, once, before it is confined. Pure.
 */
#include "job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/strtab.h"
#include "image/config.h"
#include "image/registry-proto.h"
#include "json/decode.h"
#include "json/parse.h"
#include "url.h"

enum {
    HOSTS_MAX = 1024,
    MIRRORS_MAX = 16,
    TLS_MAX = 2 * MIRRORS_MAX,
    SECRET_MAX = 64 << 10,
    PEM_MAX = 1 << 20,
    NAME_BYTES = 255,
};

static const struct strtab pull_names[] = {
    {"all", JOB_PULL_ALL}, {"digest-only", JOB_PULL_DIGEST}, {"tag-only", JOB_PULL_TAG}, {0}};
static const struct strtab address_names[] = {
    {"internet", JOB_ADDRESSES_INTERNET}, {"any", JOB_ADDRESSES_ANY}, {0}};

/* clang-format off */
static const struct jfield credential_fields[] = {
    {.name = "username",      .decode = j_string, .off = offsetof(struct job_credential, username), .max = SECRET_MAX},
    {.name = "password",      .decode = j_string, .off = offsetof(struct job_credential, password), .max = SECRET_MAX},
    {.name = "identityToken", .decode = j_string, .off = offsetof(struct job_credential, identity), .max = SECRET_MAX},
    {.name = "registryToken", .decode = j_string, .off = offsetof(struct job_credential, bearer),   .max = SECRET_MAX},
    {0},
};

static const struct jfield mirror_fields[] = {
    {.name = "host",       .decode = j_string, .off = offsetof(struct job_mirror, host), .min = 1, .max = NAME_BYTES, .required = true},
    {.name = "repository", .decode = j_string, .off = offsetof(struct job_mirror, repository), .min = 1, .max = NAME_BYTES},
    {.name = "credential", .decode = j_object, .off = offsetof(struct job_mirror, credential), .fields = credential_fields},
    {.name = "pull",       .decode = j_enum,   .off = offsetof(struct job_mirror, pull), .names = pull_names},
    {0},
};
static const struct jarray mirror_array = {
    .fields = mirror_fields, .size = sizeof(struct job_mirror), .count_off = offsetof(struct registry_job, mirror_count)};

static const struct jfield tls_fields[] = {
    {.name = "host",        .decode = j_string, .off = offsetof(struct job_tls, host), .min = 1, .max = NAME_BYTES, .required = true},
    {.name = "ca",          .decode = j_string, .off = offsetof(struct job_tls, ca), .max = PEM_MAX},
    {.name = "certificate", .decode = j_string, .off = offsetof(struct job_tls, certificate), .max = PEM_MAX},
    {.name = "key",         .decode = j_string, .off = offsetof(struct job_tls, key), .max = PEM_MAX},
    {0},
};
static const struct jarray tls_array = {
    .fields = tls_fields, .size = sizeof(struct job_tls), .count_off = offsetof(struct registry_job, tls_count)};

#define PLATFORM_TEXT(member)                                                                       \
    {.name = #member, .decode = platform_text, .off = offsetof(struct platform, member), .max = 31}
static jdecode_fn platform_text;
static const struct jfield platform_fields[] = {
    PLATFORM_TEXT(os), PLATFORM_TEXT(architecture), PLATFORM_TEXT(variant),
    {0},
};

static const struct jfield proxy_fields[] = {
    {.name = "http",  .decode = j_string, .off = offsetof(struct registry_job, proxy_http)},
    {.name = "https", .decode = j_string, .off = offsetof(struct registry_job, proxy_https)},
    {.name = "no",    .decode = j_string, .off = offsetof(struct registry_job, proxy_no), .max = SECRET_MAX},
    {0},
};

static const struct jfield limit_fields[] = {
    {.name = "layers",     .decode = j_int64, .off = offsetof(struct registry_job, layers_max), .min = 1, .max = IMAGE_LAYERS_MAX},
    {.name = "imageBytes", .decode = j_int64, .off = offsetof(struct registry_job, bytes_max),  .min = 1, .max = INT64_MAX},
    {0},
};

#define TIMING(key, member, most)                                                                   \
    {.name = key, .decode = j_int64, .off = offsetof(struct registry_job, member), .min = 1, .max = (most)}
static const struct jfield timing_fields[] = {
    TIMING("connectMs",  connect_ms,  JOB_CONNECT_MS),
    TIMING("headMs",     head_ms,     JOB_HEAD_MS),
    TIMING("idleMs",     idle_ms,     JOB_IDLE_MS),
    TIMING("floorMs",    floor_ms,    JOB_FLOOR_MS),
    TIMING("floorBytes", floor_bytes, INT32_MAX),
    {.name = "retries",  .decode = j_int64, .off = offsetof(struct registry_job, retries), .min = 0, .max = JOB_RETRIES},
    TIMING("waitMs",     wait_ms,     JOB_WAIT_MS),
    {0},
};

static const struct jfield job_fields[] = {
    {.name = "host",       .decode = j_string,  .off = offsetof(struct registry_job, host), .min = 1, .max = NAME_BYTES, .required = true},
    {.name = "shown",      .decode = j_string,  .off = offsetof(struct registry_job, shown), .min = 1, .max = NAME_BYTES},
    {.name = "repository", .decode = j_string,  .off = offsetof(struct registry_job, repository), .min = 1, .max = NAME_BYTES},
    {.name = "push",       .decode = j_bool,    .off = offsetof(struct registry_job, push)},
    {.name = "credential", .decode = j_object,  .off = offsetof(struct registry_job, credential), .fields = credential_fields},
    {.name = "platform",   .decode = j_object,  .off = offsetof(struct registry_job, platform), .fields = platform_fields},
    {.name = "insecure",   .decode = j_strings, .off = offsetof(struct registry_job, insecure), .max = HOSTS_MAX},
    {.name = "exempt",     .decode = j_strings, .off = offsetof(struct registry_job, exempt), .max = HOSTS_MAX},
    {.name = "mirrors",    .decode = j_objects, .off = offsetof(struct registry_job, mirrors), .max = MIRRORS_MAX, .array = &mirror_array},
    {.name = "tls",        .decode = j_objects, .off = offsetof(struct registry_job, tls), .max = TLS_MAX, .array = &tls_array},
    {.name = "proxy",      .decode = j_object,  .off = 0, .fields = proxy_fields},
    {.name = "addresses",  .decode = j_enum,    .off = offsetof(struct registry_job, addresses), .names = address_names},
    {.name = "userAgent",  .decode = j_string,  .off = offsetof(struct registry_job, user_agent), .min = 1, .max = NAME_BYTES},
    {.name = "limits",     .decode = j_object,  .off = 0, .fields = limit_fields},
    {.name = "timing",     .decode = j_object,  .off = 0, .fields = timing_fields},
    {0},
};
/* clang-format on */

/* A text in an array of the struct itself. */
static int platform_text(json_t *value, const struct jfield *field, void *dst,
                         const struct jpath *path, struct err *err)
{
    if (!json_is_string(value) || json_string_length(value) > (size_t)field->max)
        return json_fail(err, -EINVAL, path, "must be a text of at most %d bytes", (int)field->max);
    (void)memcpy((char *)dst + field->off, json_string_value(value), json_string_length(value) + 1);
    return 0;
}

/* Not empty, without control bytes: it becomes a header or a part of a URL. */
static bool is_plain(const char *text)
{
    for (; text != NULL && *text != '\0'; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            return false;
    return true;
}

/* The grammar of names (image/reference.h) is checked again, as a path is made of it. */
static bool is_repository(const char *text)
{
    char whole[2 * NAME_BYTES];
    struct reference r;

    if (text == NULL)
        return true;
    if (strlen(text) + 3 > sizeof(whole))
        return false;
    (void)strcpy(whole, "h.x/");
    (void)strncat(whole, text, sizeof(whole) - 5);
    return reference_parse(whole, &r, NULL) == 0 && r.tag[0] == '\0' && r.digest[0] == '\0' &&
           strcmp(r.name, whole) == 0;
}

static bool is_host(const char *text)
{
    char host[URL_HOST_MAX + 1];
    uint16_t port;

    return url_parse_host(text, strlen(text), host, &port) == 0;
}

static int job_check(const struct registry_job *j, struct err *err)
{
    if (!is_host(j->host) || !is_repository(j->repository) || !is_plain(j->shown) ||
        !is_plain(j->user_agent))
        return err_set(err, -EINVAL, "host, shown, repository or userAgent: not valid");
    if (!is_plain(j->credential.bearer))
        return err_set(err, -EINVAL, "credential.registryToken: not valid");
    for (size_t i = 0; i < j->mirror_count; i++)
        if (!is_plain(j->mirrors[i].credential.bearer) || !is_host(j->mirrors[i].host) ||
            !is_repository(j->mirrors[i].repository))
            return err_set(err, -EINVAL, "mirrors[%zu]: no valid host or repository", i);
    for (size_t i = 0; i < j->tls_count; i++)
        if (!is_host(j->tls[i].host))
            return err_set(err, -EINVAL, "tls[%zu]: no valid host", i);
    return 0;
}

static int job_set_defaults(struct registry_job *j, struct err *err)
{
    struct platform machine;

    platform_of_machine(&machine);
    if (j->platform.os[0] == '\0' && j->platform.architecture[0] == '\0')
        j->platform = machine;
    else if (j->platform.os[0] == '\0')
        (void)strcpy(j->platform.os, "linux");
    if (j->platform.architecture[0] == '\0')
        (void)snprintf(j->platform.architecture, sizeof(j->platform.architecture), "%s",
                       machine.architecture);
    if (strcmp(j->platform.architecture, machine.architecture) == 0)
        j->platform.level = machine.level;
    if (j->shown == NULL)
        j->shown = strdup(j->host);
    if (j->user_agent == NULL)
        j->user_agent = strdup("rind/" RIND_VERSION);
    return j->shown != NULL && j->user_agent != NULL ? 0 : err_errno(err, -ENOMEM, "job");
}

int job_parse(const char *text, size_t len, struct registry_job **ret, struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    auto_ptr(job_free) struct registry_job *j = calloc(1, sizeof(*j));
    int r;

    if (j == NULL)
        return err_errno(err, -ENOMEM, "job");
    j->layers_max = IMAGE_LAYERS_MAX;
    j->bytes_max = INT64_MAX;
    j->connect_ms = JOB_CONNECT_MS;
    j->head_ms = JOB_HEAD_MS;
    j->idle_ms = JOB_IDLE_MS;
    j->floor_ms = JOB_FLOOR_MS;
    j->floor_bytes = JOB_FLOOR_BYTES;
    j->retries = JOB_RETRIES;
    j->wait_ms = JOB_WAIT_MS;
    r = json_parse(text, len, REGISTRY_JOB_MAX, &root, err);
    if (r == 0)
        r = json_decode(root, job_fields, j, err);
    if (r == 0)
        r = job_check(j, err);
    if (r == 0)
        r = job_set_defaults(j, err);
    if (r < 0)
        return err_wrap(err, r, "job");
    *ret = take(j);
    return 0;
}

static void secret_free(char *secret)
{
    if (secret != NULL)
        explicit_bzero(secret, strlen(secret));
    free(secret);
}

static void credential_done(struct job_credential *c)
{
    secret_free(c->username);
    secret_free(c->password);
    secret_free(c->identity);
    secret_free(c->bearer);
}

void job_free(struct registry_job *j)
{
    if (j == NULL)
        return;
    for (size_t i = 0; i < j->mirror_count; i++) {
        free(j->mirrors[i].host);
        free(j->mirrors[i].repository);
        credential_done(&j->mirrors[i].credential);
    }
    for (size_t i = 0; i < j->tls_count; i++) {
        free(j->tls[i].host);
        free(j->tls[i].ca);
        free(j->tls[i].certificate);
        secret_free(j->tls[i].key);
    }
    credential_done(&j->credential);
    json_strings_free(j->insecure);
    json_strings_free(j->exempt);
    free(j->mirrors);
    free(j->tls);
    free(j->host);
    free(j->shown);
    free(j->repository);
    free(j->user_agent);
    secret_free(j->proxy_http);
    secret_free(j->proxy_https);
    free(j->proxy_no);
    free(j);
}

const struct job_tls *job_find_tls(const struct registry_job *j, const char *host, uint16_t port,
                                   bool is_default_port)
{
    for (size_t i = 0; i < j->tls_count; i++) {
        char name[URL_HOST_MAX + 1];
        uint16_t its;

        if (url_parse_host(j->tls[i].host, strlen(j->tls[i].host), name, &its) == 0 &&
            strcmp(name, host) == 0 && (its == port || (its == 0 && is_default_port)))
            return &j->tls[i];
    }
    return NULL;
}

bool job_lists_host(char *const *list, const char *host, uint16_t port, bool with_bare_names)
{
    for (; list != NULL && *list != NULL; list++) {
        char name[URL_HOST_MAX + 1];
        uint16_t its;

        if (url_parse_host(*list, strlen(*list), name, &its) == 0 && strcmp(name, host) == 0 &&
            (its == port || (its == 0 && with_bare_names)))
            return true;
    }
    return false;
}
