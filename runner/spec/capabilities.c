/* Capabilities that a sandbox drops. Pure. */

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "policy/tables.h"
#include "spec/parse.h"
#include "spec/spec.h"

int spec_add_cap_drop(struct spec *s, const char *text, struct err *err)
{
    int n;

    if (strcmp(text, "ALL") == 0) {
        s->cap_drop = UINT64_MAX;
        return 0;
    }
    n = strtab_value(capability_names, text);
    if (n < 0)
        return err_set(err, -EINVAL,
                       "capDrop \"%.*s\": must be \"ALL\" or a capability, spelt \"CAP_CHOWN\"",
                       QUOTE_MAX, text);
    s->cap_drop |= UINT64_C(1) << n;
    return 0;
}
