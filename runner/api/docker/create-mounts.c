/* Translates Binds, Volumes and Mounts of POST /containers/create. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/docker/common.h"
#include "api/docker/create-body-internal.h"
#include "base/auto.h"
#include "base/err.h"

/* Host directories that are never bound by this API, even for the owner, although the native API
 * would bind them: a Docker client that asks for them is more often deceived than right. */
static const char *const never_bound[] = {"/proc",    "/sys",  "/dev", "/run",
                                          "/var/run", "/boot", "/etc", "/root"};

/* Skips slashes and "." components: "//etc" and "/./etc" are "/etc" to the kernel. */
static const char *path_next_name(const char *at)
{
    for (;;) {
        at += strspn(at, "/");
        if (at[0] != '.' || (at[1] != '/' && at[1] != '\0'))
            return at;
        at++;
    }
}

static bool path_is_below(const char *path, const char *top)
{
    for (path = path_next_name(path), top = path_next_name(top); *top != '\0';
         path = path_next_name(path), top = path_next_name(top)) {
        size_t len = strcspn(top, "/");

        if (strcspn(path, "/") != len || memcmp(path, top, len) != 0)
            return false;
        path += len;
        top += len;
    }
    return true;
}

bool create_same_path(const char *a, const char *b)
{
    return path_is_below(a, b) && path_is_below(b, a);
}

static int bind_check_source(const char *source, const char *path, struct err *err)
{
    if (*path_next_name(source) == '\0')
        return body_fail(err, -EPERM, path, "the host's root is not bound into containers");
    for (size_t i = 0; i < sizeof(never_bound) / sizeof(never_bound[0]); i++)
        if (path_is_below(source, never_bound[i]))
            return body_fail(err, -EPERM, path,
                             "\"%.128s\": nothing of the host's %s is bound into containers",
                             source, never_bound[i]);
    return 0;
}

/* A mount of the spec's "volumes". */
struct create_volume {
    const char *source; /* NULL: an anonymous volume */
    const char *target;
    bool read_only, no_copy;
    bool make; /* a missing directory of the host is made */
};

static int add_volume(struct making *m, const struct create_volume *mount, const char *path,
                      struct err *err)
{
    const char *source = mount->source;
    const bool is_bind = source != NULL && source[0] == '/';
    json_t *v;

    if (is_bind) {
        int r = bind_check_source(source, path, err);

        if (r < 0)
            return r;
    }
    v = json_pack("{s:s, s:b}", "target", mount->target, "readOnly", (int)mount->read_only);
    if (v == NULL || (source != NULL && !docker_put(v, "source", json_string(source))) ||
        (mount->no_copy && !docker_put(v, "noCopy", json_true())) ||
        (mount->make && is_bind && !docker_put(v, "makeSource", json_true()))) {
        json_decref(v);
        return create_no_memory(err);
    }
    return create_push(m, "volumes", v, err);
}

struct bind {
    char *source, *target, *options; /* within the caller's text */
};

/* Splits SOURCE:TARGET[:OPTIONS] or TARGET. */
static int bind_split(char *text, struct bind *ret, const char *path, struct err *err)
{
    char *colon = strchr(text, ':');

    *ret = (struct bind){.source = colon != NULL ? text : NULL, .target = text};
    if (colon != NULL) {
        *colon = '\0';
        ret->target = colon + 1;
        colon = strchr(ret->target, ':');
    }
    if (colon != NULL) {
        *colon = '\0';
        ret->options = colon + 1;
    }
    if (ret->target[0] != '/' || (ret->source != NULL && ret->source[0] == '\0') ||
        (ret->options != NULL && strchr(ret->options, ':') != NULL))
        return body_fail(err, -EINVAL, path, "invalid volume specification");
    return 0;
}

/* Words that change nothing here: labels of SELinux, which rind gives to no file, how fresh a view
 * of a Mac's files has to be, and the propagation that all mounts have. */
