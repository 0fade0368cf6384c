/* The options of a new sandbox, shared by run and create. */

#include "cli/spec-options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "cli/mount-option.h"
#include "cli/share-names.h"
#include "json/parse.h"
#include "spec/json.h"
#include "spec/spec.h"

/* Option handlers that call the parsers of spec/, so that CLI and API accept the same texts. */
#define SPEC_HANDLER(fn)                                                                           \
    static int on_##fn(void *target, const struct opt *o, const char *text, struct err *err)       \
    {                                                                                              \
        struct sandbox_args *args = target;                                                        \
                                                                                                   \
        (void)o;                                                                                   \
        return fn(args->spec, text, err);                                                          \
    }                                                                                              \
    struct rind_swallow_semicolon_

SPEC_HANDLER(spec_set_name);
SPEC_HANDLER(spec_set_rootfs);
SPEC_HANDLER(spec_set_image);
SPEC_HANDLER(spec_set_entrypoint);
SPEC_HANDLER(spec_set_health_cmd);
SPEC_HANDLER(spec_set_policy);
SPEC_HANDLER(spec_set_hostname);
SPEC_HANDLER(spec_set_workdir);
SPEC_HANDLER(spec_set_user);
SPEC_HANDLER(spec_add_env);
SPEC_HANDLER(spec_add_env_file);
SPEC_HANDLER(spec_add_volume);
SPEC_HANDLER(spec_add_mount);
SPEC_HANDLER(spec_add_restore);
SPEC_HANDLER(spec_add_tmpfs);
SPEC_HANDLER(spec_add_publish);
SPEC_HANDLER(spec_set_memory);
SPEC_HANDLER(spec_set_cpus);
SPEC_HANDLER(spec_set_memory_swap);
SPEC_HANDLER(spec_set_memory_reservation);
SPEC_HANDLER(spec_set_cpu_shares);
SPEC_HANDLER(spec_set_cpuset_cpus);
SPEC_HANDLER(spec_set_cpuset_mems);
SPEC_HANDLER(spec_set_oom_score);
SPEC_HANDLER(spec_set_io_weight);
SPEC_HANDLER(spec_set_io_read_bps);
SPEC_HANDLER(spec_set_io_write_bps);
SPEC_HANDLER(spec_set_io_read_iops);
SPEC_HANDLER(spec_set_io_write_iops);
SPEC_HANDLER(spec_set_net_rate);
SPEC_HANDLER(spec_add_sysctl);
SPEC_HANDLER(spec_set_pids);
SPEC_HANDLER(spec_set_shm_size);
SPEC_HANDLER(spec_set_disk);
SPEC_HANDLER(spec_add_ulimit);
SPEC_HANDLER(spec_set_network);
SPEC_HANDLER(spec_add_net_alias);
SPEC_HANDLER(spec_set_ip);
SPEC_HANDLER(spec_add_allow_net);
SPEC_HANDLER(spec_add_deny_net);
SPEC_HANDLER(spec_add_host_port);
SPEC_HANDLER(spec_add_dns);
SPEC_HANDLER(spec_add_dns_search);
SPEC_HANDLER(spec_add_dns_option);
SPEC_HANDLER(spec_set_domainname);
SPEC_HANDLER(spec_add_allow_host);
SPEC_HANDLER(spec_add_deny_host);
SPEC_HANDLER(spec_set_egress_file);
SPEC_HANDLER(spec_add_host);
SPEC_HANDLER(spec_add_group);
SPEC_HANDLER(spec_set_timeout);
SPEC_HANDLER(spec_add_label);
SPEC_HANDLER(spec_set_restart);
SPEC_HANDLER(spec_set_stop_signal);
SPEC_HANDLER(spec_set_stop_timeout);
SPEC_HANDLER(spec_set_inactivity);

