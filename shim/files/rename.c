/* The command `rename`. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "files/shim.h"

int shim_cmd_rename(char **args)
{
    return shim_answer(STDOUT_FILENO, rename(args[0], args[1]) < 0 ? -errno : 0);
}
