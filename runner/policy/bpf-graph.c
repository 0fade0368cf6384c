/*
 * The program is written from its end to its beginning: what a node leads to is placed before the
 * node itself, so every jump is forwards and its length is known when it is written. Places count
 * from the end. A conditional jump reaches 255 instructions; what is farther away gets a copy (a
 * return) or a jump (anything else) nearby, which is then the nearest for those that follow.
 */

#include "policy/bpf-graph.h"

#include <errno.h>
#include <linux/filter.h>
#include <string.h>

enum {
    PEEL_MAX = 3,    /* single numbers that are asked for one by one before a list is halved */
    REACH_MAX = 253, /* of a conditional jump: 255, less what is put in between for its two ways */
    NOWHERE = -1,
};

void bpf_graph_init(struct bpf_graph *g, struct bpf_node *nodes, size_t max)
{
    *g = (struct bpf_graph){.nodes = nodes, .max = max};
}

static int intern(struct bpf_graph *g, uint16_t code, uint32_t k, int yes, int no)
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
    g->nodes[g->count] =
        (struct bpf_node){.code = code, .k = k, .yes = yes, .no = no, .place = NOWHERE};
    return (int)g->count++;
}

int bpf_return(struct bpf_graph *g, uint32_t value)
{
    return intern(g, BPF_RET | BPF_K, value, NOWHERE, NOWHERE);
}

int bpf_step(struct bpf_graph *g, uint16_t code, uint32_t k, int next)
{
    return intern(g, code, k, next, next);
}

int bpf_test(struct bpf_graph *g, uint16_t op, uint32_t k, int yes, int no)
{
    return yes == no ? yes : intern(g, BPF_JMP | op | BPF_K, k, yes, no);
}

/* ---- a decision by number ---- */

size_t bpf_span_add(struct bpf_span *spans, size_t count, uint32_t first, int node)
{
    if (count > 0 && spans[count - 1].node == node)
        return count;
    spans[count] = (struct bpf_span){.first = first, .node = node};
    return count + 1;
}

/* Whether all but a few single numbers lead to one node; which one. after: where the numbers behind
 * the last span begin (0 = nowhere). */
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

static int decide(struct bpf_graph *g, const struct bpf_span *spans, size_t count, uint32_t after)
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
    below = decide(g, spans, half, spans[half].first);
    above = decide(g, spans + half, count - half, after);
    return bpf_test(g, BPF_JGE, spans[half].first, above, below);
}

int bpf_switch(struct bpf_graph *g, const struct bpf_span *spans, size_t count)
{
    return decide(g, spans, count, 0);
}

/* ---- putting in order ---- */

struct writer {
    struct bpf_graph *g;
    struct sock_filter *end; /* of the room: the program grows towards its beginning */
    size_t len, max;
    bool full;
};

static void put(struct writer *w, struct sock_filter insn)
{
    if (w->len == w->max) {
        w->full = true;
        return;
    }
    w->end[-1 - (ptrdiff_t)w->len++] = insn;
}

/* How many instructions the next one that is put jumps over to get there. */
static size_t distance(const struct writer *w, int node)
{
    return w->len - 1 - (size_t)w->g->nodes[node].place;
}

static void put_jump(struct writer *w, int node)
{
    put(w, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, (uint32_t)distance(w, node)));
}

static void bring_near(struct writer *w, int node)
{
    struct bpf_node *n = &w->g->nodes[node];

    if (distance(w, node) <= REACH_MAX)
        return;
    if (n->code == (BPF_RET | BPF_K))
        put(w, (struct sock_filter)BPF_STMT(n->code, n->k));
    else
        put_jump(w, node);
    n->place = (int)w->len - 1;
}

/* Depth: of the longest chain of nodes, so at most the length of what they were made from. */
static void place(struct writer *w, int node)
{
    struct bpf_node *n = &w->g->nodes[node];

    if (n->place != NOWHERE || w->full)
        return;
    if (n->yes != NOWHERE) {
        place(w, n->yes);
        place(w, n->no);
    }
    if (w->full)
        return;
    if (BPF_CLASS(n->code) == BPF_JMP) {
        bring_near(w, n->yes);
        bring_near(w, n->no);
        put(w, (struct sock_filter)BPF_JUMP(n->code, n->k, (uint8_t)distance(w, n->yes),
                                            (uint8_t)distance(w, n->no)));
    } else {
        if (n->yes != NOWHERE && distance(w, n->yes) != 0)
            put_jump(w, n->yes);
        put(w, (struct sock_filter)BPF_STMT(n->code, n->k));
    }
    n->place = (int)w->len - 1;
}

int bpf_graph_emit(struct bpf_graph *g, int root, struct sock_filter *out, size_t max)
{
    struct writer w = {.g = g, .end = out + max, .max = max};

    if (g->full)
        return -E2BIG;
    place(&w, root);
    if (w.full)
        return -E2BIG;
    /* The root is placed last, and so stands first, unless it was a part of itself: it cannot. */
    (void)memmove(out, w.end - w.len, w.len * sizeof(*out));
    return (int)w.len;
}
