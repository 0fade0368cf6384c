#pragma once

/*
 * The validated request for a new sandbox. Pure: strings and JSON in, struct out. CLI and API use
 * the same parsers, so both refuse the same input with the same words.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "policy/net-lan.h"
#include "policy/policy.h"
#include "spec/share.h"

struct err;

enum {
    SPEC_NAME_MAX = 255,        /* bytes; clients that generate names need long ones */
    SPEC_NETWORK_MAX = 63,      /* bytes of a network's name */
    SPEC_ARGS_MAX = 65536,      /* arguments, and environment entries, each */
    SPEC_STRINGS_MAX = 2 << 20, /* bytes of argv and env together: the kernel's default ARG_MAX, a
                                   quarter of an 8 MiB stack */
    SPEC_STRING_MAX =
        131071, /* bytes of one argument or entry: the kernel's MAX_ARG_STRLEN less its NUL */
    SPEC_VOLUMES_MAX = 64,
    SPEC_VOLUME_NAME_MAX = 128,
    SPEC_TMPFS_MAX = 32,
    SPEC_PORTS_MAX = 64,
    SPEC_PATH_MAX = 4095,
    SPEC_HOSTNAME_MAX = 63,
    SPEC_DOMAIN_MAX = 189,    /* bytes; with a host name 253 */
    SPEC_DNS_WORDS_MAX = 115, /* bytes of all domains that are searched, and of all options */
};

struct egress_rules;

struct volume {
    char *source; /* owned; absolute host path, or volume name; NULL: random name */
    char *target; /* owned; absolute path inside */
    bool read_only;
    bool make;      /* a missing source is made, as a directory of its creator's */
    bool named;     /* source is a volume's name */
    bool no_copy;   /* named volume: not filled from the image */
    char *from;     /* owned; named volume: the volume to copy it from; or NULL */
    bool anonymous; /* set during creation: the name is generated */
};

struct tmpfs {
    char *target;            /* owned */
    int64_t bytes;           /* size limit, always set (default 64 MiB) */
    bool read_only, no_exec; /* nosuid and nodev it is always */
    uint32_t mode, uid, gid; /* of its root directory; 01777 and 0 by default */
};

/* A published host port. */
struct publish {
    struct address host; /* port 0 = any free port */
    uint16_t host_last;  /* any free port from host's to this one; 0 = no range */
    uint16_t port;
    bool udp;
};

enum restart_policy {
    RESTART_NO = 0,
    RESTART_ON_FAILURE,
    RESTART_ALWAYS,
    RESTART_UNLESS_STOPPED,
    RESTART_MAX
};

/* Supplementary groups: as many as init accepts, with ids of a sandbox's range. */
enum { SPEC_GROUPS_MAX = 32, SPEC_GROUP_ID_MAX = 65535 };

/* An additional line of the sandbox's /etc/hosts. */
enum {
    SPEC_HOSTS_MAX = 16,     /* limit of the launcher */
    SPEC_HOST_NAME_MAX = 63, /* bytes */
    SPEC_ALIASES_MAX = 8,    /* names of a sandbox in a named network */
    SPEC_LINKS_MAX = 32,
    SPEC_NETS_MORE_MAX = 7, /* named networks beside the first */
    SPEC_HOST_TEXT_MAX = SPEC_HOST_NAME_MAX + 1 + NET_ADDR_TEXT_MAX,
};
struct extra_host {
    struct net_addr addr; /* family 0: the host's end of the sandbox's link */
    char name[SPEC_HOST_NAME_MAX + 1];
};

/* A command that is run in a sandbox periodically to check its health. */
struct health_check {
    bool none;   /* explicitly disabled, even if the image has one */
    char **test; /* owned, NULL-terminated argv; NULL = not set */
    bool shell;  /* test is one text for the image's shell */
    int64_t interval_ms, timeout_ms, start_period_ms, start_interval_ms; /* LIMIT_UNSET = not set */
    int64_t retries;                                                     /* LIMIT_UNSET = not set */
};

