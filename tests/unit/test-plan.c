/* What the launcher builds init accepts; and each field of it that is not right, init refuses. */

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/file.h"
#include "init/init.h"
#include "launch/sandbox.h"
#include "launch/seccomp-baseline.h"
#include "proto/plan.h"
#include "tap.h"

static const uint64_t allow = 0x7fff000000000006;

static struct launch_request request(void)
{
    return (struct launch_request){.verb = LAUNCH_START,
                                   .id = "x",
                                   .hostname = "box",
                                   .capabilities = 0x1234,
                                   .memory = -1,
                                   .pids = -1,
                                   .cpu = -1,
                                   .shm = -1,
                                   .filter = &allow,
                                   .filter_count = 1};
}

/* A copy of the plan in memory; size in *ret_size. */
static unsigned char *build(const struct launch_request *q, const struct plan_mounts *m,
                            size_t *ret_size, int *ret_fd)
{
    struct err err = ERR_NONE;
    unsigned char *data;
    struct stat st;
    int fd = plan_build(q, m, true, &err);

    if (fd < 0 || fstat(fd, &st) < 0) {
        tap_fail("%s", err.msg);
        return NULL;
    }
    data = malloc((size_t)st.st_size);
    if (data == NULL || pread(fd, data, (size_t)st.st_size, 0) != st.st_size)
        abort();
    *ret_size = (size_t)st.st_size;
    if (ret_fd != NULL)
        *ret_fd = fd;
    else
        (void)close(fd);
    return data;
}

static const struct plan_op *find_op(const struct plan *p, enum plan_op_type type, const char *path)
{
    for (uint32_t i = 0; i < p->header->op_count; i++)
        if (p->ops[i].type == type && strcmp(plan_string(p, p->ops[i].path), path) == 0)
            return &p->ops[i];
    return NULL;
}

TEST(the_smallest)
{
    struct launch_request q = request();
    struct plan_mounts m = {.count = 3, .root = 0, .dev = 1};
    auto_free unsigned char *data = NULL;
    struct sock_filter baseline[BASELINE_MAX];
    struct plan p;
    size_t size;

    data = build(&q, &m, &size, NULL);
    CHECK_INT(plan_check(&p, data, size), 0);
    CHECK_INT(p.header->capabilities, 0x1234);
    CHECK_INT(p.header->fd_count, 3);
    CHECK_INT(p.header->flags, PLAN_LOOPBACK | PLAN_HAS_CGROUP);
    CHECK_STR(plan_string(&p, p.header->hostname), "box");
    CHECK_INT(p.header->policy_count, 1);
    CHECK(memcmp(p.base + p.header->policy, &allow, sizeof(allow)) == 0);
    CHECK_INT(p.header->baseline_count, baseline_build(baseline, false));
    CHECK(memcmp(p.base + p.header->baseline, baseline,
                 p.header->baseline_count * sizeof(baseline[0])) == 0);
    CHECK_INT(p.ops[0].type, PLAN_OP_ROOT);
    CHECK(find_op(&p, PLAN_OP_PROC, "proc") != NULL);
    CHECK(find_op(&p, PLAN_OP_ATTACH, "dev") != NULL);
}

/* The place of the operation on path, or -1. */
static int place_of(const struct plan *p, enum plan_op_type type, const char *path)
{
    const struct plan_op *op = find_op(p, type, path);

    return op != NULL ? (int)(op - p->ops) : -1;
}

static int fd_of(const struct plan *p, const char *path)
{
    const struct plan_op *op = find_op(p, PLAN_OP_ATTACH, path);

    return op != NULL ? op->fd : -1;
}

