/* rind-rootfs: archives in and out of trees, in confined processes. Embedded in rind, which runs it
 * as `worker`; also a command by itself. */
#include <string.h>

#include "command.h"
#include "worker.h"

int main(int argc, char **argv)
{
    return argc > 1 && strcmp(argv[1], "worker") == 0 ? worker_main(argc, argv)
                                                      : command_main(argc, argv);
}
