#include "api/docker/common.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <time.h>

#include "api/docker/filters.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/number.h"
#include "base/rfc3339.h"
#include "http/json-body.h"
#include "http/reply.h"
#include "sandbox/sandbox.h"
#include "spec/parse.h"
#include "spec/spec.h"
#include "workerd/sidecar.h"

enum {
    CORE_ID_LEN = 16,
    NS_MS = 1000000,
    NS_S = 1000000000,
    KEPT_MAX = 64 << 10,
    VERSION_DIGITS = 3
};

/* ---- admission ---- */

/* Parses "1.41" to 1041. Too many digits give INT_MAX. */
static int version_number(const char *text)
{
    int64_t major = number_take(&text, VERSION_DIGITS);
    int64_t minor = *text == '.' ? number_whole(text + 1, VERSION_DIGITS) : -EINVAL;

    return major < 0 || minor < 0 ? INT_MAX : (int)(major * 1000 + minor);
}

bool docker_admit(struct http_request *req)
{
    if (!api_admit(req))
        return false;
    if (req->version == NULL)
        return true;
    if (version_number(req->version) > version_number(DOCKER_API_VERSION)) {
        reply_errorf(req, -EINVAL,
                     "client version %.16s is too new. Maximum supported API version is %s",
                     req->version, DOCKER_API_VERSION);
        return false;
    }
    if (version_number(req->version) < version_number(DOCKER_API_VERSION_MIN)) {
        reply_errorf(req, -EINVAL,
                     "client version %.16s is too old. Minimum supported API version is %s, please "
                     "upgrade your client to a newer version",
                     req->version, DOCKER_API_VERSION_MIN);
        return false;
    }
    return true;
}

bool docker_is_older(const struct http_request *req, int minor)
{
    return req->version != NULL && version_number(req->version) < 1000 + minor;
}

int docker_explain_exec(int code, const char *command, const char *why, struct err *err)
{
    enum { CANNOT_EXECUTE = 126, NOT_FOUND = 127 };

    if (code == CANNOT_EXECUTE)
        return err_set(err, -EINVAL, "exec: \"%.128s\": permission denied: %s", command, why);
    if (code != NOT_FOUND)
        return 0;
    if (strchr(command, '/') == NULL)
        return err_set(err, -EINVAL, "exec: \"%.128s\": executable file not found in $PATH",
                       command);
    return err_set(err, -EINVAL, "exec: \"%.128s\": no such file or directory: %s", command, why);
}

/* True for null, {}, or blanks only. The text is NUL-terminated. */
static bool text_is_nothing(const char *text, size_t len)
{
    static const char word[] = "null", blanks[] = " \t\r\n";
    const char *at = text + strspn(text, blanks);

    if (strncmp(at, word, sizeof(word) - 1) == 0) {
        at += sizeof(word) - 1;
    } else if (*at == '{') {
        at += 1 + strspn(at + 1, blanks);
        if (*at != '}')
            return false;
        at++;
    }
    return at + strspn(at, blanks) == text + len;
}

int docker_optional_body(struct http_request *req, json_t **ret, struct err *err)
{
    *ret = NULL;
    if (req->body.len == 0 || text_is_nothing(req->body.data, req->body.len))
        return 0;
    return json_body_tree(req, ret, err);
}

/* ---- ids ---- */

void docker_id(const char *sandbox_id, char ret[DOCKER_ID_LEN + 1])
{
    unsigned char digest[SHA256_DIGEST_LENGTH];
    size_t len = strlen(sandbox_id);

    (void)SHA256((const unsigned char *)sandbox_id, len, digest);
    (void)snprintf(ret, DOCKER_ID_LEN + 1, "%s", sandbox_id);
    for (size_t i = 0; len + 2 * i + 2 <= DOCKER_ID_LEN; i++)
        (void)snprintf(ret + len + 2 * i, 3, "%02x", digest[i]);
}

static bool is_hex(const char *text, size_t len)
{
    return strspn(text, "0123456789abcdef") == len && text[len] == '\0';
}

/* Returns the id of a sandbox for more digits of its id than it has: the others must be those that
 * docker_id derives. Otherwise text. */