TEST(view_of_limits_on_v1)
{
    struct launch_request q = request();
    struct plan_mounts m = {.count = 9,
                            .dev = 1,
                            .mask = 2,
                            .has_cgroups = true,
                            .cgroups = 3,
                            .cgroup_part_count = 2,
                            .cgroup_parts = {{4, "memory"}, {5, CGROUP_UNIFIED}},
                            .has_cpus = true,
                            .cpus = 6,
                            .has_cpuinfo = true,
                            .cpuinfo = 7};
    auto_free unsigned char *data = NULL;
    struct plan p;
    size_t size;

    data = build(&q, &m, &size, NULL);
    CHECK_INT(plan_check(&p, data, size), 0);
    CHECK(place_of(&p, PLAN_OP_FSMOUNT, "sys") >= 0);
    CHECK(place_of(&p, PLAN_OP_ATTACH, "sys/fs/cgroup") > place_of(&p, PLAN_OP_FSMOUNT, "sys"));
    CHECK(place_of(&p, PLAN_OP_ATTACH, "sys/fs/cgroup/memory") >
          place_of(&p, PLAN_OP_ATTACH, "sys/fs/cgroup"));
    CHECK(place_of(&p, PLAN_OP_MASK, "sys/fs/cgroup/unified/exec") >
          place_of(&p, PLAN_OP_ATTACH, "sys/fs/cgroup/unified"));
    CHECK(place_of(&p, PLAN_OP_ATTACH, "proc/cpuinfo") > place_of(&p, PLAN_OP_PROC, "proc"));
    CHECK_INT(fd_of(&p, "sys/devices/system/cpu/online"), 6);
    /* The mask is needed, though the policy masks nothing. */
    for (uint32_t i = 0; i < p.header->op_count; i++)
        CHECK(p.ops[i].type != PLAN_OP_DISCARD);
}

TEST(view_of_limits_on_v2)
{
    struct launch_request q = request();
    struct plan_mounts m = {.count = 4, .dev = 1, .mask = 2, .has_cgroups = true, .cgroups = 3};
    auto_free unsigned char *data = NULL;
    struct plan p;
    size_t size;

    data = build(&q, &m, &size, NULL);
    CHECK_INT(plan_check(&p, data, size), 0);
    CHECK_INT(fd_of(&p, "sys/fs/cgroup"), 3);
    CHECK(place_of(&p, PLAN_OP_MASK, "sys/fs/cgroup/exec") >
          place_of(&p, PLAN_OP_ATTACH, "sys/fs/cgroup"));
}

/* Before the inner PID 1 is waited for, so that they cost no time of their own. */
TEST(what_only_made_others_is_discarded_early)
{
    struct launch_request q = request();
    struct plan_mounts m = {
        .count = 6, .root = 0, .dev = 1, .mask = 5, .discards = 3, .discard_count = 2};
    auto_free unsigned char *data = NULL;
    struct plan p;
    size_t size;
    int32_t next = 3;

    data = build(&q, &m, &size, NULL);
    CHECK_INT(plan_check(&p, data, size), 0);
    for (uint32_t i = 0; i < p.header->op_count; i++) {
        if (p.ops[i].type != PLAN_OP_DISCARD)
            continue;
        CHECK_INT(p.ops[i].fd, next++);
        CHECK(i > 0 && &p.ops[i] < find_op(&p, PLAN_OP_PROC, "proc"));
    }
    CHECK_INT(next, 6); /* and the mask, where nothing is masked */
}

static struct launch_request largest(struct plan_mounts *m)
{
    static char paths[LAUNCH_PATHS_MAX][32];
    struct launch_request q = request();

    *m = (struct plan_mounts){.count = 3 + LAUNCH_VOLUMES_MAX, .root = 0, .dev = 1, .mask = 2};
    q.flags = LAUNCH_FLAGS_ALL;
    for (size_t i = 0; i < LAUNCH_PATHS_MAX; i++) {
        (void)snprintf(paths[i], sizeof(paths[i]), "/path/%zu", i);
        q.masked[q.masked_count++] = paths[i];
        q.read_only[q.read_only_count++] = paths[i];
    }
    for (size_t i = 0; i < LAUNCH_VOLUMES_MAX; i++) {
        q.volumes[q.volume_count++] =
            (struct launch_volume){.source = "/s", .target = paths[i], .read_only = true};
        m->volumes[i] = 2 + (int)i;
        m->volume_is_dir[i] = i % 2 == 0;
        m->volume_guarded[i] = i == 7;
    }
    q.capabilities = UINT64_MAX & ~(UINT64_C(1) << CAP_SYS_ADMIN);
    for (size_t i = 0; i < LAUNCH_TMPFS_MAX; i++)
        q.tmpfs[q.tmpfs_count++] =
            (struct launch_tmpfs){.target = paths[100 + i], .bytes = INT64_MAX / 2};
    for (size_t i = 0; i < LAUNCH_RLIMITS_MAX; i++)
        q.rlimits[q.rlimit_count++] = (struct launch_rlimit){i, 1, UINT64_MAX};
    for (size_t i = 0; i < 16; i++)
        q.counters[q.counter_count++] = (struct launch_counter){"max_user_namespaces", INT32_MAX};
    return q;
}

