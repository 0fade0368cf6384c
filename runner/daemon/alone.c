#include "daemon/alone.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "api/common.h"
#include "api/native/native.h"
#include "base/auto.h"
#include "base/dir.h"
#include "base/err.h"
#include "base/file.h"
#include "daemon/confine.h"
#include "http/route.h"
#include "http/server.h"
#include "image/embed.h"
#include "images/images.h"
#include "json/parse.h"
#include "launch/idrange.h"
#include "launch/launcher.h"
#include "proto/syscalls.h"
#include "sandbox/launcher-client.h"
#include "sandbox/limits.h"
#include "sandbox/paths.h"
#include "spec/json.h"
#include "spec/spec.h"

enum { SPEC_BYTES_MAX = 16 << 20, GRACE_MS = 100, QUEUE = 1024 };

/* ---- the confined service process ---- */

struct service {
    uv_loop_t loop;
    uv_pipe_t alive;
    struct supervisor_limits limits;
    struct launcher_client *launcher;
    struct images *images;
    struct http_server *server;
    struct native native;
    struct route_set sets[2];
    int tree_fd;
};

/* Marks the images that a daemon's sandboxes use, as written in their specs. An unreadable spec
 * is skipped: its sandbox cannot be started either. */
static void spec_use_images(struct service *s, struct images *im, int dir, const char *id)
{
    auto_ptr(json_decref) json_t *root = NULL;
    auto_ptr(spec_free) struct spec *spec = NULL;
    auto_free char *text = NULL;
    char path[300];
    size_t len = 0;

    (void)s;
    (void)snprintf(path, sizeof(path), "%.255s/spec.json", id);
    if (file_read_at(dir, path, SPEC_BYTES_MAX, &text, &len, NULL) == 0 &&
        json_parse(text, len, SPEC_BYTES_MAX, &root, NULL) == 0 &&
        spec_from_json(root, &spec, NULL) == 0)
        images_used(im, spec);
}

static void on_images_each_used(void *data, struct images *im)
{
    struct service *s = data;
    auto_ptr(dir_close) DIR *d = dir_open(s->tree_fd, "sandboxes");
    const struct dirent *e;

    while (d != NULL && (e = dir_next(d)) != NULL)
        if (e->d_name[0] != '.')
            spec_use_images(s, im, dirfd(d), e->d_name);
}

static void on_server_closed(void *data)
{
    struct service *s = data;

    launcher_client_close(s->launcher);
    images_close(s->images);
    uv_close((uv_handle_t *)&s->alive, NULL);
}

static void on_launcher_gone(void *data)
{
    (void)data;
    _exit(1); /* without launcher no request can be served */
}

static void on_alive_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *buf)
{
    static char byte;

    (void)h;
    (void)suggested;
    *buf = uv_buf_init(&byte, 1);
}

/* EOF on the pipe: the client has called alone_end or has died. */
static void on_alive_eof(uv_stream_t *h, ssize_t n, const uv_buf_t *buf)
{
    struct service *s = h->data;

    (void)buf;
    if (n >= 0)
        return;
    (void)uv_read_stop(h);
    http_server_close(s->server, GRACE_MS, on_server_closed, s);
}

static int service_open(struct service *s, int launcher, int http, int alive, struct err *err)
{
    struct images_config config = {
        .loop = &s->loop, .limits = &s->limits, .each_used = on_images_each_used, .data = s};
    int r = uv_loop_init(&s->loop);

    if (r < 0)
        return err_errno(err, r, "event loop");
    s->limits = supervisor_limits_default();
    r = confine_supervisor(s->tree_fd, IDRANGE_SUPERVISOR, err);
    if (r == 0)
        r = launcher_client_new(&s->loop, launcher, QUEUE, on_launcher_gone, s, &s->launcher);
    if (r < 0)
        return err_wrap(err, r, "images");
    config.launcher = s->launcher;
    config.dir_fd = s->tree_fd;
    r = images_new(&config, &s->images, err);
    if (r < 0)
        return r;
    s->native.config = (struct native_config){.images = s->images};
    s->sets[0] = (struct route_set){
        .routes = native_image_routes, .context = &s->native, .admit = api_admit};
    r = http_server_new(&s->loop, NULL, s->sets, &s->server, err);
    if (r == 0)
        r = http_server_adopt(s->server, http, err);
    if (r < 0)
        return r;
    (void)uv_pipe_init(&s->loop, &s->alive, 0);
    s->alive.data = s;
    r = uv_pipe_open(&s->alive, alive);
    if (r == 0)
        r = uv_read_start((uv_stream_t *)&s->alive, on_alive_alloc, on_alive_eof);
    return r < 0 ? err_errno(err, r, "images") : 0;
}