/* A sandbox's place in a named network with a subnet. */
struct spec_lan {
    struct net_addr address;   /* asked for; family 0 = any */
    struct net_lan_ask subnet; /* of the network when the sandbox was started last; not stored */
};

/* A named network. */
struct spec_net {
    char *name;    /* owned */
    char *aliases; /* owned; additional names there, separated by spaces; or NULL */
    struct spec_lan lan;
};

/* Rates of accesses to a disk, per second. */
enum io_kind { IO_READ_BPS = 0, IO_WRITE_BPS, IO_READ_IOPS, IO_WRITE_IOPS, IO_KIND_MAX };
enum {
    IO_DEVICES_MAX = 8,
    IO_PATH_MAX = 127, /* bytes of a path below /dev */
    IO_TEXT_MAX = IO_PATH_MAX + 40,
    IO_WEIGHT_MIN = 10,
    IO_WEIGHT_MAX = 1000,
};
#define IO_RATE_MAX (INT64_C(1) << 50)
struct io_device {
    char path[IO_PATH_MAX + 1];
    int64_t rates[IO_KIND_MAX]; /* LIMIT_UNSET = none */
};

/* What a sandbox asks of the host's resources beside its limits. LIMIT_UNSET, NULL = not asked. */
struct resources {
    int64_t swap_bytes;                    /* memory and swap together; SPEC_SWAP_UNLIMITED */
    int64_t reservation_bytes, cpu_shares; /* wishes: the kernel's to follow */
    int64_t oom_score;                     /* 0 to 1000 */
    char *cpus, *mems;                     /* owned; lists such as "0-3,8" */
    int64_t io_weight;                     /* of its accesses to the disk of the state directory */
    int64_t io_rates[IO_KIND_MAX];         /* of that disk */
    struct io_device io_devices[IO_DEVICES_MAX]; /* rates of disks that are named */
    size_t io_device_count;
    int64_t net_rate; /* bytes a second of its link, each way */
};