TEST(the_largest)
{
    struct plan_mounts m;
    struct launch_request q = largest(&m);
    auto_free unsigned char *data = NULL;
    const struct plan_op *op;
    struct plan p;
    size_t size;

    data = build(&q, &m, &size, NULL);
    CHECK_INT(plan_check(&p, data, size), 0);
    CHECK_INT(p.header->flags, PLAN_FLAGS_ALL);
    CHECK_INT(p.header->rlimit_count, LAUNCH_RLIMITS_MAX);
    op = find_op(&p, PLAN_OP_ATTACH, "path/1");
    CHECK(op != NULL && op->fd == 3 && op->flags == PLAN_MAKE_FILE);
    op = find_op(&p, PLAN_OP_ATTACH, "path/2");
    CHECK(op != NULL && op->fd == 4 && op->flags == PLAN_MAKE_DIR);
    op = find_op(&p, PLAN_OP_FSMOUNT, "path/100");
    CHECK(op != NULL && (op->attr & (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)) ==
                            (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV));
    /* A mask lies on top of what was made read-only; the root is last. */
    CHECK(find_op(&p, PLAN_OP_MASK, "path/0") > find_op(&p, PLAN_OP_READONLY, "path/255"));
    CHECK(find_op(&p, PLAN_OP_ATTACH, "path/0") > find_op(&p, PLAN_OP_MASK, "path/255"));
    op = find_op(&p, PLAN_OP_MASK, "path/255");
    CHECK(op != NULL && op->fd == 2); /* all by one */
    CHECK_INT(p.ops[p.header->op_count - 1].type, PLAN_OP_ROOT_RO);
}

TEST(parents_before_children)
{
    static const char *const targets[] = {"/a/b/c", "/a-b", "/a", "/a/b", "/b"};
    struct launch_request q = request();
    struct plan_mounts m = {.count = 3, .root = 0, .dev = 1};
    auto_free unsigned char *data = NULL;
    struct plan p;
    size_t size;

    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++)
        q.tmpfs[q.tmpfs_count++] = (struct launch_tmpfs){.target = targets[i], .bytes = 4096};
    data = build(&q, &m, &size, NULL);
    CHECK_INT(plan_check(&p, data, size), 0);
    CHECK(find_op(&p, PLAN_OP_FSMOUNT, "a") < find_op(&p, PLAN_OP_FSMOUNT, "a/b"));
    CHECK(find_op(&p, PLAN_OP_FSMOUNT, "a/b") < find_op(&p, PLAN_OP_FSMOUNT, "a/b/c"));
}

TEST(each_step_has_a_description)
{
    struct plan_mounts m = {.count = 3, .root = 0, .dev = 1};
    struct launch_request q = request();
    auto_free unsigned char *data = NULL;
    auto_close int fd = FD_NONE;
    struct plan p;
    char text[64];
    size_t size;

    data = build(&q, &m, &size, &fd);
    CHECK_INT(plan_check(&p, data, size), 0);
    for (int i = -2; i < (int)p.header->op_count + 2; i++) {
        plan_describe(fd, i, text, sizeof(text));
        CHECK(text[0] != '\0');
    }
    plan_describe(fd, 0, text, sizeof(text));
    CHECK_STR(text, "attach the root");
    plan_describe(fd, 1, text, sizeof(text));
    CHECK_STR(text, "mount on /dev");
    plan_describe(fd, INT32_MIN, text, sizeof(text));
    CHECK_STR(text, "set up operation -2147483648");
    plan_describe(-1, 7, text, sizeof(text));
    CHECK_STR(text, "set up operation 7");
}

/* ---- the guard ---- */

static unsigned flags_of(const struct plan *p, const char *path)
{
    const struct plan_op *op = find_op(p, PLAN_OP_ATTACH, path);

    return op == NULL ? UINT32_MAX : op->flags;
}

