/* The shipped policies, embedded in the binary, so that a sandbox starts without policy files. */

#include <string.h>

#include "policy/policy.h"

/* Embeds a file with .incbin; paths are relative to the top of the tree, where make runs. */
#define EMBED(symbol, path)                                                                        \
    __asm__(".pushsection .rodata\n"                                                               \
            ".globl " #symbol "_start, " #symbol "_end\n"                                          \
            ".hidden " #symbol "_start, " #symbol "_end\n" #symbol "_start:\n"                     \
            ".incbin \"" path "\"\n" #symbol "_end:\n"                                             \
            ".byte 0\n"                                                                            \
            ".popsection\n");                                                                      \
    extern const char symbol##_start[], symbol##_end[]

EMBED(policy_untrusted, "policies/untrusted.json");
EMBED(policy_compute, "policies/compute.json");
EMBED(policy_container, "policies/container.json");
EMBED(policy_build, "policies/build.json");
EMBED(policy_fuse, "policies/fuse.json");
EMBED(policy_net_admin, "policies/net-admin.json");

static const char *const names[] = {"untrusted", "compute",   "container", "build",
                                    "fuse",      "net-admin", NULL};
static const struct {
    const char *start, *end;
} texts[] = {
    {policy_untrusted_start, policy_untrusted_end}, {policy_compute_start, policy_compute_end},
    {policy_container_start, policy_container_end}, {policy_build_start, policy_build_end},
    {policy_fuse_start, policy_fuse_end},           {policy_net_admin_start, policy_net_admin_end},
};

const char *policy_builtin(const char *name, size_t *ret_len)
{
    for (size_t i = 0; names[i] != NULL; i++)
        if (strcmp(names[i], name) == 0) {
            *ret_len = (size_t)(texts[i].end - texts[i].start);
            return texts[i].start;
        }
    return NULL;
}

const char *const *policy_builtin_names(void)
{
    return names;
}

bool policy_name_ok(const char *name)
{
    static const char rest[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                               "0123456789_.-";
    size_t len = strlen(name);

    return len >= 1 && len <= POLICY_NAME_MAX && name[0] != '.' && name[0] != '-' &&
           strspn(name, rest) == len;
}
