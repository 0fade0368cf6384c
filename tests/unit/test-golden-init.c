/* Golden vectors of the protocol between init and the runner: messages, the request of an exec, and
 * the head of a log segment. */

#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "golden.h"
#include "init/init.h"
#include "policy/policy.h"
#include "proto/init-msg.h"
#include "proto/plan.h"
#include "sandbox/exec-request.h"
#include "tap.h"

/* ---- messages ---- */

static const struct golden_part msg_parts[] = {
    {4, "magic"}, {2, "version"}, {2, "type"}, {8, "id"},   {4, "value"},    {4, "error"},
    {4, "step"},  {4, "flags"},   {2, "rows"}, {2, "cols"}, {4, "log_size"},
};

/* clang-format off */
static const struct {
    const char *name;
    struct imsg msg;
} msg_rows[] = {
    {"go",           {.type = IMSG_GO}},
    {"exec",         {.type = IMSG_EXEC, .id = 0x0102030405060708,
                      .flags = IMSG_MAIN | IMSG_TTY | IMSG_STDIN, .rows = 24, .cols = 80}},
    {"exec-logged",  {.type = IMSG_EXEC, .id = 2, .flags = IMSG_LOGGED | IMSG_PARK,
                      .log_size = 1 << 20}},
    {"exec-timeout", {.type = IMSG_EXEC, .id = 3, .flags = IMSG_TIMEOUT,
                      .value = (int32_t)0x89abcdef, .error = 0x01234567}},
    {"signal",       {.type = IMSG_SIGNAL, .id = 4, .value = 9, .flags = IMSG_WHOLE_EXEC}},
    {"collect",      {.type = IMSG_COLLECT, .id = 5}},
    {"list",         {.type = IMSG_LIST}},
    {"attach",       {.type = IMSG_ATTACH, .id = 6}},
    {"resize",       {.type = IMSG_RESIZE, .id = 7, .rows = 50, .cols = 132}},
    {"ping",         {.type = IMSG_PING, .id = 8}},
    {"stage",        {.type = IMSG_STAGE, .step = INIT_STAGE_CGROUP_ENTER}},
    {"fail",         {.type = IMSG_FAIL, .step = INIT_STAGE_MOUNTS, .value = 12, .error = ENOENT}},
    {"ready",        {.type = IMSG_READY}},
    {"started",      {.type = IMSG_STARTED, .id = 9, .value = 4321}},
    {"exec-failed",  {.type = IMSG_EXEC_FAILED, .id = 10, .step = EXEC_STEP_EXECVE,
                      .error = EACCES}},
    {"exited",       {.type = IMSG_EXITED, .id = 11, .value = 0x8600, .flags = IMSG_TIMED_OUT}},
    {"exited-more",  {.type = IMSG_EXITED, .id = 15, .flags = IMSG_MORE}},
    {"slot",         {.type = IMSG_SLOT, .id = 12, .value = 0x0100, .flags = IMSG_ENDED}},
    {"list-end",     {.type = IMSG_LIST_END}},
    {"attached",     {.type = IMSG_ATTACHED, .id = 13, .value = 77}},
    {"no-slot",      {.type = IMSG_NO_SLOT, .id = 14}},
    {"pong",         {.type = IMSG_PONG, .id = 8}},
    {"other-version", {.type = IMSG_OTHER_VERSION}},
};
/* clang-format on */

static bool has_row(unsigned type)
{
    for (size_t i = 0; i < sizeof(msg_rows) / sizeof(msg_rows[0]); i++)
        if (msg_rows[i].msg.type == type)
            return true;
    return false;
}

static void check_msg(const char *name, const struct imsg *got, const struct imsg *want)
{
    bool same = got->magic == want->magic && got->version == want->version &&
                got->type == want->type && got->id == want->id && got->value == want->value &&
                got->error == want->error && got->step == want->step && got->flags == want->flags &&
                got->rows == want->rows && got->cols == want->cols &&
                got->log_size == want->log_size;

    if (!same)
        tap_fail("%s: decoded to other fields: type %u, id %llu, value %d, error %d, step %u, "
                 "flags %#x, %u x %u, log_size %u",
                 name, got->type, (unsigned long long)got->id, got->value, got->error, got->step,
                 got->flags, got->rows, got->cols, got->log_size);
}

/* Decodes the bytes with both readers: the runner's channel_recv, and init's wire_recv. */
static void read_msg(const int pair[2], const char *name, struct golden_bytes bytes,
                     const struct imsg *want)
{
    int fds[IMSG_FDS_MAX], count = -1;
    struct imsg got;

    (void)memset(&got, 0, sizeof(got));
    CHECK_INT(send(pair[0], bytes.data, bytes.len, MSG_NOSIGNAL), bytes.len);
    CHECK_INT(channel_recv(pair[1], MSG_DONTWAIT, &got, fds, &count), 1);
    CHECK_INT(count, 0);
    check_msg(name, &got, want);
    (void)memset(&got, 0, sizeof(got));
    CHECK_INT(send(pair[0], bytes.data, bytes.len, MSG_NOSIGNAL), bytes.len);
    CHECK_INT(wire_recv(pair[1], &got, sizeof(got), fds, IMSG_FDS_MAX, &count), sizeof(got));
    check_msg(name, &got, want);
}

