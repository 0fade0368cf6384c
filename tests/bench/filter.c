/*
 * Writes the seccomp programs that rind uses, for the floor: usage: filter POLICY-NAME POLICY-OUT
 * INIT-OUT. Prints the numbers of instructions.
 */

#include <fcntl.h>
#include <linux/filter.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "launch/seccomp-baseline.h"
#include "policy/policy.h"
#include "policy/seccomp.h"

static int put(const char *path, const void *data, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int r = fd < 0 ? -1 : write_all(fd, data, len);

    if (r < 0)
        fprintf(stderr, "filter: cannot write %s\n", path);
    if (fd >= 0)
        (void)close(fd);
    return r;
}

int main(int argc, char **argv)
{
    struct sock_filter floor[BASELINE_MAX];
    struct bpf bpf = {.insns = NULL};
    struct policy *policy = NULL;
    struct err err = ERR_NONE;
    size_t len = 0, floor_len;
    const char *text = argc == 4 ? policy_builtin(argv[1], &len) : NULL;
    int r = -1;

    if (text == NULL) {
        fputs("usage: filter POLICY-NAME POLICY-OUT INIT-OUT\n", stderr);
        return 2;
    }
    if (policy_parse(text, len, argv[1], &policy, &err) < 0 ||
        seccomp_compile(policy->seccomp, policy->capabilities, &bpf, NULL, &err) < 0) {
        fprintf(stderr, "filter: %s\n", err.msg);
    } else {
        floor_len = baseline_build(floor, false);
        r = put(argv[2], bpf.insns, bpf.count * sizeof(struct sock_filter));
        if (r == 0)
            r = put(argv[3], floor, floor_len * sizeof(floor[0]));
        printf("%zu %zu\n", bpf.count, floor_len);
    }
    policy_free(policy);
    bpf_done(&bpf);
    return r < 0;
}
