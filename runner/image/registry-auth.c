/*
 * The readers and the writer behind image/registry-auth.h. Called by the command line and in the
 * supervisor. Pure.
 */
#include "image/registry-auth.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/base64.h"
#include "base/err.h"
#include "json/parse.h"

static const char hub[] = "docker.io", hub_connect[] = "registry-1.docker.io";

/* What Docker puts in the place of a user for an identity token. */
static const char token_user[] = "<token>";

/* ---- names ---- */

const char *registry_connect_host(const char *host)
{
    return strcmp(host, hub) == 0 ? hub_connect : host;
}

const char *registry_key_of(const char *host)
{
    return strcmp(host, hub) == 0 ? REGISTRY_HUB_KEY : host;
}

void registry_name_split(const struct reference *r, struct registry_name *ret)
{
    const size_t len = strcspn(r->name, "/");

    (void)snprintf(ret->host, sizeof(ret->host), "%.*s", (int)len, r->name);
    (void)snprintf(ret->connect, sizeof(ret->connect), "%s", registry_connect_host(ret->host));
    (void)snprintf(ret->repository, sizeof(ret->repository), "%s",
                   r->name[len] == '/' ? r->name + len + 1 : "");
}

bool registry_host_of(const char *text, char ret[REFERENCE_NAME_MAX + 1])
{
    static const char *const aliases[] = {"index.docker.io", "registry-1.docker.io",
                                          "registry.hub.docker.com"};
    size_t len;

    if (strncasecmp(text, "https://", 8) == 0)
        text += 8;
    else if (strncasecmp(text, "http://", 7) == 0)
        text += 7;
    len = strcspn(text, "/");
    if (len == 0 || len > REFERENCE_NAME_MAX)
        return false;
    for (size_t i = 0; i < len; i++)
        ret[i] = (char)tolower((unsigned char)text[i]);
    ret[len] = '\0';
    for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++)
        if (strcmp(ret, aliases[i]) == 0)
            (void)snprintf(ret, REFERENCE_NAME_MAX + 1, "%s", hub);
    return true;
}

bool registry_helper_ok(const char *suffix)
{
    const size_t len = strlen(suffix);

    if (len == 0 || len > REGISTRY_HELPER_MAX)
        return false;
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)suffix[i]) && strchr("._-", suffix[i]) == NULL)
            return false;
    return true;
}

/* ---- credentials ---- */

static void secret_free(char *secret)
{
    if (secret != NULL)
        explicit_bzero(secret, strlen(secret));
    free(secret);
}

void registry_auth_free(struct registry_auth *a)
{
    if (a == NULL)
        return;
    secret_free(a->username);
    secret_free(a->password);
    secret_free(a->identity);
    secret_free(a->bearer);
    free(a);
}

static int auth_copy(json_t *object, const char *key, char **ret, struct err *err)
{
    json_t *value = json_object_get(object, key);

    if (value == NULL || json_is_null(value) ||
        (json_is_string(value) && json_string_length(value) == 0))
        return 0;
    if (!json_is_string(value))
        return err_set(err, -EINVAL, "%s: must be a string", key);
    *ret = strdup(json_string_value(value));
    return *ret != NULL ? 0 : err_errno(err, -ENOMEM, "credentials");
}

/* "user:password" in base64, of either alphabet, with or without padding and trailing NULs. */
static int base64_decode_any(const char *text, size_t len, char **ret, size_t *ret_len)
{
    auto_free char *copy = malloc(len + 4);
    size_t n = 0;
    int r;

    if (copy == NULL)
        return -ENOMEM;
    while (len > 0 && text[len - 1] == '=')
        len--;
    for (size_t i = 0; i < len; i++)
        copy[n++] = text[i] == '-' ? '+' : text[i] == '_' ? '/' : text[i];
    while (n % 4 != 0 && n < len + 3)
        copy[n++] = '=';
    *ret = malloc(n / 4 * 3 + 1);
    if (*ret == NULL)
        return -ENOMEM;
    r = base64_decode(*ret, copy, n, ret_len);
    explicit_bzero(copy, n);
    if (r < 0) {
        free(take(*ret));
        return -EINVAL;
    }
    (*ret)[*ret_len] = '\0';
    return 0;
}

static int auth_read_pair(json_t *object, struct registry_auth *a, struct err *err)
{
    json_t *value = json_object_get(object, "auth");
    auto_free char *plain = NULL;
    char *colon;
    size_t len = 0;
    int r;

    if (value == NULL || json_is_null(value) ||
        (json_is_string(value) && json_string_length(value) == 0))
        return 0;
    r = json_is_string(value)
            ? base64_decode_any(json_string_value(value), json_string_length(value), &plain, &len)
            : -EINVAL;
    if (r < 0)
        return err_set(err, r, "auth: is not base64");
    while (len > 0 && plain[len - 1] == '\0')
        len--;
    colon = memchr(plain, ':', len);
    if (memchr(plain, '\0', len) != NULL || colon == NULL || colon == plain)
        r = err_set(err, -EINVAL, "auth: is not user:password");
    if (r == 0) {
        *colon = '\0';
        free(a->username);
        secret_free(a->password);
        a->username = strdup(plain);
        a->password = strdup(colon + 1);
        r = a->username != NULL && a->password != NULL ? 0 : err_errno(err, -ENOMEM, "credentials");
    }
    explicit_bzero(plain, len);
    return r;
}

