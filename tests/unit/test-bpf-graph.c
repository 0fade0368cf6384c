/* Filters as graphs: what is decided by number, and jumps over any distance. */

#include <errno.h>
#include <linux/audit.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "bpf-sim.h"
#include "policy/bpf-graph.h"
#include "policy/seccomp-internal.h"
#include "tap.h"

enum { NODES = 8192, INSNS = 4096, LOAD = BPF_LD | BPF_W | BPF_ABS };

static struct bpf_node nodes[NODES];
static struct sock_filter insns[INSNS];

static uint32_t ask(size_t count, uint32_t nr, uint64_t arg)
{
    struct seccomp_data d = {.nr = (int)nr, .arch = AUDIT_ARCH_X86_64, .args = {arg}};

    return sim_run(insns, count, &d);
}

/* Always the same sequence. */
static uint32_t next_random(void)
{
    static uint32_t x = 2463534242u;

    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    return x;
}

/* ---- numbers ---- */

enum { NUMBERS = 600 };

static void check_numbers(const uint32_t want[NUMBERS], size_t most)
{
    struct bpf_span spans[NUMBERS];
    struct bpf_graph g;
    size_t n = 0;
    int root, count;

    bpf_graph_init(&g, nodes, NODES);
    for (uint32_t nr = 0; nr < NUMBERS; nr++)
        n = bpf_span_add(spans, n, nr, bpf_return(&g, want[nr]));
    root = bpf_step(&g, LOAD, 0, bpf_switch(&g, spans, n));
    count = bpf_graph_emit(&g, root, insns, INSNS);
    CHECK(count > 0 && (size_t)count <= most);
    if (count <= 0)
        return;
    for (uint32_t nr = 0; nr < NUMBERS; nr++)
        if (ask((size_t)count, nr, 0) != want[nr])
            tap_fail("number %u: %u, want %u", nr, ask((size_t)count, nr, 0), want[nr]);
    CHECK_INT(ask((size_t)count, UINT32_MAX, 0), want[NUMBERS - 1]);
    CHECK_INT(ask((size_t)count, 0x40000000, 0), want[NUMBERS - 1]);
}

TEST(one_answer)
{
    uint32_t want[NUMBERS];

    for (int i = 0; i < NUMBERS; i++)
        want[i] = 7;
    check_numbers(want, 2);
}

TEST(single_numbers_and_ranges)
{
    static const uint32_t odd[] = {0, 1, 5, 7, 9, 100, 101, 102, 300, 598, 599};
    uint32_t want[NUMBERS];

    for (int i = 0; i < NUMBERS; i++)
        want[i] = 1;
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
        want[odd[i]] = 2;
    check_numbers(want, 16);
    want[7] = 3;
    want[300] = 4;
    check_numbers(want, 18);
}

TEST(any_answers)
{
    for (uint32_t answers = 2; answers < 40; answers++) {
        uint32_t want[NUMBERS];

        for (int i = 0; i < NUMBERS; i++)
            want[i] = i > 0 && next_random() % 4 > 0 ? want[i - 1] : next_random() % answers;
        check_numbers(want, INSNS);
    }
}

/* ---- distances ---- */

/* Every number leads to a chain of its own, so that ways cross over thousands of instructions. */
TEST(far_jumps)
{
    enum { CHAINS = 120, LINKS = 16 };
    struct bpf_span spans[CHAINS];
    struct bpf_graph g;
    size_t n = 0;
    int shared, root, count;

    bpf_graph_init(&g, nodes, NODES);
    shared = bpf_step(&g, LOAD, offsetof(struct seccomp_data, args[0]),
                      bpf_test(&g, BPF_JEQ, 1, bpf_return(&g, 111), bpf_return(&g, 222)));
    for (uint32_t nr = 0; nr < CHAINS; nr++) {
        int node = shared;

        for (uint32_t k = 0; k < LINKS; k++)
            node = bpf_test(&g, k % 2 == 0 ? BPF_JEQ : BPF_JGT, nr * 100 + k, node,
                            bpf_return(&g, 1000 + nr));
        n = bpf_span_add(spans, n, nr,
                         bpf_step(&g, LOAD, offsetof(struct seccomp_data, args[0]),
                                  bpf_test(&g, BPF_JSET, 0x80000000, shared, node)));
    }
    root = bpf_step(&g, LOAD, 0, bpf_switch(&g, spans, n));
    count = bpf_graph_emit(&g, root, insns, INSNS);
    CHECK(count > CHAINS * LINKS);
    if (count <= 0)
        return;
    for (uint32_t nr = 0; nr < CHAINS; nr++) {
        CHECK_INT(ask((size_t)count, nr, 0x80000000), 222);
        CHECK_INT(ask((size_t)count, nr, 5), 1000 + nr);
    }
}

