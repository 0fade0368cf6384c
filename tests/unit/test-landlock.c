/* Landlock's rules: what a locked process still does, and what it cannot, also through open fds. */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "daemon/confine.h"
#include "proto/landlock.h"
#include "tap.h"

/* Two directories with a file each, `in` and `out`; `in` is what a child may use. */
struct lab {
    char dir[64];
    int in, out;
};

static bool lab_make(struct lab *l)
{
    int fd;

    (void)snprintf(l->dir, sizeof(l->dir), "/tmp/rind-landlock-XXXXXX");
    if (mkdtemp(l->dir) == NULL || chmod(l->dir, 0755) < 0)
        return false;
    l->in = open(l->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (const char *const *name = (const char *const[]){"in", "out", NULL}; *name != NULL;
         name++) {
        char path[16];

        (void)snprintf(path, sizeof(path), "%s/f", *name);
        if (mkdirat(l->in, *name, 0777) < 0 || fchmodat(l->in, *name, 0777, 0) < 0)
            return false;
        fd = openat(l->in, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
        if (fd < 0 || fchmod(fd, 0666) < 0 || write(fd, "x", 1) != 1)
            return false;
        (void)close(fd);
    }
    l->out = openat(l->in, "out", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    fd = openat(l->in, "in", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    (void)close(l->in);
    l->in = fd;
    return l->in >= 0 && l->out >= 0;
}

static void lab_done(struct lab *l)
{
    char command[128];

    (void)close(l->in);
    (void)close(l->out);
    (void)snprintf(command, sizeof(command), "rm -r %s", l->dir);
    CHECK_INT(system(command), 0);
}

/* Runs fn in a child; its result is the child's status: 0, or the line of the claim that failed. */
static void in_child(const struct lab *l, int (*fn)(const struct lab *l))
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0)
        _exit(fn(l) % 256);
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status));
    CHECK_INT(WEXITSTATUS(status), 0);
}

#define CLAIM(c)                                                                                   \
    do {                                                                                           \
        if (!(c)) {                                                                                \
            (void)dprintf(1, "# line %d: %s (errno %d)\n", __LINE__, #c, errno);                   \
            return __LINE__ % 255 + 1;                                                             \
        }                                                                                          \
    } while (0)
#define REFUSED(call) ((call) < 0 && errno == EACCES)

static int opened(int at, const char *path, int flags)
{
    return openat(at, path, flags | O_CLOEXEC, 0600);
}

static int child_reads(const struct lab *l)
{
    const struct lock_dir dir = {.fd = l->in, .access = LOCK_FS_READ};

    CLAIM(landlock_lock(&dir, 1, 0, 0) == 1);
    CLAIM(opened(l->in, "f", O_RDONLY) >= 0);
    CLAIM(REFUSED(opened(l->in, "f", O_WRONLY)));
    CLAIM(REFUSED(opened(l->in, "new", O_WRONLY | O_CREAT)));
    CLAIM(REFUSED(mkdirat(l->in, "d", 0700)));
    CLAIM(REFUSED(unlinkat(l->in, "f", 0)));
    CLAIM(REFUSED(opened(l->out, "f", O_RDONLY)));
    CLAIM(REFUSED(opened(AT_FDCWD, "/etc/passwd", O_RDONLY)));
    CLAIM(REFUSED(opened(AT_FDCWD, "/", O_RDONLY | O_DIRECTORY)));
    return 0;
}

static int child_writes(const struct lab *l)
{
    const struct lock_dir dir = {
        .fd = l->in,
        .access = LOCK_FS_READ | LOCK_FS_WRITE_FILE | LOCK_FS_TRUNCATE | LOCK_FS_MAKE_REG |
                  LOCK_FS_MAKE_DIR | LOCK_FS_REMOVE_FILE | LOCK_FS_REMOVE_DIR | LOCK_FS_REFER};

    CLAIM(landlock_lock(&dir, 1, 0, 0) == 1);
    CLAIM(opened(l->in, "new", O_WRONLY | O_CREAT | O_TRUNC) >= 0);
    CLAIM(mkdirat(l->in, "d", 0700) == 0);
    CLAIM(renameat(l->in, "new", l->in, "d/new") == 0);
    CLAIM(linkat(l->in, "d/new", l->in, "again", 0) == 0);
    CLAIM(unlinkat(l->in, "again", 0) == 0 && unlinkat(l->in, "d/new", 0) == 0);
    CLAIM(unlinkat(l->in, "d", AT_REMOVEDIR) == 0);
    CLAIM(REFUSED(symlinkat("f", l->in, "link")));
    CLAIM(REFUSED(mkfifoat(l->in, "fifo", 0600)));
    CLAIM(renameat(l->in, "f", l->out, "stolen") < 0);
    CLAIM(renameat(l->out, "f", l->in, "stolen") < 0);
    return 0;
}

static int child_has_nothing(const struct lab *l)
{
    int fds[2], open_before = opened(l->in, "f", O_RDWR);
    char byte;

    CLAIM(landlock_lock(NULL, 0, 0, 0) == 1);
    CLAIM(REFUSED(opened(l->in, "f", O_RDONLY)));
    CLAIM(REFUSED(opened(l->in, ".", O_RDONLY | O_DIRECTORY)));
    /* What is open stays usable, and so do pipes. */
    CLAIM(pread(open_before, &byte, 1, 0) == 1 && pwrite(open_before, "y", 1, 0) == 1);
    CLAIM(ftruncate(open_before, 1) == 0);
    CLAIM(pipe(fds) == 0 && write(fds[1], "a", 1) == 1 && read(fds[0], &byte, 1) == 1);
    return 0;
}

static int child_reaches_none(const struct lab *l)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t len;

    (void)snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "rind-test-%s", l->dir + 5);
    len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name.sun_path + 1));
    CLAIM(landlock_lock(NULL, 0, LOCK_NET_BIND_TCP, LOCK_SCOPE_ABSTRACT | LOCK_SCOPE_SIGNAL) == 1);
    CLAIM(connect(fd, (struct sockaddr *)&name, len) < 0 && errno == EPERM);
    CLAIM(kill(getppid(), 0) < 0 && errno == EPERM);
    CLAIM(kill(getpid(), 0) == 0);
    return 0;
}

