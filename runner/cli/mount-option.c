/*
 * Parses --mount. Pure but for the spec that it fills. The text is one line of CSV, as docker reads
 * it: a field that begins with a double quote may hold commas.
 */

#include "cli/mount-option.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "spec/parse.h"
#include "spec/spec.h"

enum { TMPFS_TEXT_MAX = SPEC_PATH_MAX + 128 };

enum mount_type { MOUNT_VOLUME = 0, MOUNT_BIND, MOUNT_TMPFS };

/* Pointers go into the copied text. */
struct mount_option {
    enum mount_type type;
    const char *source, *target, *tmpfs_mode;
    int64_t tmpfs_bytes; /* LIMIT_UNSET: not given */
    bool read_only, no_copy;
};

typedef int mount_key_fn(struct mount_option *m, const char *value, struct err *err);

/* ---- keys ---- */

/* A key without a value means true. */
static int bool_parse(const char *value, bool *ret, struct err *err)
{
    static const char *const yes[] = {"", "1", "true", "True", "TRUE", "t", "T"};
    static const char *const no[] = {"0", "false", "False", "FALSE", "f", "F"};

    for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
        if (strcmp(value, yes[i]) == 0) {
            *ret = true;
            return 0;
        }
    for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
        if (strcmp(value, no[i]) == 0) {
            *ret = false;
            return 0;
        }
    return err_set(err, -EINVAL, "\"%.64s\": must be true or false", value);
}

static int key_type(struct mount_option *m, const char *value, struct err *err)
{
    if (strcmp(value, "bind") == 0)
        m->type = MOUNT_BIND;
    else if (strcmp(value, "volume") == 0)
        m->type = MOUNT_VOLUME;
    else if (strcmp(value, "tmpfs") == 0)
        m->type = MOUNT_TMPFS;
    else
        return err_set(err, -EINVAL, "\"%.64s\": must be bind, volume or tmpfs", value);
    return 0;
}

static int key_source(struct mount_option *m, const char *value, struct err *err)
{
    (void)err;
    m->source = value;
    return 0;
}

static int key_target(struct mount_option *m, const char *value, struct err *err)
{
    (void)err;
    m->target = value;
    return 0;
}

static int key_read_only(struct mount_option *m, const char *value, struct err *err)
{
    return bool_parse(value, &m->read_only, err);
}

static int key_no_copy(struct mount_option *m, const char *value, struct err *err)
{
    return bool_parse(value, &m->no_copy, err);
}

static int key_tmpfs_size(struct mount_option *m, const char *value, struct err *err)
{
    return parse_bytes("size", value, SPEC_TMPFS_MIN, LIMIT_BYTES_MAX, &m->tmpfs_bytes, err);
}

static int key_tmpfs_mode(struct mount_option *m, const char *value, struct err *err)
{
    if (value[0] == '\0' || strlen(value) > 5 || strspn(value, "01234567") != strlen(value))
        return err_set(err, -EINVAL, "\"%.64s\": must be an octal number, such as 1777", value);
    m->tmpfs_mode = value;
    return 0;
}

/* Hints for file systems that Docker's virtual machines have between host and container. */
static int key_consistency(struct mount_option *m, const char *value, struct err *err)
{
    (void)m;
    (void)value;
    (void)err;
    return 0;
}

static int key_propagation(struct mount_option *m, const char *value, struct err *err)
{
    (void)m;
    if (strcmp(value, "rprivate") == 0 || strcmp(value, "private") == 0)
        return 0;
    return err_set(err, -EINVAL,
                   "\"%.64s\": mounts are never shared with the host; rprivate is what there is",
                   value);
}

static int key_recursive(struct mount_option *m, const char *value, struct err *err)
{
    (void)m;
    if (strcmp(value, "enabled") == 0)
        return 0;
    return err_set(err, -EINVAL, "\"%.64s\": mounts below the source are always shown, as enabled",
                   value);
}

static int key_driver(struct mount_option *m, const char *value, struct err *err)
{
    (void)m;
    if (strcmp(value, "local") == 0)
        return 0;
    return err_set(err, -EINVAL, "\"%.64s\": there are no volume drivers but local", value);
}

static int key_volume_verb(struct mount_option *m, const char *value, struct err *err)
{
    (void)m;
    (void)value;
    return err_set(err, -EINVAL, "is said when the volume is made: rind volume create");
}

static int key_subpath(struct mount_option *m, const char *value, struct err *err)
{
    (void)m;
    (void)value;
    return err_set(err, -EINVAL, "a volume is shown whole; leave it out");
}

static const struct mount_key {
    const char *name;
    mount_key_fn *set;
    int only;       /* enum mount_type, or -1: any */
    bool has_value; /* one must be given */
} keys[] = {
    {"type", key_type, -1, true},
    {"source", key_source, -1, true},
    {"src", key_source, -1, true},
    {"target", key_target, -1, true},
    {"destination", key_target, -1, true},
    {"dst", key_target, -1, true},
    {"readonly", key_read_only, -1, false},
    {"ro", key_read_only, -1, false},
    {"consistency", key_consistency, -1, true},
    {"bind-propagation", key_propagation, MOUNT_BIND, true},
    {"bind-recursive", key_recursive, MOUNT_BIND, true},
    {"volume-nocopy", key_no_copy, MOUNT_VOLUME, false},
    {"volume-driver", key_driver, MOUNT_VOLUME, true},
    {"volume-opt", key_volume_verb, MOUNT_VOLUME, true},
    {"volume-label", key_volume_verb, MOUNT_VOLUME, true},
    {"volume-subpath", key_subpath, MOUNT_VOLUME, true},
    {"tmpfs-size", key_tmpfs_size, MOUNT_TMPFS, true},
    {"tmpfs-mode", key_tmpfs_mode, MOUNT_TMPFS, true},
};
enum { KEYS = sizeof(keys) / sizeof(keys[0]) };