struct spec {
    char *name;     /* owned; NULL = derived from the id */
    char *image;    /* owned; reference or id as requested; NULL = none */
    char *image_id; /* owned; "sha256:…", resolved when the sandbox is created; NULL = not yet */
    char **image_layers; /* owned, NULL-terminated; directory names of its layers, topmost first;
                            NULL = not yet */
    /*
     * owned, NULL-terminated; NULL = not set. Used only until the image is merged; then argv has
     * both.
     */
    char **entrypoint;
    char *rootfs;   /* owned; absolute host directory, SPEC_ROOTFS_HOST, or NULL = the default root
                       file system */
    char *hostname; /* owned; NULL = the sandbox's id */
    char *domainname; /* owned; NULL = none */
    char *policy;     /* owned; name or path of a policy file; never NULL */
    /*
     * owned, NULL-terminated; the command. Before an image is merged: the arguments of its entry
     * point.
     */
    char **argv;
    char **env;     /* owned, NULL-terminated "K=V"; unique names */
    char *cwd;      /* owned; absolute; NULL = "/" */
    char *user;     /* owned; "name|uid[:group|gid]"; NULL = root; names resolve inside */
    char **sysctls; /* owned, NULL-terminated "NAME=VALUE"; NULL = none */
    char **groups;  /* owned, NULL-terminated; names or numbers, as in user; NULL = none */
    struct volume *volumes;
    size_t volume_count;
    struct tmpfs *tmpfs;
    size_t tmpfs_count;
    struct publish *ports; /* owned */
    size_t port_count;
    struct limits limits; /* as requested; merged over the policy's */
    struct resources resources;
    struct rlimit_value rlimits[RLIMITS_MAX];
    size_t rlimit_count;
    enum net_mode network; /* NET_INVALID = the policy's */
    char *net_container; /* owned; name or id of the sandbox to share a net namespace with; NULL */
    char *net_name;      /* owned; the named network to join, or NULL */
    char *net_aliases;   /* owned; additional names there, separated by spaces; or NULL */
    struct spec_lan net_lan;
    struct spec_net more_nets[SPEC_NETS_MORE_MAX]; /* named networks beside net_name */
    size_t more_net_count;
    char *net_links; /* owned; "NAME:ALIAS", separated by spaces: other names that it knows members
                        of its networks by; or NULL */
    struct net_access access;         /* exceptions from the mode */
    struct net_addr dns[NET_DNS_MAX]; /* name servers instead of the host's */
    size_t dns_count;
    char *dns_search;  /* owned; domains, separated by spaces; "." = none; NULL = the host's */
    char *dns_options; /* owned; likewise */
    struct egress_rules *egress; /* owned; NULL = outgoing connections are not filtered */
    struct extra_host hosts[SPEC_HOSTS_MAX]; /* lines of /etc/hosts, in order */
    size_t host_count;
    uint64_t cap_drop; /* bit n: capability n of the policy is dropped */
    bool read_only, tty, interactive, init;
    bool no_exec;       /* as of the policy, which may say it, too */
    bool attach;        /* for kept sandboxes: output goes to attached clients, not to a log */
    bool console;       /* for kept sandboxes: output goes to all clients, and a log with times */
    bool discard;       /* with console: output goes to clients, and to no log */
    int64_t timeout_ms; /* LIMIT_UNSET = none */
    /* ---- for kept sandboxes ---- */
    char **labels; /* owned, NULL-terminated "K=V" */
    enum restart_policy restart;
    int64_t restart_max;  /* RESTART_ON_FAILURE: LIMIT_UNSET = no limit */
    int stop_signal;      /* SIGTERM */
    bool has_stop_signal; /* the client has set it; false for an image's */
    struct health_check health;
    int64_t stop_timeout_ms;
    int64_t inactivity_ms;    /* LIMIT_UNSET = never stopped for inactivity */
    bool auto_remove;         /* removed when the main process has ended */
    struct share_list shares; /* other users that may see or use it */

    /* Private members of env.c. */
    struct env_index *env_index; /* owned */
    size_t env_count, env_capacity, env_bytes;
};

enum {
    SPEC_IMAGE_MAX = 511, /* bytes of a reference */
    SPEC_IMAGE_LAYERS_MAX = 127,
    SPEC_HEALTH_RETRIES_MAX = 10000,
    SPEC_STOP_TIMEOUT_MS = 10000,
    SPEC_LABELS_MAX = 64,
    SPEC_LABEL_KEY_MAX = 128,          /* bytes */
    SPEC_LABELS_BYTES_MAX = 256 << 10, /* bytes of all labels together */
    SPEC_RESTARTS_MAX = 1000000,       /* for on-failure */
};
#define SPEC_ROOTFS_HOST    "host" /* part of the host's files (policies/README.md) */
#define SPEC_TMPFS_MIN      INT64_C(4096)
#define SPEC_SWAP_UNLIMITED INT64_MAX
#define SPEC_TIME_MAX_MS    (INT64_C(366) * 24 * 3600 * 1000)

/* Returns an empty spec (policy "untrusted", limits unset). NULL = out of memory. */
struct spec *spec_new(void);
void spec_free(struct spec *s);
DEFINE_AUTO(struct spec, spec_free);

/*
 * The spec_set_* and spec_add_* functions parse an option's text. -EINVAL, -ERANGE, -E2BIG; err
 * quotes the text and says what is accepted.
 */
int spec_set_name(struct spec *s, const char *text, struct err *err);
int spec_set_rootfs(struct spec *s, const char *text,
                    struct err *err); /* "host", or relative to the process's cwd */
