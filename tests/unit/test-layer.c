/* The built-in layers: first use, concurrent first use, what a crash leaves, and what is refused.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "image/embed.h"
#include "image/layer.h"
#include "proto/rmtree.h"
#include "tap.h"

enum { CANNOT = 77, WAIT_MS = 20000, FAST_PATH_US = 500 };

struct state {
    int parent_fd, fd;
    char name[32];
    char path[64];
};

static struct state state_in(const char *parent)
{
    struct state s = {.name = ""};

    (void)snprintf(s.path, sizeof(s.path), "%s/rind-test-layer-XXXXXX", parent);
    if (mkdtemp(s.path) == NULL) {
        perror("mkdtemp");
        exit(1);
    }
    (void)snprintf(s.name, sizeof(s.name), "%s", s.path + strlen(parent) + 1);
    s.parent_fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    s.fd = openat(s.parent_fd, s.name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return s;
}

/* In memory where there is such a place: these tests unpack often, and a disk is slow at that. */
static struct state state_new(void)
{
    return state_in(access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
}

static void state_end(struct state *s)
{

    (void)close(s->fd);
    CHECK_INT(rmtree_at(s->parent_fd, s->name, 0), 0);
    (void)close(s->parent_fd);
}

/* 0 for what is not there. */
static mode_t mode_at(int fd, const char *path)
{
    struct stat st;

    return fstatat(fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0 ? 0 : st.st_mode;
}

/* Entries of layers/ but "." and "..". */
static int entries(const struct state *s)
{
    int fd = openat(s->fd, "layers", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    int n = -2;

    if (dir == NULL)
        return -1;
    while (readdir(dir) != NULL)
        n++;
    (void)closedir(dir);
    return n;
}

static int64_t now_us(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* Both layers are there, whole, and nothing else is. */
static void check_complete(const struct state *s)
{
    auto_close int base = FD_NONE, root = FD_NONE;
    struct err err = ERR_NONE;

    CHECK_INT(image_default_layers(s->fd, &base, &root, &err), 0);
    CHECK_STR(err.msg, "");
    CHECK_INT(mode_at(base, "usr/local/bin/sandbox-shim"), S_IFREG | 0755);
    CHECK_INT(mode_at(root, "bin/busybox"), S_IFREG | 0755);
    CHECK_INT(mode_at(root, "workspace"), S_IFDIR | 0755); /* the archive's last entry */
    CHECK_INT(entries(s), 3);                              /* two layers and the lock */
}

/* Docker's layer is made by itself, at its own first use. */
TEST(the_layer_of_dockers_containers)
{
    auto_close int base = FD_NONE, root = FD_NONE;
    const char *names[BUILTIN_NAMES_MAX];
    struct state s = state_in("/tmp");
    struct err err = ERR_NONE;
    char path[160];
    struct stat st;

    CHECK_INT(image_docker_layer(s.fd, &err), 0);
    CHECK_INT(image_docker_layer(s.fd, &err), 0);
    CHECK_STR(err.msg, "");
    (void)snprintf(path, sizeof(path), "layers/%s/.dockerenv", image_builtin_name(BUILTIN_DOCKER));
    CHECK_INT(fstatat(s.fd, path, &st, AT_SYMLINK_NOFOLLOW), 0);
    CHECK_INT(st.st_mode, S_IFREG | 0755);
    CHECK_INT(st.st_size, 0);
    CHECK_INT(image_default_layers(s.fd, &base, &root, &err), 0);
    CHECK_INT(entries(&s), 4); /* three layers and the lock */
    state_end(&s);

    image_builtin_names(true, false, names);
    CHECK(names[0] == image_builtin_name(BUILTIN_BASE) && names[1] == NULL);
    image_builtin_names(false, true, names);
    CHECK(names[0] == image_builtin_name(BUILTIN_ROOT));
    CHECK(names[1] == image_builtin_name(BUILTIN_DOCKER));
    CHECK(names[2] == image_builtin_name(BUILTIN_BASE) && names[3] == NULL);
}

TEST(first_use_unpacks_both)
{
    auto_close int base = FD_NONE, root = FD_NONE;
    struct state s = state_in("/tmp");
    struct err err = ERR_NONE;

    CHECK_INT(image_default_layers(s.fd, &base, &root, &err), 0);
    CHECK_STR(err.msg, "");
    CHECK_INT(fcntl(base, F_GETFD), FD_CLOEXEC);
    CHECK(fcntl(root, F_GETFL) & O_PATH);
    CHECK_INT(mode_at(s.fd, "layers"), S_IFDIR | 0700);
    CHECK_INT(mode_at(base, "usr/local/bin/sandbox-shim"), S_IFREG | 0755);
    CHECK_INT(mode_at(base, "etc"), S_IFDIR | 0755);
    CHECK_INT(mode_at(base, "tmp"), 0);
    CHECK_INT(mode_at(root, "bin/busybox"), S_IFREG | 0755);
    CHECK_INT(mode_at(root, "tmp"), S_IFDIR | 01777);
    CHECK_INT(mode_at(root, "root"), S_IFDIR | 0700);
    CHECK(S_ISLNK(mode_at(root, "bin/sh")));
    CHECK_INT(entries(&s), 3); /* two layers and the lock */
    state_end(&s);
}

TEST(the_shim_is_the_embedded_one)
{
    auto_close int base = FD_NONE, root = FD_NONE, fd = FD_NONE;
    auto_free char *data = NULL;
    struct state s = state_new();
    struct blob shim = embed_shim();

    CHECK_INT(image_default_layers(s.fd, &base, &root, NULL), 0);
    fd = openat(base, "usr/local/bin/sandbox-shim", O_RDONLY | O_CLOEXEC);
    data = malloc(shim.len + 1);
    CHECK_INT(read(fd, data, shim.len + 1), shim.len);
    CHECK(memcmp(data, shim.data, shim.len) == 0);
    state_end(&s);
}

TEST(later_uses_are_fast)
{
    struct state s = state_new();
    int64_t best = INT64_MAX;

    check_complete(&s);
    for (int i = 0; i < 50; i++) {
        auto_close int base = FD_NONE, root = FD_NONE;
        int64_t start = now_us();

        CHECK_INT(image_default_layers(s.fd, &base, &root, NULL), 0);
        if (now_us() - start < best)
            best = now_us() - start;
    }
    printf("# both layers opened in %lld us\n", (long long)best);
    CHECK(best < FAST_PATH_US);
    state_end(&s);
}

TEST(concurrent_first_uses)
{
    enum { PROCESSES = 12 };
    struct state s = state_new();
    pid_t pids[PROCESSES];
    int gate[2];

    CHECK_INT(pipe2(gate, O_CLOEXEC), 0);
    (void)fflush(stdout);
    for (int i = 0; i < PROCESSES; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            int base, root, r;
            char c;

            (void)close(gate[1]);
            (void)!read(gate[0], &c, 1); /* EOF: all start together */
            r = image_default_layers(s.fd, &base, &root, NULL);
            _exit(r < 0 || mode_at(root, "workspace") == 0 || mode_at(base, "sys") == 0);
        }
    }
    (void)close(gate[0]);
    (void)close(gate[1]);
    for (int i = 0; i < PROCESSES; i++) {
        int status;

        CHECK_INT(waitpid(pids[i], &status, 0), pids[i]);
        CHECK_INT(status, 0);
    }
    check_complete(&s);
    state_end(&s);
}

/* Kills a first use after a growing time; each next one must sweep and end whole. */
TEST(killed_at_any_instant)
{
    bool unfinished = false, finished = false;

    for (int i = 0; i < 24; i++) {
        struct state s = state_new();
        struct timespec wait = {.tv_nsec = (long)i * i * 40000};
        char tmp[64], path[128];
        int status;
        pid_t pid;

        (void)fflush(stdout);
        pid = fork();
        if (pid == 0) {
            int base, root;

            _exit(image_default_layers(s.fd, &base, &root, NULL) < 0);
        }
        (void)nanosleep(&wait, NULL);
        (void)kill(pid, SIGKILL);
        CHECK_INT(waitpid(pid, &status, 0), pid);
        (void)snprintf(tmp, sizeof(tmp), "layers/.tmp-builtin-%d", (int)pid);
        (void)snprintf(path, sizeof(path), "layers/%s", image_builtin_name(BUILTIN_ROOT));
        unfinished |= mode_at(s.fd, tmp) != 0;
        finished |= mode_at(s.fd, path) != 0;
        check_complete(&s);
        state_end(&s);
    }
    printf("# killed while unpacking: %s, after: %s\n", unfinished ? "yes" : "no",
           finished ? "yes" : "no");
}

TEST(orphans_are_swept_and_others_stay)
{
    struct state s = state_new();

    CHECK_INT(mkdirat(s.fd, "layers", 0700), 0);
    CHECK_INT(mkdirat(s.fd, "layers/.tmp-builtin-1", 0700), 0);
    CHECK_INT(mkdirat(s.fd, "layers/.tmp-builtin-1/bin", 0500), 0);
    CHECK_INT(symlinkat("/etc", s.fd, "layers/.tmp-builtin-1/bin/x"), 0);
    check_complete(&s);
    CHECK_INT(mode_at(s.fd, "layers/.tmp-builtin-1"), 0);
    CHECK(access("/etc/passwd", F_OK) == 0);
    state_end(&s);
}

/* A living process's unfinished directory is safe: who finds it waits for the lock. */
TEST(a_living_process_is_waited_for)
{
    auto_close int lock = FD_NONE;
    struct state s = state_new();
    struct pollfd done;
    int out[2], status;
    pid_t pid;

    CHECK_INT(mkdirat(s.fd, "layers", 0700), 0);
    lock = openat(s.fd, "layers/.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK_INT(flock(lock, LOCK_EX), 0);
    CHECK_INT(mkdirat(s.fd, "layers/.tmp-builtin-2", 0700), 0);
    CHECK_INT(pipe2(out, O_CLOEXEC), 0);
    (void)fflush(stdout);
    pid = fork();
    if (pid == 0) {
        int base, root;

        (void)close(lock); /* the description stays locked by the parent */
        _exit(image_default_layers(s.fd, &base, &root, NULL) < 0);
    }
    (void)close(out[1]);
    done = (struct pollfd){.fd = out[0]};
    CHECK_INT(poll(&done, 1, 200), 0); /* the pipe's other end, in the child, is still open */
    CHECK_INT(mode_at(s.fd, "layers/.tmp-builtin-2"), S_IFDIR | 0700);
    CHECK_INT(flock(lock, LOCK_UN), 0);
    CHECK_INT(poll(&done, 1, WAIT_MS), 1);
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK_INT(status, 0);
    CHECK_INT(mode_at(s.fd, "layers/.tmp-builtin-2"), 0);
    (void)close(out[0]);
    state_end(&s);
}

/* ---- what stands in our place ---- */

static void layers_is_a_link(const struct state *s)
{
    CHECK_INT(mkdirat(s->fd, "elsewhere", 0700), 0);
    CHECK_INT(symlinkat("elsewhere", s->fd, "layers"), 0);
}

static void layers_is_a_file(const struct state *s)
{
    CHECK_INT(mknodat(s->fd, "layers", S_IFREG | 0700, 0), 0);
}

static void layers_is_open(const struct state *s)
{
    CHECK_INT(mkdirat(s->fd, "layers", 0700), 0);
    CHECK_INT(fchmodat(s->fd, "layers", 0755, 0), 0);
}

static const char *base_path(void)
{
    static char path[128];

    (void)snprintf(path, sizeof(path), "layers/%s", image_builtin_name(BUILTIN_BASE));
    return path;
}

static void layer_is_a_link(const struct state *s)
{
    CHECK_INT(mkdirat(s->fd, "layers", 0700), 0);
    CHECK_INT(mkdirat(s->fd, "elsewhere", 0755), 0);
    CHECK_INT(symlinkat("../elsewhere", s->fd, base_path()), 0);
}

static void layer_is_writable(const struct state *s)
{
    CHECK_INT(mkdirat(s->fd, "layers", 0700), 0);
    CHECK_INT(mkdirat(s->fd, base_path(), 0700), 0);
    CHECK_INT(fchmodat(s->fd, base_path(), 0777, 0), 0);
}

static void layer_is_anothers(const struct state *s)
{
    CHECK_INT(mkdirat(s->fd, "layers", 0700), 0);
    CHECK_INT(mkdirat(s->fd, base_path(), 0755), 0);
    CHECK_INT(fchownat(s->fd, base_path(), 12345, 12345, 0), 0);
}

static void lock_is_a_link(const struct state *s)
{
    CHECK_INT(mkdirat(s->fd, "layers", 0700), 0);
    CHECK_INT(symlinkat("/etc/passwd", s->fd, "layers/.lock"), 0);
}

static const struct {
    void (*make)(const struct state *s);
    int code;
    const char *message; /* "%s" is the base layer's name */
} wrong[] = {
    {layers_is_a_link, -ENOTDIR, "built-in layer: layers: Not a directory"},
    {layers_is_a_file, -ENOTDIR, "built-in layer: layers: Not a directory"},
    {layers_is_open, -EPERM, "built-in layer: layers: has mode 755, must have 700"},
    {layer_is_a_link, -ENOTDIR, "built-in layer: %s: Not a directory"},
    {layer_is_writable, -EPERM, "built-in layer: %s: has mode 777, must have 755"},
    {layer_is_anothers, -EPERM, "built-in layer: %s: belongs to user 12345, not to 0"},
    {lock_is_a_link, -ELOOP, "built-in layer: layers/.lock: Too many levels of symbolic links"},
};

TEST(refuses_what_stands_in_our_place)
{
    if (geteuid() != 0)
        SKIP("needs root, to give a directory away");
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct state s = state_new();
        struct err err = ERR_NONE;
        char want[ERR_MSG_MAX];
        int base = FD_NONE, root = FD_NONE;

        wrong[i].make(&s);
        CHECK_INT(image_default_layers(s.fd, &base, &root, &err), wrong[i].code);
        (void)snprintf(want, sizeof(want), "%s", wrong[i].message);
        if (strstr(wrong[i].message, "%s") != NULL)
            (void)snprintf(want, sizeof(want), "built-in layer: %s%s",
                           image_builtin_name(BUILTIN_BASE), strstr(wrong[i].message, "%s") + 2);
        CHECK_STR(err.msg, want);
        CHECK_INT(base, FD_NONE);
        CHECK_INT(root, FD_NONE);
        state_end(&s);
    }
}

/* In a mount namespace of its own: a file system that only the smaller layer fits. */
static int try_full(const struct state *s)
{
    struct err err = ERR_NONE;
    int base, root, state, r;

    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("none", s->path, "tmpfs", 0, "size=1m") < 0)
        return CANNOT;
    state = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    r = image_default_layers(state, &base, &root, &err);
    if (r != -ENOSPC ||
        strcmp(err.msg, "built-in layer: bin/busybox: No space left on device") != 0)
        return 1;
    return entries(&(struct state){.fd = state}) == 2 ? 0 : 2; /* the lock and the base layer */
}

TEST(a_full_disk_leaves_nothing)
{
    struct state s = state_new();
    int status;
    pid_t pid;

    (void)fflush(stdout);
    pid = fork();
    if (pid == 0)
        _exit(try_full(&s));
    CHECK_INT(waitpid(pid, &status, 0), pid);
    state_end(&s);
    if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT)
        SKIP("cannot mount here");
    CHECK_INT(status, 0);
}

TAP_MAIN