static int on_share(void *target, const struct opt *o, const char *text, struct err *err)
{
    const struct sandbox_args *args = target;
    char id[SHARE_TEXT_MAX];
    int r = share_resolve(text, id, err);

    (void)o;
    return r < 0 ? r : spec_add_share(args->spec, id, err);
}

/* Sets a bool of the spec; off: offset in struct spec. */
static int spec_flag(void *target, const struct opt *o, const char *text, struct err *err)
{
    struct sandbox_args *args = target;

    (void)text;
    (void)err;
    *(bool *)((char *)args->spec + o->off) = true;
    return 0;
}

static int opt_device_rate(void *target, const struct opt *o, const char *text, struct err *err)
{
    return spec_add_device_rate(((struct sandbox_args *)target)->spec, (enum io_kind)o->off, text,
                                err);
}

/* Docker's --pull, of which there is nothing to choose while there are no registries. */
static int opt_pull(void *target, const struct opt *o, const char *text, struct err *err)
{
    (void)target;
    (void)o;
    if (strcmp(text, "missing") == 0 || strcmp(text, "never") == 0)
        return 0;
    if (strcmp(text, "always") == 0 || strcmp(text, "newer") == 0)
        return err_set(err, -EOPNOTSUPP,
                       "\"%s\": there are no registries yet; rind load brings another image", text);
    return err_set(err, -EINVAL, "\"%.64s\": must be missing, never or always", text);
}

/* clang-format off */
const struct opt root_options[] = {
    { .name = "rootfs",    .arg = "DIR",  .set = on_spec_set_rootfs,
      .help = "Use the directory DIR as the root file system; \"host\": the programs of this machine, "
              "as far as any user of it may read them. It is not written to: changes go to the "
              "sandbox's own layer. Default: the small one that rind carries" },
    { .name = "image",     .arg = "IMAGE", .set = on_spec_set_image,
      .help = "Use the file system of IMAGE and what else it says; also the first operand without "
              "`--` in front of it names one" },
    { .name = "read-only", .set = spec_flag, .off = offsetof(struct spec, read_only),
      .help = "Refuse writes to the root file system; volumes and tmpfs stay as they are" },
    { .name = "volume",    .letter = 'v', .arg = "SRC:DST[:ro]", .set = on_spec_add_volume,
      .flags = OPT_REPEAT,
      .help = "Show SRC at DST, a path of the host that begins with / or ., or the name of a volume, "
              "which is made when there is none and filled with what the image has at DST (not with "
              ":nocopy). With :ro it cannot be written to. DST alone: a new volume that goes with "
              "the sandbox" },
    { .name = "mount",     .arg = "KEY=VALUE,...", .set = on_spec_add_mount, .flags = OPT_REPEAT,
      .help = "The same as docker writes it: type=bind,source=SRC,target=DST,readonly, or "
              "type=volume or type=tmpfs, with volume-nocopy, tmpfs-size, tmpfs-mode" },
    { .name = "restore",   .arg = "VOLUME:DST", .set = on_spec_add_restore, .flags = OPT_REPEAT,
      .help = "Put a copy of VOLUME, such as rind snapshot --dir makes one, at DST; it goes with the "
              "sandbox" },
    { .name = "publish",   .letter = 'p', .arg = "HOST:PORT[/udp]", .set = on_spec_add_publish,
      .flags = OPT_REPEAT,
      .help = "Make HOST, a port of the host or IP:PORT, lead to this one; 127.0.0.1 by itself; "
              "without HOST (:PORT) a port is chosen, which rind ls shows; of 8000-8010:PORT a "
              "free one; ranges of one size go pairwise. Of a daemon's sandboxes only" },
    { .name = "tmpfs",     .arg = "DST[:OPTIONS]", .set = on_spec_add_tmpfs, .flags = OPT_REPEAT,
      .help = "Mount an empty file system in memory at DST; OPTIONS: size= (64m by itself), "
              "mode= (1777), uid=, gid=, ro, noexec" },
    { .name = "disk",      .arg = "SIZE", .set = on_spec_set_disk,
      .help = "Give the sandbox's own layer a file system of SIZE bytes: what is written past that "
              "fails (ENOSPC). It takes room on the host as it is filled" },
    { .name = "shm-size",  .arg = "SIZE", .set = on_spec_set_shm_size,
      .help = "Size of /dev/shm" },
    {0},
};

