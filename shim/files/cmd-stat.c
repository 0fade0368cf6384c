/* The command rind-stat. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "files/cmd.h"

/* rind-stat PATH [--no-follow]: writes one record without a name. Needs no permission on the file.
 */
int cmd_stat(char **args)
{
    static struct batch b; /* not initialised here, so that the buffer is in .bss */
    static char target[FILE_PATH_MAX];
    struct file_record r;
    struct stat st;
    bool no_follow = false;
    int fd;

    b.fd = STDOUT_FILENO;
    cmd_options(args + 1, (const struct cmd_option[]){{.name = "--no-follow", .flag = &no_follow},
                                                      {.name = NULL}});
    fd = cmd_open(args[0], O_PATH | (no_follow ? O_NOFOLLOW : 0), 0);
    if (fd >= 0 && fstat(fd, &st) < 0)
        fd = -errno;
    if (fd < 0)
        return cmd_answer_error(STDOUT_FILENO, fd, "stat", args[0]);
    cmd_record(&r, &st);
    if (S_ISLNK(st.st_mode)) {
        ssize_t n = readlinkat(fd, "", target, sizeof(target));

        r.target = target;
        r.target_len = (uint16_t)(n > 0 ? n : 0);
    }
    if (cmd_size_exact(fd, &st))
        r.flags |= FILE_SIZE_EXACT;
    batch_add_record(&b, &r);
    batch_flush(&b);
    return shim_answer_success(STDOUT_FILENO);
}
