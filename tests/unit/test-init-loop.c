/* What init answers over its socket, beside what each exec gets. Needs root. */

#include "launcher-lab.h"

static struct lab lab = {.sock = FD_NONE};
static struct lab_run run; /* large */

static void start(struct lab_answer *a)
{
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);

    honest_begin(&b, lab.id, lab.layers, 0);
    lab_ask(&lab, &b, a);
    CHECK_INT(a->reply.code, 0);
}

/* Sends len bytes of the message, and receives what init says to it. Returns its length. */
static ssize_t ask(int control, const struct imsg *msg, size_t len, struct imsg *ret)
{
    struct pollfd p = {.fd = control, .events = POLLIN};

    *ret = (struct imsg){.magic = 0};
    if (send(control, msg, len, MSG_NOSIGNAL) != (ssize_t)len || poll(&p, 1, LAB_ANSWER_MS) <= 0)
        return -1;
    return recv(control, ret, sizeof(*ret), MSG_DONTWAIT);
}

TEST(a_supervisor_of_another_version)
{
    static char true_arg[] = "true";
    char *const argv[] = {true_arg, NULL};
    struct imsg msg = {.magic = IMSG_MAGIC, .type = IMSG_LIST}, got;
    struct lab_answer a;

    start(&a);
    for (uint16_t version = IMSG_VERSION - 1; version <= IMSG_VERSION + 1; version += 2) {
        msg.version = version;
        for (size_t len = IMSG_FIXED; len <= sizeof(msg); len += sizeof(msg) - IMSG_FIXED) {
            CHECK_INT(ask(a.fds[1], &msg, len, &got), sizeof(got));
            CHECK_INT(got.magic, IMSG_MAGIC);
            CHECK_INT(got.version, IMSG_VERSION);
            CHECK_INT(got.type, IMSG_OTHER_VERSION);
        }
    }
    /* And goes on for one of its own. */
    lab_run(a.fds[1], FD_NONE, "", argv, false, &run);
    CHECK_INT(run.status, 0);
    lab_finish(&lab, &a);
}

TEST(a_ping)
{
    const struct imsg ping = {
        .magic = IMSG_MAGIC, .version = IMSG_VERSION, .type = IMSG_PING, .id = 99};
    struct imsg got;
    struct lab_answer a;

    start(&a);
    CHECK_INT(ask(a.fds[1], &ping, sizeof(ping), &got), sizeof(got));
    CHECK_INT(got.type, IMSG_PONG);
    CHECK_INT(got.id, 99);
    lab_finish(&lab, &a);
}

int main(void)
{
    int r;

    if (geteuid() != 0) {
        printf("ok 1 - init # SKIP needs root\n1..1\n");
        return 0;
    }
    lab_dirs(&lab);
    lab_layers(&lab);
    lab_start(&lab);
    r = tap_run();
    lab_remove(&lab);
    return r;
}
