#pragma once

/*
 * A classic-BPF machine for seccomp filters: what the kernel accepts and does, written for tests
 * apart from the code that makes the filters. Instructions outside seccomp's set, a jump outside
 * the program or a missing return end the test program.
 */

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void sim_die(size_t pc, const char *why)
{
    printf("Bail out! filter instruction %zu: %s\n", pc, why);
    exit(1);
}

static inline size_t sim_jump(const struct sock_filter *f, size_t pc, uint32_t a)
{
    switch (BPF_OP(f->code)) {
    case BPF_JA:
        return pc + 1 + f->k;
    case BPF_JEQ:
        return pc + 1 + (a == f->k ? f->jt : f->jf);
    case BPF_JGT:
        return pc + 1 + (a > f->k ? f->jt : f->jf);
    case BPF_JGE:
        return pc + 1 + (a >= f->k ? f->jt : f->jf);
    case BPF_JSET:
        return pc + 1 + ((a & f->k) != 0 ? f->jt : f->jf);
    default:
        sim_die(pc, "unknown jump");
        return 0;
    }
}

/* What the filter answers for one call: SECCOMP_RET_*. */
static inline uint32_t sim_run(const struct sock_filter *f, size_t count,
                               const struct seccomp_data *data)
{
    uint32_t a = 0;
    size_t pc = 0;

    while (pc < count) {
        switch (f[pc].code) {
        case BPF_LD | BPF_W | BPF_ABS:
            if (f[pc].k % 4 != 0 || f[pc].k > sizeof(*data) - 4)
                sim_die(pc, "load outside the data");
            (void)memcpy(&a, (const char *)data + f[pc].k, 4);
            pc++;
            break;
        case BPF_ALU | BPF_AND | BPF_K:
            a &= f[pc].k;
            pc++;
            break;
        case BPF_RET | BPF_K:
            return f[pc].k;
        default:
            if (BPF_CLASS(f[pc].code) != BPF_JMP || BPF_SRC(f[pc].code) != BPF_K)
                sim_die(pc, "unknown instruction");
            pc = sim_jump(&f[pc], pc, a);
        }
    }
    sim_die(pc, "runs past the end");
    return 0;
}
