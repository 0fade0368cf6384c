/* Golden vectors of the set-up plan: the layout of each part, and the plans that the launcher
 * builds for fixed requests. */

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "golden.h"
#include "init/init.h"
#include "launch/sandbox.h"
#include "proto/plan.h"
#include "tap.h"

static const uint64_t allow = 0x7fff000000000006; /* BPF_RET, SECCOMP_RET_ALLOW */

/* ---- the layout ---- */

/* A plan with every part, as plain structs. */
struct layout {
    struct plan_header h;
    struct plan_op op[2];
    struct plan_rlimit rlimit;
    uint64_t baseline, guard, policy[2];
    char strings[24];
};

static const struct golden_part layout_parts[] = {
    {4, "magic"},
    {2, "version"},
    {2, "reserved"},
    {4, "size"},
    {4, "flags"},
    {4, "fd_count"},
    {8, "op_count, ops"},
    {8, "rlimit_count, rlimits"},
    {8, "floor_count, floor"},
    {8, "guard_count, guard"},
    {8, "policy_count, policy"},
    {8, "strings_size, strings"},
    {4, "hostname"},
    {8, "capabilities"},
    {4, "op: type, flags"},
    {4, "op: fd"},
    {12, "op: path, text, options"},
    {4, "op: attr"},
    {4, "op: type, flags"},
    {4, "op: fd"},
    {12, "op: path, text, options"},
    {4, "op: attr"},
    {8, "rlimit: resource, reserved"},
    {16, "rlimit: soft, hard"},
    {8, "floor: struct sock_filter"},
    {8, "guard: struct sock_filter"},
    {16, "policy: struct sock_filter"},
    {24, "strings"},
};

static struct layout layout(void)
{
    struct layout l = {
        .h = {.magic = PLAN_MAGIC,
              .version = PLAN_VERSION,
              .size = sizeof(l),
              .flags = PLAN_REAPER | PLAN_GUARD,
              .fd_count = 4,
              .op_count = 2,
              .ops = offsetof(struct layout, op),
              .rlimit_count = 1,
              .rlimits = offsetof(struct layout, rlimit),
              .baseline_count = 1,
              .baseline = offsetof(struct layout, baseline),
              .guard_count = 1,
              .guard = offsetof(struct layout, guard),
              .policy_count = 2,
              .policy = offsetof(struct layout, policy),
              .strings_size = sizeof(l.strings),
              .strings = offsetof(struct layout, strings),
              .hostname = 1,
              .capabilities = 0x1224},
        .op = {{.type = PLAN_OP_ATTACH, .flags = PLAN_MAKE_DIR | PLAN_GUARDED, .fd = 3, .path = 5},
               {.type = PLAN_OP_FSMOUNT,
                .flags = PLAN_STRICT,
                .fd = -1,
                .path = 9,
                .text = 13,
                .options = 19,
                .attr = 2}},
        .rlimit = {.resource = 7, .soft = 10, .hard = UINT64_MAX},
        .baseline = allow,
        .guard = allow,
        .policy = {allow, allow},
        .strings = "\0box\0vol\0run\0tmpfs\0k=v",
    };

    return l;
}

static void check_layout(struct golden_bytes bytes)
{
    const struct layout want = layout();
    struct plan p;

    CHECK_INT(plan_check(&p, bytes.data, bytes.len), 0);
    CHECK_INT(p.header->flags, PLAN_REAPER | PLAN_GUARD);
    CHECK_INT(p.header->fd_count, 4);
    CHECK_INT(p.header->capabilities, 0x1224);
    CHECK_STR(plan_string(&p, p.header->hostname), "box");
    CHECK_INT(p.ops[0].type, PLAN_OP_ATTACH);
    CHECK_INT(p.ops[0].flags, PLAN_MAKE_DIR | PLAN_GUARDED);
    CHECK_INT(p.ops[0].fd, 3);
    CHECK_STR(plan_string(&p, p.ops[0].path), "vol");
    CHECK_STR(plan_string(&p, p.ops[0].text), "");
    CHECK_INT(p.ops[1].type, PLAN_OP_FSMOUNT);
    CHECK_INT(p.ops[1].fd, -1);
    CHECK_STR(plan_string(&p, p.ops[1].path), "run");
    CHECK_STR(plan_string(&p, p.ops[1].text), "tmpfs");
    CHECK_STR(plan_string(&p, p.ops[1].options), "k=v");
    CHECK_INT(p.ops[1].attr, 2);
    CHECK(memcmp(p.rlimits, &want.rlimit, sizeof(want.rlimit)) == 0);
    CHECK(memcmp(p.base + p.header->baseline, &allow, sizeof(allow)) == 0);
    CHECK(memcmp(p.base + p.header->guard, &allow, sizeof(allow)) == 0);
    CHECK(memcmp(p.base + p.header->policy, want.policy, sizeof(want.policy)) == 0);
}

