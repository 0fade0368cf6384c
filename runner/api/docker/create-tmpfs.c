/* Translates Tmpfs, and Mounts of type tmpfs, of POST /containers/create. As in Docker such a mount
 * is noexec unless the request says exec. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/docker/common.h"
#include "api/docker/create-body-internal.h"
#include "base/err.h"
#include "spec/tmpfs.h"

/* A tmpfs without a size is as large as the memory that the container may use. Docker makes it half
 * as large as the host's memory, which programs such as databases need. */
#define TMPFS_BYTES_NO_LIMIT (INT64_C(1) << 30)

enum { OPTIONS_MAX = 1024, BYTES_UNSET = 0 };

static struct tmpfs docker_tmpfs_default(void)
{
    struct tmpfs t = tmpfs_default();

    t.no_exec = true;
    t.bytes = BYTES_UNSET; /* create_finish_tmpfs */
    return t;
}

static int push_tmpfs(struct making *m, const char *target, const struct tmpfs *t, struct err *err)
{
    char mode[8];
    json_t *element;

    (void)snprintf(mode, sizeof(mode), "%04o", (unsigned)t->mode & TMPFS_MODE_MAX);
    element =
        json_pack("{s:s, s:I, s:b, s:b, s:s, s:I, s:I}", "target", target, "size",
                  (json_int_t)t->bytes, "readOnly", (int)t->read_only, "noExec", (int)t->no_exec,
                  "mode", mode, "uid", (json_int_t)t->uid, "gid", (json_int_t)t->gid);
    return element != NULL ? create_push(m, "tmpfs", element, err) : create_no_memory(err);
}

/* Reports a message of the options' parser with the field in front. */
static int tmpfs_error(struct err *err, int code, const char *path, const char *target,
                       const struct err *why)
{
    return body_fail(err, code, path, "\"%.64s\": %s", target, why->msg);
}

/* Options of Docker 1.46 and later: [["noexec"], ["uid", "1000"]]. */
static int tmpfs_take_list(json_t *list, struct tmpfs *t, const char *path, const char *target,
                           struct err *err)
{
    json_t *element;
    size_t i;

    if (!json_is_array(list))
        return body_fail(err, -EINVAL, path, "TmpfsOptions.Options: must be an array of arrays");
    json_array_foreach(list, i, element) {
        const char *name = json_string_value(json_array_get(element, 0));
        const char *value = json_string_value(json_array_get(element, 1));
        const size_t parts = json_array_size(element);
        struct err why = ERR_NONE;
        char text[OPTIONS_MAX];
        int n, r;

        if (name == NULL || parts > 2 || (parts == 2 && value == NULL) ||
            strchr(name, ',') != NULL || (value != NULL && strchr(value, ',') != NULL))
            return body_fail(err, -EINVAL, path,
                             "TmpfsOptions.Options: each must be [\"WORD\"] or [\"NAME\", "
                             "\"VALUE\"]");
        n = snprintf(text, sizeof(text), "%s%s%s", name, value != NULL ? "=" : "",
                     value != NULL ? value : "");
        if (n < 0 || (size_t)n >= sizeof(text))
            return body_fail(err, -EINVAL, path, "TmpfsOptions.Options: one is too long");
        r = tmpfs_parse_options(text, t, &why);
        if (r < 0)
            return tmpfs_error(err, r, path, target, &why);
    }
    return 0;
}

int create_add_tmpfs(struct making *m, const char *target, bool read_only,
                     const struct create_tmpfs *asked, const char *path, struct err *err)
{
    struct tmpfs t = docker_tmpfs_default();
    int r = 0;

    if (asked->bytes < 0 || (asked->bytes > 0 && asked->bytes < SPEC_TMPFS_MIN))
        return body_fail(err, -EINVAL, path, "TmpfsOptions.SizeBytes: must be at least 4096");
    if (asked->mode < 0 || asked->mode > TMPFS_MODE_MAX)
        return body_fail(err, -EINVAL, path, "TmpfsOptions.Mode: must be 0 to 07777");
    t.read_only = read_only;
    t.bytes = asked->bytes;
    if (asked->mode != 0)
        t.mode = (uint32_t)asked->mode;
    if (asked->options != NULL)
        r = tmpfs_take_list(asked->options, &t, path, target, err);
    return r < 0 ? r : push_tmpfs(m, target, &t, err);
}

/* Parses {"/run": "size=64m,mode=1777"}. */
int t_tmpfs(json_t *value, const struct body_field *field, void *dst, const char *path,
            struct err *err)
{
    const char *target;
    json_t *element;

    (void)field;
    if (!json_is_object(value))
        return body_fail(err, -EINVAL, path, "must be an object");
    json_object_foreach(value, target, element) {
        struct tmpfs t = docker_tmpfs_default();
        struct err why = ERR_NONE;
        int r;

        if (!json_is_string(element))
            return body_fail(err, -EINVAL, path, "\"%.64s\": must be a string", target);
        r = tmpfs_parse_options(json_string_value(element), &t, &why);
        if (r < 0)
            return tmpfs_error(err, r, path, target, &why);
        r = push_tmpfs(dst, target, &t, err);
        if (r < 0)
            return r;
    }
    return docker_put(((struct making *)dst)->out->kept, "tmpfs", json_incref(value))
               ? 0
               : create_no_memory(err);
}

int create_finish_tmpfs(struct making *m, struct err *err)
{
    const int64_t bytes =
        m->asked.memory >= SPEC_TMPFS_MIN ? m->asked.memory : TMPFS_BYTES_NO_LIMIT;
    json_t *element;
    size_t i;

    json_array_foreach(json_object_get(m->out->spec, "tmpfs"), i, element)
        if (json_integer_value(json_object_get(element, "size")) == BYTES_UNSET &&
            !docker_put(element, "size", json_integer(bytes)))
            return create_no_memory(err);
    return 0;
}