TEST(equal_nodes_are_one)
{
    struct bpf_graph g;
    int a, b;

    bpf_graph_init(&g, nodes, NODES);
    a = bpf_test(&g, BPF_JEQ, 1, bpf_return(&g, 1), bpf_return(&g, 2));
    b = bpf_test(&g, BPF_JEQ, 1, bpf_return(&g, 1), bpf_return(&g, 2));
    CHECK_INT(a, b);
    CHECK_INT(bpf_test(&g, BPF_JGE, 9, a, a), a); /* nothing to decide */
    CHECK_INT(g.count, 3);
}

TEST(no_room)
{
    struct bpf_graph g;
    int node;

    bpf_graph_init(&g, nodes, 3);
    node = bpf_return(&g, 0);
    for (uint32_t i = 0; i < 10; i++)
        node = bpf_step(&g, BPF_ALU | BPF_AND | BPF_K, i, node);
    CHECK_INT(bpf_graph_emit(&g, node, insns, INSNS), -E2BIG);

    bpf_graph_init(&g, nodes, NODES);
    node = bpf_return(&g, 0);
    for (uint32_t i = 0; i < 10; i++)
        node = bpf_step(&g, BPF_ALU | BPF_AND | BPF_K, i, node);
    CHECK_INT(bpf_graph_emit(&g, node, insns, 10), -E2BIG);
    bpf_graph_init(&g, nodes, NODES);
    node = bpf_return(&g, 0);
    for (uint32_t i = 0; i < 10; i++)
        node = bpf_step(&g, BPF_ALU | BPF_AND | BPF_K, i, node);
    CHECK_INT(bpf_graph_emit(&g, node, insns, 11), 11);
}

/* ---- compacting what others made ---- */

static void compact(const struct sock_filter *f, size_t count, int want)
{
    static const uint32_t archs[] = {AUDIT_ARCH_X86_64};
    struct err err = ERR_NONE;
    struct bpf b = {.insns = malloc(count * sizeof(*f)), .count = count};

    if (b.insns == NULL)
        abort();
    (void)memcpy(b.insns, f, count * sizeof(*f));
    CHECK_INT(bpf_compact(archs, 1, 77, NULL, &b, &err), want);
    if (want == 0) {
        (void)memcpy(insns, b.insns, b.count * sizeof(*f));
        for (uint32_t nr = 0; nr < SYSCALL_NR_MAX; nr++)
            for (uint64_t arg = 0; arg < 5; arg++) {
                struct seccomp_data d = {
                    .nr = (int)nr, .arch = AUDIT_ARCH_X86_64, .args = {arg, 3 - arg}};

                CHECK_INT(sim_run(insns, b.count, &d), sim_run(f, count, &d));
            }
        CHECK_INT(sim_run(insns, b.count, &(struct seccomp_data){.arch = AUDIT_ARCH_I386}), 77);
    } else {
        CHECK(strstr(err.msg, "instruction") != NULL);
    }
    bpf_done(&b);
}

