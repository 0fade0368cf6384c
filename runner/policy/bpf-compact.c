/*
 * Shortens a filter made by libseccomp and bpf_join. For each architecture and system call number
 * the program is evaluated with both known. Nearly all evaluations end in a return without another
 * load; the rest leave comparisons of arguments. Adjacent numbers with the same result become a
 * range, and the ranges a binary tree.
 *
 *     load arch; jeq arch0 -> numbers0; ...; return what other architectures get
 *     numbers0: load nr; jge 228 -> ..., ... -> return | comparisons of arguments -> return
 *
 * Comparisons of one argument follow one load of it, and many of them are a binary tree, too.
 *
 * The result has the same meaning as the long program, whatever made it. It loads three times as
 * fast. The kernel's own evaluation of all numbers, for its bitmap of calls that are always
 * allowed, takes ten steps for a number instead of eighty.
 */

#include <assert.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "policy/bpf-graph.h"
#include "policy/seccomp-internal.h"

enum {
    NODES_MAX = 1 << 14,
    LOAD = BPF_LD | BPF_W | BPF_ABS,
    NOT_YET = -1,
    FOREIGN = -2, /* an instruction that libseccomp does not emit */
};

struct compact_walk {
    struct bpf_graph *g;
    const struct sock_filter *insns;
    size_t count;
    uint32_t arch, nr;
    uint32_t stand_in, answer; /* a returned stand-in means this answer */
    /*
     * For the current arch and nr: the node of an instruction that is reached with an argument
     * loaded.
     */
    int nodes[BPF_MAXINSNS];
};

static bool jump_condition_holds(const struct sock_filter *i, uint32_t a)
{
    switch (BPF_OP(i->code)) {
    case BPF_JEQ:
        return a == i->k;
    case BPF_JGT:
        return a > i->k;
    case BPF_JGE:
        return a >= i->k;
    default:
        return (a & i->k) != 0; /* BPF_JSET */
    }
}

static bool is_jump(const struct sock_filter *i)
{
    const uint16_t op = BPF_OP(i->code);

    return BPF_CLASS(i->code) == BPF_JMP && BPF_SRC(i->code) == BPF_K &&
           (op == BPF_JEQ || op == BPF_JGT || op == BPF_JGE || op == BPF_JSET);
}

/* True for a load of the architecture or the number, which are known. */
static bool is_known_load(const struct sock_filter *i)
{
    return i->code == LOAD && (i->k == offsetof(struct seccomp_data, arch) ||
                               i->k == offsetof(struct seccomp_data, nr));
}

static int evaluate_unknown(struct compact_walk *f, size_t pc);

static int walk_return(struct compact_walk *f, uint32_t value)
{
    return bpf_return(f->g, value == f->stand_in ? f->answer : value);
}

/* Evaluates with arch or nr in the accumulator, or 0, its initial value. */
static int evaluate_known(struct compact_walk *f, size_t pc, uint32_t a)
{
    while (pc < f->count) {
        const struct sock_filter *i = &f->insns[pc++];

        if (i->code == (BPF_RET | BPF_K))
            return walk_return(f, i->k);
        if (i->code == (BPF_JMP | BPF_JA))
            pc += i->k;
        else if (is_jump(i))
            pc += jump_condition_holds(i, a) ? i->jt : i->jf;
        else if (i->code == (BPF_ALU | BPF_AND | BPF_K))
            a &= i->k;
        else if (is_known_load(i))
            a = i->k == offsetof(struct seccomp_data, arch) ? f->arch : f->nr;
        else if (i->code == LOAD)
            return evaluate_unknown(f, pc - 1);
        else
            return FOREIGN;
    }
    return FOREIGN;
}

/*
 * Evaluates the load of an argument. libseccomp masks each half of it that a rule masks, also where
 * the mask leaves nothing, or everything.
 */
static int evaluate_load(struct compact_walk *f, size_t pc)
{
    const struct sock_filter *mask = pc + 1 < f->count ? &f->insns[pc + 1] : NULL;
    const bool masked = mask != NULL && mask->code == (BPF_ALU | BPF_AND | BPF_K);
    int node;

    if (masked && mask->k == 0)
        return evaluate_known(f, pc + 2, 0);
    node = evaluate_unknown(f, masked && mask->k == UINT32_MAX ? pc + 2 : pc + 1);
    return node < 0 ? node : bpf_load(f->g, f->insns[pc].k, node);
}

