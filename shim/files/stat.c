/* The commands `stat` and `lstat`. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files/shim.h"

/* The type bits of st_mode are a four-bit number, used as an index. */
enum frame_type shim_type_of_mode(mode_t mode)
{
    static const unsigned char types[16] = {
        [S_IFREG >> 12] = FRAME_TYPE_FILE,    [S_IFDIR >> 12] = FRAME_TYPE_DIR,
        [S_IFLNK >> 12] = FRAME_TYPE_SYMLINK, [S_IFBLK >> 12] = FRAME_TYPE_BLOCK,
        [S_IFCHR >> 12] = FRAME_TYPE_CHAR,    [S_IFIFO >> 12] = FRAME_TYPE_FIFO,
        [S_IFSOCK >> 12] = FRAME_TYPE_SOCKET,
    };

    return (enum frame_type)types[(mode & S_IFMT) >> 12];
}

int shim_milliseconds(int64_t sec, int64_t nsec, int64_t *ret)
{
    int64_t ms;

    if (__builtin_mul_overflow(sec, (int64_t)1000, &ms) ||
        __builtin_add_overflow(ms, nsec / 1000000, &ms))
        return -EOVERFLOW;
    *ret = ms;
    return 0;
}

static int64_t timespec_ms(struct timespec t)
{
    int64_t ms = 0;
    int r = shim_milliseconds(t.tv_sec, t.tv_nsec, &ms);

    if (r < 0)
        shim_die_errno(r);
    return ms;
}

static int answer_stat(const char *path, int flags)
{
    uint8_t payload[FRAME_STAT_SIZE];
    struct stat st;

    if (fstatat(AT_FDCWD, path, &st, flags) < 0)
        return shim_answer_error(STDOUT_FILENO, -errno);
    frame_put_stat(payload, &(struct frame_stat){
                                .type = shim_type_of_mode(st.st_mode),
                                .size = (uint64_t)st.st_size,
                                .mode = st.st_mode,
                                .uid = st.st_uid,
                                .gid = st.st_gid,
                                .atime_ms = timespec_ms(st.st_atim),
                                .mtime_ms = timespec_ms(st.st_mtim),
                                .ctime_ms = timespec_ms(st.st_ctim),
                            });
    return shim_answer_data(STDOUT_FILENO, payload, sizeof(payload));
}

int shim_cmd_stat(char **args)
{
    return answer_stat(args[0], 0);
}

int shim_cmd_lstat(char **args)
{
    return answer_stat(args[0], AT_SYMLINK_NOFOLLOW);
}
