#include "xattrs.h"

#include <string.h>

bool xattr_is_carried(const char *name)
{
    static const char overlay[] = ".overlay.";
    const char *dot = strchr(name, '.');

    if (dot == NULL || strncmp(dot, overlay, sizeof(overlay) - 1) == 0)
        return false;
    return strncmp(name, "user.", 5) == 0 || strcmp(name, "security.capability") == 0 ||
           strcmp(name, "system.posix_acl_access") == 0 ||
           strcmp(name, "system.posix_acl_default") == 0;
}