const struct opt command_options[] = {
    { .name = "env",         .letter = 'e', .arg = "KEY=VALUE", .set = on_spec_add_env,
      .flags = OPT_REPEAT,
      .help = "Set an environment variable; KEY alone takes its value from rind's environment. "
              "Nothing else of that environment is passed on" },
    { .name = "env-file",    .arg = "FILE", .set = on_spec_add_env_file, .flags = OPT_REPEAT,
      .help = "Read environment variables from FILE, one KEY=VALUE a line; lines that begin with "
              "# are skipped" },
    { .name = "workdir",     .letter = 'w', .arg = "DIR", .set = on_spec_set_workdir,
      .help = "Start the command in DIR (default /)" },
    { .name = "user",        .letter = 'u', .arg = "USER[:GROUP]", .set = on_spec_set_user,
      .help = "Run the command as USER, a name from the sandbox's /etc/passwd or a number "
              "(default root, which is an ordinary user of the host)" },
    { .name = "group-add",   .arg = "GROUP", .set = on_spec_add_group, .flags = OPT_REPEAT,
      .help = "Let every process be in GROUP, too: a name from the sandbox's /etc/group or a "
              "number" },
    { .name = "entrypoint",  .arg = "PROGRAM", .set = on_spec_set_entrypoint,
      .help = "Run PROGRAM with the command as its arguments, rather than the image's entry point; "
              "\"\" for none" },
    { .name = "health-cmd",  .arg = "TEXT", .set = on_spec_set_health_cmd,
      .help = "Ask this shell command whether the sandbox is well, rather than the image's; none "
              "for none" },
    { .name = "tty",         .letter = 't', .set = spec_flag, .off = offsetof(struct spec, tty),
      .help = "Give the command a terminal of its own" },
    { .name = "interactive", .letter = 'i', .set = spec_flag,
      .off = offsetof(struct spec, interactive),
      .help = "Pass standard input on; without it the command reads end of file" },
    { .name = "init",        .set = spec_flag, .off = offsetof(struct spec, init),
      .help = "Put a small init in front of the command, which reaps orphans and passes signals "
              "on; without it the command itself is process 1, which only gets signals that it "
              "catches: ctrl-c does not end sleep" },
    { .name = "timeout",     .arg = "TIME", .set = on_spec_set_timeout,
      .help = "End the sandbox after TIME: seconds, or a number with ms, s, m, or h" },
    { .name = "name",        .arg = "NAME", .set = on_spec_set_name,
      .help = "Name the sandbox; by default it is called by its id" },
    { .name = "rm",          .set = opt_flag, .off = offsetof(struct sandbox_args, remove),
      .help = "Remove the sandbox and its files when the command ends. rind run does so always, "
              "but with --detach" },
    { .name = "cidfile",     .arg = "FILE", .set = opt_text,
      .off = offsetof(struct sandbox_args, cidfile.path),
      .help = "Write the sandbox's id to FILE, which must not be there yet" },
    { .name = "pull",        .arg = "WHEN", .set = opt_pull,
      .help = "missing or never: the image is the store's in any case, as there are no registries "
              "yet; always is refused" },
    {0},
};

