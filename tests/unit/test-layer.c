/* The built-in layers: first use, concurrent first use, what a crash leaves, and what is refused.
 */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "image/embed.h"
#include "image/layer.h"
#include "sys/rmtree.h"
#include "tap.h"

struct state {
    char path[64];
    int fd;
};

static struct state state_new(void)
{
    struct state s = {.path = "/tmp/rind-test-layer-XXXXXX"};

    if (mkdtemp(s.path) == NULL) {
        perror("mkdtemp");
        exit(1);
    }
    s.fd = open(s.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return s;
}

static void state_end(struct state *s)
{
    struct err err = ERR_NONE;
    const char *name = s->path + strlen("/tmp/");
    int tmp = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    (void)close(s->fd);
    if (rmtree_at(tmp, name, &err) < 0)
        tap_fail("%s", err.msg);
    (void)close(tmp);
}

static mode_t mode_at(int fd, const char *path)
{
    struct stat st;

    return fstatat(fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0 ? 0 : st.st_mode;
}

static size_t entries(int dirfd, const char *path)
{
    char command[256], line[64] = "";
    FILE *f;

    (void)snprintf(command, sizeof(command), "ls -A /proc/%d/fd/%d/%s | wc -l", (int)getpid(),
                   dirfd, path);
    f = popen(command, "r");
    if (f == NULL || fgets(line, sizeof(line), f) == NULL)
        tap_fail("%s", command);
    if (f != NULL)
        (void)pclose(f);
    return (size_t)atoi(line);
}

TEST(first_use_unpacks_both)
{
    auto_close int base = FD_NONE, root = FD_NONE;
    struct state s = state_new();
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
    CHECK_INT(entries(s.fd, "layers"), 3); /* two layers and the lock */
    state_end(&s);
}

TEST(the_shim_is_the_embedded_one)
{
    auto_close int base = FD_NONE, fd = FD_NONE;
    auto_free char *data = NULL;
    struct state s = state_new();
    struct blob shim = embed_shim();

    CHECK_INT(image_builtin_layer(s.fd, BUILTIN_BASE, &base, NULL), 0);
    fd = openat(base, "usr/local/bin/sandbox-shim", O_RDONLY | O_CLOEXEC);
    data = malloc(shim.len + 1);
    CHECK_INT(read(fd, data, shim.len + 1), shim.len);
    CHECK(memcmp(data, shim.data, shim.len) == 0);
    state_end(&s);
}
TAP_MAIN