bool spec_shows_host(const struct spec *s);
/* An image reference or id; excludes a rootfs. */
int spec_set_image(struct spec *s, const char *text, struct err *err);
/* One word, as in docker; "" = no entry point, not even the image's. */
int spec_set_entrypoint(struct spec *s, const char *text, struct err *err);
int spec_set_entrypoints(struct spec *s, char *const argv[], struct err *err);
/* A command for the image's shell; "none" also disables the image's check. */
int spec_set_health_cmd(struct spec *s, const char *text, struct err *err);
/*
 * Sets the resolved image. id: "sha256:…"; layers: topmost first, NULL-terminated; both are copied.
 */
int spec_set_image_layers(struct spec *s, const char *id, char *const *layers, struct err *err);
/* Removes image id and layers, which a client must not set. */
void spec_forget_image(struct spec *s);
/*
 * Sets argv to both lists joined (borrowed, NULL-terminated, may be NULL), and entrypoint to NULL.
 */
int spec_join_command(struct spec *s, char *const *entrypoint, char *const *command,
                      struct err *err);
/* Adds variables ("K=V"s, or NULL) that the spec does not set itself. */
int spec_env_beneath(struct spec *s, char *const *env, struct err *err);
/*
 * A label that only rind sets: data of the Docker API about a container. Labels of that name from
 * clients and images are ignored.
 */
#define SPEC_LABEL_OWN "rind.docker"
bool spec_label_is_own(const char *label); /* argument: "K=V" */
/* True for a container that Docker's API has made: it has that label. */
bool spec_is_docker(const struct spec *s);
/*
 * Adds labels that the spec does not set itself. Skips invalid labels, those without room, and
 * SPEC_LABEL_OWN.
 */
void spec_labels_beneath(struct spec *s, char *const *labels);
void health_check_done(struct health_check *h);
int spec_set_policy(struct spec *s, const char *text, struct err *err);
/* For clients of a daemon: a policy's name; the daemon checks that it exists. */
int spec_set_policy_name(struct spec *s, const char *text, struct err *err);
int spec_set_hostname(struct spec *s, const char *text, struct err *err);
int spec_set_domainname(struct spec *s, const char *text, struct err *err);
int spec_set_workdir(struct spec *s, const char *text, struct err *err);
int spec_set_user(struct spec *s, const char *text, struct err *err);
int spec_add_env(struct spec *s, const char *text,
                 struct err *err); /* K=V, or K = taken from our own environment */
int spec_add_env_file(struct spec *s, const char *path,
                      struct err *err); /* K=V lines, # comments */
int spec_add_volume(struct spec *s, const char *text,
                    struct err *err); /* [SRC:]DST[:ro|rw|nocopy,…] */
int spec_add_tmpfs(struct spec *s, const char *text, struct err *err);  /* DST[:SIZE|OPTIONS] */
int spec_set_memory(struct spec *s, const char *text, struct err *err); /* 128m, 1g, bytes */
int spec_set_cpus(struct spec *s, const char *text, struct err *err);   /* 0.5 */
int spec_set_pids(struct spec *s, const char *text, struct err *err);
int spec_set_shm_size(struct spec *s, const char *text, struct err *err);
/* spec/resources.c */
int spec_set_memory_swap(struct spec *s, const char *text, struct err *err); /* bytes, or -1 */
int spec_set_memory_reservation(struct spec *s, const char *text, struct err *err);
int spec_set_cpu_shares(struct spec *s, const char *text, struct err *err);  /* 2 to 262144 */
int spec_set_cpuset_cpus(struct spec *s, const char *text, struct err *err); /* 0-3,8 */
int spec_set_cpuset_mems(struct spec *s, const char *text, struct err *err);
int spec_set_oom_score(struct spec *s, const char *text, struct err *err); /* 0 to 1000 */
/* spec/io.c */
int spec_set_io_weight(struct spec *s, const char *text, struct err *err);
int spec_set_io_read_bps(struct spec *s, const char *text, struct err *err);
int spec_set_io_write_bps(struct spec *s, const char *text, struct err *err);
int spec_set_io_read_iops(struct spec *s, const char *text, struct err *err);
int spec_set_io_write_iops(struct spec *s, const char *text, struct err *err);
/* PATH:readBps=RATE, or writeBps, readIops, writeIops; the path lies below /dev. */
int spec_add_io_device(struct spec *s, const char *text, struct err *err);
/* PATH:RATE, as Docker's options say it. */
int spec_add_device_rate(struct spec *s, enum io_kind kind, const char *text, struct err *err);
const char *spec_io_kind_name(enum io_kind kind);
int spec_set_net_rate(struct spec *s, const char *text, struct err *err); /* bytes a second */
struct resources resources_unset(void);
void resources_done(struct resources *r);
/* -EINVAL: swap without a memory limit, or less than it. memory: with the policy's. */
int resources_check(const struct resources *r, int64_t memory, struct err *err);
int spec_set_disk(struct spec *s, const char *text, struct err *err);   /* 512m, 10g, bytes */
int spec_add_ulimit(struct spec *s, const char *text, struct err *err); /* nofile=1024[:2048] */
/* none, internet, container:NAME, or the name of a network */
int spec_set_network(struct spec *s, const char *text, struct err *err);
/* Adds a name for the sandbox in the named network. */
int spec_add_net_alias(struct spec *s, const char *text, struct err *err);
/* Returns the name of the sandbox's named network number i, borrowed, or NULL: it has fewer. Its
 * aliases in *ret_aliases (may be NULL): borrowed, or NULL. */
