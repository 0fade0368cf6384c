/*
 * s3-mount and directory-backup are commands of the protocol. They need libraries that must not
 * slow `stat` down, so they belong into a second program that this one would start. This build has
 * none and reports a usage error; an error frame would be a statement about the mount or the
 * backup.
 */
#include <string.h>

#include "files/shim.h"
#include "proto/utf8.h"

int shim_cmd_s3_mount(char **args)
{
    for (; *args != NULL; args++)
        if (!utf8_valid(*args, strlen(*args)))
            shim_die("s3-mount arguments must be UTF-8");
    shim_die("s3-mount is not supported by this build");
}

int shim_cmd_directory_backup(char **args)
{
    (void)args;
    shim_die("directory-backup is not supported by this build");
}