/* By any writable directory of the host's, and by no other volume. */
TEST(a_guarded_volume)
{
    const uint64_t fsetid = UINT64_C(1) << CAP_FSETID, setfcap = UINT64_C(1) << CAP_SETFCAP;
    struct sock_filter want[BASELINE_MAX];
    struct launch_request q = request();
    struct plan_mounts m = {.count = 5, .root = 0, .dev = 1, .volumes = {3, 4}};

    q.volumes[q.volume_count++] = (struct launch_volume){.source = "/s", .target = "/a"};
    q.volumes[q.volume_count++] = (struct launch_volume){.source = "/s", .target = "/b"};
    for (int guarded = 0; guarded < 2; guarded++)
        for (int granted = 0; granted < 2; granted++) {
            auto_free unsigned char *data = NULL;
            struct plan p;
            size_t size;

            m.volume_guarded[1] = guarded == 1;
            q.capabilities = 0x1234 & ~fsetid;
            q.capabilities |= granted ? fsetid | setfcap : 0;
            data = build(&q, &m, &size, NULL);
            CHECK_INT(plan_check(&p, data, size), 0);
            CHECK_INT(p.header->flags & (PLAN_GUARD | PLAN_GUARD_FSETID),
                      !guarded  ? 0
                      : granted ? PLAN_GUARD | PLAN_GUARD_FSETID
                                : PLAN_GUARD);
            CHECK_INT(p.header->capabilities,
                      guarded ? 0x1234 & ~(fsetid | setfcap) : q.capabilities);
            CHECK_INT(flags_of(&p, "a") & PLAN_GUARDED, 0);
            CHECK_INT(flags_of(&p, "b") & PLAN_GUARDED, guarded ? PLAN_GUARDED : 0);
            CHECK_INT(p.header->baseline_count, baseline_build(want, guarded == 1));
            CHECK(memcmp(p.base + p.header->baseline, want,
                         p.header->baseline_count * sizeof(want[0])) == 0);
            CHECK_INT(p.header->guard_count, guarded ? baseline_build_guard(want) : 0);
            CHECK(!guarded || memcmp(p.base + p.header->guard, want,
                                     p.header->guard_count * sizeof(want[0])) == 0);
        }
}

/* What mounts inside can do no filter sees. */
TEST(no_guard_beside_mounts)
{
    struct launch_request q = request();
    struct plan_mounts m = {.count = 4, .root = 0, .dev = 1, .volumes = {3}};
    struct err err = ERR_NONE;
    int fd;

    q.volumes[q.volume_count++] = (struct launch_volume){.source = "/s", .target = "/a"};
    q.capabilities |= UINT64_C(1) << CAP_SYS_ADMIN;
    fd = plan_build(&q, &m, true, &err);
    CHECK(fd >= 0); /* read-only, or named */
    (void)close(fd);
    m.volume_guarded[0] = true;
    CHECK_INT(plan_build(&q, &m, true, &err), -EPERM);
    CHECK(strstr(err.msg, "'/a'") != NULL && strstr(err.msg, ":ro") != NULL);
}

/* init takes no half of one. */
TEST(a_guard_spoiled)
{
    static const struct {
        uint32_t flags, count;
        uint64_t caps;
        uint16_t op;
        int want;
    } rows[] = {
        {PLAN_GUARD, 4, 0, PLAN_GUARDED, 0},
        {PLAN_GUARD, 4, 0, 0, 0},
        {PLAN_GUARD, 0, 0, PLAN_GUARDED, -EPROTO},
        {0, 4, 0, 0, -EPROTO},
        {0, 0, 0, 0, 0},
        {0, 0, 0, PLAN_GUARDED, -EPROTO},
        {PLAN_GUARD_FSETID, 0, 0, 0, -EPROTO},
        {PLAN_GUARD, 4, 1U << CAP_FSETID, 0, -EPROTO},
        {PLAN_GUARD, 4, UINT64_C(1) << CAP_SETFCAP, 0, -EPROTO},
        {PLAN_GUARD, 4, UINT64_C(1) << CAP_SYS_ADMIN, 0, -EPROTO},
        {PLAN_GUARD, PLAN_FILTER_MAX + 1, 0, 0, -E2BIG},
        {PLAN_GUARD, PLAN_FILTER_MAX, 0, 0, -EPROTO},
    };
    struct launch_request q = request();
    struct plan_mounts m = {
        .count = 4, .root = 0, .dev = 1, .volumes = {3}, .volume_guarded = {true}};
    auto_free unsigned char *data = NULL;
    struct plan_header *h;
    struct plan_op *op;
    struct plan p;
    size_t size;

    q.volumes[q.volume_count++] = (struct launch_volume){.source = "/s", .target = "/a"};
    data = build(&q, &m, &size, NULL);
    CHECK_INT(plan_check(&p, data, size), 0);
    h = (struct plan_header *)(void *)data;
    op = (struct plan_op *)(void *)(data + h->ops) + (find_op(&p, PLAN_OP_ATTACH, "a") - p.ops);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        h->flags = rows[i].flags;
        h->guard_count = rows[i].count;
        h->capabilities = rows[i].caps;
        op->flags = PLAN_MAKE_FILE | rows[i].op;
        CHECK_INT(plan_check(&p, data, size), rows[i].want);
    }
    h->flags = PLAN_GUARD;
    h->guard_count = 4;
    h->capabilities = 0;
    for (uint32_t i = 0; i < h->op_count; i++) { /* of no other kind of operation */
        struct plan_op *o = (struct plan_op *)(void *)(data + h->ops) + i;

        o->flags |= PLAN_GUARDED;
        CHECK_INT(plan_check(&p, data, size), o->type == PLAN_OP_ATTACH ? 0 : -EPROTO);
        o->flags &= (uint16_t)~PLAN_GUARDED;
    }
}

