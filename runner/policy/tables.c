/* Tables of names and numbers; see policy/tables.h. */

#include "policy/tables.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "policy/policy.h"

/* clang-format off */
const struct strtab capability_names[] = {
    {"CAP_CHOWN", CAP_CHOWN},
    {"CAP_DAC_OVERRIDE", CAP_DAC_OVERRIDE},
    {"CAP_DAC_READ_SEARCH", CAP_DAC_READ_SEARCH},
    {"CAP_FOWNER", CAP_FOWNER},
    {"CAP_FSETID", CAP_FSETID},
    {"CAP_KILL", CAP_KILL},
    {"CAP_SETGID", CAP_SETGID},
    {"CAP_SETUID", CAP_SETUID},
    {"CAP_SETPCAP", CAP_SETPCAP},
    {"CAP_LINUX_IMMUTABLE", CAP_LINUX_IMMUTABLE},
    {"CAP_NET_BIND_SERVICE", CAP_NET_BIND_SERVICE},
    {"CAP_NET_BROADCAST", CAP_NET_BROADCAST},
    {"CAP_NET_ADMIN", CAP_NET_ADMIN},
    {"CAP_NET_RAW", CAP_NET_RAW},
    {"CAP_IPC_LOCK", CAP_IPC_LOCK},
    {"CAP_IPC_OWNER", CAP_IPC_OWNER},
    {"CAP_SYS_MODULE", CAP_SYS_MODULE},
    {"CAP_SYS_RAWIO", CAP_SYS_RAWIO},
    {"CAP_SYS_CHROOT", CAP_SYS_CHROOT},
    {"CAP_SYS_PTRACE", CAP_SYS_PTRACE},
    {"CAP_SYS_PACCT", CAP_SYS_PACCT},
    {"CAP_SYS_ADMIN", CAP_SYS_ADMIN},
    {"CAP_SYS_BOOT", CAP_SYS_BOOT},
    {"CAP_SYS_NICE", CAP_SYS_NICE},
    {"CAP_SYS_RESOURCE", CAP_SYS_RESOURCE},
    {"CAP_SYS_TIME", CAP_SYS_TIME},
    {"CAP_SYS_TTY_CONFIG", CAP_SYS_TTY_CONFIG},
    {"CAP_MKNOD", CAP_MKNOD},
    {"CAP_LEASE", CAP_LEASE},
    {"CAP_AUDIT_WRITE", CAP_AUDIT_WRITE},
    {"CAP_AUDIT_CONTROL", CAP_AUDIT_CONTROL},
    {"CAP_SETFCAP", CAP_SETFCAP},
    {"CAP_MAC_OVERRIDE", CAP_MAC_OVERRIDE},
    {"CAP_MAC_ADMIN", CAP_MAC_ADMIN},
    {"CAP_SYSLOG", CAP_SYSLOG},
    {"CAP_WAKE_ALARM", CAP_WAKE_ALARM},
    {"CAP_BLOCK_SUSPEND", CAP_BLOCK_SUSPEND},
    {"CAP_AUDIT_READ", CAP_AUDIT_READ},
    {"CAP_PERFMON", CAP_PERFMON},
    {"CAP_BPF", CAP_BPF},
    {"CAP_CHECKPOINT_RESTORE", CAP_CHECKPOINT_RESTORE},
    {NULL, 0},
};

const struct strtab rlimit_names[] = {
    {"RLIMIT_AS", RLIMIT_AS},
    {"RLIMIT_CORE", RLIMIT_CORE},
    {"RLIMIT_CPU", RLIMIT_CPU},
    {"RLIMIT_DATA", RLIMIT_DATA},
    {"RLIMIT_FSIZE", RLIMIT_FSIZE},
    {"RLIMIT_LOCKS", RLIMIT_LOCKS},
    {"RLIMIT_MEMLOCK", RLIMIT_MEMLOCK},
    {"RLIMIT_MSGQUEUE", RLIMIT_MSGQUEUE},
    {"RLIMIT_NICE", RLIMIT_NICE},
    {"RLIMIT_NOFILE", RLIMIT_NOFILE},
    {"RLIMIT_NPROC", RLIMIT_NPROC},
    {"RLIMIT_RSS", RLIMIT_RSS},
    {"RLIMIT_RTPRIO", RLIMIT_RTPRIO},
    {"RLIMIT_RTTIME", RLIMIT_RTTIME},
    {"RLIMIT_SIGPENDING", RLIMIT_SIGPENDING},
    {"RLIMIT_STACK", RLIMIT_STACK},
    {NULL, 0},
};

const struct strtab net_mode_names[] = {
    {"none", NET_NONE},
    {"internet", NET_INTERNET},
    {NULL, 0},
};
/* clang-format on */

#define ROWS(table) (sizeof(table) / sizeof((table)[0]) - 1)
static_assert(ROWS(capability_names) == CAP_LAST_CAP + 1, "every capability has a row");
static_assert(ROWS(rlimit_names) == RLIM_NLIMITS, "every resource has a row");
static_assert((int)RLIM_NLIMITS == (int)RLIMITS_MAX, "RLIMITS_MAX holds each resource once");
static_assert(ROWS(net_mode_names) == NET_MODE_MAX - 1, "every network mode has a row");

int rlimit_by_option(const char *name)
{
    char full[32] = "RLIMIT_";
    size_t prefix = strlen(full), len = strlen(name);

    if (len >= sizeof(full) - prefix)
        return -ENOENT;
    for (size_t i = 0; i < len; i++) {
        if (!islower((unsigned char)name[i]))
            return -ENOENT;
        full[prefix + i] = (char)toupper((unsigned char)name[i]);
    }
    return strtab_value(rlimit_names, full);
}

bool rlimit_grantable(uint64_t resource, uint64_t hard)
{
    enum { NICE_ZERO = 20 }; /* setrlimit(2): 20 less the nice value */

    if (resource == RLIMIT_RTPRIO)
        return hard == 0;
    return resource != RLIMIT_NICE || hard <= NICE_ZERO;
}
