#include "sandbox/host-rootfs.h"

#include <errno.h>
#include <fcntl.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/file.h"

int host_rootfs_load(const char *path, struct host_rootfs **ret, struct err *err)
{
    auto_free char *text = NULL;
    const char *builtin;
    size_t len = 0;
    int r;

    r = file_read_at(AT_FDCWD, path, HOST_ROOTFS_TEXT_MAX, &text, &len, err);
    if (r == 0)
        return host_rootfs_parse(text, len, path, ret, err);
    if (r != -ENOENT)
        return r;
    builtin = host_rootfs_builtin(&len);
    return host_rootfs_parse(builtin, len, "host-rootfs.json", ret, err);
}