/* ---- spoiled ---- */

#define H(field, value, code)                                                                      \
    {                                                                                              \
        offsetof(struct plan_header, field), sizeof(((struct plan_header *)0)->field), value,      \
            code, #field                                                                           \
    }

/* clang-format off */
static const struct {
    size_t offset, len;
    uint64_t value;
    int code;
    const char *what;
} header_rows[] = {
    H(magic, 0, -EPROTO), H(version, PLAN_VERSION + 1, -EPROTO), H(size, 0, -EPROTO), H(size, UINT32_MAX, -EPROTO),
    H(flags, 1U << 31, -EPROTO), H(flags, PLAN_FLAGS_ALL + 1, -EPROTO),
    H(fd_count, PLAN_FDS_MAX + 1, -E2BIG), H(fd_count, 0, -EPROTO), H(fd_count, UINT32_MAX, -E2BIG),
    H(op_count, PLAN_OPS_MAX + 1, -E2BIG), H(op_count, PLAN_OPS_MAX, -EPROTO), H(op_count, UINT32_MAX, -E2BIG),
    H(ops, 0, -EPROTO), H(ops, 4, -EPROTO), H(ops, sizeof(struct plan_header) + 1, -EPROTO), H(ops, UINT32_MAX - 7, -EPROTO),
    H(rlimit_count, PLAN_RLIMITS_MAX + 1, -E2BIG), H(rlimits, 8, -EPROTO), H(rlimits, UINT32_MAX - 7, -EPROTO),
    H(baseline_count, 0, -EPROTO), H(baseline_count, PLAN_FILTER_MAX + 1, -E2BIG), H(baseline_count, PLAN_FILTER_MAX, -EPROTO),
    H(baseline, 0, -EPROTO), H(baseline, UINT32_MAX - 7, -EPROTO),
    H(policy_count, PLAN_FILTER_MAX + 1, -E2BIG), H(policy_count, PLAN_FILTER_MAX, -EPROTO),
    H(policy, 1, -EPROTO), H(policy, UINT32_MAX - 7, -EPROTO),
    H(strings_size, 0, -EPROTO), H(strings_size, 1, -EPROTO), H(strings_size, UINT32_MAX, -EPROTO),
    H(strings, 0, -EPROTO), H(strings, UINT32_MAX - 7, -EPROTO),
    H(hostname, UINT32_MAX, -EPROTO),
};

#define O(i, field, value) {i, offsetof(struct plan_op, field), sizeof(((struct plan_op *)0)->field), value, #field}
static const struct {
    uint32_t index;
    size_t offset, len;
    uint64_t value;
    const char *what;
} op_rows[] = {
    O(0, type, 0), O(0, type, PLAN_OP_MAX), O(0, type, UINT16_MAX), O(0, flags, PLAN_OP_FLAGS_ALL + 1),
    O(0, fd, UINT32_MAX /* -1 */), O(0, fd, UINT32_MAX - 1), O(0, fd, 3), O(0, fd, INT32_MAX),
    O(1, fd, UINT32_MAX), O(1, fd, 1U << 31), /* attach needs one */
    O(3, fd, 0), O(3, fd, UINT32_MAX - 1),    /* a new file system needs none */
    O(1, path, UINT32_MAX), O(1, text, UINT32_MAX), O(1, options, UINT32_MAX), O(1, path, 1 << 20),
};
/* clang-format on */

