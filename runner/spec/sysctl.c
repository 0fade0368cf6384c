/* Kernel parameters of a sandbox's own namespaces. Pure. */
#include "policy/sysctl.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "spec/parse.h"
#include "spec/spec.h"
#include "spec/strings.h"

int spec_add_sysctl(struct spec *s, const char *text, struct err *err)
{
    const size_t name_len = strcspn(text, "=");
    size_t count = 0;
    int r;

    if (text[name_len] != '=')
        return err_set(err, -EINVAL, "sysctl \"%.*s\": must be NAME=VALUE", QUOTE_MAX, text);
    if (sysctl_judge(text) == SYSCTL_REFUSED)
        return err_set(err, -EPERM,
                       "sysctl \"%.*s\": must be one of the sandbox's own net or ipc namespace, "
                       "with numbers (docs/network.md)",
                       QUOTE_MAX, text);
    if (s->sysctls == NULL)
        s->sysctls = strings_new();
    if (s->sysctls == NULL)
        return err_errno(err, -ENOMEM, "sysctl");
    for (; s->sysctls[count] != NULL; count++)
        if (strncmp(s->sysctls[count], text, name_len + 1) == 0)
            return err_set(err, -EINVAL, "sysctl \"%.*s\": is there twice", (int)name_len, text);
    if (count == SYSCTLS_MAX)
        return err_set(err, -E2BIG, "sysctl \"%.*s\": more than %d", QUOTE_MAX, text, SYSCTLS_MAX);
    r = strings_append(&s->sysctls, count, text);
    return r < 0 ? err_errno(err, r, "sysctl") : 0;
}