static int print_error(const struct err *err)
{
    (void)fprintf(stderr, "rind: %s\n", err->msg);
    return 1;
}

static int service_main(int tree_fd, int launcher, int http, int alive)
{
    static struct service s;
    struct err err = ERR_NONE;

    (void)prctl(PR_SET_NAME, "rind-images");
    (void)signal(SIGPIPE, SIG_IGN);
    s.tree_fd = tree_fd;
    if (service_open(&s, launcher, http, alive, &err) < 0)
        return print_error(&err);
    (void)uv_run(&s.loop, UV_RUN_DEFAULT);
    return uv_loop_close(&s.loop) == 0 ? 0 : 1;
}

/* ---- the privileged launcher process ---- */

static int open_tree(int state_fd, struct err *err)
{
    auto_close int fd = FD_NONE;

    if (mkdirat(state_fd, "supervisor", 0700) < 0 && errno != EEXIST)
        return err_errno(err, -errno, "make directory supervisor");
    fd = openat(state_fd, "supervisor", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fchown(fd, IDRANGE_SUPERVISOR, IDRANGE_SUPERVISOR) < 0)
        return err_errno(err, -errno, "directory supervisor");
    return take_fd(&fd);
}

static int launcher_main(const char *state_dir, int http, int alive)
{
    static const char *const nowhere[] = {NULL};
    const struct launcher_config config = {.state_dir = state_dir,
                                           .ids_dir = CORE_IDS_DIR,
                                           .bind_prefixes = nowhere,
                                           .init_image = embed_init().data,
                                           .init_size = embed_init().len,
                                           .worker_image = embed_rootfs().data,
                                           .worker_size = embed_rootfs().len};
    struct launcher *l = NULL;
    struct err err = ERR_NONE;
    int pair[2], tree, status = 1;
    pid_t child;

    (void)prctl(PR_SET_NAME, "rind-launcher");
    (void)signal(SIGINT, SIG_IGN); /* the terminal's; the client ends, and its EOF ends the
                                    * service and the launcher */
    if (launcher_open(&config, &l, &err) < 0)
        return print_error(&err);
    launcher_layers_sweep(l);
    tree = open_tree(launcher_state_fd(l), &err);
    if (tree < 0)
        return print_error(&err);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return print_error(&(struct err){.code = -errno, .msg = "images: socketpair"});
    child = fork();
    if (child == 0) {
        (void)close(pair[0]);
        launcher_free(l);
        _exit(service_main(tree, pair[1], http, alive));
    }
    (void)close(pair[1]);
    (void)close(http);
    (void)close(alive);
    (void)close(tree);
    if (child < 0 || launcher_serve(l, pair[0], &err) < 0)
        (void)print_error(&err);
    (void)close(pair[0]);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    launcher_free(l);
    return status == 0 ? 0 : 1;
}

int alone_start(const char *state_dir, struct alone *ret, struct err *err)
{
    int http[2], alive[2];
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, http) < 0)
        return err_errno(err, -errno, "images");
    if (pipe2(alive, O_CLOEXEC) < 0) {
        (void)close(http[0]);
        (void)close(http[1]);
        return err_errno(err, -errno, "images");
    }
    (void)fflush(NULL);
    pid = fork();
    if (pid == 0) {
        (void)close(http[0]);
        (void)close(alive[1]);
        _exit(launcher_main(state_dir, http[1], alive[0]));
    }
    (void)close(http[1]);
    (void)close(alive[0]);
    if (pid < 0) {
        (void)close(http[0]);
        (void)close(alive[1]);
        return err_errno(err, -errno, "images");
    }
    *ret = (struct alone){.fd = http[0], .alive = alive[1], .pid = pid};
    return 0;
}

void alone_end(struct alone *a)
{
    if (a->fd >= 0)
        (void)close(take_fd(&a->fd));
    if (a->alive >= 0)
        (void)close(take_fd(&a->alive));
    while (a->pid > 0 && waitpid(a->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    a->pid = 0;
}
