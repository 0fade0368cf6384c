/* Owns the file of --cidfile while a sandbox is made. In the process of run or create. */

#include "cli/cidfile.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/file.h"

int cidfile_open(struct cidfile *f, struct err *err)
{
    if (f->path == NULL)
        return 0;
    f->fd = open(f->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, 0644);
    if (f->fd >= 0)
        return 0;
    f->fd = FD_NONE;
    if (errno == EEXIST)
        return err_set(err, -EEXIST,
                       "--cidfile %.255s: is there already, and may name another sandbox; remove "
                       "it first",
                       f->path);
    return err_errno(err, -errno, "--cidfile %.255s", f->path);
}

int cidfile_write(struct cidfile *f, const char *id, struct err *err)
{
    int r;

    if (f->fd == FD_NONE)
        return 0;
    r = write_all(f->fd, id, strlen(id));
    if (r < 0)
        return err_errno(err, r, "--cidfile %.255s", f->path);
    (void)close(f->fd);
    f->fd = FD_NONE;
    return 0;
}

void cidfile_done(struct cidfile *f)
{
    if (f->fd == FD_NONE)
        return;
    (void)close(f->fd);
    (void)unlink(f->path);
    f->fd = FD_NONE;
}