/* An entry of a file, or a header's object. *ret: NULL = it has nothing. */
static int auth_read(json_t *object, struct registry_auth **ret, struct err *err)
{
    auto_ptr(registry_auth_free) struct registry_auth *a = calloc(1, sizeof(*a));
    int r;

    if (a == NULL)
        return err_errno(err, -ENOMEM, "credentials");
    if (!json_is_object(object))
        return err_set(err, -EINVAL, "must be an object");
    r = auth_copy(object, "username", &a->username, err);
    if (r == 0)
        r = auth_copy(object, "password", &a->password, err);
    if (r == 0)
        r = auth_copy(object, "identitytoken", &a->identity, err);
    if (r == 0)
        r = auth_copy(object, "registrytoken", &a->bearer, err);
    if (r == 0 && (a->username == NULL || a->password == NULL))
        r = auth_read_pair(object, a, err);
    if (r < 0)
        return r;
    *ret = a->username != NULL || a->identity != NULL || a->bearer != NULL ? take(a) : NULL;
    return 0;
}

/* ---- config.json ---- */

/* How well a key fits: -1 not at all, else the length of its path. */
static int key_match(const char *key, const char *host, const char *repository)
{
    char its[REFERENCE_NAME_MAX + 1];
    const char *path = strstr(key, "://");
    size_t len;

    if (!registry_host_of(key, its) || strcmp(its, host) != 0)
        return -1;
    if (path != NULL) /* "https://host/v1/": an old key, of the whole host */
        return 0;
    path = strchr(key, '/');
    if (path == NULL)
        return 0;
    len = strlen(++path);
    if (len == 0)
        return 0;
    return repository != NULL && strncmp(repository, path, len) == 0 &&
                   (repository[len] == '\0' || repository[len] == '/')
               ? (int)len
               : -1;
}

/* Finds the member whose key fits best; NULL: none. */
static const char *config_find_key(json_t *object, const char *host, const char *repository)
{
    const char *key, *best = NULL;
    int best_len = -1;
    json_t *value;

    json_object_foreach(object, key, value) {
        int len = key_match(key, host, repository);
        /* of two keys of one host the one that Docker writes today */
        const bool own = len == best_len && strcmp(key, registry_key_of(host)) == 0;

        if (len > best_len || (len >= 0 && own)) {
            best = key;
            best_len = len;
        }
    }
    return best;
}

static int config_find_helper(json_t *root, const char *host, char ret[REGISTRY_HELPER_MAX + 1],
                              struct err *err)
{
    json_t *helpers = json_object_get(root, "credHelpers"), *suffix = NULL;
    const char *key = config_find_key(helpers, host, NULL);

    ret[0] = '\0';
    if (key != NULL)
        suffix = json_object_get(helpers, key);
    if (suffix == NULL)
        suffix = json_object_get(root, "credsStore");
    if (suffix == NULL || (json_is_string(suffix) && json_string_length(suffix) == 0))
        return 0;
    if (!json_is_string(suffix) || !registry_helper_ok(json_string_value(suffix)))
        return err_set(err, -EINVAL,
                       "the name of a credential helper: must be letters, digits, . _ "
                       "or -");
    (void)snprintf(ret, REGISTRY_HELPER_MAX + 1, "%s", json_string_value(suffix));
    return 0;
}

int registry_config_find(const char *text, size_t len, const char *host, const char *repository,
                         struct registry_auth **ret, char ret_helper[REGISTRY_HELPER_MAX + 1],
                         struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    struct registry_auth *found = NULL;
    const char *key;
    json_t *auths;
    int r = json_parse(text, len, REGISTRY_CONFIG_MAX, &root, err);

    if (r == 0)
        r = config_find_helper(root, host, ret_helper, err);
    if (r < 0)
        return r;
    auths = json_object_get(root, "auths");
    key = config_find_key(auths, host, repository);
    if (key != NULL) {
        r = auth_read(json_object_get(auths, key), &found, err);
        if (r < 0)
            return err_wrap(err, r, "auths: %.128s", key);
    }
    *ret = found;
    return 0;
}

