/* What a sandbox asks of the host's resources beside its limits: swap, weights, processors. Pure.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "spec/parse.h"
#include "spec/spec.h"

enum {
    CPU_SHARES_MIN = 2,
    CPU_SHARES_MAX = 262144,
    OOM_SCORE_MAX = 1000,
    CPUSET_MAX = 255,         /* bytes of a list */
    CPUSET_NUMBER_MAX = 8191, /* the kernel's largest NR_CPUS */
};

struct resources resources_unset(void)
{
    struct resources r = {.swap_bytes = LIMIT_UNSET,
                          .reservation_bytes = LIMIT_UNSET,
                          .cpu_shares = LIMIT_UNSET,
                          .oom_score = LIMIT_UNSET,
                          .io_weight = LIMIT_UNSET,
                          .net_rate = LIMIT_UNSET};

    for (size_t i = 0; i < IO_KIND_MAX; i++)
        r.io_rates[i] = LIMIT_UNSET;
    return r;
}

void resources_done(struct resources *r)
{
    free(r->cpus);
    free(r->mems);
}

int spec_set_memory_swap(struct spec *s, const char *text, struct err *err)
{
    if (strcmp(text, "-1") == 0 || strcmp(text, "unlimited") == 0) {
        s->resources.swap_bytes = SPEC_SWAP_UNLIMITED;
        return 0;
    }
    return parse_bytes("memory-swap", text, LIMIT_MEMORY_MIN, LIMIT_BYTES_MAX,
                       &s->resources.swap_bytes, err);
}

int spec_set_memory_reservation(struct spec *s, const char *text, struct err *err)
{
    return parse_bytes("memory-reservation", text, 1, LIMIT_BYTES_MAX,
                       &s->resources.reservation_bytes, err);
}

int spec_set_cpu_shares(struct spec *s, const char *text, struct err *err)
{
    return parse_number("cpu-shares", text, CPU_SHARES_MIN, CPU_SHARES_MAX,
                        &s->resources.cpu_shares, err);
}

int spec_set_oom_score(struct spec *s, const char *text, struct err *err)
{
    if (text[0] == '-')
        return err_set(err, -EPERM,
                       "oom-score-adj \"%.*s\": a sandbox is not protected from the OOM killer at "
                       "the expense of the host; 0 to %d",
                       QUOTE_MAX, text, OOM_SCORE_MAX);
    return parse_number("oom-score-adj", text, 0, OOM_SCORE_MAX, &s->resources.oom_score, err);
}

/* Parses N or N-M at *at, and moves *at behind it. */
static bool cpuset_take_range(const char **at)
{
    char *end = NULL;
    long first, last;

    if (**at < '0' || **at > '9')
        return false;
    first = last = strtol(*at, &end, 10);
    if (*end == '-') {
        const char *second = end + 1;

        if (*second < '0' || *second > '9')
            return false;
        last = strtol(second, &end, 10);
    }
    *at = end;
    return last >= first && last <= CPUSET_NUMBER_MAX;
}

static int cpuset_set(const char *what, char **to, const char *text, struct err *err)
{
    const char *at = text;
    bool ok = strlen(text) <= CPUSET_MAX;
    char *copy;

    for (ok = ok && cpuset_take_range(&at); ok && *at != '\0'; ok = cpuset_take_range(&at))
        if (*at++ != ',')
            ok = false;
    if (!ok || *at != '\0')
        return err_set(err, -EINVAL, "%s \"%.*s\": must be a list of numbers such as 0-3,8", what,
                       QUOTE_MAX, text);
    copy = strdup(text);
    if (copy == NULL)
        return err_errno(err, -ENOMEM, "%s", what);
    free(*to);
    *to = copy;
    return 0;
}

int spec_set_cpuset_cpus(struct spec *s, const char *text, struct err *err)
{
    return cpuset_set("cpuset-cpus", &s->resources.cpus, text, err);
}

int spec_set_cpuset_mems(struct spec *s, const char *text, struct err *err)
{
    return cpuset_set("cpuset-mems", &s->resources.mems, text, err);
}

int resources_check(const struct resources *r, int64_t memory, struct err *err)
{
    if (r->swap_bytes != LIMIT_UNSET && r->swap_bytes != SPEC_SWAP_UNLIMITED) {
        if (memory == LIMIT_UNSET)
            return err_set(err, -EINVAL, "limits.memorySwap: only together with a memory limit");
        if (r->swap_bytes < memory)
            return err_set(err, -EINVAL,
                           "limits.memorySwap: is memory and swap together, so not less than the "
                           "memory limit");
    }
    if (r->reservation_bytes != LIMIT_UNSET && memory != LIMIT_UNSET &&
        r->reservation_bytes > memory)
        return err_set(err, -EINVAL, "limits.memoryReservation: is more than the memory limit");
    return 0;
}