/* A list as libseccomp makes it: each comparison loads and masks both halves of the argument. */
TEST(a_long_list_of_numbers_is_halved)
{
    enum { LOW = 16, PARTS = 6, COUNT = 100 };
    struct sock_filter f[2 + COUNT * (PARTS + 1) + 1];
    struct seccomp_data d = {.arch = AUDIT_ARCH_X86_64};
    static const uint32_t archs[] = {AUDIT_ARCH_X86_64};
    struct err err = ERR_NONE;
    struct bpf b;
    size_t n = 0;

    f[n++] = (struct sock_filter)BPF_STMT(LOAD, 0);
    f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYSCALL_NR_MAX, 0, 0);
    for (uint32_t i = 0; i < COUNT; i++) {
        /* The second half of the list has numbers of the first once more, with other answers. */
        const uint32_t number = i < COUNT / 2 ? i * 3 : (i - COUNT / 2) * 6;

        f[n++] = (struct sock_filter)BPF_STMT(LOAD, LOW + 4);
        f[n++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0);
        f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 4);
        f[n++] = (struct sock_filter)BPF_STMT(LOAD, LOW);
        f[n++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, UINT32_MAX);
        f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1);
        f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 100 + i);
    }
    f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 7);
    b = (struct bpf){.insns = malloc(sizeof(f)), .count = n};
    if (b.insns == NULL)
        abort();
    (void)memcpy(b.insns, f, n * sizeof(f[0]));
    CHECK_INT(bpf_compact(archs, 1, 77, NULL, &b, &err), 0);
    CHECK(b.count < 3 * COUNT);
    for (uint64_t arg = 0; arg < 700; arg++) {
        d.args[0] = arg | (arg % 2 != 0 ? UINT64_C(5) << 32 : 0);
        CHECK_INT(sim_run(b.insns, b.count, &d), sim_run(f, n, &d));
    }
    d.args[0] = UINT32_MAX;
    CHECK_INT(sim_run(b.insns, b.count, &d), 7);
    bpf_done(&b);
}

TEST(numbers_at_both_ends)
{
    static const uint32_t numbers[] = {0, 1, 5, 9, 100, UINT32_MAX - 1, UINT32_MAX};
    struct bpf_graph g;
    int node, count;

    bpf_graph_init(&g, nodes, NODES);
    node = bpf_return(&g, 999);
    for (uint32_t i = 0; i < 7; i++)
        node = bpf_test(&g, BPF_JEQ, numbers[i], bpf_return(&g, i), node);
    node = bpf_balance(&g, bpf_load(&g, 0, bpf_load(&g, 0, node)));
    count = bpf_graph_emit(&g, node, insns, INSNS);
    CHECK(count > 0);
    for (uint32_t i = 0; i < 7; i++)
        CHECK_INT(ask((size_t)count, numbers[i], 0), i);
    for (uint32_t nr = 2; nr < 5; nr++)
        CHECK_INT(ask((size_t)count, nr, 0), 999);
    CHECK_INT(ask((size_t)count, UINT32_MAX - 2, 0), 999);
}

#define ARG(n) ((uint32_t)offsetof(struct seccomp_data, args[n]))

TEST(arguments_are_compared_as_before)
{
    const struct sock_filter f[] = {
        BPF_STMT(LOAD, 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, 77),
        BPF_STMT(LOAD, 0),
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, 10, 8, 0),
        BPF_STMT(LOAD, ARG(0)),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 3),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 2, 0, 3),
        BPF_STMT(LOAD, 0), /* the number again, behind an argument */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 4, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 1),
        BPF_STMT(LOAD, ARG(1)),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 1, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 2),
        BPF_STMT(BPF_JMP | BPF_JA, 1),
        BPF_STMT(BPF_RET | BPF_K, 4),
        BPF_STMT(BPF_RET | BPF_K, 3),
    };

    compact(f, sizeof(f) / sizeof(f[0]), 0);
}

TEST(strange_programs)
{
    const struct sock_filter unknown[] = {BPF_STMT(BPF_MISC | BPF_TAX, 0),
                                          BPF_STMT(BPF_RET | BPF_K, 0)};
    const struct sock_filter no_end[] = {BPF_STMT(LOAD, 0), BPF_STMT(LOAD, ARG(0))};
    const struct sock_filter far[] = {BPF_STMT(BPF_JMP | BPF_JA, 5), BPF_STMT(BPF_RET | BPF_K, 0)};

    compact(unknown, 2, -EINVAL);
    compact(no_end, 2, -EINVAL);
    compact(far, 2, -EINVAL);
}

TAP_MAIN