void spec_net_done(struct spec_net *n);
const char *spec_net(const struct spec *s, size_t i, const char **ret_aliases);
bool spec_has_net(const struct spec *s, const char *name);
/* The place in network number i, as of spec_net; NULL: there are fewer. Borrowed. */
const struct spec_lan *spec_net_lan(const struct spec *s, size_t i);
/* The address asked for in a network; NULL: none, or it is not in it. */
const struct net_addr *spec_net_address(const struct spec *s, const char *name);
/* Asks for an address ("172.28.0.10") in a network. -ENOENT: it is not in it; -EINVAL. */
int spec_set_net_address(struct spec *s, const char *name, const char *text, struct err *err);
/* Likewise in the first one, which may still be unnamed. */
int spec_set_ip(struct spec *s, const char *text, struct err *err);
/* Adds a named network. -EEXIST: it is there; -E2BIG. aliases: NULL-terminated; or NULL. */
int spec_add_net(struct spec *s, const char *name, const char *const *aliases, struct err *err);
/* Takes a named network away. -ENOENT. */
int spec_drop_net(struct spec *s, const char *name, struct err *err);
/* Adds "NAME:ALIAS": this sandbox alone knows the member NAME as ALIAS, too. */
int spec_add_net_link(struct spec *s, const char *text, struct err *err);
/*
 * Returns all names of the sandbox in its network number i besides its host name, separated by
 * spaces: the sandbox's name if it is a valid host name, and the aliases. Caller frees; *ret is
 * NULL if there are none.
 */
