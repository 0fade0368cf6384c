/* The command rind-read. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "files/cmd.h"

enum { COPY_BYTES = 128 << 10 };

/* Copies up to len bytes from fd to stdout. *ret_out: the error is stdout's. */
static int copy_range(int fd, uint64_t len, bool *ret_out)
{
    static char buf[COPY_BYTES];

    while (len > 0) {
        ssize_t n = shim_read(fd, buf, len < sizeof(buf) ? (size_t)len : sizeof(buf));
        int r;

        if (n <= 0)
            return (int)n;
        r = shim_write(STDOUT_FILENO, buf, (size_t)n);
        if (r < 0) {
            *ret_out = true;
            return r;
        }
        len -= (uint64_t)n;
    }
    return 0;
}

/* rind-read PATH --offset=N --length=N [--suffix=N]: writes the record of the opened file to
 * stderr; then its bytes from offset on (the last N with --suffix), at most length, to stdout; then
 * the result to stderr. An offset behind the end is no error: no bytes are written. */
int cmd_read(char **args)
{
    static struct batch b; /* not initialised here, so that the buffer is in .bss */
    uint64_t offset = 0, length = INT64_MAX, suffix = UINT64_MAX;
    struct file_record record;
    struct stat st;
    bool out = false;
    int fd, r = 0;

    b.fd = STDERR_FILENO;
    cmd_options(args + 1, (const struct cmd_option[]){
                              {.name = "--offset", .value = &offset, .base = 10, .max = INT64_MAX},
                              {.name = "--length", .value = &length, .base = 10, .max = INT64_MAX},
                              {.name = "--suffix", .value = &suffix, .base = 10, .max = INT64_MAX},
                              {.name = NULL}});
    fd = cmd_open_regular(args[0], O_RDONLY, 0, &st);
    if (fd < 0)
        return cmd_answer_error(STDERR_FILENO, fd, fd == -EINVAL ? "not a regular file" : "open",
                                args[0]);
    cmd_record(&record, &st);
    if (cmd_size_exact(fd, &st)) {
        record.flags |= FILE_SIZE_EXACT;
        /* Data appended meanwhile is left out: the record has announced the size. */
        if (suffix != UINT64_MAX)
            offset = suffix < record.size ? record.size - suffix : 0;
        if (length > record.size - (offset < record.size ? offset : record.size))
            length = record.size - (offset < record.size ? offset : record.size);
    }
    batch_add_record(&b, &record);
    batch_flush(&b);
    if (offset > 0 && lseek(fd, (off_t)offset, SEEK_SET) < 0)
        r = -errno;
    if (r == 0)
        r = copy_range(fd, length, &out);
    if (out)
        shim_die_errno(r);
    return r < 0 ? cmd_answer_error(STDERR_FILENO, r, "read", args[0])
                 : shim_answer_success(STDERR_FILENO);
}
