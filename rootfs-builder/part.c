#include "part.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "changes.h"
#include "confine.h"
#include "pack.h"
#include "split.h"
#include "tarball.h"
#include "tree-size.h"

ssize_t part_read(void *data, void *buf, size_t len)
{
    const int *fd = data;
    ssize_t n;

    do
        n = read(*fd, buf, len);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

void part_finish(const struct part_request *q, struct worker_msg *m, int r, const struct err *err)
{
    m->type = r < 0 ? WORKER_FAILED : WORKER_DONE;
    m->code = r < 0 ? r : 0;
    if (r < 0)
        (void)snprintf(m->text, sizeof(m->text), "%s", err->msg);
    /* If the message is lost, P sees the exit without it. */
    (void)worker_msg_send(q->report, m, FD_NONE, NULL);
    _exit(r < 0);
}

int part_become(const struct part_request *q, enum confine_role role, uint64_t file_max,
                struct err *err)
{
    const struct confine_dirs dirs = {
        .tree = q->tree, .parents = q->parents, .parent_count = q->parent_count};
    int keep[WORKER_PARENTS_MAX + 8] = {q->report, q->in, q->out, q->tree, q->opaque};
    size_t n = 5;
    int r;

    for (size_t i = 0; i < q->parent_count; i++)
        keep[n++] = q->parents[i];
    r = confine_descriptors(keep, n, err);
    return r < 0 ? r : confine(role, &dirs, file_max, err);
}

void part_codec(const struct part_request *q)
{
    enum worker_compression kind = (enum worker_compression)q->start->kind;
    struct worker_msg m = {.type = WORKER_INVALID};
    struct err err = ERR_NONE;
    int r = part_become(q, ROLE_CODEC, 0, &err);

    if (r == 0)
        r = q->start->op == WORKER_PACK ? codec_pack(kind, q->in, q->out, q->shown, &err)
                                        : codec_unpack(q->in, q->out, q->shown, &kind, &err);
    m.kind = (uint32_t)kind;
    m.packed = q->shown->packed;
    part_finish(q, &m, r, &err);
}

/* ---- split ---- */

static int entry_ask(void *data, const struct entry *e, struct err *err)
{
    static const uint32_t kinds[] = {
        [ENTRY_INVALID] = WORKER_ENTRY_OTHER,       [ENTRY_FILE] = WORKER_ENTRY_FILE,
        [ENTRY_HARD_LINK] = WORKER_ENTRY_HARD_LINK, [ENTRY_SYMBOLIC] = WORKER_ENTRY_SYMBOLIC,
        [ENTRY_CHARACTER] = WORKER_ENTRY_OTHER,     [ENTRY_BLOCK] = WORKER_ENTRY_OTHER,
        [ENTRY_DIRECTORY] = WORKER_ENTRY_DIRECTORY, [ENTRY_FIFO] = WORKER_ENTRY_OTHER,
        [ENTRY_OTHER] = WORKER_ENTRY_OTHER,
    };
    const struct part_request *q = data;
    struct worker_msg m = {.type = WORKER_ENTRY, .kind = kinds[e->kind], .bytes = e->size};
    int fd = FD_NONE, r;

    q->shown->entries++;
    (void)snprintf(m.name, sizeof(m.name), "%s", e->name);
    (void)snprintf(m.text, sizeof(m.text), "%s", e->link);
    r = worker_msg_send(q->report, &m, FD_NONE, err);
    if (r < 0 || e->kind != ENTRY_FILE)
        return r;
    r = worker_msg_recv(q->report, &m, &fd, err);
    if (r == 0)
        return err_set(err, -ECANCELED, "the load has been cancelled");
    return r < 0 ? r : m.type == WORKER_TAKE;
}

static int entry_pass_bytes(void *data, const void *bytes, size_t len, struct err *err)
{
    const struct part_request *q = data;
    int r = write_all(q->out, bytes, len);

    return r < 0 ? err_errno(err, r, "pass its contents on") : 0;
}

struct counted {
    int fd;
    uint64_t left;
    bool exceeded;
};

/* The stream is counted here, because P does not see it on its way. */
static ssize_t read_counted(void *data, void *buf, size_t len)
{
    struct counted *c = data;
    ssize_t n = part_read(&c->fd, buf, len);

    c->exceeded = n > 0 && (uint64_t)n > c->left;
    if (c->exceeded)
        return -EFBIG;
    c->left -= n > 0 ? (uint64_t)n : 0;
    return n;
}

void part_split(const struct part_request *q)
{
    struct part_request request = *q;
    const struct split_limits limits = {.files = q->start->files, .entries = q->start->entries};
    const struct split_sink sink = {
        .data = &request, .entry = entry_ask, .bytes = entry_pass_bytes};
    struct counted in = {.fd = q->in, .left = q->start->bytes};
    struct worker_msg m = {.type = WORKER_INVALID};
    struct tarball t = {.read = NULL};
    struct err err = ERR_NONE;
    int r;

    r = part_become(q, ROLE_SPLITTER, 0, &err);
    if (r == 0)
        r = tarball_open(&t, read_counted, &in, &err);
    if (r == 0)
        r = split(&t, &limits, &sink, &m.entries, m.name, &err);
    if (in.exceeded)
        r = err_set(&err, -EFBIG, "more than %" PRIu64 " bytes unpacked", q->start->bytes);
    tarball_close(&t);
    m.bytes = q->start->bytes - in.left;
    part_finish(q, &m, r, &err);
}

/* ---- pack ---- */

static int opaque_read(int fd, char **ret, size_t *ret_len, struct err *err)
{
    int r;

    if (fd < 0 || lseek(fd, 0, SEEK_SET) < 0)
        return 0;
    r = file_read_fd(fd, WORKER_OPAQUE_MAX, ret, ret_len, err);
    return r < 0 ? err_wrap(err, r, "the list of opaque directories") : 0;
}

/* Collects small writes into large ones: each write to a pipe is expensive. */
struct gatherer {
    int fd;
    size_t len;
    char buf[1 << 17];
};

static int gatherer_flush(struct gatherer *g, struct err *err)
{
    int r = write_all(g->fd, g->buf, g->len);

    g->len = 0;
    return r < 0 ? err_errno(err, r, "pass the archive on") : 0;
}

static int gather_bytes(void *data, const void *bytes, size_t len, struct err *err)
{
    struct gatherer *g = data;
    int r = 0;

    if (len > sizeof(g->buf) - g->len)
        r = gatherer_flush(g, err);
    if (r < 0)
        return r;
    if (len > sizeof(g->buf) / 2) {
        r = gatherer_flush(g, err);
        if (r == 0)
            r = write_all(g->fd, bytes, len);
        return r < 0 ? err_errno(err, r, "pass the archive on") : 0;
    }
    (void)memcpy(g->buf + g->len, bytes, len);
    g->len += len;
    return 0;
}

static int part_pack_tree(const struct part_request *q, struct pack_result *result, char *entry,
                          struct err *err)
{
    static struct gatherer g;
    const struct pack_sink sink = {.data = &g, .bytes = gather_bytes};
    struct pack_options o = {
        .tree_fd = q->tree,
        .sub = q->start->name,
        .prefix = q->start->text,
        .overlay = (q->start->flags & WORKER_OVERLAY) != 0,
        .root_entry = (q->start->flags & WORKER_ROOT_ENTRY) != 0,
        .files = q->start->files,
        .entries = q->start->entries,
        .shown = &q->shown->entries,
    };
    auto_free char *opaque = NULL;
    int r = o.overlay ? opaque_read(q->opaque, &opaque, &o.opaque_len, err) : 0;

    if (r < 0)
        return r;
    o.opaque = opaque;
    g.fd = q->out;
    r = tree_pack(&o, &sink, result, entry, err);
    return r < 0 ? r : gatherer_flush(&g, err);
}

void part_pack(const struct part_request *q)
{
    struct worker_msg m = {.type = WORKER_INVALID};
    struct pack_result result = {.files = 0};
    struct err err = ERR_NONE;
    int r = part_become(q, ROLE_PACKER, 0, &err);

    if (r == 0)
        r = part_pack_tree(q, &result, m.name, &err);
    m.files = result.files;
    m.entries = result.entries;
    m.devices = result.devices;
    m.xattrs = result.xattrs;
    part_finish(q, &m, r, &err);
}

/* ---- changes ---- */

static int part_find_changes(const struct part_request *q, struct worker_msg *m, struct err *err)
{
    static struct gatherer g;
    const struct changes_sink sink = {.data = &g, .bytes = gather_bytes};
    struct changes_options o = {
        .upper_fd = q->tree,
        .lower_fd = q->parents[0],
        .entries = q->start->entries,
        .shown = &q->shown->entries,
    };
    auto_free char *opaque = NULL;
    int r = opaque_read(q->opaque, &opaque, &o.opaque_len, err);

    if (r < 0)
        return r;
    o.opaque = opaque;
    g.fd = q->out;
    r = tree_changes(&o, &sink, &m->entries, m->name, err);
    return r < 0 ? r : gatherer_flush(&g, err);
}

void part_changes(const struct part_request *q)
{
    struct worker_msg m = {.type = WORKER_INVALID};
    struct err err = ERR_NONE;
    int r = part_become(q, ROLE_PACKER, 0, &err);

    if (r == 0)
        r = part_find_changes(q, &m, &err);
    part_finish(q, &m, r, &err);
}

/* ---- size ---- */

void part_size(const struct part_request *q)
{
    const struct tree_size_limits limits = {.entries = q->start->entries,
                                            .end_ms = clock_mono_ms() + WORKER_SIZE_MS};
    struct worker_msg m = {.type = WORKER_INVALID};
    struct tree_size size = {.bytes = 0};
    struct err err = ERR_NONE;
    int r = part_become(q, ROLE_PACKER, 0, &err);

    if (r == 0)
        r = tree_size_count(q->tree, &limits, &size, &err);
    m.files = size.bytes;
    m.entries = size.entries;
    m.flags = size.partial ? WORKER_PARTIAL : 0;
    part_finish(q, &m, r, &err);
}
