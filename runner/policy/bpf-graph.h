#pragma once

/*
 * A seccomp program as a graph of instructions and their successors. Equal nodes are merged, so
 * tails common to system calls exist once. The order is decided at the end, with jumps that reach.
 * Every process start loads a filter, at 0.4 us an instruction; hence short programs matter.
 *
 * A node is an index; nodes are made from the end of the program to its beginning. The caller
 * provides the memory. Lack of memory is remembered and reported by bpf_graph_emit.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sock_filter;

struct bpf_node {
    uint32_t k;
    uint16_t code;
    int yes, no;  /* successors; equal unless the node is a test */
    int place;    /* distance of the nearest copy from the end; -1 = not placed */
    int balanced; /* what bpf_balance has made of it; -1 = nothing yet */
};

struct bpf_graph {
    struct bpf_node *nodes; /* borrowed */
    size_t count, max;
    bool full;
};

/* nodes: borrowed, room for max. */
void bpf_graph_init(struct bpf_graph *g, struct bpf_node *nodes, size_t max);

/* Adds a node that returns `value`. Returns the node's index, as the following functions do. */
int bpf_return(struct bpf_graph *g, uint32_t value);
/* Adds an instruction followed by `next`: a load, or an operation on the accumulator. */
int bpf_step(struct bpf_graph *g, uint16_t code, uint32_t k, int next);
/* Adds a load of the word at `offset`; `next` and the tests that follow do not load it again. */
int bpf_load(struct bpf_graph *g, uint32_t offset, int next);
/* Adds a test of the accumulator; op: BPF_JEQ, BPF_JGT, BPF_JGE or BPF_JSET. */
int bpf_test(struct bpf_graph *g, uint16_t op, uint32_t k, int yes, int no);

/* Numbers from `first` up to the next span lead to `node`. */
struct bpf_span {
    uint32_t first;
    int node;
};
/* Appends a span, or extends the last one if it leads to the same node. Returns the new count. */
size_t bpf_span_add(struct bpf_span *spans, size_t count, uint32_t first, int node);
/* Adds a decision by the number in the accumulator; the first span begins at 0. */
int bpf_switch(struct bpf_graph *g, const struct bpf_span *spans, size_t count);

/*
 * Returns a node with the meaning of `node`, where comparisons of one value with many numbers are
 * decided by halves.
 */
int bpf_balance(struct bpf_graph *g, int node);

/*
 * Writes the program that begins at `root`. Returns its length, or -E2BIG: longer than max, or the
 * graph was out of room.
 */
int bpf_graph_emit(struct bpf_graph *g, int root, struct sock_filter *out, size_t max);