int spec_net_names(const struct spec *s, size_t i, char **ret, struct err *err);
/* CIDR with or without ports: policy/net-rule.h */
int spec_add_allow_net(struct spec *s, const char *text, struct err *err);
int spec_add_deny_net(struct spec *s, const char *text, struct err *err);
int spec_add_host_port(struct spec *s, const char *text, struct err *err); /* 8080, 53/udp */
int spec_add_dns(struct spec *s, const char *text, struct err *err);
/* spec/dns.c: a domain that is searched, "." = none; an option of resolv.conf. */
int spec_add_dns_search(struct spec *s, const char *text, struct err *err);
int spec_add_dns_option(struct spec *s, const char *text, struct err *err);
int spec_validate_dns(const struct spec *s, struct err *err);
/* GLOB[:PORT], CIDR[:PORT]: an egress rule. The first allow rule sets the default to deny. */
int spec_add_allow_host(struct spec *s, const char *text, struct err *err);
int spec_add_deny_host(struct spec *s, const char *text, struct err *err);
/* Reads all egress rules from a JSON file. */
int spec_set_egress_file(struct spec *s, const char *path, struct err *err);
/* NAME:ADDRESS, or NAME:host-gateway. */
int spec_add_host(struct spec *s, const char *text, struct err *err);
/* NAME=VALUE, one of policy/sysctl.h; -EPERM for others. */
int spec_add_sysctl(struct spec *s, const char *text, struct err *err);
/* A name in the sandbox's /etc/group, or a number. */
int spec_add_group(struct spec *s, const char *text, struct err *err);
/* "CAP_NET_RAW", as in policies, or "ALL". */
int spec_add_cap_drop(struct spec *s, const char *text, struct err *err);
void spec_format_host(const struct extra_host *h, char text[SPEC_HOST_TEXT_MAX]);
int spec_validate_network(const struct spec *s, struct err *err);
int spec_set_timeout(struct spec *s, const char *text, struct err *err); /* 90, 1.5s, 2m */
int spec_set_command(struct spec *s, char *const argv[], struct err *err);
/*
 * [HOSTIP:]HOSTPORT:PORT[/tcp|/udp]; HOSTIP defaults to 127.0.0.1; an empty HOSTPORT = any free
 * port. FIRST-LAST:PORT = a free one of these; FIRST-LAST:FIRST-LAST = each of them in order.
 */
int spec_add_publish(struct spec *s, const char *text, struct err *err);

/* Options of kept sandboxes (kept.c). */
int spec_add_label(struct spec *s, const char *text, struct err *err); /* K=V, or K = empty */
/* no, on-failure[:N], always, unless-stopped */
/* "user:UID" or "group:GID", perhaps with ":ro". */
int spec_add_share(struct spec *s, const char *text, struct err *err);
int spec_set_restart(struct spec *s, const char *text, struct err *err);
/* SIGTERM, TERM, 15, SIGRTMIN+3 */
int spec_set_stop_signal(struct spec *s, const char *text, struct err *err);
int spec_set_stop_timeout(struct spec *s, const char *text, struct err *err); /* as timeout, or 0 */
int spec_set_inactivity(struct spec *s, const char *text, struct err *err);   /* as timeout */
const char *spec_restart_name(enum restart_policy policy);
/*
 * -EINVAL: auto_remove and a restart policy exclude each other. Not part of spec_validate_kept,
 * because records of older versions with both must stay readable.
 */
int spec_check_removal(const struct spec *s, struct err *err);

/*
 * As spec_add_volume and spec_add_tmpfs, for parts that may contain colons.
 */
int spec_put_volume(struct spec *s, const char *source, const char *target, bool read_only,
                    struct err *err);
/* Makes a missing source of the last volume a directory of the host, at each start. */
void spec_volume_make(struct spec *s);
/* Makes the last volume a copy of the volume `from`, instead of the image's files. */
int spec_volume_from(struct spec *s, const char *from, struct err *err);
int spec_add_restore(struct spec *s, const char *text, struct err *err); /* VOLUME:DST */
/* Adds a named volume; name NULL: an anonymous one, removed with the sandbox. */
int spec_put_named_volume(struct spec *s, const char *name, const char *target, bool read_only,
                          bool no_copy, struct err *err);
/* host: NULL = 127.0.0.1. */
int spec_put_publish(struct spec *s, const char *host, int64_t host_port, int64_t port, bool udp,
                     struct err *err);
/* As spec_put_publish, with any free port of the host from host_port to host_last (0: no range). */
int spec_put_publish_range(struct spec *s, const char *host, int64_t host_port, int64_t host_last,
                           int64_t port, bool udp, struct err *err);
/* Copies what t (spec/tmpfs.h) says, but for its target. */
int spec_put_tmpfs(struct spec *s, const char *target, const struct tmpfs *t, struct err *err);

/* Checks across options: unique mount targets, total size of argv and env. */
int spec_validate_kept(const struct spec *s, struct err *err);
/* As spec_validate_kept, and requires a command or an image. */
int spec_validate(const struct spec *s, struct err *err);
