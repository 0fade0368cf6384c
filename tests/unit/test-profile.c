/*
 * Profiles in Docker's format, as users bring them: what their rules come to, and the ones that are
 * refused because they would not mean what they say.
 */

#include "filter-util.h"

#define BOTH_ARCHES "\"architectures\":[\"SCMP_ARCH_X86_64\",\"SCMP_ARCH_X86\"],"
#define RULE(names, action, rest)                                                                  \
    "{\"names\":[" names "],\"action\":\"SCMP_ACT_" action "\"" rest "}"
#define ARGS1(i, v, op) ",\"args\":[{\"index\":" i ",\"value\":" v ",\"op\":\"SCMP_CMP_" op "\"}]"

TEST(ranges_of_a_docker_profile)
{
    static const char profile[] =
        "{\"defaultAction\":\"SCMP_ACT_ERRNO\"," BOTH_ARCHES
        "\"syscalls\":[" RULE("\"socket\"", "ALLOW", ARGS1("0", "38", "LT")) "," RULE(
            "\"socket\"", "ALLOW", ARGS1("0", "39", "EQ")) "," RULE("\"socket\"", "ALLOW",
                                                                    ARGS1("0", "40", "GT")) "]}";
    AUTO_BPF struct bpf b = {0};
    struct err err = ERR_NONE;
    const uint64_t muxed[6] = {1};

    CHECK_INT(compile(profile, 0, NEW_LINUX, &b, NULL, &err), 0);
    CHECK_STR(err.msg, "");
    for (uint64_t domain = 0; domain < 64; domain++) {
        const uint64_t args[6] = {domain};
        uint32_t want = domain == 38 || domain == 40 ? DENY(EPERM) : ALLOW;

        CHECK_INT(ask(&b, AUDIT_ARCH_X86_64, 41, args), want);
        CHECK_INT(ask(&b, AUDIT_ARCH_I386, 359, args), want);
    }
    CHECK_INT(ask(&b, AUDIT_ARCH_I386, 102, muxed), DENY(ENOSYS));
    CHECK_INT(ask(&b, AUDIT_ARCH_X86_64, 0, muxed), DENY(EPERM));
    CHECK_INT(ask(&b, AUDIT_ARCH_X86_64, 437, muxed), DENY(ENOSYS));
}

TEST(enosys_for_what_a_profile_cannot_know)
{
    static const char profile[] =
        "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"defaultErrnoRet\":38," BOTH_ARCHES
        "\"syscalls\":[" RULE("\"clone3\",\"future_call_9999\"", "ERRNO",
                              ",\"errnoRet\":38") "," RULE("\"bpf\"", "ERRNO", "") "]}";
    static const struct call calls[] = {
        {.name = "clone3", .want = DENY(ENOSYS)},
        {.name = "clone", .args = {0x3d0f00}, .want = ALLOW},
        {.name = "bpf", .want = DENY(EPERM)},
        {.nr = 600, .want = DENY(ENOSYS)},
        {.nr = 350, .want = DENY(ENOSYS)},
        {.name = "read", .want = ALLOW},
    };
    AUTO_BPF struct bpf b = {0};
    struct err err = ERR_NONE;
    unsigned skipped = 0;

    CHECK_INT(compile(profile, 0, NEW_LINUX, &b, &skipped, &err), 0);
    CHECK_INT(skipped, 1);
    CHECK_CALLS("c", &b, AUDIT_ARCH_X86_64, calls);
}

