/* The floor's helpers: step clock, messages between the processes, the mount API. */

#include <stdarg.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>

#include "floor.h"

/* ---- step clock -------------------------------------------------------------------------------
 */

#define STEP_NAME(id, text) [id] = text,
static const char *const step_names[STEP_MAX] = {STEPS(STEP_NAME)};

static int64_t (*rows)[STEP_MAX]; /* NULL: the clock is off */
static unsigned row;
static int64_t last;

int64_t clock_now(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

void steps_open(void)
{
    rows = mmap(NULL, sizeof(*rows) * opt.runs, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                -1, 0);
    if (rows == MAP_FAILED)
        die("mmap");
}

void steps_row(unsigned r)
{
    row = r;
}

void step(enum step s)
{
    if (rows == NULL)
        return;
    int64_t t = clock_now();
    rows[row][s] += t - last;
    last = t;
}

void step_begin(void)
{
    if (rows != NULL)
        last = clock_now();
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

void steps_report(void)
{
    static int64_t column[RUNS_MAX];

    if (rows == NULL)
        return;
    printf("%-46s %9s %9s\n", "step (L launcher, A init, B main; us)", "median", "min");
    for (int s = 0; s < STEP_MAX; s++) {
        for (unsigned i = 0; i < opt.runs; i++)
            column[i] = rows[i][s];
        qsort(column, opt.runs, sizeof(column[0]), by_value);
        if (column[opt.runs / 2] > 0)
            printf("%-46s %9.1f %9.1f\n", step_names[s], (double)column[opt.runs / 2] / 1e3,
                   (double)column[0] / 1e3);
    }
}

/* ---- small helpers: this program has no error path but the exit -------------------------------
 */

void die(const char *fmt, ...)
{
    int saved = errno;
    va_list ap;

    fprintf(stderr, "floor: ");
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fprintf(stderr, ": %s\n", strerror(saved));
    _exit(1);
}

void layer_name(char ret[LAYER_NAME], unsigned i)
{
    _Static_assert(LAYERS_MAX <= 10, "one digit");
    memcpy(ret, "l0", LAYER_NAME);
    ret[1] = (char)('0' + i);
}

void tell(int fd)
{
    if (write(fd, "x", 1) != 1)
        die("tell");
}

int heed(int fd)
{
    char c;

    if (read(fd, &c, 1) != 1) {
        errno = ECHILD;
        die("the other side ended early");
    }
    return (unsigned char)c;
}

void poke(int dirfd, const char *path, const char *text)
{
    int fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC);

    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        die("write '%s' to %s", text, path);
    (void)close(fd);
}

void send_fds(int sock, const int *fds, unsigned count)
{
    char byte = 'f';
    struct iovec iov = {.iov_base = &byte, .iov_len = 1};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * (LAYERS_MAX + 2))] = {0};
    struct msghdr m = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = control,
                       .msg_controllen = CMSG_SPACE(sizeof(int) * count)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * count);
    memcpy(CMSG_DATA(c), fds, sizeof(int) * count);
    MUST(sendmsg(sock, &m, 0));
}

void receive_fds(int sock, int *ret_fds, unsigned count)
{
    char byte;
    struct iovec iov = {.iov_base = &byte, .iov_len = 1};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * (LAYERS_MAX + 2))] = {0};
    struct msghdr m = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = control,
                       .msg_controllen = sizeof(control)};

    MUST(recvmsg(sock, &m, MSG_CMSG_CLOEXEC));
    memcpy(ret_fds, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(int) * count);
}

/* ---- the new mount API, which glibc 2.36 has only in part -------------------------------------
 */

int fs_new(const char *type)
{
    return MUST(syscall(SYS_fsopen, type, FSOPEN_CLOEXEC));
}

void fs_set(int fs, const char *key, const char *value)
{
    MUST(syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, key, value, 0));
}

int fs_mount(int fs, unsigned attr)
{
    MUST(syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0));
    int m = MUST(syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, attr));
    (void)close(fs);
    return m;
}

int tree_clone(int dirfd, const char *path)
{
    return MUST(syscall(SYS_open_tree, dirfd, path,
                        OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | (*path ? 0 : AT_EMPTY_PATH)));
}

void tree_attr(int tree, uint64_t set, int userns)
{
    struct mount_attr attr = {.attr_set = set, .userns_fd = (unsigned)userns};

    MUST(syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)));
}

int open_beneath(int root, const char *path)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};

    return (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
}

void tree_put_on(int tree, int at)
{
    MUST(syscall(SYS_move_mount, tree, "", at, "",
                 MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH));
    (void)close(at);
    (void)close(tree);
}

void tree_put(int tree, int root, const char *path)
{
    tree_put_on(tree, MUST(open_beneath(root, path)));
}
