#pragma once

/*
 * A seccomp program as a graph of what is done and what comes next. Equal nodes are one node, so
 * that what two system calls have in common is there once; only at the end are they put in an
 * order, with jumps that reach. Filters are loaded at every start of a process and cost 0.4 us an
 * instruction, so it matters that they are short.
 *
 * A node is a number; nodes are made from the end of the program to its beginning. Memory is the
 * caller's. When it does not suffice the failure is remembered and told by bpf_graph_emit.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sock_filter;

struct bpf_node {
    uint32_t k;
    uint16_t code;
    int yes, no; /* what comes next; both the same but behind a test */
    int place;   /* from the end, where the nearest copy stands; -1 = not yet */
};

struct bpf_graph {
    struct bpf_node *nodes; /* borrowed */
    size_t count, max;
    bool full;
};

void bpf_graph_init(struct bpf_graph *g, struct bpf_node *nodes, size_t max);

int bpf_return(struct bpf_graph *g, uint32_t value);
/* One instruction that goes on to `next`: a load, or an operation on what is loaded. */
int bpf_step(struct bpf_graph *g, uint16_t code, uint32_t k, int next);
/* op: BPF_JEQ, BPF_JGT, BPF_JGE or BPF_JSET, against what is loaded. */
int bpf_test(struct bpf_graph *g, uint16_t op, uint32_t k, int yes, int no);

/* Numbers from `first` to the next span's lead to `node`. */
struct bpf_span {
    uint32_t first;
    int node;
};
/* Appends a span, unless the numbers before it lead to the same node. Returns the new count. */
size_t bpf_span_add(struct bpf_span *spans, size_t count, uint32_t first, int node);
/* Decides by the loaded number; the first span begins at 0. */
int bpf_switch(struct bpf_graph *g, const struct bpf_span *spans, size_t count);

/* Writes the program that begins at `root`. Its length, or -E2BIG: more than max, or a graph
 * without room. */
int bpf_graph_emit(struct bpf_graph *g, int root, struct sock_filter *out, size_t max);