TEST(masked_arguments)
{
    static const char profile[] =
        "{\"defaultAction\":\"SCMP_ACT_ALLOW\"," BOTH_ARCHES
        "\"syscalls\":[{\"names\":[\"ioctl\"],\"action\":\"SCMP_ACT_ERRNO\",\"args\":[{\"index\":1,"
        "\"value\":4294967295,\"op\":\"SCMP_CMP_MASKED_EQ\",\"valueTwo\":21522}],\"errnoRet\":1}]}";
    static const struct call calls[] = {
        {.name = "ioctl", .args = {0, 0x5412}, .want = DENY(EPERM)},
        {.name = "ioctl", .args = {0, UINT64_C(0x100005412)}, .want = DENY(EPERM)},
        {.name = "ioctl", .args = {0, TCGETS_NR}, .want = ALLOW},
        {.name = "ioctl", .args = {0x5412, 0}, .want = ALLOW},
        {.name = "socket", .args = {38}, .want = ALLOW},
    };
    AUTO_BPF struct bpf b = {0};
    struct err err = ERR_NONE;

    CHECK_INT(compile(profile, 0, NEW_LINUX, &b, NULL, &err), 0);
    CHECK_CALLS("d", &b, AUDIT_ARCH_X86_64, calls);
}

TEST(a_denial_wins_in_any_order)
{
    static const char *const orders[] = {
        "{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"syscalls\":[" RULE(
            "\"ioctl\"", "ALLOW", "") "," RULE("\"ioctl\"", "ERRNO", ARGS1("1", "5", "EQ")) "]}",
        "{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"syscalls\":[" RULE(
            "\"ioctl\"", "ERRNO", ARGS1("1", "5", "EQ")) "," RULE("\"ioctl\"", "ALLOW", "") "]}",
        "{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"syscalls\":[" RULE(
            "\"ioctl\"", "ALLOW", ARGS1("1", "9", "LE")) "," RULE("\"ioctl\"", "ERRNO",
                                                                  ARGS1("1", "5", "EQ")) "]}",
    };

    for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
        static const struct call calls[] = {
            {.name = "ioctl", .args = {0, 5}, .want = DENY(EPERM)},
            {.name = "ioctl", .args = {0, 6}, .want = ALLOW},
        };
        AUTO_BPF struct bpf b = {0};
        struct err err = ERR_NONE;

        CHECK_INT(compile(orders[i], 0, NEW_LINUX, &b, NULL, &err), 0);
        CHECK_CALLS(orders[i], &b, AUDIT_ARCH_X86_64, calls);
    }
}

TEST(otherwise_answers_what_no_rule_matches)
{
    static const char profile[] =
        "{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"defaultErrnoRet\":38," BOTH_ARCHES
        "\"syscalls\":[" RULE("\"prctl\",\"ioctl\"", "ERRNO", ",\"otherwise\":true,\"errnoRet\":22") "," RULE(
            "\"prctl\"", "ALLOW",
            ARGS1("0", "9", "EQ")) "," RULE("\"prctl\"", "ERRNO",
                                            ARGS1("0", "8",
                                                  "EQ")) "," RULE("\"ioctl\",\"read\"", "ALLOW",
                                                                  "") "," RULE("\"write\"", "ALLOW",
                                                                               ARGS1("0", "1",
                                                                                     "EQ")) "]}";
    static const struct call calls[] = {
        {.name = "prctl", .args = {9}, .want = ALLOW},
        {.name = "prctl", .args = {8}, .want = DENY(EPERM)},
        {.name = "prctl", .args = {7}, .want = DENY(EINVAL)},
        {.name = "ioctl", .args = {7, 7}, .want = ALLOW}, /* a rule without arguments matches */
        {.name = "read", .want = ALLOW},
        {.name = "write", .args = {1}, .want = ALLOW},
        {.name = "write", .args = {2}, .want = DENY(EPERM)}, /* the default of named calls */
        {.name = "close", .want = DENY(ENOSYS)},
    };
    AUTO_BPF struct bpf b = {0};
    struct err err = ERR_NONE;

    CHECK_INT(compile(profile, 0, NEW_LINUX, &b, NULL, &err), 0);
    CHECK_CALLS("otherwise", &b, AUDIT_ARCH_X86_64, calls);
    CHECK_CALLS("otherwise", &b, AUDIT_ARCH_I386, calls);
}