static json_t *auth_entry(const struct registry_auth *a)
{
    json_t *entry = json_object();
    auto_free char *plain = NULL, *text = NULL;
    int n;

    if (a->username != NULL && a->password != NULL) {
        n = asprintf(&plain, "%s:%s", a->username, a->password);
        text = n >= 0 ? malloc(base64_encoded_size((size_t)n) + 1) : NULL;
        if (text == NULL) {
            json_decref(entry);
            return NULL;
        }
        (void)base64_encode(text, plain, (size_t)n);
        (void)json_object_set_new(entry, "auth", json_string(text));
        explicit_bzero(plain, (size_t)n);
        explicit_bzero(text, strlen(text));
    }
    if (a->identity != NULL)
        (void)json_object_set_new(entry, "identitytoken", json_string(a->identity));
    if (a->bearer != NULL)
        (void)json_object_set_new(entry, "registrytoken", json_string(a->bearer));
    return entry;
}

/* Takes all keys of the host out of an object, but those with a path. Returns their number. */
static size_t config_remove_keys(json_t *object, const char *host)
{
    size_t removed = 0;

    for (const char *key; (key = config_find_key(object, host, NULL)) != NULL; removed++)
        if (json_object_del(object, key) < 0)
            break;
    return removed;
}

int registry_config_change(const char *text, size_t len, const char *host,
                           const struct registry_auth *a, char **ret, struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    const char *key;
    json_t *auths, *entry;
    int r = 0;

    if (len == 0)
        root = json_object();
    else
        r = json_parse(text, len, REGISTRY_CONFIG_MAX, &root, err);
    if (r < 0)
        return r;
    auths = json_object_get(root, "auths");
    if (auths != NULL && !json_is_object(auths))
        return err_set(err, -EINVAL, "auths: must be an object");
    *ret = NULL;
    if (a == NULL && config_remove_keys(auths, host) == 0)
        return 0;
    if (a != NULL) {
        if (auths == NULL) {
            auths = json_object();
            if (json_object_set_new(root, "auths", auths) < 0)
                return err_errno(err, -ENOMEM, "config.json");
        }
        entry = auth_entry(a);
        key = config_find_key(auths, host, NULL);
        if (entry == NULL ||
            json_object_set_new(auths, key != NULL ? key : registry_key_of(host), entry) < 0)
            return err_errno(err, -ENOMEM, "config.json");
    }
    *ret = json_dumps(root, JSON_INDENT(4));
    return *ret != NULL ? 0 : err_errno(err, -ENOMEM, "config.json");
}

/* ---- headers and helpers ---- */

int registry_auth_decode(const char *json, size_t len, struct registry_auth **ret,
                         char ret_host[REFERENCE_NAME_MAX + 1], struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    struct registry_auth *a = NULL;
    json_t *server;
    int r = json_parse(json, len, REGISTRY_AUTH_MAX, &root, err);

    if (r < 0)
        return r;
    server = json_object_get(root, "serveraddress");
    ret_host[0] = '\0';
    if (json_is_string(server) && json_string_length(server) > 0 &&
        !registry_host_of(json_string_value(server), ret_host))
        return err_set(err, -EINVAL, "serveraddress: must name a host");
    r = auth_read(root, &a, err);
    if (r == 0)
        *ret = a;
    return r;
}

int registry_auth_decode_header(const char *text, struct registry_auth **ret,
                                char ret_host[REFERENCE_NAME_MAX + 1], struct err *err)
{
    auto_free char *json = NULL;
    size_t len = strlen(text);
    int r;

    if (len > REGISTRY_AUTH_MAX)
        return err_set(err, -EFBIG, "X-Registry-Auth: too long");
    r = base64_decode_any(text, len, &json, &len);
    if (r < 0)
        return err_set(err, r, "X-Registry-Auth: must be base64url of JSON");
    /* "null" is what some clients send for nothing. */
    if (len == 0 || (len == 4 && memcmp(json, "null", 4) == 0)) {
        *ret = NULL;
        ret_host[0] = '\0';
        return 0;
    }
    r = registry_auth_decode(json, len, ret, ret_host, err);
    explicit_bzero(json, len);
    return r < 0 ? err_wrap(err, r, "X-Registry-Auth") : 0;
}

int registry_helper_decode(const char *json, size_t len, struct registry_auth **ret,
                           struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    auto_ptr(registry_auth_free) struct registry_auth *a = calloc(1, sizeof(*a));
    char *secret = NULL;
    int r = json_parse(json, len, REGISTRY_AUTH_MAX, &root, err);

    if (a == NULL)
        return err_errno(err, -ENOMEM, "credentials");
    if (r == 0)
        r = auth_copy(root, "Username", &a->username, err);
    if (r == 0)
        r = auth_copy(root, "Secret", &secret, err);
    if (r < 0)
        return r;
    if (a->username == NULL || secret == NULL) {
        secret_free(secret);
        *ret = NULL;
        return 0;
    }
    if (strcmp(a->username, token_user) == 0) {
        free(take(a->username));
        a->identity = secret;
    } else {
        a->password = secret;
    }
    *ret = take(a);
    return 0;
}
