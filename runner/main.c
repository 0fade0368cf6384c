#include <fcntl.h>
#include <unistd.h>

#include "cli/cli.h"

/*
 * Descriptors 0 to 2 must be open before anything else is: else the first socket or directory that
 * rind opens becomes "stderr", and an error message is written into it.
 */
static int open_standard_fds(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    while (fd >= 0 && fd <= STDERR_FILENO && fcntl(fd, F_SETFD, 0) == 0);
    if (fd < 0)
        return -1;
    (void)close(fd);
    return 0;
}

int main(int argc, char **argv)
{
    static char *none[] = {NULL};

    if (open_standard_fds() < 0)
        return EXIT_RIND;
    return cli_main(argc > 0 ? argv + 1 : none);
}