TEST(messages)
{
    struct golden *g = golden_open("init-msg", GOLDEN_FORMAT, "IMSG_VERSION", IMSG_VERSION);
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        abort();
    for (size_t i = 0; i < sizeof(msg_rows) / sizeof(msg_rows[0]); i++) {
        struct imsg msg = msg_rows[i].msg, sent;
        struct golden_bytes bytes;

        msg.magic = IMSG_MAGIC;
        msg.version = IMSG_VERSION;
        CHECK_INT(channel_send(pair[0], &msg, NULL, 0), 0);
        CHECK_INT(recv(pair[1], &sent, sizeof(sent), MSG_DONTWAIT), sizeof(sent));
        bytes = golden_check(g, msg_rows[i].name, GOLDEN_PARTS(msg_parts), &sent, sizeof(sent));
        read_msg(pair, msg_rows[i].name, bytes, &msg);
    }
    for (unsigned type = 1; type < IMSG_MAX; type++)
        if ((type <= IMSG_PING || type >= IMSG_STAGE) && !has_row(type))
            tap_fail("message type %u has no vector", type);
    (void)close(pair[0]);
    (void)close(pair[1]);
    golden_close(g);
}

TEST(a_time_is_two_halves)
{
    struct imsg msg = {.type = IMSG_EXEC};

    imsg_set_time(&msg, 0x0123456789abcdef);
    CHECK_INT(msg.value, (int32_t)0x89abcdef);
    CHECK_INT(msg.error, 0x01234567);
    CHECK_INT(imsg_time(&msg), 0x0123456789abcdef);
}

/* ---- numbers that messages hold ---- */

/* clang-format off */
static const uint32_t flag_numbers[] = {
    IMSG_MAIN, IMSG_TTY, IMSG_STDIN, IMSG_COMBINED, IMSG_WHOLE_EXEC, IMSG_MAKE_CWD, IMSG_PARK,
    IMSG_LOGGED, IMSG_PROGRAM, IMSG_HELPER, IMSG_ENDED, IMSG_GROUP, IMSG_TIMEOUT, IMSG_TIMED_OUT,
    IMSG_UNSURE, IMSG_IDLE, IMSG_MORE,
};
static const uint32_t stage_numbers[] = {
    INIT_STAGE_PLAN, INIT_STAGE_PRIVATE, INIT_STAGE_CGROUP_NS, INIT_STAGE_LOOPBACK,
    INIT_STAGE_HOSTNAME, INIT_STAGE_INNER, INIT_STAGE_PROC, INIT_STAGE_MOUNTS, INIT_STAGE_PIVOT,
    INIT_STAGE_ENTER_PID, INIT_STAGE_LOCK, INIT_STAGE_INNER_LOCK, INIT_STAGE_PTS,
    INIT_STAGE_SECCOMP, INIT_STAGE_LOOP, INIT_STAGE_CGROUP_ENTER, INIT_STAGE_NAMESPACES,
    INIT_STAGE_BOUNDING, INIT_STAGE_ADMIN, INIT_STAGE_MAX,
};
static const uint32_t step_numbers[] = {
    EXEC_STEP_REQUEST, EXEC_STEP_LIMIT, EXEC_STEP_STDIO, EXEC_STEP_CGROUP, EXEC_STEP_FORK,
    EXEC_STEP_SESSION, EXEC_STEP_USER, EXEC_STEP_GROUP, EXEC_STEP_RLIMIT, EXEC_STEP_CAPABILITIES,
    EXEC_STEP_IDS, EXEC_STEP_CWD, EXEC_STEP_SECCOMP, EXEC_STEP_EXECVE, EXEC_STEP_MAX,
};
/* clang-format on */

TEST(numbers)
{
    struct golden *g = golden_open("init-numbers", GOLDEN_FORMAT, "IMSG_VERSION", IMSG_VERSION);
    const struct golden_part part[] = {{256, "u32 each, in the order of the enum"}};

    (void)golden_check(g, "imsg_flags", GOLDEN_PARTS(part), flag_numbers, sizeof(flag_numbers));
    (void)golden_check(g, "init_stage", GOLDEN_PARTS(part), stage_numbers, sizeof(stage_numbers));
    (void)golden_check(g, "exec_step", GOLDEN_PARTS(part), step_numbers, sizeof(step_numbers));
    golden_close(g);
}

/* ---- the request of an exec ---- */

static const struct golden_part exec_parts[] = {
    {4, "magic"},
    {4, "size"},
    {4, "argc"},
    {4, "envc"},
    {4, "rlimit_count"},
    {4, "group_count"},
    {24, "rlimit: resource, reserved, soft, hard"},
    {24, "rlimit"},
    {4, "argv[0]"},
    {1, "argv[1], empty"},
    {4, "argv[2]"},
    {4, "envp[0]"},
    {3, "envp[1]"},
    {5, "user"},
    {5, "cwd"},
    {2, "groups[0]"},
    {3, "groups[1]"},
};

