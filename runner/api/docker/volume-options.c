/* Owns nothing; runs in the supervisor's loop thread. Called by volumes.c, create.c and the
 * encoders. */
#include "api/docker/volume-options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/common.h"
#include "api/docker/common.h"
#include "base/auto.h"
#include "base/err.h"
#include "json/parse.h"
#include "policy/policy.h"
#include "sandbox/sandbox.h"
#include "spec/parse.h"
#include "volume/volumes.h"

#define REPLACED "optionVolumes" /* the key in DOCKER_LABEL */

/* ---- options ---- */

/* True if a list of options, separated by commas, has this one. */
static bool list_has_option(const char *list, const char *wanted)
{
    size_t n = strlen(wanted);

    while (*list != '\0') {
        size_t len = strcspn(list, ",");

        if (len == n && strncmp(list, wanted, n) == 0)
            return true;
        list += len + (list[len] == ',');
    }
    return false;
}

static int options_check_bind(const char *name, const char *o, const char *device, struct err *err)
{
    if (device == NULL || device[0] == '\0')
        return err_set(err, -EINVAL, "create %.64s: missing device in volume options", name);
    if (device[0] != '/' || strchr(device, ':') != NULL)
        return err_set(err, -EINVAL,
                       "create %.64s: DriverOpts.device: must be an absolute path without a colon",
                       name);
    for (size_t at = 0; o[at] != '\0';) {
        size_t len = strcspn(o + at, ",");
        char one[16];

        (void)snprintf(one, sizeof(one), "%.*s", (int)(len < 15 ? len : 15), o + at);
        if (!list_has_option("bind,rbind,rw,ro", one))
            return err_set(err, -EOPNOTSUPP,
                           "create %.64s: DriverOpts.o: \"%.64s\": only bind, rw and ro", name, o);
        at += len + (o[at + len] == ',');
    }
    return 0;
}

static int options_check(const char *name, json_t *options, struct err *err)
{
    const char *type = json_string_value(json_object_get(options, "type"));
    const char *o = json_string_value(json_object_get(options, "o"));
    const char *device = json_string_value(json_object_get(options, "device"));

    type = type != NULL ? type : "";
    o = o != NULL ? o : "";
    if ((strcmp(type, "none") == 0 || strcmp(type, "bind") == 0 || type[0] == '\0') &&
        (list_has_option(o, "bind") || list_has_option(o, "rbind")))
        return options_check_bind(name, o, device, err);
    if (strcmp(type, "tmpfs") == 0)
        return 0; /* its options are checked as a container's tmpfs */
    if (type[0] == '\0')
        return err_set(err, -EINVAL, "create %.64s: missing required option: \"type\"", name);
    return err_set(err, -EOPNOTSUPP,
                   "create %.64s: DriverOpts.type: \"%.32s\": only none with o=bind, and tmpfs",
                   name, type);
}

int docker_volume_options_read(const char *name, json_t *options, char **ret_text,
                               uint64_t *ret_bytes, struct err *err)
{
    const char *key, *size;
    json_t *value;
    int64_t bytes;
    int r;

    json_object_foreach(options, key, value) {
        if (!list_has_option("device,o,size,type", key))
            return err_set(err, -EINVAL, "create %.64s: invalid option: \"%.64s\"", name, key);
        if (!json_is_string(value))
            return err_set(err, -EINVAL, "DriverOpts.%s: must be a string", key);
    }
    size = json_string_value(json_object_get(options, "size"));
    if (size != NULL && json_object_size(options) > 1)
        return err_set(err, -EOPNOTSUPP,
                       "DriverOpts.size: is of a volume that is no other mount; a tmpfs has "
                       "o=size=…");
    if (size != NULL) {
        r = parse_bytes("DriverOpts.size", size, LIMIT_DISK_MIN, LIMIT_DISK_MAX, &bytes, err);
        if (r == 0)
            *ret_bytes = (uint64_t)bytes;
        return r;
    }
    if (json_object_size(options) == 0)
        return 0;
    r = options_check(name, options, err);
    if (r < 0)
        return r;
    *ret_text = json_dumps(options, JSON_COMPACT);
    if (*ret_text == NULL)
        return err_errno(err, -ENOMEM, "volume");
    if (strlen(*ret_text) <= VOLUME_OPTIONS_MAX)
        return 0;
    free(*ret_text);
    *ret_text = NULL;
    return err_set(err, -E2BIG, "DriverOpts: more than %d bytes", VOLUME_OPTIONS_MAX);
}

