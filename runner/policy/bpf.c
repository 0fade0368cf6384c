/*
 * Adds to libseccomp's programs the parts of a filter that libseccomp cannot express.
 *
 * libseccomp has one action for system calls without a matching rule, and the order of rules
 * affects the result. rind needs three results: denied by the profile, allowed by it, and ENOSYS
 * for numbers unknown to it. So there are two libseccomp programs: denying rules (otherwise ALLOW)
 * and allowing rules. The first one's `return ALLOW` becomes a jump to the second. A list of
 * unknown numbers for each architecture comes first.
 *
 *     load arch
 *     jeq arch0 -> guard0        any other architecture: return ENOSYS
 *     guard0: load nr; ranges -> return ENOSYS
 *     deny:  ... return ERRNO | jump to allow
 *     allow: ... return ALLOW | return default
 *
 * The kernel evaluates the filter once for each number with only arch and nr known, and caches the
 * numbers that are always allowed. So the filter's length does not slow down plain calls.
 */

#include <assert.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "policy/seccomp-internal.h"

enum { GUARD_RANGE_INSNS = 4, RET_ENOSYS = SECCOMP_RET_ERRNO | ENOSYS };

/* Writes instructions into a buffer of the precomputed size. */
struct emit {
    struct sock_filter *at, *end;
};

static void emit_insn(struct emit *e, uint16_t code, uint32_t k, size_t jt, size_t jf)
{
    assert(e->at < e->end);
    *e->at++ = (struct sock_filter){.code = code, .jt = (uint8_t)jt, .jf = (uint8_t)jf, .k = k};
}

/*
 * Emits a list of ranges. They ascend, so a number below one is in none of the following:
 *     jgt last  -> next range
 *     jge first -> return ENOSYS, else jump behind the list
 */
static void emit_guard(struct emit *e, const struct nr_guard *g, const struct sock_filter *behind)
{
    emit_insn(e, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
    for (size_t i = 0; i < g->count; i++) {
        emit_insn(e, BPF_JMP | BPF_JGT | BPF_K, g->ranges[i].last, 3, 0);
        emit_insn(e, BPF_JMP | BPF_JGE | BPF_K, g->ranges[i].first, 0, 1);
        emit_insn(e, BPF_RET | BPF_K, RET_ENOSYS, 0, 0);
        emit_insn(e, BPF_JMP | BPF_JA, (uint32_t)(behind - e->at - 1), 0, 0);
    }
    emit_insn(e, BPF_JMP | BPF_JA, (uint32_t)(behind - e->at - 1), 0, 0);
}

static size_t guard_size(const struct nr_guard *g)
{
    return 2 + g->count * GUARD_RANGE_INSNS;
}

static void emit_guards(struct emit *e, const struct nr_guard *guards, size_t count,
                        const struct sock_filter *behind)
{
    const struct sock_filter *target = e->at + 1 + 2 * count + 1;

    emit_insn(e, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch), 0, 0);
    for (size_t i = 0; i < count; i++) {
        emit_insn(e, BPF_JMP | BPF_JEQ | BPF_K, guards[i].audit_arch, 0, 1);
        emit_insn(e, BPF_JMP | BPF_JA, (uint32_t)(target - e->at - 1), 0, 0);
        target += guard_size(&guards[i]);
    }
    emit_insn(e, BPF_RET | BPF_K, RET_ENOSYS, 0, 0);
    for (size_t i = 0; i < count; i++)
        emit_guard(e, &guards[i], behind);
}

static void emit_deny(struct emit *e, const struct bpf *deny, const struct sock_filter *behind)
{
    const struct sock_filter *f = deny->insns;

    for (size_t i = 0; i < deny->count; i++) {
        if (f[i].code == (BPF_RET | BPF_K) && f[i].k == SECCOMP_RET_ALLOW)
            emit_insn(e, BPF_JMP | BPF_JA, (uint32_t)(behind - e->at - 1), 0, 0);
        else
            emit_insn(e, f[i].code, f[i].k, f[i].jt, f[i].jf);
    }
}

int bpf_join(const struct nr_guard *guards, size_t guard_count, const struct bpf *deny,
             const struct bpf *allow, struct bpf *ret, struct err *err)
{
    auto_free struct sock_filter *insns = NULL;
    size_t guard = 1 + 2 * guard_count + 1, total;
    const struct sock_filter *f = allow->insns;
    struct emit e;

    for (size_t i = 0; i < guard_count; i++)
        guard += guard_size(&guards[i]);
    total = guard + deny->count + allow->count;
    if (total > BPF_MAXINSNS)
        return err_set(err, -E2BIG,
                       "seccomp: the filter has %zu instructions, the kernel takes %d: use fewer "
                       "argument rules",
                       total, BPF_MAXINSNS);
    insns = calloc(total, sizeof(*insns));
    if (insns == NULL)
        return err_errno(err, -ENOMEM, "seccomp");

    e = (struct emit){.at = insns, .end = insns + total};
    emit_guards(&e, guards, guard_count, insns + guard);
    emit_deny(&e, deny, insns + guard + deny->count);
    for (size_t i = 0; i < allow->count; i++)
        emit_insn(&e, f[i].code, f[i].k, f[i].jt, f[i].jf);

    ret->insns = take(insns);
    ret->count = total;
    return 0;
}

void bpf_done(struct bpf *b)
{
    free(b->insns);
    *b = (struct bpf){0};
}
