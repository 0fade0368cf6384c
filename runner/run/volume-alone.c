#include "run/volume-alone.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "launch/request.h"
#include "launch/volume.h"
#include "sandbox/sandbox-request.h"
#include "spec/spec.h"
#include "volume/volumes-internal.h"

static int volume_make_alone(struct launcher *l, const struct volume *v, struct err *err)
{
    const struct volume_record record = {.created_ms = clock_wall_ms(), .creator = geteuid()};
    auto_buf struct buf meta = BUF_INIT(LAUNCH_META_MAX);
    struct launch_request q = {
        .volume_name = v->source, .flags = v->anonymous ? 0 : LAUNCH_KEEP, .client_fd = FD_NONE};
    int r = volume_record_encode(&record, &meta, err);

    if (r < 0)
        return r;
    q.meta = meta.data;
    q.meta_len = meta.len;
    r = launcher_volume_make(l, &q, NULL, err); /* in this process: no other work waits for it */
    return r == -EEXIST ? 0 : r;
}

static int volume_fill_alone(struct launcher *l, const struct spec *spec, const char *const *layers,
                             size_t at, int root_fd, struct err *err)
{
    auto_buf struct buf request = BUF_INIT(LAUNCH_SIZE_MAX);
    auto_close int pidfd = FD_NONE, report = FD_NONE;
    struct launch_request q;
    int fds[2], r;

    r = sandbox_fill_request(&request, spec, layers, at, root_fd, err);
    if (r == 0)
        r = launch_decode(request.data, request.len, &q, err);
    if (r == 0)
        r = launcher_volume_fill(l, &q, fds, err);
    if (r <= 0)
        return r;
    pidfd = fds[0];
    report = fds[1];

    struct pollfd p = {.fd = pidfd, .events = POLLIN};

    while (poll(&p, 1, -1) < 0 && errno == EINTR)
        ;
    return volume_result(report, err);
}

int volumes_alone(struct launcher *l, const struct spec *spec, const char *const *layers,
                  int root_fd, struct err *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < spec->volume_count; i++) {
        const struct volume *v = &spec->volumes[i];

        if (!v->named)
            continue;
        r = volume_make_alone(l, v, err);
        if (r == 0 && !v->no_copy)
            r = volume_fill_alone(l, spec, layers, i, root_fd, err);
        if (r < 0)
            (void)err_wrap(err, r, "volume '%s'", v->source);
    }
    return r;
}

void volumes_alone_end(struct launcher *l, const struct spec *spec)
{
    for (size_t i = 0; i < spec->volume_count; i++)
        if (spec->volumes[i].anonymous)
            (void)launcher_volume_remove(l, spec->volumes[i].source, NULL);
}
