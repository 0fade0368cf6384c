/* The part B of UNPACK and UNPACK_DIR (part.h). */
#include "base/err.h"
#include "confine.h"
#include "part.h"
#include "tarball.h"
#include "unpack.h"

void part_unpack(const struct part_request *q)
{
    const struct worker_msg *s = q->start;
    const struct unpack_options o = {
        .tree_fd = q->tree,
        .opaque_fd = q->opaque,
        .parents = q->parents,
        .parent_count = q->parent_count,
        .plain = s->op == WORKER_UNPACK_DIR,
        .bottom = (s->flags & WORKER_BOTTOM) != 0,
        .keep_owner = (s->flags & WORKER_KEEP_OWNER) != 0,
        .files = s->files,
        .entries = s->entries,
        .shown = &q->shown->entries,
    };
    struct worker_msg m = {.type = WORKER_INVALID};
    struct unpack_result result = {.files = 0};
    struct tarball t = {.read = NULL};
    struct err err = ERR_NONE;
    int in = q->in, r;

    r = part_become(q, ROLE_UNPACKER, s->files, &err);
    if (r == 0)
        r = tarball_open(&t, part_read, &in, &err);
    if (r == 0)
        r = tree_unpack(&t, &o, &result, m.name, &err);
    tarball_close(&t);
    m.files = result.files;
    m.entries = result.entries;
    m.devices = result.devices;
    m.xattrs = result.xattrs;
    m.flags = result.of_parents ? WORKER_OF_PARENTS : 0;
    part_finish(q, &m, r, &err);
}
