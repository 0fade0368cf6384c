/* Every option's parser: what is stored, and the exact words of each refusal. */

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/file.h"
#include "spec/spec.h"
#include "tap.h"

typedef int setter(struct spec *s, const char *text, struct err *err);

struct refusal {
    setter *set;
    const char *text;
    int code;
    const char *msg;
};

#define NAME_RULE "must be 1 to 255 letters, digits, _ . - and begin with a letter or digit"
#define HOST_RULE                                                                                  \
    "must be at most 63 letters, digits and hyphens (not at an end), in parts joined by dots"
#define USER_RULE                                                                                  \
    "must be a name or a number, optionally with :group (names: letters, digits, _ . - and not a " \
    "digit, . or - first)"
#define BYTES_RULE "must be a number of bytes, or one with k, m, g or t behind it"
#define CPUS_RULE  "must be a number between 0.01 and 1024, with at most three decimals"
#define TIME_RULE  "must be a number of seconds, or one with ms, s, m or h behind it"
#define VOL_RULE                                                                                   \
    "must be SRC:DST, SRC:DST:ro or SRC:DST:rw; behind the name of a volume also nocopy"
#define VOL_NAME                                                                                   \
    "must be a path that begins with / or ., or a name of 1 to 128 letters, digits, _ . - that "   \
    "begins with a letter or digit"
#define ENV_RULE "must be NAME=VALUE or NAME, and NAME must not be empty or hold white space"
#define ULIM_RULE                                                                                  \
    "must be NAME=SOFT[:HARD], NAME one of as, core, cpu, data, fsize, locks, memlock, msgqueue, " \
    "nice, nofile, nproc, rss, rtprio, rttime, sigpending, stack"

