/* Any plan: refused, or everything that init reads of it lies in it. */

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "init/init.h"
#include "proto/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t touch(const void *at, size_t len)
{
    const unsigned char *p = at;
    uint64_t sum = 0;

    for (size_t i = 0; i < len; i++)
        sum += p[i];
    return sum;
}

static volatile uint64_t sink;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size > 0 ? size : 1);
    uint32_t says = (uint32_t)size;
    struct plan p;
    int r;

    if (copy == NULL)
        return 0;
    if (size > 0)
        (void)memcpy(copy, data, size);
    /* The size is what it is: else nearly all inputs end there. */
    if (size >= sizeof(struct plan_header))
        (void)memcpy(copy + offsetof(struct plan_header, size), &says, sizeof(says));
    r = plan_check(&p, copy, size);
    assert(r == 0 || r == -EPROTO || r == -E2BIG);
    if (r == 0) {
        const struct plan_header *h = p.header;

        assert(h->baseline_count > 0);
        sink = touch(p.base + h->baseline, h->baseline_count * 8ULL) +
               touch(p.base + h->guard, h->guard_count * 8ULL) +
               touch(p.base + h->policy, h->policy_count * 8ULL) +
               touch(p.rlimits, h->rlimit_count * sizeof(*p.rlimits)) +
               strlen(plan_string(&p, h->hostname));
        for (uint32_t i = 0; i < h->op_count; i++) {
            const struct plan_op *op = &p.ops[i];

            assert(op->type > PLAN_OP_INVALID && op->type < PLAN_OP_MAX);
            assert(op->fd >= -1 && op->fd < (int32_t)h->fd_count);
            sink += strlen(plan_string(&p, op->path)) + strlen(plan_string(&p, op->text)) +
                    strlen(plan_string(&p, op->options));
        }
    }
    free(copy);
    return 0;
}
