/* Sockets of a sandbox's net namespace that the launcher hands out. */

#include <netinet/in.h>

#include "launcher_lab.h"

static struct lab lab = {.sock = FD_NONE};

static void honest(struct buf *b, unsigned without)
{
    honest_begin(b, lab.id, lab.layers, without);
}

/* Sockets of a sandbox's network, and never of the host's. */
TEST(sockets_inside)
{
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
    struct lab_answer a, socket_answer;
    const int one = 1;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(name);

    /* What listens on the host's loopback must not be reached. */
    (void)setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    CHECK_INT(bind(listener, (struct sockaddr *)&name, sizeof(name)), 0);
    CHECK_INT(listen(listener, 1), 0);
    CHECK_INT(getsockname(listener, (struct sockaddr *)&name, &len), 0);

    honest(&b, 0); /* what is opened once, at the first start */
    lab_ask(&lab, &b, &a);
    CHECK_INT(a.reply.code, 0);
    lab_finish(&lab, &a);
    lab.fds = (int)lab_open_fds(&lab);
    lab.mounts = lab_mount_count(&lab);

    honest(&b, 0);
    lab_ask(&lab, &b, &a);
    CHECK_INT(a.reply.code, 0);
    for (uint64_t family = 4; family <= 6; family += 2) {
        struct stat st;
        int flags, domain = 0, type = 0;
        socklen_t size = sizeof(int);

        launch_begin(&b, LAUNCH_CONNECT);
        launch_put_string(&b, TAG_ID, lab.id);
        launch_put_number(&b, TAG_FAMILY, family);
        lab_ask(&lab, &b, &socket_answer);
        /* A kernel without IPv6 says so. */
        if (family == 4 || socket_answer.reply.code != -EAFNOSUPPORT) {
            CHECK_INT(socket_answer.reply.code, 0);
            CHECK_INT(socket_answer.fd_count, 1);
        }
        if (socket_answer.fd_count == 1) {
            int fd = socket_answer.fds[0];

            flags = fcntl(fd, F_GETFL);
            CHECK(fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode) && (flags & O_NONBLOCK) != 0);
            CHECK_INT(getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size), 0);
            CHECK_INT(getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size), 0);
            CHECK_INT(domain, family == 6 ? AF_INET6 : AF_INET);
            CHECK_INT(type, SOCK_STREAM);
            if (family == 4) {
                (void)fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
                CHECK_INT(connect(fd, (struct sockaddr *)&name, sizeof(name)), -1);
                CHECK_INT(errno, ECONNREFUSED);
            }
        }
        lab_answer_done(&socket_answer);
    }
    /* Many at once, each as good as one. */
    launch_begin(&b, LAUNCH_CONNECT);
    launch_put_string(&b, TAG_ID, lab.id);
    launch_put_number(&b, TAG_FAMILY, 4);
    launch_put_number(&b, TAG_COUNT, LAUNCH_REPLY_FDS_MAX);
    lab_ask(&lab, &b, &socket_answer);
    CHECK_INT(socket_answer.reply.code, 0);
    CHECK_INT(socket_answer.fd_count, LAUNCH_REPLY_FDS_MAX);
    for (int i = 0; i < socket_answer.fd_count; i++) {
        int fd = socket_answer.fds[i];

        (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
        CHECK_INT(connect(fd, (struct sockaddr *)&name, sizeof(name)), -1);
        CHECK_INT(errno, ECONNREFUSED);
    }
    lab_answer_done(&socket_answer);
    (void)close(listener);
    LAB_VERB(&lab, LAUNCH_CONNECT, lab.id, -EINVAL, "no family");
    lab_finish(&lab, &a);
    launch_begin(&b, LAUNCH_CONNECT);
    launch_put_string(&b, TAG_ID, lab.id);
    launch_put_number(&b, TAG_FAMILY, 4);
    lab_ask(&lab, &b, &socket_answer);
    CHECK_INT(socket_answer.reply.code, -ENOENT);
    lab_answer_done(&socket_answer);
    /* The launcher itself is where it was. */
    honest(&b, 0);
    lab_ask(&lab, &b, &a);
    CHECK_INT(a.reply.code, 0);
    lab_finish(&lab, &a);
    lab_check(&lab);
}

int main(void)
{
    int r;

    if (geteuid() != 0) {
        printf("ok 1 - sockets_inside # SKIP needs root\n1..1\n");
        return 0;
    }
    lab_dirs(&lab);
    lab_layers(&lab);
    lab_start(&lab);
    r = tap_run();
    lab_remove(&lab);
    return r;
}