json_t *docker_volume_options(const struct volume_entry *v)
{
    const char *text = volume_options(v);
    json_t *root = NULL;

    if (text == NULL || json_parse(text, strlen(text), VOLUME_OPTIONS_MAX, &root, NULL) < 0)
        return NULL;
    return root;
}

/* ---- bodies ---- */

struct replacing {
    struct http_request *req;
    json_t *host;    /* borrowed: HostConfig */
    json_t *volumes; /* owned: what inspect shows */
};

/* Returns the options of the volume of this name, or NULL: it has none, or is not there. */
static int replacing_find(const struct replacing *p, const char *name, json_t **ret,
                          struct err *err)
{
    const struct caller c = native_caller(p->req);
    const struct volume_entry *v = volume_find_for(api_supervisor(p->req), &c, name);

    *ret = v != NULL && volume_is_ready(v) ? docker_volume_options(v) : NULL;
    if (*ret == NULL || volume_is_made_by(v, c.uid))
        return 0;
    json_decref(*ret);
    *ret = NULL;
    return err_set(err, -EPERM,
                   "volume %.64s stands for another mount, and is used by the user that made it",
                   name);
}

static int replacing_note(struct replacing *p, const char *name, const char *target,
                          struct err *err)
{
    json_t *one = json_pack("{s:s, s:s}", "name", name, "target", target);

    if (p->volumes == NULL)
        p->volumes = json_array();
    return json_array_append_new(p->volumes, one) == 0 ? 0 : err_errno(err, -ENOMEM, "a request");
}

static int replacing_add_tmpfs(struct replacing *p, json_t *options, const char *target,
                               struct err *err)
{
    json_t *o = json_object_get(options, "o"), *all = json_object_get(p->host, "Tmpfs");

    if (!json_is_object(all)) {
        if (!docker_put(p->host, "Tmpfs", json_object()))
            return err_errno(err, -ENOMEM, "a request");
        all = json_object_get(p->host, "Tmpfs");
    }
    return docker_put(all, target, o != NULL ? json_incref(o) : json_string(""))
               ? 0
               : err_errno(err, -ENOMEM, "a request");
}

static bool options_are_tmpfs(json_t *options)
{
    const char *type = json_string_value(json_object_get(options, "type"));

    return type != NULL && strcmp(type, "tmpfs") == 0;
}

static bool options_are_read_only(json_t *options)
{
    const char *o = json_string_value(json_object_get(options, "o"));

    return o != NULL && list_has_option(o, "ro");
}

/* "NAME:TARGET[:OPTIONS]" becomes "DEVICE:TARGET[:OPTIONS]", or nothing (*ret NULL) beside a tmpfs.
 */
static int replacing_bind(struct replacing *p, const char *text, json_t **ret, struct err *err)
{
    auto_ptr(json_decref) json_t *options = NULL;
    const char *colon = strchr(text, ':');
    char name[VOLUME_NAME_MAX + 1];
    auto_free char *target = NULL;
    const char *rest;
    int r;

    *ret = json_string(text);
    if (colon == NULL || text[0] == '/' || (size_t)(colon - text) >= sizeof(name))
        return *ret != NULL ? 0 : err_errno(err, -ENOMEM, "a request");
    (void)snprintf(name, sizeof(name), "%.*s", (int)(colon - text), text);
    r = replacing_find(p, name, &options, err);
    if (r < 0 || options == NULL)
        return r;
    json_decref(*ret);
    *ret = NULL;
    rest = strchr(colon + 1, ':');
    target = rest != NULL ? strndup(colon + 1, (size_t)(rest - colon - 1)) : strdup(colon + 1);
    if (target == NULL)
        return err_errno(err, -ENOMEM, "a request");
    r = replacing_note(p, name, target, err);
    if (r < 0)
        return r;
    if (options_are_tmpfs(options))
        return replacing_add_tmpfs(p, options, target, err);
    *ret = json_sprintf("%s:%s%s%s%s", json_string_value(json_object_get(options, "device")),
                        target, rest != NULL ? rest : "",
                        !options_are_read_only(options) ? ""
                        : rest != NULL                  ? ","
                                                        : ":",
                        options_are_read_only(options) ? "ro" : "");
    return *ret != NULL ? 0 : err_errno(err, -ENOMEM, "a request");
}

