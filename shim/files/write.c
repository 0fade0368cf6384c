/* The command `write`. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "files/shim.h"

/* Answers success before the first byte of stdin is read: the client starts to send only then. */
int shim_cmd_write(char **args)
{
    enum shim_side side;
    int fd = shim_open(args[0], O_WRONLY | O_CREAT | O_TRUNC, 0666);
    int r;

    if (fd < 0)
        return shim_answer_error(STDOUT_FILENO, fd);
    (void)shim_answer_success(STDOUT_FILENO);
    r = shim_copy(STDIN_FILENO, fd, &side);
    if (side == SHIM_SIDE_IN)
        shim_die_errno(r);
    /* NFS and quotas may report errors of write only at close. EINTR closes the fd, too. */
    if (r == 0 && close(fd) < 0 && errno != EINTR)
        r = -errno;
    return shim_answer(STDOUT_FILENO, r);
}
