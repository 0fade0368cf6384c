/*
 * The first byte chooses an option, the rest is its text: a refusal has a message and changes
 * nothing, an accepted text left what the option promises.
 */

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "proto/userdb.h"
#include "spec/spec.h"

typedef int setter(struct spec *s, const char *text, struct err *err);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Not spec_add_env_file: it reads files. */
static const struct {
    char key;
    setter *set;
} options[] = {
    {'n', spec_set_name},     {'r', spec_set_rootfs},  {'p', spec_set_policy},
    {'h', spec_set_hostname}, {'w', spec_set_workdir}, {'u', spec_set_user},
    {'e', spec_add_env},      {'v', spec_add_volume},  {'t', spec_add_tmpfs},
    {'m', spec_set_memory},   {'c', spec_set_cpus},    {'i', spec_set_pids},
    {'s', spec_set_shm_size}, {'l', spec_add_ulimit},  {'o', spec_set_network},
    {'d', spec_set_timeout},
};

static void check_path(const char *path)
{
    size_t len = strlen(path);

    assert(path[0] == '/' && len <= SPEC_PATH_MAX);
    assert(strstr(path, "//") == NULL && strstr(path, "/./") == NULL);
    assert(strstr(path, "/../") == NULL);
    assert(len == 1 || path[len - 1] != '/');
    assert(len < 3 || strcmp(path + len - 3, "/..") != 0);
}

static void check_target(const char *path)
{
    check_path(path);
    assert(strcmp(path, "/") != 0 && strcmp(path, "/proc") != 0 && strcmp(path, "/dev") != 0);
    assert(strncmp(path, "/proc/", 6) != 0 && strncmp(path, "/sys/", 5) != 0);
}

static void check_spec(const struct spec *s)
{
    struct userdb_spec user;

    if (s->rootfs != NULL && strcmp(s->rootfs, SPEC_ROOTFS_HOST) != 0)
        check_path(s->rootfs);
    if (s->cwd != NULL)
        check_path(s->cwd);
    if (s->user != NULL)
        assert(userdb_parse(s->user, &user, NULL) == 0);
    assert(s->name == NULL || strlen(s->name) <= SPEC_NAME_MAX);
    assert(s->hostname == NULL || strlen(s->hostname) <= SPEC_HOSTNAME_MAX);
    for (size_t i = 0; i < s->volume_count; i++) {
        const char *source = s->volumes[i].source;

        if (s->volumes[i].named)
            assert(source == NULL || (source[0] != '.' && strchr(source, '/') == NULL));
        else
            check_path(source);
        check_target(s->volumes[i].target);
    }
    for (size_t i = 0; i < s->tmpfs_count; i++) {
        check_target(s->tmpfs[i].target);
        assert(s->tmpfs[i].bytes > 0 && s->tmpfs[i].bytes <= LIMIT_BYTES_MAX);
    }
    for (size_t i = 0; i < s->rlimit_count; i++)
        assert(s->rlimits[i].soft <= s->rlimits[i].hard);
    assert(s->limits.memory_bytes == LIMIT_UNSET || s->limits.memory_bytes >= LIMIT_MEMORY_MIN);
    assert(s->limits.memory_bytes <= LIMIT_BYTES_MAX);
    assert(s->limits.pids == LIMIT_UNSET ||
           (s->limits.pids >= 1 && s->limits.pids <= LIMIT_PIDS_MAX));
    assert(s->limits.cpu_millis == LIMIT_UNSET || (s->limits.cpu_millis >= LIMIT_CPU_MILLIS_MIN &&
                                                   s->limits.cpu_millis <= LIMIT_CPU_MILLIS_MAX));
    assert(s->timeout_ms == LIMIT_UNSET || s->timeout_ms > 0);
    for (size_t i = 0; s->env[i] != NULL; i++)
        assert(strchr(s->env[i], '=') > s->env[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = ERR_NONE;
    struct spec *s = spec_new();
    setter *set = NULL;
    char *text;
    int r;

    for (size_t i = 0; size > 0 && i < sizeof(options) / sizeof(options[0]); i++)
        if (options[i].key == (char)data[0])
            set = options[i].set;
    text = set != NULL && s != NULL ? strndup((const char *)data + 1, size - 1) : NULL;
    if (text != NULL) {
        r = set(s, text, &err);
        if (r < 0)
            assert(err.code == r && err.msg[0] != '\0');
        else
            assert(r == 0 && err.code == 0);
        check_spec(s);
        /* Twice is as good as once. */
        assert(set(s, text, NULL) == r);
        check_spec(s);
    }
    free(text);
    spec_free(s);
    return 0;
}