/* clang-format off */
static const uint16_t op_types[] = {
    PLAN_OP_ROOT, PLAN_OP_ATTACH, PLAN_OP_FSMOUNT, PLAN_OP_PROC, PLAN_OP_MASK, PLAN_OP_READONLY,
    PLAN_OP_SYSCTL, PLAN_OP_ROOT_RO, PLAN_OP_DISCARD, PLAN_OP_MAX,
};
static const uint16_t op_flags[] = {
    PLAN_STRICT, PLAN_MAKE_DIR, PLAN_MAKE_FILE, PLAN_OPTIONAL, PLAN_READY, PLAN_GUARDED,
};
static const uint16_t flags[] = {
    PLAN_ATTACHED, PLAN_REAPER, PLAN_HAS_CGROUP, PLAN_NO_NEW_PRIVS, PLAN_LOOPBACK, PLAN_LISTEN,
    PLAN_GUARD, PLAN_GUARD_FSETID,
};
static const uint16_t fds[] = {
    PLAN_CONTROL_FD, PLAN_STAGE_FD, PLAN_FD, PLAN_LEASE_FD, PLAN_CGROUP_FD, PLAN_FD_OPS,
};
/* clang-format on */

TEST(the_layout)
{
    const struct golden_part part[] = {{128, "u16 each, in the order of the enum"}};
    struct golden *g = golden_open("plan", GOLDEN_FORMAT, "PLAN_VERSION", PLAN_VERSION);
    const struct layout l = layout();

    check_layout(golden_check(g, "all", GOLDEN_PARTS(layout_parts), &l, sizeof(l)));
    (void)golden_check(g, "plan_op_type", GOLDEN_PARTS(part), op_types, sizeof(op_types));
    (void)golden_check(g, "plan_op_flags", GOLDEN_PARTS(part), op_flags, sizeof(op_flags));
    (void)golden_check(g, "plan_flags", GOLDEN_PARTS(part), flags, sizeof(flags));
    (void)golden_check(g, "descriptors", GOLDEN_PARTS(part), fds, sizeof(fds));
    golden_close(g);
}

/* ---- plans of the launcher ---- */

/* Cuts a filter down to one instruction. The programs of floor and guard change with the kernel's
 * list of system calls; the vector must not. */
static size_t cut_program(unsigned char *data, size_t size, uint32_t offset, uint32_t *count)
{
    size_t cut = *count > 1 ? (size_t)(*count - 1) * sizeof(struct sock_filter) : 0;

    (void)memcpy(data + offset, &allow, sizeof(allow));
    (void)memmove(data + offset + sizeof(allow), data + offset + sizeof(allow) + cut,
                  size - offset - sizeof(allow) - cut);
    *count = 1;
    return cut;
}

static size_t cut_programs(unsigned char *data, size_t size)
{
    struct plan_header h;
    size_t cut = 0;

    (void)memcpy(&h, data, sizeof(h));
    if (h.guard_count > 0)
        cut = cut_program(data, size, h.guard, &h.guard_count);
    h.policy -= (uint32_t)cut;
    h.strings -= (uint32_t)cut;
    size -= cut;
    cut = cut_program(data, size, h.baseline, &h.baseline_count);
    h.guard -= (uint32_t)cut;
    h.policy -= (uint32_t)cut;
    h.strings -= (uint32_t)cut;
    h.size = (uint32_t)(size - cut);
    (void)memcpy(data, &h, sizeof(h));
    return size - cut;
}