static const char *text_of_long_id(const char *text, char begin[CORE_ID_LEN + 1])
{
    char whole[DOCKER_ID_LEN + 1];
    size_t len = strlen(text);

    if (len <= CORE_ID_LEN || len > DOCKER_ID_LEN || !is_hex(text, len))
        return text;
    (void)snprintf(begin, CORE_ID_LEN + 1, "%.*s", CORE_ID_LEN, text);
    docker_id(begin, whole);
    return strncmp(whole, text, len) == 0 ? begin : text;
}

static int find_container(struct http_request *req, const char *text, enum right need,
                          struct sandbox **ret, struct err *err)
{
    const char *name = text[0] == '/' ? text + 1 : text; /* names are displayed with a '/' */
    char begin[CORE_ID_LEN + 1];
    struct err why = ERR_NONE;
    int r = api_find_sandbox(req, name, need, ret, &why);

    if (r == -ENOENT && text_of_long_id(name, begin) != name) {
        r = api_find_sandbox(req, begin, need, ret, &why);
        /* A name may be the beginning of another's id; an id was asked for. */
        if (r == 0 && strcmp(sandbox_id(*ret), begin) != 0)
            r = -ENOENT;
    }
    if (r == -ENOTUNIQ)
        return err_set(err, r, "multiple IDs found with provided prefix: %.128s", name);
    if (r == -ENOENT)
        return err_set(err, -ENOENT, "No such container: %.255s", name);
    return r < 0 ? err_set(err, r, "%s", why.msg) : 0;
}

int docker_lookup(struct http_request *req, const char *text, struct sandbox **ret, struct err *err)
{
    return find_container(req, text, RIGHT_SEE, ret, err);
}

int docker_find(struct http_request *req, const char *text, struct sandbox **ret, struct err *err)
{
    return find_container(req, text, api_right(req), ret, err);
}

struct sandbox *docker_sandbox(struct http_request *req)
{
    struct err err = ERR_NONE;
    struct sandbox *s;

    if (docker_find(req, http_param(req, "id"), &s, &err) < 0) {
        reply_error(req, &err);
        return NULL;
    }
    sandbox_touch(s);
    return s;
}

int docker_random_id(char ret[DOCKER_ID_LEN + 1])
{
    unsigned char bytes[DOCKER_ID_LEN / 2];

    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        return -EIO;
    for (size_t i = 0; i < sizeof(bytes); i++)
        (void)snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
    return 0;
}

int docker_when_settled(struct sandbox *s, sandbox_cb cb, void *data, struct err *err)
{
    if (sandbox_get_state(s) == SANDBOX_STOPPING && sandbox_main(s) == NULL)
        return sandbox_when_over(s, cb, data, err);
    cb(data, 0, NULL);
    return 0;
}

/* ---- states ---- */

/* True if the main process has ended and the clean-up is in progress. */
static bool sandbox_is_over(const struct sandbox *s)
{
    struct sandbox_info f;

    sandbox_get_info(s, &f);
    return sandbox_main(s) == NULL && f.exit_code >= 0;
}

const char *docker_status(const struct sandbox *s)
{
    struct sandbox_info f;

    switch (sandbox_get_state(s)) {
    case SANDBOX_RUNNING:
        return "running";
    case SANDBOX_STOPPING:
        sandbox_get_info(s, &f);
        return f.lingers || !sandbox_is_over(s) ? "running"
               : f.restarting                   ? "restarting"
                                                : "exited";
    case SANDBOX_PAUSED:
        return "paused";
    case SANDBOX_STOPPED:
        sandbox_get_info(s, &f);
        return f.restarting ? "restarting" : f.exit_code >= 0 ? "exited" : "created";
    case SANDBOX_REMOVING:
    case SANDBOX_GONE:
        return "removing";
    case SANDBOX_BROKEN:
        return "dead";
    case SANDBOX_CREATED:
        return sidecar_port(s) != 0 ? "running" : "created"; /* a sidecar has no process */
    case SANDBOX_STARTING:
        sandbox_get_info(s, &f);
        return f.restarting ? "restarting" : "created";
    case SANDBOX_CREATING:
    case SANDBOX_INVALID:
    case SANDBOX_STATE_MAX:
    default:
        return "created";
    }
}

