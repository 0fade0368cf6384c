/*
 * Turns the graph into a program, written from its end to its beginning. A node's successors are
 * placed before the node itself, so all jumps are forward and their distance is known. Places count
 * from the end. A conditional jump reaches 255 instructions. A successor farther away gets a copy
 * (a return) or a jump (any other node) nearby, which later jumps then use.
 */

#include "policy/bpf-graph.h"

#include <errno.h>
#include <linux/filter.h>
#include <stdlib.h>
#include <string.h>

enum {
    PEEL_MAX = 3,    /* numbers compared one by one before a list of spans is halved */
    REACH_MAX = 253, /* reach of a conditional jump: 255, less room for instructions inserted for
                        its two targets */
    NOWHERE = -1,
    SKIP_MAX = 8,     /* tests in a row behind which a second load of the same word is looked for */
    BALANCE_MIN = 5,  /* numbers; fewer are compared one by one */
    BALANCE_MAX = 64, /* of one list; balance_list recurs with such an array */
    LOAD = BPF_LD | BPF_W | BPF_ABS,
    EQUAL = BPF_JMP | BPF_JEQ | BPF_K,
};

void bpf_graph_init(struct bpf_graph *g, struct bpf_node *nodes, size_t max)
{
    *g = (struct bpf_graph){.nodes = nodes, .max = max};
}

static int graph_add_node(struct bpf_graph *g, uint16_t code, uint32_t k, int yes, int no)
{
    for (size_t i = 0; i < g->count; i++) {
        const struct bpf_node *n = &g->nodes[i];

        if (n->code == code && n->k == k && n->yes == yes && n->no == no)
            return (int)i;
    }
    if (g->count == g->max) {
        g->full = true;
        return 0;
    }
    g->nodes[g->count] = (struct bpf_node){
        .code = code, .k = k, .yes = yes, .no = no, .place = NOWHERE, .balanced = NOWHERE};
    return (int)g->count++;
}

int bpf_return(struct bpf_graph *g, uint32_t value)
{
    return graph_add_node(g, BPF_RET | BPF_K, value, NOWHERE, NOWHERE);
}

int bpf_step(struct bpf_graph *g, uint16_t code, uint32_t k, int next)
{
    return graph_add_node(g, code, k, next, next);
}

int bpf_test(struct bpf_graph *g, uint16_t op, uint32_t k, int yes, int no)
{
    return yes == no ? yes : graph_add_node(g, BPF_JMP | op | BPF_K, k, yes, no);
}

/* Returns what follows `node` when the accumulator has the word at `offset` already. A test leaves
 * the accumulator as it is. */
static int skip_load(struct bpf_graph *g, int node, uint32_t offset, unsigned depth)
{
    const struct bpf_node *n = &g->nodes[node];

    if (n->code == LOAD && n->k == offset)
        return n->yes;
    if (BPF_CLASS(n->code) != BPF_JMP || depth == SKIP_MAX)
        return node;
    return bpf_test(g, BPF_OP(n->code), n->k, skip_load(g, n->yes, offset, depth + 1),
                    skip_load(g, n->no, offset, depth + 1));
}

int bpf_load(struct bpf_graph *g, uint32_t offset, int next)
{
    return bpf_step(g, LOAD, offset, skip_load(g, next, offset, 0));
}

/* ---- a decision by number ---- */

size_t bpf_span_add(struct bpf_span *spans, size_t count, uint32_t first, int node)
{
    if (count > 0 && spans[count - 1].node == node)
        return count;
    spans[count] = (struct bpf_span){.first = first, .node = node};
    return count + 1;
}

/*
 * True if all spans but a few single numbers lead to the node `base`. after: first number after the
 * last span (0 = none).
 */
static bool few_singles(const struct bpf_span *spans, size_t count, uint32_t after, int base)
{
    size_t others = 0;

    for (size_t i = 0; i < count; i++) {
        uint32_t next = i + 1 < count ? spans[i + 1].first : after;

        if (spans[i].node == base)
            continue;
        if (next - spans[i].first != 1)
            return false;
        others++;
    }
    return others <= PEEL_MAX;
}

static int decide_spans(struct bpf_graph *g, const struct bpf_span *spans, size_t count,
                        uint32_t after)
{
    size_t half = count / 2;
    int below, above;

    if (count == 1)
        return spans[0].node;
    for (size_t first = 0; first < 2; first++) {
        int node = spans[first].node;

        if (!few_singles(spans, count, after, node))
            continue;
        for (size_t i = count; i-- > 0;)
            if (spans[i].node != spans[first].node)
                node = bpf_test(g, BPF_JEQ, spans[i].first, spans[i].node, node);
        return node;
    }
    below = decide_spans(g, spans, half, spans[half].first);
    above = decide_spans(g, spans + half, count - half, after);
    return bpf_test(g, BPF_JGE, spans[half].first, above, below);
}

int bpf_switch(struct bpf_graph *g, const struct bpf_span *spans, size_t count)
{
    return decide_spans(g, spans, count, 0);
}

/* ---- many comparisons with numbers ---- */

static int compare_spans(const void *a, const void *b)
{
    const struct bpf_span *x = a, *y = b;

    return (x->first > y->first) - (x->first < y->first);
}