/* Evaluates with an argument in the accumulator, or at the load of one. */
static int evaluate_unknown(struct compact_walk *f, size_t pc)
{
    const struct sock_filter *i = &f->insns[pc];
    int yes, no, node;

    if (pc >= f->count)
        return FOREIGN;
    if (f->nodes[pc] != NOT_YET)
        return f->nodes[pc];
    if (i->code == (BPF_RET | BPF_K)) {
        node = walk_return(f, i->k);
    } else if (i->code == (BPF_JMP | BPF_JA)) {
        node = evaluate_unknown(f, pc + 1 + i->k);
    } else if (is_jump(i)) {
        yes = evaluate_unknown(f, pc + 1 + i->jt);
        no = evaluate_unknown(f, pc + 1 + i->jf);
        node = yes < 0 || no < 0 ? FOREIGN : bpf_test(f->g, BPF_OP(i->code), i->k, yes, no);
    } else if (is_known_load(i)) {
        node = evaluate_known(f, pc, 0);
    } else if (i->code == LOAD) {
        node = evaluate_load(f, pc);
    } else if (i->code == (BPF_ALU | BPF_AND | BPF_K)) {
        node = evaluate_unknown(f, pc + 1);
        node = node < 0 ? node : bpf_step(f->g, i->code, i->k, node);
    } else {
        node = FOREIGN;
    }
    f->nodes[pc] = node;
    return node;
}

static int evaluate_number(struct compact_walk *f, uint32_t arch, uint32_t nr)
{
    f->arch = arch;
    f->nr = nr;
    for (size_t i = 0; i < f->count; i++)
        f->nodes[i] = NOT_YET;
    return evaluate_known(f, 0, 0);
}

/*
 * Builds the tree for the numbers of one architecture. All numbers from SYSCALL_NR_MAX on have the
 * same result (guard_ranges).
 */
static int switch_by_number(struct compact_walk *f, uint32_t arch, const uint32_t *answers)
{
    struct bpf_span spans[SYSCALL_NR_MAX + 1];
    size_t n = 0;

    for (uint32_t nr = 0; nr <= SYSCALL_NR_MAX; nr++) {
        int node;

        f->answer = answers != NULL ? answers[nr] : f->stand_in;
        node = evaluate_number(f, arch, nr);
        if (node < 0)
            return node;
        node = bpf_balance(f->g, node);
        n = bpf_span_add(spans, n, nr, node);
    }
    return bpf_step(f->g, LOAD, offsetof(struct seccomp_data, nr), bpf_switch(f->g, spans, n));
}

int bpf_compact(const uint32_t *archs, size_t arch_count, uint32_t other_arch,
                const struct bpf_otherwise *otherwise, struct bpf *b, struct err *err)
{
    auto_free struct bpf_node *nodes = calloc(NODES_MAX, sizeof(*nodes));
    auto_free struct compact_walk *f = calloc(1, sizeof(*f));
    auto_free struct sock_filter *out = calloc(BPF_MAXINSNS, sizeof(*out));
    struct bpf_graph g;
    int root, r;

    if (nodes == NULL || f == NULL || out == NULL)
        return err_errno(err, -ENOMEM, "seccomp");
    assert(b->count <= BPF_MAXINSNS);
    bpf_graph_init(&g, nodes, NODES_MAX);
    *f = (struct compact_walk){.g = &g, .insns = b->insns, .count = b->count};
    if (otherwise != NULL)
        f->stand_in = otherwise->stand_in;
    root = bpf_return(&g, other_arch);
    for (size_t i = arch_count; i-- > 0;) {
        int node = switch_by_number(f, archs[i], otherwise != NULL ? otherwise->answers[i] : NULL);

        if (node < 0)
            return err_set(err, -EINVAL,
                           "seccomp: libseccomp made an instruction that is not known");
        root = bpf_test(&g, BPF_JEQ, archs[i], node, root);
    }
    root = bpf_step(&g, LOAD, offsetof(struct seccomp_data, arch), root);
    r = bpf_graph_emit(&g, root, out, BPF_MAXINSNS);
    if (r < 0)
        return err_set(
            err, r, "seccomp: the filter has more than %d instructions: use fewer argument rules",
            BPF_MAXINSNS);
    free(b->insns);
    *b = (struct bpf){.insns = take(out), .count = (size_t)r};
    return 0;
}
