/* The command `read`. */
#include <fcntl.h>
#include <unistd.h>

#include "files/shim.h"

/* The file's bytes go to stdout, the frames to stderr: success before the first byte, and the
 * result at the end. */
int shim_cmd_read(char **args)
{
    enum shim_side side;
    int fd = shim_open(args[0], O_RDONLY, 0);
    int r;

    if (fd < 0)
        return shim_answer_error(STDERR_FILENO, fd);
    (void)shim_answer_success(STDERR_FILENO);
    r = shim_copy(fd, STDOUT_FILENO, &side);
    if (side == SHIM_SIDE_OUT)
        shim_die_errno(r);
    return shim_answer(STDERR_FILENO, r);
}
