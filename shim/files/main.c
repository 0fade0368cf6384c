/* sandbox-shim: the table of commands (shim.h). Init starts it once per file operation. */
#include <string.h>

#include "files/cmd.h"

/* The first arguments are always paths, even if they look like options. */
struct shim_command {
    const char *name;
    int (*run)(char **args);
    const char *missing[2]; /* usage error when the first or second path is missing */
    const char *excess;     /* usage error for arguments after the paths; NULL: `run` parses them */
};

/* clang-format off */
static const struct shim_command commands[] = {
    { "stat", shim_cmd_stat,
      { "stat requires a path" }, "stat accepts one path" },
    { "lstat", shim_cmd_lstat,
      { "lstat requires a path" }, "lstat accepts one path" },
    { "read", shim_cmd_read,
      { "read requires a path" }, "read accepts exactly one path" },
    { "write", shim_cmd_write,
      { "write requires a path" }, "write accepts exactly one path" },
    { "read-directory", shim_cmd_read_directory,
      { "read-directory requires a path" }, "read-directory accepts one path" },
    { "mkdir", shim_cmd_mkdir,
      { "mkdir requires a path" }, NULL },
    { "rename", shim_cmd_rename,
      { "rename requires a source path", "rename requires a destination path" },
      "rename accepts exactly two paths" },
    { "remove", shim_cmd_remove,
      { "remove requires a path" }, NULL },
    { "rind-stat", cmd_stat,
      { "rind-stat requires a path" }, NULL },
    { "rind-list", cmd_list,
      { "rind-list requires a path" }, NULL },
    { "rind-read", cmd_read,
      { "rind-read requires a path" }, NULL },
    { "rind-write", cmd_write,
      { "rind-write requires a path" }, NULL },
    { "rind-copy", cmd_copy,
      { "rind-copy requires a source path", "rind-copy requires a destination path" }, NULL },
    { "rind-move", cmd_move,
      { "rind-move requires a source path", "rind-move requires a destination path" }, NULL },
    { "rind-watch", cmd_watch,
      { "rind-watch requires a path" }, NULL },
    { "rind-tar-out", cmd_tar_out,
      { "rind-tar-out requires a path" }, NULL },
    { "rind-tar-in", cmd_tar_in,
      { "rind-tar-in requires a path" }, NULL },
    { "s3-mount", shim_cmd_s3_mount, { NULL }, NULL },
    { "directory-backup", shim_cmd_directory_backup, { NULL }, NULL },
};
/* clang-format on */

static const struct shim_command *command_find(const char *name)
{
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static void check_usage(const struct shim_command *c, char **args)
{
    size_t n = 0;

    for (; n < 2 && c->missing[n] != NULL; n++)
        if (args[n] == NULL)
            shim_die(c->missing[n]);
    if (c->excess != NULL && args[n] != NULL)
        shim_die(c->excess);
}

int main(int argc, char **argv)
{
    const struct shim_command *c;

    shim_stdio_init();
    if (argc < 2)
        shim_die("missing command");
    c = command_find(argv[1]);
    if (c == NULL)
        shim_die("unknown command");
    check_usage(c, argv + 2);
    return c->run(argv + 2);
}
