/* Sockets of a sandbox's net namespace that the launcher hands out. */

#include <netinet/in.h>

#include "launch/net-ops.h"
#include "launcher-lab.h"

static struct lab lab = {.sock = FD_NONE};
static struct lab_run run; /* large */

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

/* ---- networks that are administered from inside ---- */

/* What would be put into a net namespace. */
static int put_table(void *data, const struct net_setup *setup, int ns_fd, enum egress_table table,
                     struct err *err)
{
    (void)data;
    (void)setup;
    (void)ns_fd;
    (void)table;
    (void)err;
    return 0;
}

static const struct launch_net_ops tables_alone = {.egress = put_table};

static void start_with(uint64_t net, struct lab_answer *a)
{
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);

    honest(&b, WITHOUT_CAPS | WITHOUT_FLAGS);
    launch_put_number(&b, TAG_FLAGS, LAUNCH_ATTACHED);
    launch_put_number(&b, TAG_CAPABILITIES, (1ULL << 41) - 1);
    if (net != 0)
        launch_put_number(&b, TAG_NET, net);
    lab_ask(&lab, &b, a);
    CHECK_INT(a->reply.code, 0);
}

static int ask_for_rules(uint64_t egress, char *text, size_t size)
{
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
    struct lab_answer a;
    int code;

    launch_begin(&b, LAUNCH_EGRESS);
    launch_put_string(&b, TAG_ID, lab.id);
    launch_put_number(&b, TAG_FAMILY, 4);
    launch_put_number(&b, TAG_EGRESS, egress);
    lab_ask(&lab, &b, &a);
    code = a.reply.code;
    (void)snprintf(text, size, "%s", a.reply.message);
    CHECK_INT(a.fd_count, code == 0 && egress == 0 ? 2 : 0);
    lab_answer_done(&a);
    return code;
}

static void shell(const struct lab_answer *a, const char *user, const char *script)
{
    char sh[] = "sh", c[] = "-c", text[256];
    char *const argv[] = {sh, c, text, NULL};

    (void)snprintf(text, sizeof(text), "%s", script);
    lab_run(a->fds[1], FD_NONE, user, argv, false, &run);
}

#define ADD_ADDRESS "ip addr add 10.99.0.1/24 dev lo; echo =$?"

/* Rules stand where nobody inside could take them away, or they are refused, whoever asks for them
 * and whatever has been written down. */
TEST(rules_in_a_network_of_its_own)
{
    static const uint64_t tables[] = {0, LAUNCH_EGRESS_TABLE, LAUNCH_EGRESS_NONE};
    struct lab_answer a;
    char text[512];

    start_with(LAUNCH_NET_ADMIN, &a);
    if (a.reply.code == 0) {
        shell(&a, "", ADD_ADDRESS);
        CHECK(strstr(run.output, "=0") != NULL);
        shell(&a, "1000", ADD_ADDRESS);
        CHECK(strstr(run.output, "=2") != NULL);
        for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
            CHECK_INT(ask_for_rules(tables[i], text, sizeof(text)), -EPERM);
            CHECK(strstr(text, "administers its network") != NULL);
        }
        lab_finish(&lab, &a);
    }
    lab_answer_done(&a);
    start_with(0, &a);
    if (a.reply.code == 0) {
        shell(&a, "", ADD_ADDRESS);
        CHECK(strstr(run.output, "=2") != NULL);
        CHECK_INT(ask_for_rules(0, text, sizeof(text)), 0);
        lab_finish(&lab, &a);
    }
    lab_answer_done(&a);
    lab_check(&lab);
}

/* A port inside of a sandbox is on its own loopback, whatever address is asked for. */
TEST(listening_inside)
{
    static const struct {
        struct address at;
        int code;
        const char *text;
    } rows[] = {
        {{.family = 4, .bytes = {127, 1, 2, 3}, .port = 4321}, 0, ""},
        {{.family = 4, .bytes = {0, 0, 0, 0}, .port = 4321}, -EPERM, "its loopback"},
        {{.family = 4, .bytes = {10, 0, 0, 1}, .port = 4321}, -EPERM, "its loopback"},
        {{.family = 6, .bytes = {[0] = 127, [15] = 1}, .port = 4321}, -EPERM, "its loopback"},
        {{.family = 6, .bytes = {[15] = 1}, .port = 4321}, -EPERM, "its loopback"},
    };
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
    struct lab_answer a, socket_answer;
    struct sockaddr_in name = {
        .sin_family = AF_INET, .sin_port = htons(4321), .sin_addr = {htonl(0x7f010203)}};
    int outside = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    honest(&b, 0);
    lab_ask(&lab, &b, &a);
    CHECK_INT(a.reply.code, 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        launch_begin(&b, LAUNCH_LISTEN);
        launch_put_string(&b, TAG_ID, lab.id);
        launch_put_bind(&b, &rows[i].at, false);
        lab_ask(&lab, &b, &socket_answer);
        CHECK_INT(socket_answer.reply.code, rows[i].code);
        CHECK(strstr(socket_answer.reply.message, rows[i].text) != NULL);
        CHECK_INT(socket_answer.fd_count, rows[i].code == 0);
        /* The host's loopback is another one. */
        CHECK_INT(connect(outside, (struct sockaddr *)&name, sizeof(name)), -1);
        CHECK_INT(errno, ECONNREFUSED);
        lab_answer_done(&socket_answer);
    }
    launch_begin(&b, LAUNCH_LISTEN);
    launch_put_string(&b, TAG_ID, lab.id);
    launch_put_bind(&b, &rows[0].at, true);
    lab_ask(&lab, &b, &socket_answer);
    CHECK_INT(socket_answer.reply.code, -EINVAL);
    lab_answer_done(&socket_answer);
    launch_begin(&b, LAUNCH_LISTEN);
    launch_put_string(&b, TAG_ID, "nobody");
    launch_put_bind(&b, &rows[0].at, false);
    lab_ask(&lab, &b, &socket_answer);
    CHECK_INT(socket_answer.reply.code, -ENOENT);
    lab_answer_done(&socket_answer);
    (void)close(outside);
    lab_finish(&lab, &a);
    lab_check(&lab);
}

int main(void)
{
    int r;

    if (geteuid() != 0) {
        printf("ok 1 - network # SKIP needs root\n1..1\n");
        return 0;
    }
    lab.net = &tables_alone;
    lab_dirs(&lab);
    lab_layers(&lab);
    lab_start(&lab);
    r = tap_run();
    lab_remove(&lab);
    return r;
}