TEST(every_action)
{
    static const struct {
        const char *action;
        uint32_t want;
    } rows[] = {
        {"ALLOW", ALLOW},
        {"LOG", SECCOMP_RET_LOG},
        {"ERRNO", DENY(EPERM)},
        {"TRAP", SECCOMP_RET_TRAP},
        {"KILL", SECCOMP_RET_KILL_THREAD},
        {"KILL_THREAD", SECCOMP_RET_KILL_THREAD},
        {"KILL_PROCESS", SECCOMP_RET_KILL_PROCESS},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        AUTO_BPF struct bpf rule = {0}, fallback = {0};
        const uint64_t none[6] = {0};
        auto_free char *text = NULL, *text2 = NULL;
        struct err err = ERR_NONE;

        CHECK(asprintf(&text,
                       "{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"defaultErrnoRet\":38,\"syscalls\":"
                       "[{\"names\":[\"read\"],\"action\":\"SCMP_ACT_%s\"}]}",
                       rows[i].action) > 0);
        CHECK(asprintf(&text2,
                       "{\"defaultAction\":\"SCMP_ACT_%s\",\"syscalls\":[{\"names\":[\"write\"],"
                       "\"action\":\"SCMP_ACT_ERRNO\",\"errnoRet\":5}]}",
                       rows[i].action) > 0);
        CHECK_INT(compile(text, 0, NEW_LINUX, &rule, NULL, &err), 0);
        CHECK_INT(compile(text2, 0, NEW_LINUX, &fallback, NULL, &err), 0);
        CHECK_STR(err.msg, "");
        CHECK_INT(ask(&rule, AUDIT_ARCH_X86_64, 0, none), rows[i].want);
        CHECK_INT(ask(&rule, AUDIT_ARCH_X86_64, 1, none), DENY(ENOSYS));
        CHECK_INT(ask(&fallback, AUDIT_ARCH_X86_64, 0, none), rows[i].want);
        CHECK_INT(ask(&fallback, AUDIT_ARCH_X86_64, 1, none), DENY(5));
        CHECK_INT(ask(&fallback, AUDIT_ARCH_X86_64, 600, none), DENY(ENOSYS));
        CHECK_INT(ask(&fallback, AUDIT_ARCH_I386, 3, none), DENY(ENOSYS)); /* not listed */
    }
}

TEST(includes_and_excludes)
{
    static const struct {
        const char *cond;
        uint64_t caps;
        unsigned kernel;
        uint32_t want;
    } rows[] = {
        {"\"includes\":{\"caps\":[\"CAP_SYS_ADMIN\"]}", 0, NEW_LINUX, DENY(EPERM)},
        {"\"includes\":{\"caps\":[\"CAP_SYS_ADMIN\"]}", 1 << 21, NEW_LINUX, ALLOW},
        {"\"includes\":{\"caps\":[\"CAP_CHOWN\",\"CAP_SYS_ADMIN\"]}", 1 << 21, NEW_LINUX,
         DENY(EPERM)},
        {"\"excludes\":{\"caps\":[\"CAP_CHOWN\",\"CAP_SYS_ADMIN\"]}", 1, NEW_LINUX, DENY(EPERM)},
        {"\"excludes\":{\"caps\":[\"CAP_SYS_ADMIN\"]}", 1, NEW_LINUX, ALLOW},
        {"\"includes\":{\"arches\":[\"s390\",\"amd64\"]}", 0, NEW_LINUX, ALLOW},
        {"\"includes\":{\"arches\":[\"s390\"]}", 0, NEW_LINUX, DENY(EPERM)},
        {"\"excludes\":{\"arches\":[\"amd64\"]}", 0, NEW_LINUX, DENY(EPERM)},
        {"\"includes\":{\"arches\":[],\"caps\":null}", 0, NEW_LINUX, ALLOW},
        {"\"includes\":{\"minKernel\":\"4.8\"}", 0, KERNEL(4, 7), DENY(EPERM)},
        {"\"includes\":{\"minKernel\":\"4.8\"}", 0, KERNEL(4, 8), ALLOW},
        {"\"includes\":{\"minKernel\":\"4.8\"}", 0, KERNEL(4, 10), ALLOW},
        {"\"includes\":{\"minKernel\":\"4.8\"}", 0, KERNEL(3, 19), DENY(EPERM)},
        {"\"excludes\":{\"minKernel\":\"4.8\"}", 0, KERNEL(4, 8), DENY(EPERM)},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        AUTO_BPF struct bpf b = {0};
        const uint64_t none[6] = {0};
        struct err err = ERR_NONE;
        auto_free char *text = NULL;

        CHECK(asprintf(&text,
                       "{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"defaultErrnoRet\":38,\"syscalls\":"
                       "[{\"names\":[\"mount\"],\"action\":\"SCMP_ACT_ALLOW\",%s}]}",
                       rows[i].cond) > 0);
        CHECK_INT(compile(text, rows[i].caps, rows[i].kernel, &b, NULL, &err), 0);
        CHECK_STR(err.msg, "");
        if (ask(&b, AUDIT_ARCH_X86_64, 165, none) != rows[i].want)
            tap_fail("%s", rows[i].cond);
    }
}

