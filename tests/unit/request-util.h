#pragma once

/* Requests to the launcher for tests: an honest one, and ways to spoil it. */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "launch/request.h"

/* Which of the honest records to leave out. */
enum {
    WITHOUT_ID = 1 << 0,
    WITHOUT_HOSTNAME = 1 << 1,
    WITHOUT_LAYERS = 1 << 2,
    WITHOUT_FILTER = 1 << 3,
    WITHOUT_FLAGS = 1 << 4,
    WITHOUT_CAPS = 1 << 5,
};

static const uint64_t filter_allow = 0x7fff000000000006; /* BPF_RET, SECCOMP_RET_ALLOW */

static inline void honest_begin(struct buf *b, const char *id, const char *const *layers,
                                unsigned without)
{
    launch_begin(b, LAUNCH_START);
    if ((without & WITHOUT_ID) == 0)
        launch_put_string(b, TAG_ID, id);
    if ((without & WITHOUT_HOSTNAME) == 0)
        launch_put_string(b, TAG_HOSTNAME, "box");
    if ((without & WITHOUT_FLAGS) == 0)
        launch_put_number(b, TAG_FLAGS, LAUNCH_ATTACHED | LAUNCH_NO_NEW_PRIVS);
    if ((without & WITHOUT_CAPS) == 0)
        launch_put_number(b, TAG_CAPABILITIES, 0);
    for (; (without & WITHOUT_LAYERS) == 0 && *layers != NULL; layers++)
        launch_put_string(b, TAG_LAYER, *layers);
    if ((without & WITHOUT_FILTER) == 0)
        launch_put(b, TAG_FILTER, 0, &filter_allow, sizeof(filter_allow));
}

/* A volume record from raw parts, which launch_put_volume would not write. */
static inline void put_raw_volume(struct buf *b, uint16_t flags, uint32_t uid, uint32_t gid,
                                  const char *source, const char *target)
{
    char data[8 + 2 * (LAUNCH_PATH_MAX + 2)];
    size_t len = 8;

    (void)memcpy(data, &uid, 4);
    (void)memcpy(data + 4, &gid, 4);
    (void)memcpy(data + len, source, strlen(source) + 1);
    len += strlen(source) + 1;
    (void)memcpy(data + len, target, strlen(target) + 1);
    len += strlen(target) + 1;
    launch_put(b, TAG_VOLUME, flags, data, len);
}