/* clang-format off */
static const struct refusal refusals[] = {
    {spec_set_name, "", -EINVAL, "name \"\": " NAME_RULE},
    {spec_set_name, "w b", -EINVAL, "name \"w b\": " NAME_RULE},
    {spec_set_name, ".a", -EINVAL, "name \".a\": " NAME_RULE},
    {spec_set_name, "../a", -EINVAL, "name \"../a\": " NAME_RULE},
    {spec_set_name, "a/b", -EINVAL, "name \"a/b\": " NAME_RULE},
    {spec_set_name, "a\033[2J", -EINVAL, "name \"a?[2J\": " NAME_RULE},
    {spec_set_hostname, "", -EINVAL, "hostname \"\": " HOST_RULE},
    {spec_set_hostname, "-a", -EINVAL, "hostname \"-a\": " HOST_RULE},
    {spec_set_hostname, "a-", -EINVAL, "hostname \"a-\": " HOST_RULE},
    {spec_set_hostname, "a..b", -EINVAL, "hostname \"a..b\": " HOST_RULE},
    {spec_set_hostname, "a.", -EINVAL, "hostname \"a.\": " HOST_RULE},
    {spec_set_hostname, "a_b", -EINVAL, "hostname \"a_b\": " HOST_RULE},
    {spec_set_policy, "nosuch", -ENOENT, "policy \"nosuch\": must be untrusted, compute, container, build, fuse, net-admin, or the path of a policy file with a / in it"},
    {spec_set_policy, "", -ENOENT, "policy \"\": must be untrusted, compute, container, build, fuse, net-admin, or the path of a policy file with a / in it"},
    {spec_set_user, "-1", -EINVAL, "user \"-1\": " USER_RULE},
    {spec_set_user, "+0", -EINVAL, "user \"+0\": " USER_RULE},
    {spec_set_user, " 0", -EINVAL, "user \" 0\": " USER_RULE},
    {spec_set_user, "0x0", -EINVAL, "user \"0x0\": " USER_RULE},
    {spec_set_user, "1000:", -EINVAL, "user \"1000:\": " USER_RULE},
    {spec_set_user, ":1000", -EINVAL, "user \":1000\": " USER_RULE},
    {spec_set_user, "4294967295", -ERANGE, "user \"4294967295\": a number must be between 0 and 4294967294"},
    {spec_set_user, "4294967296", -ERANGE, "user \"4294967296\": a number must be between 0 and 4294967294"},
    {spec_set_user, "18446744073709551616", -ERANGE, "user \"18446744073709551616\": a number must be between 0 and 4294967294"},
    {spec_set_network, "host", -EPERM, "network \"host\": no sandbox has the host's network"},
    {spec_set_network, "container:", -EINVAL, "network \"container:\": must be none, internet, container:NAME, or the name of a network"},
    {spec_add_dns_search, "", -EINVAL,
     "dns-search \"\": must be a domain, or . alone for none of the host's"},
    {spec_add_dns_search, "a b", -EINVAL,
     "dns-search \"a b\": must be a domain, or . alone for none of the host's"},
    {spec_add_dns_search, "a..b", -EINVAL,
     "dns-search \"a..b\": must be a domain, or . alone for none of the host's"},
    {spec_add_dns_option, "a b", -EINVAL,
     "dns-option \"a b\": must be an option of resolv.conf(5), such as ndots:2"},
    {spec_add_dns_option, "", -EINVAL,
     "dns-option \"\": must be an option of resolv.conf(5), such as ndots:2"},
    {spec_set_domainname, "a_b.", -EINVAL,
     "domainname \"a_b.\": must be at most 189 letters, digits, - and _, in parts joined by dots"},
    {spec_add_dns, "1.2.3", -EINVAL, "dns \"1.2.3\": must be an IPv4 or IPv6 address"},
    {spec_set_memory, "", -EINVAL, "memory \"\": " BYTES_RULE},
    {spec_set_memory, "m", -EINVAL, "memory \"m\": " BYTES_RULE},
    {spec_set_memory, "-1", -EINVAL, "memory \"-1\": " BYTES_RULE},
    {spec_set_memory, "1.5g", -EINVAL, "memory \"1.5g\": " BYTES_RULE},
    {spec_set_memory, "128 m", -EINVAL, "memory \"128 m\": " BYTES_RULE},
    {spec_set_memory, "128mm", -EINVAL, "memory \"128mm\": " BYTES_RULE},
    {spec_set_memory, "128p", -EINVAL, "memory \"128p\": " BYTES_RULE},
    {spec_set_memory, "0x100000000", -EINVAL, "memory \"0x100000000\": " BYTES_RULE},
    {spec_set_memory, "0", -ERANGE, "memory \"0\": no process starts with less than 4m"},
    {spec_set_memory, "4095k", -ERANGE, "memory \"4095k\": no process starts with less than 4m"},
    {spec_set_memory, "1025t", -ERANGE, "memory \"1025t\": must be between 0 and 1024t"},
    {spec_set_memory, "9223372036854775808", -ERANGE, "memory \"9223372036854775808\": must be between 0 and 1024t"},
    {spec_set_memory, "18014398509481985k", -ERANGE, "memory \"18014398509481985k\": must be between 0 and 1024t"},
    {spec_set_shm_size, "4095", -ERANGE, "shm size \"4095\": must be between 4k and 1024t"},
    {spec_set_pids, "0", -ERANGE, "pids \"0\": must be between 1 and 4194304"},
    {spec_set_pids, "4194305", -ERANGE, "pids \"4194305\": must be between 1 and 4194304"},
    {spec_set_pids, "-1", -EINVAL, "pids \"-1\": must be a number between 1 and 4194304"},
    {spec_set_pids, "5k", -EINVAL, "pids \"5k\": must be a number between 1 and 4194304"},
    {spec_set_pids, "99999999999999999999", -ERANGE, "pids \"99999999999999999999\": must be between 1 and 4194304"},
    {spec_set_cpus, "0", -ERANGE, "cpus \"0\": " CPUS_RULE},
    {spec_set_cpus, "0.009", -ERANGE, "cpus \"0.009\": " CPUS_RULE},
    {spec_set_cpus, "1024.001", -ERANGE, "cpus \"1024.001\": " CPUS_RULE},
    {spec_set_cpus, "0.1234", -EINVAL, "cpus \"0.1234\": " CPUS_RULE},
    {spec_set_cpus, ".5", -EINVAL, "cpus \".5\": " CPUS_RULE},
    {spec_set_cpus, "1.", -EINVAL, "cpus \"1.\": " CPUS_RULE},
    {spec_set_cpus, "1e3", -EINVAL, "cpus \"1e3\": " CPUS_RULE},
    {spec_set_cpus, "nan", -EINVAL, "cpus \"nan\": " CPUS_RULE},
    {spec_set_cpus, "9223372036854775807", -ERANGE, "cpus \"9223372036854775807\": " CPUS_RULE},
    {spec_add_ulimit, "nofile", -EINVAL, "ulimit \"nofile\": " ULIM_RULE},
    {spec_add_ulimit, "nosuch=1", -EINVAL, "ulimit \"nosuch=1\": " ULIM_RULE},
    {spec_add_ulimit, "=1", -EINVAL, "ulimit \"=1\": " ULIM_RULE},
    {spec_add_ulimit, "RLIMIT_NOFILE=1", -EINVAL, "ulimit \"RLIMIT_NOFILE=1\": " ULIM_RULE},
    {spec_add_ulimit, "nofile=", -EINVAL, "ulimit \"nofile=\": SOFT and HARD must be numbers, or unlimited"},
    {spec_add_ulimit, "nofile=1:", -EINVAL, "ulimit \"nofile=1:\": SOFT and HARD must be numbers, or unlimited"},
    {spec_add_ulimit, "nofile=1:2:3", -EINVAL, "ulimit \"nofile=1:2:3\": SOFT and HARD must be numbers, or unlimited"},
    {spec_add_ulimit, "nofile=-2", -EINVAL, "ulimit \"nofile=-2\": SOFT and HARD must be numbers, or unlimited"},
    {spec_add_ulimit, "nofile=9223372036854775808", -EINVAL, "ulimit \"nofile=9223372036854775808\": SOFT and HARD must be numbers, or unlimited"},
    {spec_add_ulimit, "nofile=2:1", -ERANGE, "ulimit \"nofile=2:1\": SOFT must not be above HARD"},
    {spec_add_ulimit, "core=unlimited:0", -ERANGE, "ulimit \"core=unlimited:0\": SOFT must not be above HARD"},
    {spec_add_ulimit, "rtprio=1", -EPERM, "ulimit \"rtprio=1\": a sandbox gets no priority above others'"},
    {spec_add_ulimit, "nice=20:21", -EPERM, "ulimit \"nice=20:21\": a sandbox gets no priority above others'"},
    {spec_set_timeout, "0", -ERANGE, "timeout \"0\": must be between 1ms and 8784h"},
    {spec_set_timeout, "0.5ms", -EINVAL, "timeout \"0.5ms\": " TIME_RULE},
    {spec_set_timeout, "8785h", -ERANGE, "timeout \"8785h\": must be between 1ms and 8784h"},
    {spec_set_timeout, "9223372036854775807h", -ERANGE, "timeout \"9223372036854775807h\": must be between 1ms and 8784h"},
    {spec_set_timeout, "9000000000000000h", -ERANGE, "timeout \"9000000000000000h\": must be between 1ms and 8784h"},
    {spec_set_timeout, "", -EINVAL, "timeout \"\": " TIME_RULE},
    {spec_set_timeout, "s", -EINVAL, "timeout \"s\": " TIME_RULE},
    {spec_set_timeout, "5d", -EINVAL, "timeout \"5d\": " TIME_RULE},
    {spec_set_timeout, "1m30s", -EINVAL, "timeout \"1m30s\": " TIME_RULE},
    {spec_set_rootfs, "", -EINVAL, "rootfs: must not be empty"},
    {spec_set_rootfs, "/a/../b", -EINVAL, "rootfs \"/a/../b\": must not hold \"..\""},
    {spec_set_workdir, "relative", -EINVAL, "workdir \"relative\": must be an absolute path in the sandbox"},
    {spec_set_workdir, "", -EINVAL, "workdir \"\": must be an absolute path in the sandbox"},
    {spec_set_workdir, "/a/..", -EINVAL, "workdir \"/a/..\": must not hold \"..\""},
    {spec_add_volume, "", -EINVAL, "volume \"\": must be an absolute path in the sandbox"},
    {spec_add_volume, "/proc", -EINVAL, "volume \"/proc\": /proc is made by rind, nothing can be mounted there"},
    {spec_add_volume, "/a:/b:nocopy", -EINVAL, "volume \"/a:/b:nocopy\": " VOL_RULE},
    {spec_add_volume, "v:/b:ro,x", -EINVAL, "volume \"v:/b:ro,x\": " VOL_RULE},
    {spec_add_volume, "v:/b:,", -EINVAL, "volume \"v:/b:,\": " VOL_RULE},
    {spec_add_volume, "/a:/b:ro:x", -EINVAL, "volume \"/a:/b:ro:x\": " VOL_RULE},
    {spec_add_volume, "/a:/b:RO", -EINVAL, "volume \"/a:/b:RO\": " VOL_RULE},
    {spec_add_volume, "/a:/b:", -EINVAL, "volume \"/a:/b:\": " VOL_RULE},
    {spec_add_volume, "a/b:/b", -EINVAL, "volume \"a/b\": " VOL_NAME},
    {spec_add_volume, "-a:/b", -EINVAL, "volume \"-a\": " VOL_NAME},
    {spec_add_volume, "a b:/b", -EINVAL, "volume \"a b\": " VOL_NAME},
    {spec_add_volume, ":/b", -EINVAL, "volume \"\": " VOL_NAME},
    {spec_set_disk, "15m", -ERANGE, "disk \"15m\": must be between 16m and 4t"},
    {spec_set_disk, "5t", -ERANGE, "disk \"5t\": must be between 16m and 4t"},
    {spec_add_volume, "/a:", -EINVAL, "volume \"\": must be an absolute path in the sandbox"},
    {spec_add_volume, "/a:b", -EINVAL, "volume \"b\": must be an absolute path in the sandbox"},
    {spec_add_volume, "/a:/b/../c", -EINVAL, "volume \"/b/../c\": must not hold \"..\""},
    {spec_add_volume, "/a/../etc:/b", -EINVAL, "volume \"/a/../etc\": must not hold \"..\""},
    {spec_add_volume, "./a/../../etc:/b", -EINVAL, "volume \"./a/../../etc\": must not hold \"..\""},
    {spec_add_volume, "/a:/", -EINVAL, "volume \"/\": the root is the image's; use --rootfs"},
    {spec_add_volume, "/a://.//", -EINVAL, "volume \"//.//\": the root is the image's; use --rootfs"},
    {spec_add_volume, "/a:/proc", -EINVAL, "volume \"/proc\": /proc is made by rind, nothing can be mounted there"},
    {spec_add_volume, "/a:/./proc//sys", -EINVAL, "volume \"/./proc//sys\": /proc is made by rind, nothing can be mounted there"},
    {spec_add_volume, "/a:/sys/fs", -EINVAL, "volume \"/sys/fs\": /sys is made by rind, nothing can be mounted there"},
    {spec_add_volume, "/a:/dev/shm", -EINVAL, "volume \"/dev/shm\": /dev is made by rind, nothing can be mounted there"},
    {spec_add_tmpfs, "tmp", -EINVAL, "tmpfs \"tmp\": must be an absolute path in the sandbox"},
    {spec_add_tmpfs, "/", -EINVAL, "tmpfs \"/\": the root is the image's; use --rootfs"},
    {spec_add_tmpfs, "/dev", -EINVAL, "tmpfs \"/dev\": /dev is made by rind, nothing can be mounted there"},
    {spec_add_tmpfs, "/t:", -EINVAL, "tmpfs size \"\": " BYTES_RULE},
    {spec_add_tmpfs, "/t:size=", -EINVAL, "tmpfs size \"\": " BYTES_RULE},
    {spec_add_tmpfs, "/t:nr_inodes=5", -EINVAL, "tmpfs option \"nr_inodes\": must be one of rw, ro, exec, noexec, size=, mode=, uid= and gid="},
    {spec_add_tmpfs, "/t:ro,suid", -EPERM, "tmpfs option \"suid\": a tmpfs is always nosuid and nodev"},
    {spec_add_tmpfs, "/t:mode=8", -EINVAL, "tmpfs mode \"8\": must be octal digits, 0 to 7777"},
    {spec_add_tmpfs, "/t:mode=17777", -ERANGE, "tmpfs mode \"17777\": must be octal digits, 0 to 7777"},
    {spec_add_tmpfs, "/t:uid=65536", -ERANGE, "tmpfs uid \"65536\": must be between 0 and 65535"},
    {spec_add_tmpfs, "/t:gid=x", -EINVAL, "tmpfs gid \"x\": must be a number between 0 and 65535"},
    {spec_add_tmpfs, "/t:0", -ERANGE, "tmpfs size \"0\": must be between 4k and 1024t"},
    {spec_add_env, "", -EINVAL, "environment variable \"\": " ENV_RULE},
    {spec_add_env, "=v", -EINVAL, "environment variable \"\": " ENV_RULE},
    {spec_add_env, "a b=secret", -EINVAL, "environment variable \"a b\": " ENV_RULE},
    {spec_add_env, "a\nb=secret", -EINVAL, "environment variable \"a?b\": " ENV_RULE},
    {spec_add_env_file, "/nosuch/file", -ENOENT, "env file \"/nosuch/file\": No such file or directory"},
    {spec_add_env_file, "/", -EISDIR, "env file \"/\": read: Is a directory"},
};
/* clang-format on */