TEST(profiles_that_would_not_mean_what_they_say)
{
    static const struct {
        const char *rules, *msg;
    } rows[] = {
        {RULE("\"socket\"", "ALLOW", ARGS1("0", "40", "NE")) "," RULE("\"socket\"", "ALLOW",
                                                                      ARGS1("0", "38", "NE")),
         "seccomp: socket: two SCMP_CMP_NE rules together allow every value; deny the values with "
         "SCMP_ACT_ERRNO and SCMP_CMP_EQ (a denying rule wins)"},
        {RULE("\"socket\"", "ERRNO", ",\"errnoRet\":1") "," RULE("\"socket\"", "ERRNO",
                                                                 ",\"errnoRet\":38"),
         "seccomp: socket: two rules for the same case disagree"},
        {RULE("\"socket\"", "ERRNO", ",\"otherwise\":true") "," RULE(
             "\"socket\"", "ERRNO", ",\"otherwise\":true,\"errnoRet\":38"),
         "seccomp: socket: two rules for the same case disagree"},
        {RULE("\"socket\"", "ALLOW", "") "," RULE("\"socket\"", "LOG", ""),
         "seccomp: socket: two rules for the same case disagree"},
        {RULE("\"socket\"", "ERRNO", ARGS1("0", "4", "EQ") ",\"errnoRet\":1") "," RULE(
             "\"socket\"", "ERRNO", ARGS1("0", "4", "EQ") ",\"errnoRet\":38"),
         "seccomp: socket: two rules for the same case disagree"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        AUTO_BPF struct bpf b = {0};
        auto_free char *text = NULL;
        struct err err = ERR_NONE;

        CHECK(asprintf(&text, "{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"syscalls\":[%s]}",
                       rows[i].rules) > 0);
        CHECK_INT(compile(text, 0, NEW_LINUX, &b, NULL, &err), -EINVAL);
        CHECK_STR(err.msg, rows[i].msg);
    }
}

TEST(a_filter_that_the_kernel_would_refuse)
{
    auto_free char *text = malloc(1 << 18);
    AUTO_BPF struct bpf b = {0};
    struct err err = ERR_NONE;
    size_t len;

    len = (size_t)sprintf(text, "{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"syscalls\":[");
    for (int i = 0; i < 1000; i++)
        len += (size_t)sprintf(text + len,
                               "%s{\"names\":[\"ioctl\"],\"action\":\"SCMP_ACT_ALLOW\","
                               "\"args\":[{\"index\":1,\"value\":%d,\"op\":\"SCMP_CMP_EQ\"},"
                               "{\"index\":2,\"value\":%d,\"op\":\"SCMP_CMP_EQ\"}]}",
                               i > 0 ? "," : "", i * 3, i * 5);
    (void)sprintf(text + len, "]}");
    CHECK_INT(compile(text, 0, NEW_LINUX, &b, NULL, &err), -E2BIG);
    CHECK(strstr(err.msg, "the kernel takes 4096: use fewer argument rules") != NULL);
}

TAP_MAIN