bool docker_is_running(const struct sandbox *s)
{
    const char *status = docker_status(s);

    return strcmp(status, "running") == 0 || strcmp(status, "paused") == 0 ||
           strcmp(status, "restarting") == 0;
}

json_t *docker_kept(const struct spec *spec)
{
    size_t n = sizeof(DOCKER_LABEL) - 1;
    json_t *root = NULL;

    for (char **l = spec != NULL ? spec->labels : NULL; l != NULL && *l != NULL; l++)
        if (strncmp(*l, DOCKER_LABEL, n) == 0 && (*l)[n] == '=' &&
            json_parse(*l + n + 1, strlen(*l + n + 1), KEPT_MAX, &root, NULL) < 0)
            root = NULL;
    return root != NULL ? root : json_object();
}

const char *docker_network(const struct spec *spec)
{
    const char *first = docker_network_at(spec, 0);

    return first != NULL ? first : "";
}

bool docker_is_made_here(const struct spec *spec)
{
    const size_t n = sizeof(DOCKER_LABEL) - 1;

    for (char **l = spec != NULL ? spec->labels : NULL; l != NULL && *l != NULL; l++)
        if (strncmp(*l, DOCKER_LABEL, n) == 0 && (*l)[n] == '=')
            return true;
    return false;
}

static bool kept_says(const struct spec *spec, const char *key)
{
    auto_ptr(json_decref) json_t *kept = docker_kept(spec);

    return json_is_true(json_object_get(kept, key));
}

/* The label says what the spec cannot: that a member of named networks is in "bridge" beside them,
 * or that a container has been taken out of its last network. */
const char *docker_network_at(const struct spec *spec, size_t i)
{
    const char *name;

    if (spec == NULL || spec->net_container != NULL)
        return NULL;
    name = spec_net(spec, i, NULL);
    if (name != NULL)
        return name;
    if (spec->net_name != NULL)
        return i == spec->more_net_count + 1 && kept_says(spec, "bridge") ? "bridge" : NULL;
    if (i > 0 || (spec->network == NET_NONE && kept_says(spec, "detached")))
        return NULL;
    return spec->network == NET_NONE ? "none" : "bridge";
}

bool docker_is_in_network(const struct spec *spec, const char *name)
{
    const char *own;

    for (size_t i = 0; (own = docker_network_at(spec, i)) != NULL; i++)
        if (strcmp(own, name) == 0)
            return true;
    return false;
}

/* ---- JSON and text ---- */

void docker_time_text(int64_t ns, char ret[DOCKER_TIME_MAX])
{
    time_t seconds = (time_t)(ns / NS_S);
    char date[24];
    struct tm tm;

    if (ns <= 0 || gmtime_r(&seconds, &tm) == NULL ||
        strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm) == 0)
        (void)snprintf(ret, DOCKER_TIME_MAX, "0001-01-01T00:00:00Z");
    else
        (void)snprintf(ret, DOCKER_TIME_MAX, "%s.%09dZ", date, (int)(ns % NS_S));
}

json_t *docker_time(int64_t ms)
{
    char text[DOCKER_TIME_MAX];

    docker_time_text(ms * NS_MS, text);
    return json_string(text);
}

static int parse_date(const char *text, int64_t *ret_ns)
{
    struct timespec t;
    int64_t ns;

    if (rfc3339_parse(text, &t) < 0 || __builtin_mul_overflow((int64_t)t.tv_sec, NS_S, &ns) ||
        __builtin_add_overflow(ns, (int64_t)t.tv_nsec, &ns))
        return -EINVAL;
    *ret_ns = ns;
    return 0;
}

int docker_time_parse(const char *text, int64_t *ret_ns)
{
    const char *end = text;
    int64_t seconds = 0, ns = 0;

    if (strchr(text, '-') != NULL && text[0] != '-')
        return parse_date(text, ret_ns);
    for (; isdigit((unsigned char)*end) && end - text < 11; end++)
        seconds = seconds * 10 + (*end - '0');
    if (end == text || (ns = number_fraction(&end)) < 0 || *end != '\0' ||
        seconds > INT64_MAX / NS_S - 1)
        return -EINVAL;
    *ret_ns = seconds * NS_S + ns;
    return 0;
}