/* Removes the second of two equal numbers: the first comparison in the list has decided. */
static bool number_is_new(const struct bpf_span *list, size_t count, uint32_t number)
{
    for (size_t i = 0; i < count; i++)
        if (list[i].first == number)
            return false;
    return true;
}

/* numbers: each a span of one; all others lead to `rest`. */
static int decide_numbers(struct bpf_graph *g, struct bpf_span *numbers, size_t count, int rest)
{
    struct bpf_span spans[2 * BALANCE_MAX + 1];
    uint32_t next = 0;
    bool end = false; /* the last number was the highest that there is */
    size_t n = 0;

    qsort(numbers, count, sizeof(*numbers), compare_spans);
    for (size_t i = 0; i < count; i++) {
        if (numbers[i].first > next)
            n = bpf_span_add(spans, n, next, rest);
        n = bpf_span_add(spans, n, numbers[i].first, numbers[i].node);
        next = numbers[i].first + 1;
        end = next == 0;
    }
    if (!end)
        n = bpf_span_add(spans, n, next, rest);
    return bpf_switch(g, spans, n);
}

/* Balances a list of comparisons that begins at `node`. */
static int balance_list(struct bpf_graph *g, int node)
{
    struct bpf_span numbers[BALANCE_MAX];
    size_t n = 0;
    int rest = node;

    for (; g->nodes[rest].code == EQUAL && n < BALANCE_MAX; rest = g->nodes[rest].no)
        if (number_is_new(numbers, n, g->nodes[rest].k))
            numbers[n++] = (struct bpf_span){.first = g->nodes[rest].k,
                                             .node = bpf_balance(g, g->nodes[rest].yes)};
    rest = bpf_balance(g, rest);
    if (n >= BALANCE_MIN)
        return decide_numbers(g, numbers, n, rest);
    while (n-- > 0)
        rest = bpf_test(g, BPF_JEQ, numbers[n].first, numbers[n].node, rest);
    return rest;
}

/* Recursion depth: the longest chain of nodes, at most the length of the original program. */
int bpf_balance(struct bpf_graph *g, int node)
{
    const struct bpf_node n = g->nodes[node];
    int made = node;

    if (n.balanced != NOWHERE)
        return n.balanced;
    if (n.code == EQUAL)
        made = balance_list(g, node);
    else if (BPF_CLASS(n.code) == BPF_JMP)
        made = bpf_test(g, BPF_OP(n.code), n.k, bpf_balance(g, n.yes), bpf_balance(g, n.no));
    else if (n.yes != NOWHERE)
        made = bpf_step(g, n.code, n.k, bpf_balance(g, n.yes));
    g->nodes[node].balanced = made;
    g->nodes[made].balanced = made;
    return made;
}

/* ---- writing the program ---- */

struct writer {
    struct bpf_graph *g;
    struct sock_filter *end; /* end of the buffer; the program grows towards its beginning */
    size_t len, max;
    bool full;
};

static void put_insn(struct writer *w, struct sock_filter insn)
{
    if (w->len == w->max) {
        w->full = true;
        return;
    }
    w->end[-1 - (ptrdiff_t)w->len++] = insn;
}

/* Number of instructions that the next one jumps over to reach the node. */
static size_t jump_distance(const struct writer *w, int node)
{
    return w->len - 1 - (size_t)w->g->nodes[node].place;
}

static void put_jump(struct writer *w, int node)
{
    put_insn(w, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, (uint32_t)jump_distance(w, node)));
}

static void place_nearby(struct writer *w, int node)
{
    struct bpf_node *n = &w->g->nodes[node];

    if (jump_distance(w, node) <= REACH_MAX)
        return;
    if (n->code == (BPF_RET | BPF_K))
        put_insn(w, (struct sock_filter)BPF_STMT(n->code, n->k));
    else
        put_jump(w, node);
    n->place = (int)w->len - 1;
}

/* Recursion depth: the longest chain of nodes, at most the length of the original program. */
static void place_node(struct writer *w, int node)
{
    struct bpf_node *n = &w->g->nodes[node];

    if (n->place != NOWHERE || w->full)
        return;
    if (n->yes != NOWHERE) {
        place_node(w, n->yes);
        place_node(w, n->no);
    }
    if (w->full)
        return;
    if (BPF_CLASS(n->code) == BPF_JMP) {
        place_nearby(w, n->yes);
        place_nearby(w, n->no);
        put_insn(w, (struct sock_filter)BPF_JUMP(n->code, n->k, (uint8_t)jump_distance(w, n->yes),
                                                 (uint8_t)jump_distance(w, n->no)));
    } else {
        if (n->yes != NOWHERE && jump_distance(w, n->yes) != 0)
            put_jump(w, n->yes);
        put_insn(w, (struct sock_filter)BPF_STMT(n->code, n->k));
    }
    n->place = (int)w->len - 1;
}

int bpf_graph_emit(struct bpf_graph *g, int root, struct sock_filter *out, size_t max)
{
    struct writer w = {.g = g, .end = out + max, .max = max};

    if (g->full)
        return -E2BIG;
    place_node(&w, root);
    if (w.full)
        return -E2BIG;
    /* The root is placed last, so it comes first. It cannot be its own successor. */
    (void)memmove(out, w.end - w.len, w.len * sizeof(*out));
    return (int)w.len;
}
