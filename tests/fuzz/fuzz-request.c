/* Any request to the launcher: refused with words, or decoded into what the header promises. */

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "launch/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_path(const char *p)
{
    size_t len = strlen(p);

    assert(p[0] == '/' && len >= 2 && len <= LAUNCH_PATH_MAX && p[len - 1] != '/');
    assert(strstr(p, "//") == NULL && strstr(p, "/./") == NULL && strstr(p, "/../") == NULL);
    assert(len < 3 || strcmp(p + len - 3, "/..") != 0);
    assert(strcmp(p + len - 2, "/.") != 0);
}

static void check_target(const char *p)
{
    check_path(p);
    assert(strcmp(p, "/proc") != 0 && strncmp(p, "/proc/", 6) != 0);
    assert(strcmp(p, "/sys") != 0 && strncmp(p, "/sys/", 5) != 0);
    assert(strcmp(p, "/dev") != 0 && strncmp(p, "/dev/", 5) != 0);
}

static void check_start(const struct launch_request *q)
{
    assert(q->hostname != NULL && strlen(q->hostname) <= LAUNCH_HOSTNAME_MAX);
    assert(q->layer_count > 0 || q->root_dir != NULL || (q->flags & LAUNCH_HOST_ROOT) != 0);
    assert(q->layer_count + q->image_layer_count <= LAUNCH_LAYERS_MAX);
    for (size_t i = 0; i < q->layer_count; i++)
        assert(q->layers[i][0] != '.' && strchr(q->layers[i], '/') == NULL);
    for (size_t i = 0; i < q->image_layer_count; i++)
        assert(strlen(q->image_layers[i]) == LAUNCH_LAYER_NAME);
    assert(q->net_dns_count <= NET_DNS_MAX);
    assert(q->net_join == NULL || (q->net_flags == 0 && q->net_name == NULL));
    assert(q->net_aliases == NULL || strlen(q->net_aliases) <= LAUNCH_ALIASES_MAX);
    assert(q->filter != NULL && q->filter_count >= 1 && q->filter_count <= LAUNCH_BPF_MAX);
    assert(q->capabilities < 1ULL << 41 && (q->flags & ~(uint64_t)LAUNCH_FLAGS_ALL) == 0);
    assert(q->memory >= -1 && q->pids >= -1 && q->cpu >= -1 && q->shm >= -1);
    for (size_t i = 0; i < q->volume_count; i++) {
        assert(q->volumes[i].uid <= 65535 && q->volumes[i].gid <= 65535);
        if (q->volumes[i].named)
            assert(q->volumes[i].source[0] != '.' && strchr(q->volumes[i].source, '/') == NULL);
        else
            check_path(q->volumes[i].source);
        check_target(q->volumes[i].target);
    }
    for (size_t i = 0; i < q->tmpfs_count; i++)
        check_target(q->tmpfs[i].target);
    for (size_t i = 0; i < q->masked_count; i++)
        check_path(q->masked[i]);
    for (size_t i = 0; i < q->read_only_count; i++)
        check_path(q->read_only[i]);
    for (size_t i = 0; i < q->rlimit_count; i++)
        assert(q->rlimits[i].resource < 16 && q->rlimits[i].soft <= q->rlimits[i].hard);
    for (size_t i = 0; i < q->counter_count; i++)
        assert(strncmp(q->counters[i].name, "max_", 4) == 0 && q->counters[i].limit <= INT32_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* A copy of just its size, so that a byte read behind it is seen. */
    uint8_t *copy = malloc(size > 0 ? size : 1);
    struct err err = ERR_NONE;
    struct launch_request q;
    int r;

    if (copy == NULL)
        return 0;
    if (size > 0)
        (void)memcpy(copy, data, size);
    r = launch_decode(copy, size, &q, &err);
    if (r < 0) {
        assert(strncmp(err.msg, "request: ", 9) == 0 && err.code == r);
    } else {
        assert(q.id == NULL || launch_id_ok(q.id));
        assert(q.verb > LAUNCH_VERB_INVALID && q.verb < LAUNCH_VERB_MAX);
        if (q.verb == LAUNCH_START)
            check_start(&q);
    }
    free(copy);
    return 0;
}