int docker_time_query(const char *key, const char *text, int64_t *ret_ns, struct err *err)
{
    if (text != NULL && text[0] != '\0' && docker_time_parse(text, ret_ns) < 0)
        return err_set(err, -EINVAL, "%s: \"%.64s\" is no time", key, text);
    return 0;
}

/* A span of Go's: numbers with units, "1h30m". */
static int parse_span(const char *text, int64_t *ret_ms)
{
    int64_t sum = 0;

    while (*text != '\0') {
        size_t digits = strspn(text, "0123456789."), unit = strcspn(text + digits, "0123456789.");
        char piece[32];
        int64_t ms;

        if (digits == 0 || unit == 0 || digits + unit >= sizeof(piece))
            return -EINVAL;
        (void)snprintf(piece, sizeof(piece), "%.*s", (int)(digits + unit), text);
        if (parse_duration("until", piece, &ms, NULL) < 0 || __builtin_add_overflow(sum, ms, &sum))
            return -EINVAL;
        text += digits + unit;
    }
    *ret_ms = sum;
    return 0;
}

int docker_filters_until(const struct filters *f, int64_t *ret_ms, struct err *err)
{
    const char *text = filters_get(f, "until", 0);
    int64_t ns, span;

    *ret_ms = INT64_MAX;
    if (text == NULL)
        return 0;
    if (filters_get(f, "until", 1) != NULL)
        return err_set(err, -EINVAL, "more than one until filter specified");
    if (docker_time_parse(text, &ns) == 0)
        *ret_ms = ns / NS_MS;
    else if (text[0] != '\0' && parse_span(text, &span) == 0)
        *ret_ms = clock_wall_ms() - span;
    else
        return err_set(err, -EINVAL, "until: \"%.64s\" is neither a time nor a span", text);
    return 0;
}

bool docker_bool(const char *text)
{
    static const char *const no[] = {"", "0", "no", "false", "none"};

    for (size_t i = 0; text != NULL && i < sizeof(no) / sizeof(no[0]); i++)
        if (strcasecmp(text, no[i]) == 0)
            return false;
    return text != NULL;
}

json_t *docker_labels(const struct spec *spec)
{
    json_t *object = json_object();

    for (char **l = spec != NULL ? spec->labels : NULL; object != NULL && l != NULL && *l != NULL;
         l++) {
        size_t n = strcspn(*l, "=");

        if (n == sizeof(DOCKER_LABEL) - 1 && strncmp(*l, DOCKER_LABEL, n) == 0)
            continue;
        if (json_object_setn_new(object, *l, n, json_string(*l + n + 1)) < 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

json_t *docker_label_object(char *const *labels)
{
    json_t *object = json_object();

    for (; object != NULL && labels != NULL && *labels != NULL; labels++) {
        size_t n = strcspn(*labels, "=");

        (void)json_object_setn_new(object, *labels, n,
                                   json_string((*labels)[n] == '=' ? *labels + n + 1 : ""));
    }
    return object;
}

int docker_label_strings(json_t *value, char ***ret, struct err *err)
{
    size_t count = json_object_size(value), i = 0;
    const char *key;
    json_t *element;
    char **list;

    if (value != NULL && !json_is_object(value))
        return err_set(err, -EINVAL, "Labels: must be an object of strings");
    if (count == 0)
        return 0;
    list = calloc(count + 1, sizeof(*list));
    if (list == NULL)
        return err_errno(err, -ENOMEM, "labels");
    *ret = list;
    json_object_foreach(value, key, element) {
        if (!json_is_string(element))
            return err_set(err, -EINVAL, "Labels: must be an object of strings");
        if (asprintf(&list[i], "%s=%s", key, json_string_value(element)) < 0) {
            list[i] = NULL;
            return err_errno(err, -ENOMEM, "labels");
        }
        i++;
    }
    return 0;
}

json_t *docker_strings(char *const *list)
{
    json_t *array = list != NULL ? json_array() : json_null();

    for (; array != NULL && list != NULL && *list != NULL; list++)
        if (json_array_append_new(array, json_string(*list)) < 0) {
            json_decref(array);
            return NULL;
        }
    return array;
}

bool docker_put(json_t *object, const char *key, json_t *value)
{
    return json_object_set_new(object, key, value) == 0;
}