static bool bind_option_is_idle(const char *o)
{
    static const char *const idle[] = {"rw",      "z",      "Z",         "rprivate",
                                       "private", "cached", "delegated", "consistent"};

    for (size_t i = 0; i < sizeof(idle) / sizeof(idle[0]); i++)
        if (strcmp(o, idle[i]) == 0)
            return true;
    return false;
}

static int bind_parse_options(char *options, struct create_volume *ret, const char *path,
                              struct err *err)
{
    char *save = NULL;

    for (char *o = options != NULL ? strtok_r(options, ",", &save) : NULL; o != NULL;
         o = strtok_r(NULL, ",", &save)) {
        if (strcmp(o, "ro") == 0)
            ret->read_only = true;
        else if (strcmp(o, "nocopy") == 0)
            ret->no_copy = true;
        else if (!bind_option_is_idle(o))
            return body_fail(err, -EOPNOTSUPP, path, "option \"%.32s\" is not supported", o);
    }
    return 0;
}

int t_binds(json_t *value, const struct body_field *field, void *dst, const char *path,
            struct err *err)
{
    json_t *element;
    size_t i;
    int r = create_check_strings(value, path, err);

    (void)field;
    if (r < 0)
        return r;
    json_array_foreach(value, i, element) {
        auto_free char *text = strdup(json_string_value(element));
        struct create_volume mount = {.make = true};
        char here[BODY_PATH_MAX];
        struct bind b;

        if (text == NULL)
            return create_no_memory(err);
        (void)snprintf(here, sizeof(here), "%s[%zu]", path, i);
        r = bind_split(text, &b, here, err);
        if (r == 0)
            r = bind_parse_options(b.options, &mount, here, err);
        mount.source = b.source;
        mount.target = b.target;
        if (r == 0)
            r = add_volume(dst, &mount, here, err);
        if (r < 0)
            return r;
    }
    return docker_put(((struct making *)dst)->out->kept, "binds", json_incref(value))
               ? 0
               : create_no_memory(err);
}

int t_volumes_from(json_t *value, const struct body_field *field, void *dst, const char *path,
                   struct err *err)
{
    (void)field;
    if (create_check_strings(value, path, err) < 0)
        return err->code;
    ((struct making *)dst)->out->volumes_from = value;
    return 0;
}

int t_volumes(json_t *value, const struct body_field *field, void *dst, const char *path,
              struct err *err)
{
    (void)field;
    if (!json_is_object(value))
        return body_fail(err, -EINVAL, path, "must be an object");
    ((struct making *)dst)->volumes = value;
    return 0;
}

/* True if a mount in list (of the spec, or NULL) has this target. */
static bool mounts_have_target(const json_t *list, const char *target)
{
    json_t *element;
    size_t i;

    json_array_foreach(list, i, element) {
        const char *other = json_string_value(json_object_get(element, "target"));

        if (other != NULL && create_same_path(other, target))
            return true;
    }
    return false;
}

/* Like in Docker, Volumes only add mounts at targets that have none: docker-py repeats each
 * target of Binds there. */
int create_finish_volumes(struct making *m, struct err *err)
{
    const char *target;
    json_t *element;
    int r = 0;

    m->out->volumes_named = json_array_size(json_object_get(m->out->spec, "volumes"));
    json_object_foreach(m->volumes, target, element) {
        if (r == 0 && !mounts_have_target(json_object_get(m->out->spec, "volumes"), target) &&
            !mounts_have_target(json_object_get(m->out->spec, "tmpfs"), target))
            r = add_volume(m, &(struct create_volume){.target = target}, "Volumes", err);
    }
    return r;
}

struct mount {
    const char *type, *source, *target, *propagation;
    bool read_only, no_copy, make_source;
    struct create_tmpfs tmpfs;
};

