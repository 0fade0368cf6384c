/* The list of sysctls behind policy/sysctl.h. Left out on purpose: what the kernel has once for all
 * namespaces (net.core.rmem_max, net.ipv4.tcp_mem), what routes for others (ip_forward, rp_filter,
 * accept_ra), and what makes buffers larger than the kernel's own. Pure. */

#include "policy/sysctl.h"

#include <string.h>

static const struct {
    const char *name;
    enum sysctl_kind kind;
} sysctls[] = {
    {"net.core.somaxconn", SYSCTL_NET},
    {"net.ipv4.ip_local_port_range", SYSCTL_NET},
    {"net.ipv4.ip_unprivileged_port_start", SYSCTL_NET},
    {"net.ipv4.ping_group_range", SYSCTL_NET},
    {"net.ipv4.tcp_ecn", SYSCTL_NET},
    {"net.ipv4.tcp_fin_timeout", SYSCTL_NET},
    {"net.ipv4.tcp_keepalive_intvl", SYSCTL_NET},
    {"net.ipv4.tcp_keepalive_probes", SYSCTL_NET},
    {"net.ipv4.tcp_keepalive_time", SYSCTL_NET},
    {"net.ipv4.tcp_max_syn_backlog", SYSCTL_NET},
    {"net.ipv4.tcp_mtu_probing", SYSCTL_NET},
    {"net.ipv4.tcp_orphan_retries", SYSCTL_NET},
    {"net.ipv4.tcp_retries1", SYSCTL_NET},
    {"net.ipv4.tcp_retries2", SYSCTL_NET},
    {"net.ipv4.tcp_sack", SYSCTL_NET},
    {"net.ipv4.tcp_slow_start_after_idle", SYSCTL_NET},
    {"net.ipv4.tcp_syn_retries", SYSCTL_NET},
    {"net.ipv4.tcp_synack_retries", SYSCTL_NET},
    {"net.ipv4.tcp_syncookies", SYSCTL_NET},
    {"net.ipv4.tcp_timestamps", SYSCTL_NET},
    {"net.ipv4.tcp_tw_reuse", SYSCTL_NET},
    {"net.ipv4.tcp_window_scaling", SYSCTL_NET},
    {"net.ipv6.bindv6only", SYSCTL_NET},
    {"net.ipv6.conf.all.disable_ipv6", SYSCTL_NET},
    {"net.ipv6.conf.default.disable_ipv6", SYSCTL_NET},
    {"net.ipv6.conf.lo.disable_ipv6", SYSCTL_NET},
    {"kernel.msgmax", SYSCTL_IPC},
    {"kernel.msgmnb", SYSCTL_IPC},
    {"kernel.msgmni", SYSCTL_IPC},
    {"kernel.sem", SYSCTL_IPC},
    {"kernel.shm_rmid_forced", SYSCTL_IPC},
    {"kernel.shmall", SYSCTL_IPC},
    {"kernel.shmmax", SYSCTL_IPC},
    {"kernel.shmmni", SYSCTL_IPC},
    {"fs.mqueue.msg_default", SYSCTL_IPC},
    {"fs.mqueue.msg_max", SYSCTL_IPC},
    {"fs.mqueue.msgsize_default", SYSCTL_IPC},
    {"fs.mqueue.msgsize_max", SYSCTL_IPC},
    {"fs.mqueue.queues_max", SYSCTL_IPC},
};

/* Numbers, as all of the listed have: no newline, by which a second value could follow. */
static bool value_ok(const char *value)
{
    return value[0] != '\0' && value[0] != ' ' && strspn(value, "0123456789- ") == strlen(value);
}

enum sysctl_kind sysctl_judge(const char *text)
{
    const char *equals = strchr(text, '=');
    const size_t len = equals != NULL ? (size_t)(equals - text) : 0;

    if (len == 0 || strlen(text) > SYSCTL_TEXT_MAX || !value_ok(equals + 1))
        return SYSCTL_REFUSED;
    for (size_t i = 0; i < sizeof(sysctls) / sizeof(sysctls[0]); i++)
        if (strlen(sysctls[i].name) == len && memcmp(sysctls[i].name, text, len) == 0)
            return sysctls[i].kind;
    return SYSCTL_REFUSED;
}
