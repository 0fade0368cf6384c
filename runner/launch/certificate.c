/*
 * Reads the gateway's certificate and key for a supervisor that has no access to files any more.
 * Both files are read again at each request, so that a renewed certificate takes effect. Their
 * paths come from the owner's configuration, never from the supervisor. The contents are not
 * checked here. Runs in the launcher.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/file.h"
#include "launch/launcher.h"
#include "launch/sandbox.h"

static int pem_copy(const char *path, struct err *err)
{
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    auto_free char *text = NULL;
    size_t len = 0;
    int r;

    if (fd < 0)
        return err_errno(err, -errno, "%s", path);
    r = file_read_fd(fd, LAUNCH_PEM_MAX, &text, &len, err);
    if (r < 0)
        return err_wrap(err, r, "%s", path);
    r = memfd_sealed("rind-certificate", text, len);
    explicit_bzero(text, len);
    return r < 0 ? err_errno(err, r, "%s", path) : r;
}

int launcher_certificate(struct launcher *l, int ret[2], struct err *err)
{
    auto_close int chain = FD_NONE;
    int key;

    if (l->certificate == NULL || l->key == NULL)
        return err_set(err, -ENOENT, "the configuration has no gateway.certificate");
    chain = pem_copy(l->certificate, err);
    if (chain < 0)
        return chain;
    key = pem_copy(l->key, err);
    if (key < 0)
        return key;
    ret[0] = take_fd(&chain);
    ret[1] = key;
    return 0;
}