TEST(each_field_spoiled)
{
    struct plan_mounts m = {.count = 3, .root = 0, .dev = 1};
    struct launch_request q = request();
    auto_free unsigned char *data = NULL;
    struct plan_header h;
    struct plan p;
    size_t size;

    q.rlimits[q.rlimit_count++] = (struct launch_rlimit){7, 1, 2};
    data = build(&q, &m, &size, NULL);
    CHECK_INT(plan_check(&p, data, size), 0);
    (void)memcpy(&h, data, sizeof(h));
    for (size_t i = 0; i < sizeof(header_rows) / sizeof(header_rows[0]); i++) {
        unsigned char was[8];
        int r;

        (void)memcpy(was, data + header_rows[i].offset, header_rows[i].len);
        (void)memcpy(data + header_rows[i].offset, &header_rows[i].value, header_rows[i].len);
        r = plan_check(&p, data, size);
        if (r != header_rows[i].code)
            tap_fail("%s = %llu: %d, want %d", header_rows[i].what,
                     (unsigned long long)header_rows[i].value, r, header_rows[i].code);
        (void)memcpy(data + header_rows[i].offset, was, header_rows[i].len);
    }
    for (size_t i = 0; i < sizeof(op_rows) / sizeof(op_rows[0]); i++) {
        unsigned char *at =
            data + h.ops + op_rows[i].index * sizeof(struct plan_op) + op_rows[i].offset;
        unsigned char was[8];

        (void)memcpy(was, at, op_rows[i].len);
        (void)memcpy(at, &op_rows[i].value, op_rows[i].len);
        if (plan_check(&p, data, size) != -EPROTO)
            tap_fail("operation %u, %s = %llu is accepted", op_rows[i].index, op_rows[i].what,
                     (unsigned long long)op_rows[i].value);
        (void)memcpy(at, was, op_rows[i].len);
    }
    data[h.rlimits] = 16; /* the resource */
    CHECK_INT(plan_check(&p, data, size), -EPROTO);
    data[h.rlimits] = 7;
    data[h.rlimits + offsetof(struct plan_rlimit, soft)] = 3; /* above the hard one */
    CHECK_INT(plan_check(&p, data, size), -EPROTO);
    data[h.rlimits + offsetof(struct plan_rlimit, soft)] = 1;
    data[h.strings + h.strings_size - 1] = 'x'; /* no end */
    CHECK_INT(plan_check(&p, data, size), -EPROTO);
    data[h.strings + h.strings_size - 1] = '\0';
    data[h.strings] = 'x'; /* 0 is not the empty string any more */
    CHECK_INT(plan_check(&p, data, size), -EPROTO);
    data[h.strings] = '\0';
    data[h.strings + p.ops[1].path] = '/';
    CHECK_INT(plan_check(&p, data, size), -EPROTO);
    data[h.strings + p.ops[1].path] = 'd';
    CHECK_INT(plan_check(&p, data, size), 0); /* all is as it was */
}

TEST(every_cut)
{
    struct plan_mounts m = {.count = 3, .root = 0, .dev = 1};
    struct launch_request q = request();
    auto_free unsigned char *data = NULL;
    struct plan p;
    size_t size;

    data = build(&q, &m, &size, NULL);
    for (size_t len = 0; len < size; len++) {
        uint32_t says = (uint32_t)len;

        CHECK(plan_check(&p, data, len) < 0);
        if (len < sizeof(struct plan_header))
            continue;
        (void)memcpy(data + offsetof(struct plan_header, size), &says, sizeof(says));
        CHECK(plan_check(&p, data, len) < 0);
    }
}

/* Else the fuzzer's search begins at the refusal of an old version. */
TEST(seeds_of_the_fuzzer)
{
    static const char *const names[] = {"tests/fuzz/seeds/plan/small",
                                        "tests/fuzz/seeds/plan/full"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        auto_free char *text = NULL;
        struct err err = ERR_NONE;
        struct plan p;
        size_t len = 0;

        CHECK_INT(file_read_at(AT_FDCWD, names[i], PLAN_SIZE_MAX, &text, &len, &err), 0);
        CHECK_INT(text != NULL ? plan_check(&p, text, len) : -ENOENT, 0);
    }
}

TEST(too_much)
{
    static char deep[4000];
    struct plan_mounts m;
    struct launch_request q = largest(&m);
    struct err err = ERR_NONE;

    (void)memset(deep, 'a', sizeof(deep) - 1);
    deep[0] = '/';
    for (size_t i = 0; i < LAUNCH_PATHS_MAX; i++)
        q.masked[i] = q.read_only[i] = deep;
    CHECK_INT(plan_build(&q, &m, true, &err), -E2BIG);
    CHECK_STR(err.msg, "set-up plan: larger than 1048576 bytes or 1024 operations");
}

TAP_MAIN
