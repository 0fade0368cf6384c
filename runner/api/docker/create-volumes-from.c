/* HostConfig.VolumesFrom: the volumes and binds of other containers, in a body that is decoded
 * already. Owns nothing; runs in the supervisor's loop thread. Called by create.c. */
#include "api/docker/create-volumes-from.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/common.h"
#include "api/docker/common.h"
#include "api/docker/create-body-internal.h"
#include "base/err.h"
#include "sandbox/sandbox.h"
#include "spec/spec.h"

/* "NAME[:MODE]" */
struct from_text {
    char name[DOCKER_NAME_MAX + 1];
    bool read_only;
};

static int from_parse(const char *text, struct from_text *ret, struct err *err)
{
    const size_t len = strcspn(text, ":");
    const char *mode = text[len] == ':' ? text + len + 1 : "rw";

    if (len == 0 || len >= sizeof(ret->name))
        return err_set(err, -EINVAL,
                       "HostConfig.VolumesFrom: \"%.64s\": invalid volumes-from specification",
                       text);
    (void)snprintf(ret->name, sizeof(ret->name), "%.*s", (int)len, text);
    ret->read_only = strcmp(mode, "ro") == 0;
    if (!ret->read_only && strcmp(mode, "rw") != 0 && strcmp(mode, "z") != 0 &&
        strcmp(mode, "Z") != 0)
        return err_set(err, -EINVAL,
                       "HostConfig.VolumesFrom: \"%.64s\": invalid mode for volumes-from: %.32s",
                       text, mode);
    return 0;
}

/* Returns the place of the mount at this target in a list of the spec, or its size. */
static size_t mount_index(const json_t *list, const char *target)
{
    json_t *element;
    size_t i;

    json_array_foreach(list, i, element) {
        const char *other = json_string_value(json_object_get(element, "target"));

        if (other != NULL && create_same_path(other, target))
            return i;
    }
    return json_array_size(list);
}

/* As in Docker the mounts that the request names itself come first, and those that it only declares
 * (Volumes) last. */
static int volume_inherit(struct create_body *b, const struct volume *v, bool read_only,
                          struct err *err)
{
    json_t *list = json_object_get(b->spec, "volumes"), *one;
    json_t *tmpfs = json_object_get(b->spec, "tmpfs");
    size_t at;

    if (list == NULL && docker_put(b->spec, "volumes", json_array()))
        list = json_object_get(b->spec, "volumes");
    at = mount_index(list, v->target);
    if (mount_index(tmpfs, v->target) < json_array_size(tmpfs) ||
        (at < json_array_size(list) && at < b->volumes_named))
        return 0;
    one = json_pack("{s:s, s:s, s:b}", "source", v->source, "target", v->target, "readOnly",
                    (int)(read_only || v->read_only));
    if (one == NULL || list == NULL) {
        json_decref(one);
        return create_no_memory(err);
    }
    if (at < json_array_size(list))
        return json_array_set_new(list, at, one) < 0 ? create_no_memory(err) : 0;
    return json_array_append_new(list, one) < 0 ? create_no_memory(err) : 0;
}

static int container_inherit(struct http_request *req, struct create_body *b, const char *text,
                             struct err *err)
{
    struct sandbox *other = NULL;
    const struct spec *spec;
    struct from_text from;
    int r = from_parse(text, &from, err);

    if (r < 0)
        return r;
    r = docker_lookup(req, from.name, &other, err);
    if (r == 0)
        r = api_check_sandbox(req, other, RIGHT_USE, err);
    if (r < 0)
        return r;
    spec = sandbox_spec(other);
    for (size_t i = 0; r == 0 && spec != NULL && i < spec->volume_count; i++)
        if (spec->volumes[i].source != NULL)
            r = volume_inherit(b, &spec->volumes[i], from.read_only, err);
    return r;
}

int create_volumes_from(struct http_request *req, struct create_body *b, struct err *err)
{
    json_t *text;
    size_t i;
    int r = 0;

    json_array_foreach(b->volumes_from, i, text)
        if (r == 0)
            r = container_inherit(req, b, json_string_value(text), err);
    /* 404 would mean a missing image. */
    return r == -ENOENT ? err_wrap(err, -EINVAL, "HostConfig.VolumesFrom") : r;
}