TEST(refusals_quote_and_explain)
{
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        auto_ptr(spec_free) struct spec *s = spec_new();
        struct err err = ERR_NONE;
        int r = refusals[i].set(s, refusals[i].text, &err);

        if (r != refusals[i].code)
            tap_fail("\"%s\" is %d, want %d", refusals[i].text, r, refusals[i].code);
        CHECK_STR(err.msg, refusals[i].msg);
        CHECK(s->volume_count == 0 && s->tmpfs_count == 0 && s->env[0] == NULL &&
              s->rlimit_count == 0 && s->limits.memory_bytes == LIMIT_UNSET);
        CHECK_INT(refusals[i].set(s, refusals[i].text, NULL), refusals[i].code);
    }
}

TEST(an_empty_spec)
{
    auto_ptr(spec_free) struct spec *s = spec_new();
    struct err err = ERR_NONE;

    CHECK_STR(s->policy, "untrusted");
    CHECK(s->argv[0] == NULL && s->env[0] == NULL && s->user == NULL && s->name == NULL);
    CHECK_INT(s->timeout_ms, LIMIT_UNSET);
    CHECK_INT(s->limits.pids, LIMIT_UNSET);
    CHECK_INT(s->network, NET_INVALID);
    CHECK_INT(spec_validate(s, &err), -EINVAL);
    CHECK_STR(err.msg, "no command: name one behind --");
    spec_free(NULL);
}