static int replacing_binds(struct replacing *p, json_t *binds, struct err *err)
{
    json_t *list = json_array(), *element, *one = NULL;
    size_t i;
    int r = 0;

    json_array_foreach(binds, i, element) {
        if (json_is_string(element))
            r = replacing_bind(p, json_string_value(element), &one, err);
        else
            one = json_incref(element);
        if (r < 0)
            break;
        if (one != NULL)
            (void)json_array_append_new(list, one);
    }
    if (r < 0 || p->volumes == NULL) {
        json_decref(list);
        return r;
    }
    return docker_put(p->host, "Binds", list) ? 0 : err_errno(err, -ENOMEM, "a request");
}

/* A mount of type volume becomes one of type bind, or nothing (*ret NULL) beside a tmpfs. */
static int replacing_mount(struct replacing *p, json_t *mount, json_t **ret, struct err *err)
{
    auto_ptr(json_decref) json_t *options = NULL;
    const char *type = json_string_value(json_object_get(mount, "Type"));
    const char *name = json_string_value(json_object_get(mount, "Source"));
    const char *target = json_string_value(json_object_get(mount, "Target"));
    int r;

    *ret = json_incref(mount);
    if (name == NULL || target == NULL || (type != NULL && strcmp(type, "volume") != 0))
        return 0;
    r = replacing_find(p, name, &options, err);
    if (r == 0 && options != NULL)
        r = replacing_note(p, name, target, err);
    if (r < 0 || options == NULL)
        return r;
    json_decref(*ret);
    *ret = NULL;
    if (options_are_tmpfs(options))
        return replacing_add_tmpfs(p, options, target, err);
    *ret = json_pack("{s:s, s:O, s:s, s:b}", "Type", "bind", "Source",
                     json_object_get(options, "device"), "Target", target, "ReadOnly",
                     options_are_read_only(options) ||
                         json_is_true(json_object_get(mount, "ReadOnly")));
    return *ret != NULL ? 0 : err_errno(err, -ENOMEM, "a request");
}

static int replacing_mounts(struct replacing *p, json_t *mounts, struct err *err)
{
    json_t *list = json_array(), *element, *one = NULL;
    size_t i, before = json_array_size(p->volumes);
    int r = 0;

    json_array_foreach(mounts, i, element) {
        r = replacing_mount(p, element, &one, err);
        if (one != NULL)
            (void)json_array_append_new(list, one);
        if (r < 0)
            break;
    }
    if (r < 0 || json_array_size(p->volumes) == before) {
        json_decref(list);
        return r;
    }
    return docker_put(p->host, "Mounts", list) ? 0 : err_errno(err, -ENOMEM, "a request");
}

int docker_volumes_replace(struct http_request *req, json_t *body, json_t **ret_kept,
                           struct err *err)
{
    struct replacing p = {.req = req, .host = json_object_get(body, "HostConfig")};
    auto_ptr(json_decref) json_t *binds = json_incref(json_object_get(p.host, "Binds"));
    auto_ptr(json_decref) json_t *mounts = json_incref(json_object_get(p.host, "Mounts"));
    int r = 0;

    *ret_kept = NULL;
    if (json_is_array(binds))
        r = replacing_binds(&p, binds, err);
    if (r == 0 && json_is_array(mounts))
        r = replacing_mounts(&p, mounts, err);
    if (r == 0 && p.volumes != NULL) {
        *ret_kept =
            json_pack("{s:O, s:O?, s:O?}", REPLACED, p.volumes, "binds", binds, "mounts", mounts);
        if (*ret_kept == NULL)
            r = err_errno(err, -ENOMEM, "a request");
    }
    json_decref(p.volumes);
    return r;
}

bool docker_volumes_keep(json_t *kept, json_t *replaced)
{
    return replaced == NULL || json_object_update(kept, replaced) == 0;
}

const char *docker_volume_replaced(json_t *kept, const char *target)
{
    json_t *one;
    size_t i;

    json_array_foreach(json_object_get(kept, REPLACED), i, one) {
        const char *at = json_string_value(json_object_get(one, "target"));

        if (at != NULL && strcmp(at, target) == 0)
            return json_string_value(json_object_get(one, "name"));
    }
    return NULL;
}

bool docker_volume_is_named(const struct sandbox *s, const char *name)
{
    auto_ptr(json_decref) json_t *kept = docker_kept(sandbox_spec(s));
    json_t *one;
    size_t i;

    json_array_foreach(json_object_get(kept, REPLACED), i, one) {
        const char *own = json_string_value(json_object_get(one, "name"));

        if (own != NULL && strcmp(own, name) == 0)
            return true;
    }
    return false;
}