/* ---- the text ---- */

/* Cuts the next field off *text, which is NULL behind the last one. NULL: a quote has no end. */
static char *field_next(char **text)
{
    char *field = *text, *from = field, *to = field;

    if (*field != '"') {
        from += strcspn(from, ",");
        *text = *from == ',' ? from + 1 : NULL;
        *from = '\0';
        return field;
    }
    for (from++; *from != '\0'; from++) {
        if (*from == '"' && from[1] == '"')
            from++;
        else if (*from == '"')
            break;
        *to++ = *from;
    }
    if (*from != '"' || (from[1] != '\0' && from[1] != ','))
        return NULL;
    *text = from[1] == ',' ? from + 2 : NULL;
    *to = '\0';
    return field;
}

static int field_apply(struct mount_option *m, char *field, bool used[KEYS], struct err *err)
{
    char *value = strchr(field, '=');
    size_t i = 0;
    int r;

    if (value != NULL)
        *value++ = '\0';
    while (i < KEYS && strcmp(keys[i].name, field) != 0)
        i++;
    if (i == KEYS)
        return err_set(err, -EINVAL,
                       "\"%.64s\" is no key; there is type, source, target, readonly, "
                       "volume-nocopy, tmpfs-size, tmpfs-mode",
                       field);
    if (keys[i].has_value && (value == NULL || value[0] == '\0'))
        return err_set(err, -EINVAL, "%s: needs a value: %s=...", field, field);
    used[i] = true;
    r = keys[i].set(m, value != NULL ? value : "", err);
    return r < 0 ? err_wrap(err, r, "%s", field) : 0;
}

static int mount_check(const struct mount_option *m, const bool used[KEYS], struct err *err)
{
    static const char *const types[] = {"volume", "bind", "tmpfs"};

    for (size_t i = 0; i < KEYS; i++)
        if (used[i] && keys[i].only >= 0 && keys[i].only != (int)m->type)
            return err_set(err, -EINVAL, "%s: not with type=%s", keys[i].name, types[m->type]);
    if (m->target == NULL)
        return err_set(err, -EINVAL, "target: is missing; write target=DST");
    if (m->type == MOUNT_BIND && m->source == NULL)
        return err_set(err, -EINVAL, "source: is missing; write source=SRC, a path of the host");
    if (m->type == MOUNT_TMPFS && m->source != NULL)
        return err_set(err, -EINVAL, "source: not with type=tmpfs, which has none");
    if (m->type == MOUNT_TMPFS && m->read_only)
        return err_set(err, -EINVAL, "readonly: not with type=tmpfs, which would stay empty");
    return 0;
}

/* By the text of --tmpfs, so that both mean the same. */
static int mount_add_tmpfs(struct spec *spec, const struct mount_option *m, struct err *err)
{
    char text[TMPFS_TEXT_MAX], size[48] = "";
    int n;

    if (strchr(m->target, ':') != NULL)
        return err_set(err, -EINVAL, "target: \"%.64s\": a tmpfs has no colon in its path",
                       m->target);
    if (m->tmpfs_bytes != LIMIT_UNSET)
        (void)snprintf(size, sizeof(size), "size=%lld", (long long)m->tmpfs_bytes);
    n = snprintf(text, sizeof(text), "%s%s%s%s%s%s", m->target,
                 size[0] != '\0' || m->tmpfs_mode != NULL ? ":" : "", size,
                 size[0] != '\0' && m->tmpfs_mode != NULL ? "," : "",
                 m->tmpfs_mode != NULL ? "mode=" : "", m->tmpfs_mode != NULL ? m->tmpfs_mode : "");
    if (n < 0 || (size_t)n >= sizeof(text))
        return err_set(err, -ENAMETOOLONG, "target: longer than %d bytes", SPEC_PATH_MAX);
    return spec_add_tmpfs(spec, text, err);
}

int spec_add_mount(struct spec *spec, const char *text, struct err *err)
{
    struct mount_option m = {.type = MOUNT_VOLUME, .tmpfs_bytes = LIMIT_UNSET};
    auto_free char *copy = strdup(text);
    bool used[KEYS] = {false};
    char *rest = copy;
    int r = 0;

    if (copy == NULL)
        return err_errno(err, -ENOMEM, "mount");
    while (r == 0 && rest != NULL) {
        char *field = field_next(&rest);

        r = field != NULL ? field_apply(&m, field, used, err)
                          : err_set(err, -EINVAL, "\"%.64s\": a quote without its end", text);
    }
    if (r == 0)
        r = mount_check(&m, used, err);
    if (r < 0)
        return r;
    if (m.type == MOUNT_TMPFS)
        return mount_add_tmpfs(spec, &m, err);
    if (m.type == MOUNT_BIND)
        return spec_put_volume(spec, m.source, m.target, m.read_only, err);
    return spec_put_named_volume(spec, m.source, m.target, m.read_only, m.no_copy, err);
}
