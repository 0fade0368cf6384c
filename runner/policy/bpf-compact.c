/*
 * A filter as libseccomp and bpf_join make it, made short. For each architecture and number the
 * program is followed with both known: nearly all of them end in a return without looking at
 * anything else, and the others leave only the comparisons of arguments. Neighbouring numbers with
 * the same end become one range, and the ranges a tree.
 *
 *     load arch; jeq arch0 -> numbers0; ...; return what other architectures get
 *     numbers0: load nr; jge 228 -> ..., ... -> return | comparisons of arguments -> return
 *
 * The meaning is the long program's, whatever made it. The short one loads three times as fast, and
 * the kernel's own walk over all numbers (which finds the ones that are always allowed) takes ten
 * steps a number instead of eighty.
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
#include "policy/seccomp_internal.h"

enum {
    NODES_MAX = 1 << 14,
    LOAD = BPF_LD | BPF_W | BPF_ABS,
    NOT_YET = -1,
    FOREIGN = -2, /* an instruction that no filter of ours has */
};

struct follow {
    struct bpf_graph *g;
    const struct sock_filter *insns;
    size_t count;
    uint32_t arch, nr;
    /* For this arch and nr: the node of the instruction at this place when an argument is loaded.
     */
    int nodes[BPF_MAXINSNS];
};

static bool holds(const struct sock_filter *i, uint32_t a)
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

/* Loads the architecture or the number: what is known. */
static bool is_known_load(const struct sock_filter *i)
{
    return i->code == LOAD && (i->k == offsetof(struct seccomp_data, arch) ||
                               i->k == offsetof(struct seccomp_data, nr));
}

static int follow_unknown(struct follow *f, size_t pc);

/* With arch or nr loaded (or nothing: the kernel begins with 0). */
static int follow_known(struct follow *f, size_t pc, uint32_t a)
{
    while (pc < f->count) {
        const struct sock_filter *i = &f->insns[pc++];

        if (i->code == (BPF_RET | BPF_K))
            return bpf_return(f->g, i->k);
        if (i->code == (BPF_JMP | BPF_JA))
            pc += i->k;
        else if (is_jump(i))
            pc += holds(i, a) ? i->jt : i->jf;
        else if (i->code == (BPF_ALU | BPF_AND | BPF_K))
            a &= i->k;
        else if (is_known_load(i))
            a = i->k == offsetof(struct seccomp_data, arch) ? f->arch : f->nr;
        else if (i->code == LOAD)
            return follow_unknown(f, pc - 1);
        else
            return FOREIGN;
    }
    return FOREIGN;
}

/* With an argument loaded; or at the load of one. */
static int follow_unknown(struct follow *f, size_t pc)
{
    const struct sock_filter *i = &f->insns[pc];
    int yes, no, node;

    if (pc >= f->count)
        return FOREIGN;
    if (f->nodes[pc] != NOT_YET)
        return f->nodes[pc];
    if (i->code == (BPF_RET | BPF_K)) {
        node = bpf_return(f->g, i->k);
    } else if (i->code == (BPF_JMP | BPF_JA)) {
        node = follow_unknown(f, pc + 1 + i->k);
    } else if (is_jump(i)) {
        yes = follow_unknown(f, pc + 1 + i->jt);
        no = follow_unknown(f, pc + 1 + i->jf);
        node = yes < 0 || no < 0 ? FOREIGN : bpf_test(f->g, BPF_OP(i->code), i->k, yes, no);
    } else if (is_known_load(i)) {
        node = follow_known(f, pc, 0);
    } else if (i->code == LOAD || i->code == (BPF_ALU | BPF_AND | BPF_K)) {
        node = follow_unknown(f, pc + 1);
        node = node < 0 ? node : bpf_step(f->g, i->code, i->k, node);
    } else {
        node = FOREIGN;
    }
    f->nodes[pc] = node;
    return node;
}

static int follow(struct follow *f, uint32_t arch, uint32_t nr)
{
    f->arch = arch;
    f->nr = nr;
    for (size_t i = 0; i < f->count; i++)
        f->nodes[i] = NOT_YET;
    return follow_known(f, 0, 0);
}

/* The numbers of one architecture; from SYSCALL_NR_MAX on all are alike (guard_ranges). */
static int numbers(struct follow *f, uint32_t arch)
{
    struct bpf_span spans[SYSCALL_NR_MAX + 1];
    size_t n = 0;

    for (uint32_t nr = 0; nr <= SYSCALL_NR_MAX; nr++) {
        int node = follow(f, arch, nr);

        if (node < 0)
            return node;
        n = bpf_span_add(spans, n, nr, node);
    }
    return bpf_step(f->g, LOAD, offsetof(struct seccomp_data, nr), bpf_switch(f->g, spans, n));
}

int bpf_compact(const uint32_t *archs, size_t arch_count, uint32_t other_arch, struct bpf *b,
                struct err *err)
{
    auto_free struct bpf_node *nodes = calloc(NODES_MAX, sizeof(*nodes));
    auto_free struct follow *f = calloc(1, sizeof(*f));
    auto_free struct sock_filter *out = calloc(BPF_MAXINSNS, sizeof(*out));
    struct bpf_graph g;
    int root, r;

    if (nodes == NULL || f == NULL || out == NULL)
        return err_errno(err, -ENOMEM, "seccomp");
    assert(b->count <= BPF_MAXINSNS);
    bpf_graph_init(&g, nodes, NODES_MAX);
    *f = (struct follow){.g = &g, .insns = b->insns, .count = b->count};
    root = bpf_return(&g, other_arch);
    for (size_t i = arch_count; i-- > 0;) {
        int node = numbers(f, archs[i]);

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