const struct opt kept_options[] = {
    { .name = "label",   .letter = 'l', .arg = "KEY[=VALUE]", .set = on_spec_add_label,
      .flags = OPT_REPEAT,
      .help = "Put a label on the sandbox, for rind ls --label" },
    { .name = "share", .arg = "USER|GROUP[:ro]", .set = on_share, .flags = OPT_REPEAT,
      .help = "Let this user or group use the sandbox, all that it shows of the host included; with "
              ":ro look at it, its logs and figures: no execs, files, environment or signals" },
    { .name = "restart", .arg = "POLICY", .set = on_spec_set_restart,
      .help = "When the main process has ended by itself, start it again: no (default), "
              "on-failure[:TIMES], always, or unless-stopped; not with --rm" },
    { .name = "log-times", .set = spec_flag, .off = offsetof(struct spec, console),
      .help = "Keep the log line by line with times, for rind logs --timestamps and --since, and in "
              "the order of both streams; the command waits with more output while the daemon is "
              "away" },
    { .name = "stop-signal",  .arg = "SIGNAL", .set = on_spec_set_stop_signal,
      .help = "What rind stop sends first (default TERM)" },
    { .name = "stop-timeout", .arg = "TIME", .set = on_spec_set_stop_timeout,
      .help = "From that to SIGKILL (default 10s)" },
    { .name = "inactivity-timeout", .arg = "TIME", .set = on_spec_set_inactivity,
      .help = "Stop the sandbox when no client has used it for so long" },
    {0},
};

const struct opt limit_options[] = {
    { .name = "memory", .letter = 'm', .arg = "SIZE", .set = on_spec_set_memory,
      .help = "Limit memory and swap together: bytes, or a number with k, m, g, or t" },
    { .name = "cpus",   .arg = "NUMBER", .set = on_spec_set_cpus,
      .help = "Limit processor time to NUMBER processors, such as 0.5" },
    { .name = "pids",   .arg = "COUNT", .set = on_spec_set_pids,
      .help = "Limit the number of processes and threads" },
    { .name = "memory-swap", .arg = "SIZE", .set = on_spec_set_memory_swap,
      .help = "Limit memory and swap together; -1: swap without a limit. Without it there is no "
              "swap" },
    { .name = "memory-reservation", .arg = "SIZE", .set = on_spec_set_memory_reservation,
      .help = "Memory that the kernel should take from others first" },
    { .name = "cpu-shares", .letter = 'c', .arg = "NUMBER", .set = on_spec_set_cpu_shares,
      .help = "Weight of its processor time; others have 1024" },
    { .name = "cpuset-cpus", .arg = "LIST", .set = on_spec_set_cpuset_cpus,
      .help = "Run on these processors only, such as 0-3,8" },
    { .name = "cpuset-mems", .arg = "LIST", .set = on_spec_set_cpuset_mems,
      .help = "Use the memory of these nodes only" },
    { .name = "sysctl", .arg = "NAME=VALUE", .set = on_spec_add_sysctl, .flags = OPT_REPEAT,
      .help = "Set a kernel parameter of its own net or ipc namespace, such as "
              "net.core.somaxconn=1024" },
    { .name = "oom-score-adj", .arg = "NUMBER", .set = on_spec_set_oom_score,
      .help = "0 to 1000: how early its processes are killed when the host's memory runs out" },
    { .name = "io-weight", .arg = "NUMBER", .set = on_spec_set_io_weight,
      .help = "Weight of its accesses to the disk, 10 to 1000; others have 100" },
    { .name = "io-read-bps", .arg = "SIZE", .set = on_spec_set_io_read_bps,
      .help = "Limit reads from the disk where sandboxes are kept, in bytes a second" },
    { .name = "io-write-bps", .arg = "SIZE", .set = on_spec_set_io_write_bps,
      .help = "Limit writes to it, in bytes a second" },
    { .name = "io-read-iops", .arg = "COUNT", .set = on_spec_set_io_read_iops,
      .help = "Limit the number of reads from it a second" },
    { .name = "io-write-iops", .arg = "COUNT", .set = on_spec_set_io_write_iops,
      .help = "Limit the number of writes to it a second" },
    { .name = "device-read-bps", .arg = "DISK:SIZE", .set = opt_device_rate, .off = IO_READ_BPS,
      .flags = OPT_REPEAT, .help = "Limit reads from this disk of the host, such as /dev/sda:1m" },
    { .name = "device-write-bps", .arg = "DISK:SIZE", .set = opt_device_rate, .off = IO_WRITE_BPS,
      .flags = OPT_REPEAT, .help = "Limit writes to it" },
    { .name = "device-read-iops", .arg = "DISK:COUNT", .set = opt_device_rate, .off = IO_READ_IOPS,
      .flags = OPT_REPEAT, .help = "Limit the number of reads from it a second" },
    { .name = "device-write-iops", .arg = "DISK:COUNT", .set = opt_device_rate,
      .off = IO_WRITE_IOPS, .flags = OPT_REPEAT,
      .help = "Limit the number of writes to it a second" },
    { .name = "network-rate", .arg = "SIZE", .set = on_spec_set_net_rate,
      .help = "Limit what its link carries each way, in bytes a second" },
    { .name = "ulimit", .arg = "NAME=SOFT[:HARD]", .set = on_spec_add_ulimit, .flags = OPT_REPEAT,
      .help = "Set a resource limit of each process, such as nofile=1024" },
    {0},
};