#define NEED_ABI(abi)                                                                              \
    if (landlock_abi() < (abi))                                                                    \
    SKIP("the kernel has no Landlock, or an older one")

TEST(a_reader_reads_below_its_directory)
{
    struct lab l;

    NEED_ABI(LOCK_ABI_REFER);
    CHECK(lab_make(&l));
    in_child(&l, child_reads);
    in_child(&l, child_writes);
    in_child(&l, child_has_nothing);
    lab_done(&l);
}

TEST(no_signal_and_no_abstract_socket_leads_out)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    struct lab l;
    int fd;

    NEED_ABI(LOCK_ABI_SCOPE);
    CHECK(lab_make(&l));
    (void)snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "rind-test-%s", l.dir + 5);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(fd, (struct sockaddr *)&name,
               (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
                           strlen(name.sun_path + 1))) == 0);
    CHECK(listen(fd, 1) == 0);
    in_child(&l, child_reaches_none);
    (void)close(fd);
    lab_done(&l);
}

/* As the daemon confines its supervisor: an fd of a directory outside opens no file there, although
 * neither the root, the ids nor the filter are in the way. */
static int child_is_supervisor(const struct lab *l)
{
    struct err err = ERR_NONE;

    CLAIM(confine_supervisor(l->in, 65534, &err) == 0);
    CLAIM(opened(AT_FDCWD, "/f", O_RDWR) >= 0);
    CLAIM(opened(AT_FDCWD, "/new", O_WRONLY | O_CREAT) >= 0);
    CLAIM(unlinkat(AT_FDCWD, "/new", 0) == 0);
    CLAIM(REFUSED(opened(l->out, "f", O_RDONLY)));
    CLAIM(REFUSED(opened(l->out, "new", O_WRONLY | O_CREAT)));
    CLAIM(REFUSED(unlinkat(l->out, "f", 0)));
    return 0;
}

TEST(the_supervisor_is_locked_to_its_directory)
{
    struct lab l;

    if (geteuid() != 0)
        SKIP("needs root");
    NEED_ABI(LOCK_ABI_REFER);
    CHECK(lab_make(&l));
    in_child(&l, child_is_supervisor);
    lab_done(&l);
}

TAP_MAIN