static struct golden_bytes exec_bytes(const struct exec_spec *spec, struct golden *g,
                                      const char *name, const struct golden_part *parts,
                                      size_t count)
{
    struct err err = ERR_NONE;
    auto_close int fd = exec_request(spec, &err);
    unsigned char data[512];
    ssize_t n = fd < 0 ? -1 : pread(fd, data, sizeof(data), 0);

    if (n < 0) {
        tap_fail("%s", err.msg);
        n = 0;
    }
    return golden_check(g, name, parts, count, data, (size_t)n);
}

static void check_exec(struct golden_bytes bytes)
{
    const struct exec_header *h = NULL;
    const struct plan_rlimit *limits;
    char *list[32];
    struct exec_strings s;

    CHECK_INT(exec_request_header(bytes.data, bytes.len, &h), 0);
    if (h == NULL)
        return;
    CHECK(h->argc == 3 && h->envc == 2 && h->rlimit_count == 2 && h->group_count == 2);
    limits = (const struct plan_rlimit *)(const void *)(h + 1);
    CHECK(limits[0].resource == 7 && limits[0].soft == 10 && limits[0].hard == 20);
    CHECK(limits[1].resource == 4 && limits[1].soft == 0 && limits[1].hard == UINT64_MAX);
    CHECK_INT(exec_request_strings((char *)bytes.data, h, list, &s), 0);
    CHECK_STR(s.argv[0], "cmd");
    CHECK_STR(s.argv[1], "");
    CHECK_STR(s.argv[2], "arg");
    CHECK_STR(s.envp[0], "A=1");
    CHECK_STR(s.envp[1], "B=");
    CHECK_STR(s.user, "user");
    CHECK_STR(s.cwd, "/cwd");
    CHECK_STR(s.groups[0], "g");
    CHECK_STR(s.groups[1], "10");
}

static void check_small_exec(struct golden_bytes bytes)
{
    const struct exec_header *h = NULL;
    char *list[16];
    struct exec_strings s;

    CHECK_INT(exec_request_header(bytes.data, bytes.len, &h), 0);
    if (h == NULL)
        return;
    CHECK(h->argc == 1 && h->envc == 0 && h->rlimit_count == 0 && h->group_count == 0);
    CHECK_INT(exec_request_strings((char *)bytes.data, h, list, &s), 0);
    CHECK_STR(s.argv[0], "/bin/true");
    CHECK_STR(s.user, "");
    CHECK_STR(s.cwd, "/");
}

TEST(exec_request)
{
    char a0[] = "cmd", a1[] = "", a2[] = "arg", e0[] = "A=1", e1[] = "B=", g0[] = "g", g1[] = "10",
         true0[] = "/bin/true";
    char *const argv[] = {a0, a1, a2, NULL}, *const envp[] = {e0, e1, NULL},
                *const groups[] = {g0, g1, NULL}, *const none[] = {NULL},
                *const small[] = {true0, NULL};
    const struct rlimit_value limits[] = {{7, 10, 20}, {4, 0, UINT64_MAX}};
    const struct golden_part small_parts[] = {
        {24, "header"}, {10, "argv[0]"}, {1, "user, empty"}, {2, "cwd"}};
    struct golden *g = golden_open("exec-request", GOLDEN_FORMAT, "IMSG_VERSION", IMSG_VERSION);
    struct exec_spec spec = {.argv = argv,
                             .envp = envp,
                             .user = "user",
                             .cwd = "/cwd",
                             .groups = groups,
                             .rlimits = limits,
                             .rlimit_count = 2};

    check_exec(exec_bytes(&spec, g, "all", GOLDEN_PARTS(exec_parts)));
    spec = (struct exec_spec){.argv = small, .envp = none, .user = "", .cwd = "/"};
    check_small_exec(exec_bytes(&spec, g, "smallest", GOLDEN_PARTS(small_parts)));
    golden_close(g);
}

/* ---- the head of a log segment ---- */

TEST(log_head)
{
    const struct golden_part parts[] = {
        {4, "magic"}, {4, "reserved"}, {8, "start"}, {8, "dropped"}};
    const struct log_header want = {
        .magic = LOG_MAGIC, .start = 0x0102030405060708 & (LOG_START_MAX - 1), .dropped = 9};
    struct golden *g = golden_open("log-header", GOLDEN_FORMAT, "LOG_MAGIC", LOG_MAGIC);
    struct golden_bytes bytes =
        golden_check(g, "segment", GOLDEN_PARTS(parts), &want, sizeof(want));
    struct log_header got = {0};

    CHECK_INT(bytes.len, sizeof(got));
    if (bytes.len == sizeof(got))
        (void)memcpy(&got, bytes.data, sizeof(got));
    CHECK(log_header_ok(&got));
    CHECK_INT(got.start, want.start);
    CHECK_INT(got.dropped, 9);
    golden_close(g);
}

TAP_MAIN