/* Names the parts of a plan: its header, each operation by its path, and what follows. */
static size_t name_parts(const unsigned char *data, struct golden_part *parts,
                         char (*names)[GOLDEN_NAME_MAX])
{
    struct plan_header h;
    size_t n = 0;

    (void)memcpy(&h, data, sizeof(h));
    parts[n++] = (struct golden_part){sizeof(h), "header"};
    for (uint32_t i = 0; i < h.op_count; i++) {
        struct plan_op op;

        (void)memcpy(&op, data + h.ops + i * sizeof(op), sizeof(op));
        (void)snprintf(names[i], sizeof(names[i]), "op %u: /%s", op.type,
                       (const char *)data + h.strings + op.path);
        parts[n++] = (struct golden_part){sizeof(op), names[i]};
    }
    if (h.rlimit_count > 0)
        parts[n++] = (struct golden_part){h.baseline - h.rlimits, "rlimits"};
    parts[n++] = (struct golden_part){h.guard - h.baseline, "floor, cut"};
    if (h.guard_count > 0)
        parts[n++] = (struct golden_part){h.policy - h.guard, "guard, cut"};
    parts[n++] = (struct golden_part){h.strings - h.policy, "policy"};
    for (uint32_t at = 0; at < h.strings_size; n++) {
        const char *text = (const char *)data + h.strings + at;

        parts[n] = (struct golden_part){strlen(text) + 1, "string"};
        at += (uint32_t)strlen(text) + 1;
    }
    return n;
}

static void check_built(struct golden *g, const char *name, const struct launch_request *q,
                        const struct plan_mounts *m)
{
    struct golden_part parts[GOLDEN_PARTS_MAX];
    char names[GOLDEN_PARTS_MAX][GOLDEN_NAME_MAX];
    struct err err = ERR_NONE;
    auto_close int fd = plan_build(q, m, true, &err);
    auto_free unsigned char *data = malloc(PLAN_SIZE_MAX);
    ssize_t n = fd < 0 || data == NULL ? -1 : pread(fd, data, PLAN_SIZE_MAX, 0);
    struct golden_bytes bytes;
    struct plan p;
    size_t size;

    if (n < 0) {
        tap_fail("%s: %s", name, err.msg);
        return;
    }
    CHECK_INT(plan_check(&p, data, (size_t)n), 0);
    size = cut_programs(data, (size_t)n);
    bytes = golden_check(g, name, parts, name_parts(data, parts, names), data, size);
    CHECK_INT(plan_check(&p, bytes.data, bytes.len), 0);
    CHECK_STR(plan_string(&p, p.header->hostname), q->hostname);
    CHECK_INT(p.header->fd_count, m->count);
    CHECK_INT(p.header->rlimit_count, q->rlimit_count);
    CHECK_INT(p.ops[0].type, PLAN_OP_ROOT);
    CHECK_INT(p.ops[0].fd, m->root);
}

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

TEST(what_is_built)
{
    struct golden *g = golden_open("plan-built", GOLDEN_CONTENT, "PLAN_VERSION", PLAN_VERSION);
    struct launch_request q = request();
    struct plan_mounts m = {.count = 3, .root = 0, .dev = 1, .mask = 2, .terminals = 16};

    check_built(g, "smallest", &q, &m);

    q.flags = LAUNCH_READ_ONLY | LAUNCH_REAPER | LAUNCH_NO_NEW_PRIVS | LAUNCH_KEEP;
    q.shm = 1 << 20;
    q.masked[q.masked_count++] = "/proc/kcore";
    q.read_only[q.read_only_count++] = "/proc/sys";
    q.volumes[q.volume_count++] = (struct launch_volume){.source = "/srv/b", .target = "/b"};
    q.volumes[q.volume_count++] = (struct launch_volume){.source = "/srv/a", .target = "/a/file"};
    q.tmpfs[q.tmpfs_count++] = (struct launch_tmpfs){.target = "/a", .bytes = 4 << 20};
    q.rlimits[q.rlimit_count++] = (struct launch_rlimit){7, 1024, 4096};
    q.counters[q.counter_count++] = (struct launch_counter){"max_cgroup_namespaces", 100};
    q.counters[q.counter_count++] = (struct launch_counter){"max_inotify_watches", 8192};
    m = (struct plan_mounts){.terminals = 16,
                             .count = 17,
                             .root = 0,
                             .dev = 1,
                             .mask = 2,
                             .volumes = {3, 4},
                             .volume_is_dir = {true, false},
                             .volume_guarded = {true, false},
                             .has_etc = true,
                             .etc = {5, 6, 7},
                             .has_cgroups = true,
                             .cgroups = 8,
                             .cgroup_part_count = 2,
                             .cgroup_parts = {{9, "memory"}, {10, CGROUP_UNIFIED}},
                             .has_cpus = true,
                             .cpus = 11,
                             .has_cpuinfo = true,
                             .cpuinfo = 12,
                             .discards = 13,
                             .discard_count = 2};
    check_built(g, "largest", &q, &m);

    q = request();
    m = (struct plan_mounts){.count = 4, .dev = 1, .mask = 2, .joined = true, .sys = 3};
    check_built(g, "joined-network", &q, &m);
    golden_close(g);
}

TAP_MAIN