const struct opt isolation_options[] = {
    { .name = "policy",   .arg = "NAME|FILE", .set = on_spec_set_policy,
      .help = "Allow what this policy allows: untrusted (default), compute, container, build, fuse, "
              "net-admin, or a JSON file" },
    { .name = "no-exec", .set = spec_flag, .off = offsetof(struct spec, no_exec),
      .help = "Each process that is started executes its own program and no other; "
              "policies/README.md says what that prevents" },
    { .name = "hostname", .letter = 'h', .arg = "NAME", .set = on_spec_set_hostname,
      .flags = OPT_SHARED_LETTER,
      .help = "Set the host name inside; by default it is the sandbox's id. -h alone shows this help" },
    { .name = "domainname", .arg = "DOMAIN", .set = on_spec_set_domainname,
      .help = "The domain of the host name: NAME.DOMAIN is in /etc/hosts" },
    { .name = "network",  .arg = "MODE|NAME", .set = on_spec_set_network, .flags = OPT_REPEAT,
      .help = "none: only a loopback device. internet: connections to public addresses. "
              "container:NAME: the network of another sandbox. Any other NAME: a network whose "
              "members reach each other; host is refused, bridge and default are called internet "
              "here. Default: what the policy says" },
    { .name = "net", .arg = "MODE|NAME", .set = on_spec_set_network,
      .flags = OPT_REPEAT | OPT_HIDDEN },
    { .name = "network-alias", .arg = "NAME", .set = on_spec_add_net_alias, .flags = OPT_REPEAT,
      .help = "Another name by which the members of its network find it" },
    { .name = "ip", .arg = "ADDRESS", .set = on_spec_set_ip,
      .help = "Its address in its network, which has been made with a subnet" },
    { .name = "net-alias", .arg = "NAME", .set = on_spec_add_net_alias,
      .flags = OPT_REPEAT | OPT_HIDDEN },
    { .name = "allow-net", .arg = "CIDR[:PORT][/PROTO]", .set = on_spec_add_allow_net,
      .flags = OPT_REPEAT,
      .help = "Allow connections there, whatever the network is otherwise: 10.1.0.0/16:5432" },
    { .name = "deny-net", .arg = "CIDR[:PORT][/PROTO]", .set = on_spec_add_deny_net,
      .flags = OPT_REPEAT, .help = "Refuse connections there; goes before everything allowed" },
    { .name = "host-port", .arg = "PORT[/PROTO]", .set = on_spec_add_host_port,
      .flags = OPT_REPEAT,
      .help = "Let the sandbox reach this port of the host, as host.rind.internal" },
    { .name = "dns", .arg = "ADDRESS", .set = on_spec_add_dns, .flags = OPT_REPEAT,
      .help = "Ask this name server, not the host's; only with a network" },
    { .name = "dns-search", .arg = "DOMAIN", .set = on_spec_add_dns_search, .flags = OPT_REPEAT,
      .help = "Look names up in this domain, not in those of the host; . for none" },
    { .name = "dns-option", .arg = "OPTION", .set = on_spec_add_dns_option, .flags = OPT_REPEAT,
      .help = "An option of /etc/resolv.conf, such as ndots:2, instead of the host's" },
    { .name = "dns-opt", .arg = "OPTION", .set = on_spec_add_dns_option,
      .flags = OPT_REPEAT | OPT_HIDDEN },
    { .name = "allow-host", .arg = "HOST[:PORT]", .set = on_spec_add_allow_host,
      .flags = OPT_REPEAT,
      .help = "Allow connections to hosts of this name, such as *.example.com, or CIDR, and to "
              "none that is not allowed; implies --network internet. Of a daemon's sandboxes "
              "only" },
    { .name = "deny-host", .arg = "HOST[:PORT]", .set = on_spec_add_deny_host,
      .flags = OPT_REPEAT,
      .help = "Refuse connections to hosts of this name, or CIDR; rules count in their order" },
    { .name = "egress", .arg = "FILE", .set = on_spec_set_egress_file,
      .help = "Rules for connections that leave the sandbox, as JSON: rind help egress" },
    { .name = "add-host", .arg = "NAME:ADDRESS", .set = on_spec_add_host, .flags = OPT_REPEAT,
      .help = "A line of /etc/hosts; host-gateway stands for the host's end of the network" },
    {0},
};
/* clang-format on */

