#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/docker.h"

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

/* Called so through a link, rind takes the place of that command. */
static bool is_called(const char *self, const char *name)
{
    const char *slash = strrchr(self, '/');

    return strcmp(slash != NULL ? slash + 1 : self, name) == 0;
}

int main(int argc, char **argv)
{
    static char *none[] = {NULL};

    if (open_standard_fds() < 0)
        return EXIT_RIND;
    if (argc > 0 && is_called(argv[0], "docker"))
        return docker_main(argv + 1);
    return cli_main(argc > 0 ? argv + 1 : none);
}