TEST(texts_are_checked)
{
    static const struct {
        setter *set;
        size_t off;
        const char *text, *want;
    } rows[] = {
        {spec_set_name, offsetof(struct spec, name), "0a_b.c-d", "0a_b.c-d"},
        {spec_set_hostname, offsetof(struct spec, hostname), "Web-1.example", "Web-1.example"},
        {spec_set_policy, offsetof(struct spec, policy), "container", "container"},
        {spec_set_policy, offsetof(struct spec, policy), "/etc//x.json", "/etc/x.json"},
        {spec_set_user, offsetof(struct spec, user), "app:1000", "app:1000"},
        {spec_set_user, offsetof(struct spec, user), "4294967294:0", "4294967294:0"},
        {spec_set_user, offsetof(struct spec, user), "", ""},
        {spec_set_workdir, offsetof(struct spec, cwd), "//a/./b/", "/a/b"},
        {spec_set_workdir, offsetof(struct spec, cwd), "/", "/"},
        {spec_set_workdir, offsetof(struct spec, cwd), "/...", "/..."},
        {spec_set_rootfs, offsetof(struct spec, rootfs), "/", "/"},
        {spec_set_rootfs, offsetof(struct spec, rootfs), "host", "host"},
        {spec_set_rootfs, offsetof(struct spec, rootfs), "/host", "/host"},
        {spec_set_rootfs, offsetof(struct spec, rootfs), "/a//b/.", "/a/b"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        auto_ptr(spec_free) struct spec *s = spec_new();
        struct err err = ERR_NONE;

        (void)rows[i].set(s, "/0", NULL); /* whatever it did: the later text counts */
        CHECK_INT(rows[i].set(s, rows[i].text, &err), 0);
        CHECK_STR(err.msg, "");
        CHECK_STR(*(char **)(void *)((char *)s + rows[i].off), rows[i].want);
    }
}

TEST(numbers_are_checked)
{
    static const struct {
        setter *set;
        size_t off;
        const char *text;
        int64_t want;
    } rows[] = {
        {spec_set_memory, offsetof(struct spec, limits.memory_bytes), "4194304", 4194304},
        {spec_set_memory, offsetof(struct spec, limits.memory_bytes), "128m", 128 << 20},
        {spec_set_memory, offsetof(struct spec, limits.memory_bytes), "128M", 128 << 20},
        {spec_set_memory, offsetof(struct spec, limits.memory_bytes), "128MB", 128 << 20},
        {spec_set_memory, offsetof(struct spec, limits.memory_bytes), "128MiB", 128 << 20},
        {spec_set_memory, offsetof(struct spec, limits.memory_bytes), "1g", 1 << 30},
        {spec_set_memory, offsetof(struct spec, limits.memory_bytes), "4096K", 4 << 20},
        {spec_set_memory, offsetof(struct spec, limits.memory_bytes), "5000000b", 5000000},
        {spec_set_memory, offsetof(struct spec, limits.memory_bytes), "1024t", INT64_C(1) << 50},
        {spec_set_shm_size, offsetof(struct spec, limits.shm_bytes), "4k", 4096},
        {spec_set_pids, offsetof(struct spec, limits.pids), "1", 1},
        {spec_set_pids, offsetof(struct spec, limits.pids), "4194304", 4194304},
        {spec_set_cpus, offsetof(struct spec, limits.cpu_millis), "0.01", 10},
        {spec_set_cpus, offsetof(struct spec, limits.cpu_millis), "0.5", 500},
        {spec_set_cpus, offsetof(struct spec, limits.cpu_millis), "1.125", 1125},
        {spec_set_cpus, offsetof(struct spec, limits.cpu_millis), "2", 2000},
        {spec_set_cpus, offsetof(struct spec, limits.cpu_millis), "1024", 1024000},
        {spec_set_timeout, offsetof(struct spec, timeout_ms), "90", 90000},
        {spec_set_timeout, offsetof(struct spec, timeout_ms), "1.5s", 1500},
        {spec_set_timeout, offsetof(struct spec, timeout_ms), "2m", 120000},
        {spec_set_timeout, offsetof(struct spec, timeout_ms), "0.5h", 1800000},
        {spec_set_timeout, offsetof(struct spec, timeout_ms), "250ms", 250},
        {spec_set_timeout, offsetof(struct spec, timeout_ms), "0.001", 1},
        {spec_set_timeout, offsetof(struct spec, timeout_ms), "8784h", INT64_C(31622400000)},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        auto_ptr(spec_free) struct spec *s = spec_new();
        struct err err = ERR_NONE;

        CHECK_INT(rows[i].set(s, rows[i].text, &err), 0);
        CHECK_STR(err.msg, "");
        CHECK_INT(*(int64_t *)(void *)((char *)s + rows[i].off), rows[i].want);
    }
}

TEST(volumes_and_tmpfs)
{
    auto_ptr(spec_free) struct spec *s = spec_new();
    struct err err = ERR_NONE;

    CHECK_INT(spec_add_volume(s, "/a//b/:/c/./d/:ro", &err), 0);
    CHECK_INT(spec_add_volume(s, "/:/host:rw", &err), 0);
    CHECK_INT(spec_add_volume(s, "/x:/procfs", &err), 0);
    CHECK_INT(spec_add_tmpfs(s, "/run", &err), 0);
    CHECK_INT(spec_add_tmpfs(s, "/scratch:1m", &err), 0);
    CHECK_INT(spec_add_tmpfs(s, "/t:size=4k", &err), 0);
    CHECK_INT(
        spec_add_tmpfs(s, "/o:rw,ro,exec,noexec,nosuid,nodev,relatime,mode=0700,uid=1,gid=2", &err),
        0);
    CHECK_STR(err.msg, "");
    CHECK_STR(s->volumes[0].source, "/a/b");
    CHECK_STR(s->volumes[0].target, "/c/d");
    CHECK(s->volumes[0].read_only && !s->volumes[1].read_only && !s->volumes[2].read_only);
    CHECK_STR(s->volumes[1].source, "/");
    CHECK_STR(s->volumes[2].target, "/procfs");
    CHECK_INT(s->tmpfs[0].bytes, 64 << 20);
    CHECK_INT(s->tmpfs[1].bytes, 1 << 20);
    CHECK_INT(s->tmpfs[2].bytes, 4096);
    CHECK_STR(s->tmpfs[2].target, "/t");
    CHECK(!s->tmpfs[2].read_only && !s->tmpfs[2].no_exec && s->tmpfs[2].mode == 01777);
    CHECK_INT(s->tmpfs[3].bytes, 64 << 20);
    CHECK(s->tmpfs[3].read_only && s->tmpfs[3].no_exec && s->tmpfs[3].mode == 0700);
    CHECK(s->tmpfs[3].uid == 1 && s->tmpfs[3].gid == 2);
}

TEST(relative_sources_are_made_absolute)
{
    char dir[] = "/tmp/rind-spec-XXXXXX", want[64], old[4096];
    auto_ptr(spec_free) struct spec *s = spec_new();
    static const struct {
        const char *text, *suffix;
    } rows[] = {{".:/v0", ""},           {"./:/v1", ""},
                {"./x/./y:/v2", "/x/y"}, {".hidden:/v3", "/.hidden"},
                {"./../q:/v4", "/../q"}, {"../../../../../../..:/v5", "/.."}};

    CHECK(getcwd(old, sizeof(old)) != NULL && mkdtemp(dir) != NULL && chdir(dir) == 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct err err = ERR_NONE;

        CHECK_INT(spec_add_volume(s, rows[i].text, &err), 0);
        CHECK_STR(err.msg, "");
        (void)snprintf(want, sizeof(want), "%s%s", dir, rows[i].suffix);
        if (i < 4)
            CHECK_STR(s->volumes[i].source, want);
    }
    CHECK_STR(s->volumes[4].source, "/tmp/q");
    CHECK_STR(s->volumes[5].source, "/");
    CHECK(chdir(old) == 0 && rmdir(dir) == 0);
}

TEST(a_working_directory_that_is_gone)
{
    char dir[] = "/tmp/rind-spec-XXXXXX", old[4096];
    auto_ptr(spec_free) struct spec *s = spec_new();
    struct err err = ERR_NONE;

    CHECK(getcwd(old, sizeof(old)) != NULL && mkdtemp(dir) != NULL && chdir(dir) == 0);
    CHECK(rmdir(dir) == 0);
    CHECK_INT(spec_add_volume(s, "./x:/v", &err), -ENOENT);
    CHECK_STR(err.msg, "volume \"./x\": working directory: No such file or directory");
    CHECK(chdir(old) == 0);
}

TEST(long_paths)
{
    static char text[SPEC_PATH_MAX + 64];
    auto_ptr(spec_free) struct spec *s = spec_new();
    struct err err = ERR_NONE;

    memset(text, 'a', SPEC_PATH_MAX);
    text[0] = '/';
    CHECK_INT(spec_set_workdir(s, text, &err), 0);
    CHECK_INT(strlen(s->cwd), SPEC_PATH_MAX);
    text[SPEC_PATH_MAX] = 'a';
    CHECK_INT(spec_set_workdir(s, text, &err), -ENAMETOOLONG);
    CHECK(strstr(err.msg, "...\": longer than 4095 bytes") != NULL);
}

TEST(the_last_health_command_counts)
{
    auto_ptr(spec_free) struct spec *s = spec_new();
    struct err err = ERR_NONE;

    CHECK_INT(spec_set_health_cmd(s, "none", &err), 0);
    CHECK(s->health.none);
    CHECK_INT(spec_set_health_cmd(s, "true; true", &err), 0);
    CHECK(!s->health.none && s->health.shell);
    CHECK_STR(s->health.test[0], "true; true");
    CHECK(s->health.test[1] == NULL);
    CHECK_INT(spec_set_health_cmd(s, "none", &err), 0);
    CHECK(s->health.none);
    CHECK_INT(spec_set_health_cmd(s, "", &err), -EINVAL);
}

TEST(ulimits_are_checked)
{
    auto_ptr(spec_free) struct spec *s = spec_new();
    struct err err = ERR_NONE;

    CHECK_INT(spec_add_ulimit(s, "nofile=1024:2048", &err), 0);
    CHECK_INT(spec_add_ulimit(s, "core=unlimited", &err), 0);
    CHECK_INT(spec_add_ulimit(s, "stack=5:-1", &err), 0);
    CHECK_INT(spec_add_ulimit(s, "nofile=7", &err), 0); /* the later one wins */
    CHECK_STR(err.msg, "");
    CHECK_INT(s->rlimit_count, 3);
    CHECK_INT(s->rlimits[0].resource, RLIMIT_NOFILE);
    CHECK_INT(s->rlimits[0].soft, 7);
    CHECK_INT(s->rlimits[0].hard, 7);
    CHECK(s->rlimits[1].soft == RLIM_INFINITY && s->rlimits[1].hard == RLIM_INFINITY);
    CHECK_INT(s->rlimits[2].soft, 5);
    CHECK(s->rlimits[2].hard == RLIM_INFINITY);
}

/* ---- environment ---- */

TEST(environment_keeps_the_last_of_each_name)
{
    auto_ptr(spec_free) struct spec *s = spec_new();
    struct err err = ERR_NONE;

    CHECK(setenv("RIND_TEST_HAVE", "here", 1) == 0 && unsetenv("RIND_TEST_NOT") == 0);
    CHECK_INT(spec_add_env(s, "A=1", &err), 0);
    CHECK_INT(spec_add_env(s, "B==x y\n", &err), 0);
    CHECK_INT(spec_add_env(s, "A=", &err), 0);
    CHECK_INT(spec_add_env(s, "AB=2", &err), 0);
    CHECK_INT(spec_add_env(s, "RIND_TEST_HAVE", &err), 0);
    CHECK_INT(spec_add_env(s, "RIND_TEST_NOT", &err), 0);
    CHECK_STR(err.msg, "");
    CHECK_STR(s->env[0], "A=");
    CHECK_STR(s->env[1], "B==x y\n");
    CHECK_STR(s->env[2], "AB=2");
    CHECK_STR(s->env[3], "RIND_TEST_HAVE=here");
    CHECK(s->env[4] == NULL);
}

TEST(environment_is_bounded_and_large_ones_are_fast)
{
    auto_ptr(spec_free) struct spec *s = spec_new();
    struct err err = ERR_NONE;
    char text[32];
    int r = 0;

    for (int i = 0; i < SPEC_ARGS_MAX && r == 0; i++) {
        (void)snprintf(text, sizeof(text), "V%d=%d", i, i);
        r = spec_add_env(s, text, &err);
    }
    CHECK_INT(r, 0);
    CHECK_STR(s->env[SPEC_ARGS_MAX - 1], "V65535=65535");
    CHECK_INT(spec_add_env(s, "V7=again", &err), 0);
    CHECK_STR(s->env[7], "V7=again");
    CHECK_INT(spec_add_env(s, "ONE_MORE=1", &err), -E2BIG);
    CHECK_STR(err.msg, "environment: more than 65536 variables");
}

TEST(environment_bytes_are_bounded)
{
    static char text[SPEC_STRING_MAX + 2];
    auto_ptr(spec_free) struct spec *s = spec_new();
    struct err err = ERR_NONE;
    int r = 0, n;

    memset(text, 'x', SPEC_STRING_MAX + 1);
    memcpy(text, "A=", 2);
    CHECK_INT(spec_add_env(s, text, &err), -E2BIG);
    CHECK_STR(err.msg, "environment variable \"A\": longer than 131071 bytes");
    text[SPEC_STRING_MAX] = '\0';
    for (n = 0; n < 100 && r == 0; n++) {
        text[0] = (char)('A' + n % 26);
        r = spec_add_env(s, text, &err);
    }
    CHECK_INT(n, 17); /* sixteen of 128 KiB are 2 MiB */
    CHECK_INT(r, -E2BIG);
    CHECK_STR(err.msg, "environment: more than 2097152 bytes");
}

static int read_env_file(struct spec *s, const char *text, size_t len, struct err *err)
{
    char path[64];
    auto_close int fd = memfd_sealed("env", text, len);

    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return spec_add_env_file(s, path, err);
}

TEST(env_files)
{
    static const char text[] = "\xef\xbb\xbf# comment\n\nA=1\r\n  B=two words # no comment\n\tC=\n"
                               "RIND_TEST_HAVE\nRIND_TEST_NOT\nA=last";
    auto_ptr(spec_free) struct spec *s = spec_new();
    struct err err = ERR_NONE;

    CHECK_INT(read_env_file(s, text, strlen(text), &err), 0);
    CHECK_STR(err.msg, "");
    CHECK_STR(s->env[0], "A=last");
    CHECK_STR(s->env[1], "B=two words # no comment");
    CHECK_STR(s->env[2], "C=");
    CHECK_STR(s->env[3], "RIND_TEST_HAVE=here");
    CHECK(s->env[4] == NULL);
}

TEST(env_files_that_are_refused)
{
    auto_ptr(spec_free) struct spec *s = spec_new();
    struct err err = ERR_NONE;
    const char *tail;

    CHECK_INT(read_env_file(s, "A=1\nb c=2\n", 10, &err), -EINVAL);
    tail = strstr(err.msg, ": line 2: ");
    CHECK_STR(tail, ": line 2: environment variable \"b c\": " ENV_RULE);
    CHECK_INT(read_env_file(s, "A=1\0B=2\n", 8, &err), -EINVAL);
    CHECK(strstr(err.msg, "holds a NUL byte") != NULL);
}

/* ---- command and whole ---- */

TEST(commands_are_checked)
{
    auto_ptr(spec_free) struct spec *s = spec_new();
    char a[] = "sh", b[] = "", empty[] = "";
    char *good[] = {a, b, NULL}, *none[] = {NULL}, *nameless[] = {empty, NULL};
    struct err err = ERR_NONE;

    CHECK_INT(spec_set_command(s, none, &err), -EINVAL);
    CHECK_STR(err.msg, "command: missing or empty");
    CHECK_INT(spec_set_command(s, nameless, &err), -EINVAL);
    CHECK_INT(spec_set_command(s, good, &err), 0);
    CHECK_STR(s->argv[0], "sh");
    CHECK_STR(s->argv[1], "");
    CHECK(s->argv[2] == NULL);
    CHECK_INT(spec_validate(s, &err), 0);
}

TEST(commands_are_bounded)
{
    static char big[SPEC_STRING_MAX + 2], *many[SPEC_ARGS_MAX + 2], *fat[32];
    char one[] = "x";
    auto_ptr(spec_free) struct spec *s = spec_new();
    struct err err = ERR_NONE;

    for (size_t i = 0; i <= SPEC_ARGS_MAX; i++)
        many[i] = one;
    CHECK_INT(spec_set_command(s, many, &err), -E2BIG);
    CHECK_STR(err.msg, "command: more than 65536 arguments");
    memset(big, 'x', SPEC_STRING_MAX + 1);
    fat[0] = one;
    fat[1] = big;
    CHECK_INT(spec_set_command(s, fat, &err), -E2BIG);
    CHECK_STR(err.msg, "command: argument 1 is longer than 131071 bytes");
    big[SPEC_STRING_MAX] = '\0';
    for (size_t i = 0; i < 17; i++)
        fat[i] = big;
    CHECK_INT(spec_set_command(s, fat, &err), 0);
    CHECK_INT(spec_validate(s, &err), -E2BIG);
    CHECK_STR(err.msg, "command and environment together are longer than 2097152 bytes");
}

TEST(two_mounts_in_one_place)
{
    auto_ptr(spec_free) struct spec *s = spec_new();
    char a[] = "sh";
    char *argv[] = {a, NULL};
    struct err err = ERR_NONE;

    CHECK_INT(spec_set_command(s, argv, &err), 0);
    CHECK_INT(spec_add_volume(s, "/a:/data", &err), 0);
    CHECK_INT(spec_add_tmpfs(s, "/data/deeper", &err), 0);
    CHECK_INT(spec_validate(s, &err), 0);
    CHECK_INT(spec_add_tmpfs(s, "//data/", &err), 0);
    CHECK_INT(spec_validate(s, &err), -EINVAL);
    CHECK_STR(err.msg, "\"/data\": two volumes or tmpfs have this target");
}

TEST(counts_are_bounded)
{
    auto_ptr(spec_free) struct spec *s = spec_new();
    struct err err = ERR_NONE;

    for (int i = 0; i < SPEC_VOLUMES_MAX; i++)
        CHECK_INT(spec_add_volume(s, "/a:/b", &err), 0);
    for (int i = 0; i < SPEC_TMPFS_MAX; i++)
        CHECK_INT(spec_add_tmpfs(s, "/b", &err), 0);
    CHECK_INT(spec_add_volume(s, "/a:/b", &err), -E2BIG);
    CHECK_STR(err.msg, "volume \"/a:/b\": more than 64 volumes");
    CHECK_INT(spec_add_tmpfs(s, "/b", &err), -E2BIG);
    CHECK_STR(err.msg, "tmpfs \"/b\": more than 32 of them");
}

/* By what the members of a network find one: its name, where that can be one of a host, and its
 * aliases, each once. */
TEST(several_networks)
{
    auto_ptr(spec_free) struct spec *s = spec_new();
    const char *const two[] = {"x", "y", NULL};
    const char *aliases = NULL;
    struct err err = ERR_NONE;

    CHECK_INT(spec_drop_net(s, "a", &err), -ENOENT);
    CHECK_INT(spec_add_net(s, "a", NULL, &err), 0);
    CHECK_INT(spec_add_net(s, "b", two, &err), 0);
    CHECK_INT(spec_add_net(s, "c", NULL, &err), 0);
    CHECK_INT(spec_add_net(s, "b", NULL, &err), -EEXIST);
    CHECK_INT(spec_add_net(s, "none", NULL, &err), -EINVAL);
    CHECK_INT(spec_add_net(s, "host", NULL, &err), -EPERM);
    CHECK_INT(spec_add_net(s, "No", NULL, &err), -EINVAL);
    CHECK_STR(spec_net(s, 1, &aliases), "b");
    CHECK_STR(aliases, "x y");
    CHECK(spec_net(s, 3, NULL) == NULL && spec_has_net(s, "c") && !spec_has_net(s, "d"));
    CHECK_INT(spec_drop_net(s, "a", &err), 0); /* the next one is the first */
    CHECK_STR(spec_net(s, 0, &aliases), "b");
    CHECK_STR(aliases, "x y");
    CHECK_STR(spec_net(s, 1, &aliases), "c");
    CHECK(aliases == NULL);
    for (char name[] = "d"; spec_net(s, SPEC_NETS_MORE_MAX, NULL) == NULL; name[0]++)
        CHECK_INT(spec_add_net(s, name, NULL, &err), 0);
    CHECK_INT(spec_add_net(s, "z", NULL, &err), -E2BIG);
    while (s->net_name != NULL)
        CHECK_INT(spec_drop_net(s, s->net_name, &err), 0);
    CHECK_INT(s->more_net_count, 0);
    CHECK_INT(spec_add_net_link(s, "a:b", &err), 0);
    CHECK_INT(spec_add_net_link(s, "a", &err), -EINVAL);
    CHECK_INT(spec_add_net_link(s, "a:b c", &err), -EINVAL);
    CHECK_INT(spec_add_net_link(s, ":b", &err), -EINVAL);
}

TEST(names_in_a_network)
{
    static const struct {
        const char *name, *aliases[3], *want; /* want NULL: none */
    } rows[] = {
        {NULL, {NULL}, NULL},
        {"db", {NULL}, "db"},
        {NULL, {"a", "b"}, "a b"},
        {"db", {"a", "b"}, "db a b"},
        {"db", {"a", "db"}, "a db"},
        {"db", {"db2", "db.example"}, "db db2 db.example"},
        {"no name", {"a"}, "a"},
        {"n23456789012345678901234567890123456789012345678901234567890123",
         {NULL},
         "n23456789012345678901234567890123456789012345678901234567890123"},
        {"n234567890123456789012345678901234567890123456789012345678901234", {NULL}, NULL},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        auto_ptr(spec_free) struct spec *s = spec_new();
        auto_free char *names = NULL;

        s->name = rows[i].name != NULL ? strdup(rows[i].name) : NULL;
        for (size_t k = 0; k < 3 && rows[i].aliases[k] != NULL; k++)
            CHECK_INT(spec_add_net_alias(s, rows[i].aliases[k], NULL), 0);
        CHECK_INT(spec_net_names(s, 0, &names, NULL), 0);
        CHECK_STR(names != NULL ? names : "none", rows[i].want != NULL ? rows[i].want : "none");
    }
}

TAP_MAIN