int spec_operands(struct spec *spec, char **operands, bool dashes, struct err *err)
{
    if (operands[0] != NULL && !dashes && spec->rootfs == NULL && spec->image == NULL) {
        int r = spec_set_image(spec, *operands++, err);

        if (r < 0)
            return r;
    }
    if (operands[0] == NULL && spec->image == NULL)
        return err_set(err, -EINVAL,
                       "no image and no command; write it behind the options: rind run [OPTIONS] "
                       "IMAGE [CMD...], or rind run [OPTIONS] -- CMD");
    if (operands[0] != NULL)
        return spec_set_command(spec, operands, err);
    return 0;
}

/* ---- requests to the daemon ---- */

/* The daemon follows no symbolic links, so the caller's are resolved here. */
static int resolve_path(json_t *object, const char *key, const char *what, struct err *err)
{
    const char *path = json_string_value(json_object_get(object, key));
    auto_free char *real = path != NULL && path[0] == '/' ? realpath(path, NULL) : NULL;

    if (path == NULL || path[0] != '/')
        return 0;
    if (real == NULL)
        return err_errno(err, -errno, "%s '%s'", what, path);
    return json_object_set_new(object, key, json_string(real)) < 0
               ? err_set(err, -EILSEQ, "%s '%s': is not UTF-8", what, real)
               : 0;
}

int spec_request(const struct spec *spec, json_t **ret, struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    json_t *volume;
    size_t i;
    int r = spec_to_json(spec, &root, err);

    if (r == 0 && !spec->has_stop_signal)
        (void)json_object_del(root, "stopSignal"); /* the image may set one */
    if (r == 0)
        r = resolve_path(root, "rootfs", "root file system", err);
    json_array_foreach(json_object_get(root, "volumes"), i, volume)
        if (r == 0 && !spec->volumes[i].named)
            r = resolve_path(volume, "source", "volume", err);
    if (r == 0)
        *ret = take(root);
    return r;
}

int spec_check_remove(const struct sandbox_args *args, struct err *err)
{
    if (!args->remove || args->spec->restart == RESTART_NO)
        return 0;
    return err_set(err, -EINVAL,
                   "--rm: not with --restart %s, which starts again what would be removed; leave "
                   "one of them out",
                   spec_restart_name(args->spec->restart));
}