#define MOUNT(member) .off = offsetof(struct mount, member)
static const struct body_field bind_fields[] = {
    {.name = "Propagation", .take = b_string, MOUNT(propagation)},
    {.name = "CreateMountpoint", .take = b_bool, MOUNT(make_source)},
    NOT_HERE("NonRecursive"),
    NOT_HERE("ReadOnlyNonRecursive"),
    NOT_HERE("ReadOnlyForceRecursive"),
    {0}};
static const struct body_field volume_fields[] = {
    {.name = "NoCopy", .take = b_bool, MOUNT(no_copy)},
    NOT_HERE("Labels"),
    NOT_HERE("Subpath"),
    NOT_HERE("DriverConfig"),
    {0}};
static const struct body_field tmpfs_fields[] = {
    {.name = "SizeBytes", .take = b_number, MOUNT(tmpfs.bytes)},
    {.name = "Mode", .take = b_number, MOUNT(tmpfs.mode)},
    {.name = "Options", .take = b_value, MOUNT(tmpfs.options)},
    {0}};
static const struct body_field mount_fields[] = {
    {.name = "Type", .take = b_string, MOUNT(type)},
    {.name = "Source", .take = b_string, MOUNT(source)},
    {.name = "Target", .take = b_string, MOUNT(target)},
    {.name = "ReadOnly", .take = b_bool, MOUNT(read_only)},
    {.name = "Consistency", .take = b_ignore},
    {.name = "BindOptions", .take = b_object, .fields = bind_fields},
    {.name = "VolumeOptions", .take = b_object, .fields = volume_fields},
    {.name = "TmpfsOptions", .take = b_object, .fields = tmpfs_fields},
    NOT_HERE("ImageOptions"),
    NOT_HERE("ClusterOptions"),
    {0},
};

static int add_mount(struct making *m, const struct mount *mt, const char *path, struct err *err)
{
    struct create_volume v = {
        .source = mt->source, .target = mt->target, .read_only = mt->read_only};

    if (mt->target == NULL || mt->target[0] != '/')
        return body_fail(err, -EINVAL, path, "Target must be an absolute path");
    if (mt->propagation != NULL && strcmp(mt->propagation, "rprivate") != 0)
        return body_fail(err, -EOPNOTSUPP, path, "BindOptions.Propagation: only rprivate");
    if (mt->type == NULL || strcmp(mt->type, "volume") == 0) {
        if (mt->source != NULL && strchr(mt->source, '/') != NULL)
            return body_fail(err, -EINVAL, path, "Source: must be a volume's name");
        v.no_copy = mt->no_copy;
        return add_volume(m, &v, path, err);
    }
    if (strcmp(mt->type, "bind") == 0) {
        if (mt->source == NULL || mt->source[0] != '/')
            return body_fail(err, -EINVAL, path, "Source must be an absolute path");
        v.make = mt->make_source;
        return add_volume(m, &v, path, err);
    }
    if (strcmp(mt->type, "tmpfs") == 0)
        return create_add_tmpfs(m, mt->target, mt->read_only, &mt->tmpfs, path, err);
    return body_fail(err, -EOPNOTSUPP, path, "Type \"%.32s\" is not supported", mt->type);
}

int t_mounts(json_t *value, const struct body_field *field, void *dst, const char *path,
             struct err *err)
{
    json_t *element;
    size_t i;

    (void)field;
    if (!json_is_array(value))
        return body_fail(err, -EINVAL, path, "must be an array");
    json_array_foreach(value, i, element) {
        struct mount m = {0};
        char here[BODY_PATH_MAX];
        int r;

        (void)snprintf(here, sizeof(here), "%s[%zu]", path, i);
        r = body_decode(element, mount_fields, &m, here, err);
        if (r == 0)
            r = add_mount(dst, &m, here, err);
        if (r < 0)
            return r;
    }
    return docker_put(((struct making *)dst)->out->kept, "mounts", json_incref(value))
               ? 0
               : create_no_memory(err);
}
