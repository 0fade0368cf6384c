#pragma once

/*
 * What a client asks of a new sandbox, validated. Pure: strings and JSON in, struct out. The CLI
 * and the API fill the same struct, by the same parsers, so that both refuse the same input with
 * the same words.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "policy/policy.h"

struct err;

enum {
    SPEC_NAME_MAX = 255,        /* bytes; clients that make names of their own make long ones */
    SPEC_NETWORK_MAX = 63,      /* bytes of a network's name */
    SPEC_ARGS_MAX = 65536,      /* arguments, and environment entries, each */
    SPEC_STRINGS_MAX = 2 << 20, /* bytes of argv and env together: the kernel's default ARG_MAX (a
                                   quarter of 8 MiB) */
    SPEC_STRING_MAX =
        131071, /* bytes of one argument or entry: the kernel's MAX_ARG_STRLEN less its NUL */
    SPEC_VOLUMES_MAX = 64,
    SPEC_VOLUME_NAME_MAX = 128,
    SPEC_TMPFS_MAX = 32,
    SPEC_PORTS_MAX = 64,
    SPEC_PATH_MAX = 4095,
    SPEC_HOSTNAME_MAX = 63,
};

struct egress_rules;

struct volume {
    char *source; /* owned; absolute host path; or the name of a volume, or NULL: one is made */
    char *target; /* owned; absolute path inside */
    bool read_only;
    bool named;     /* source is no path */
    bool no_copy;   /* of a named one: what the image has there is not copied into it */
    char *from;     /* owned; of a named one: the volume that it is filled from instead; or NULL */
    bool anonymous; /* while the sandbox is being made: its name was made up for it */
};

struct tmpfs {
    char *target;  /* owned */
    int64_t bytes; /* size limit, always set (default 64 MiB) */
};

/* A port of the host that leads to one of the sandbox. */
struct publish {
    struct address host; /* its port: 0 = one that is free */
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

/* Groups that all processes are in beside their user's: as many as an exec takes, and no more id
 * than a sandbox has. */
enum { SPEC_GROUPS_MAX = 32, SPEC_GROUP_ID_MAX = 65535 };

/* A further line of the sandbox's /etc/hosts. */
enum {
    SPEC_HOSTS_MAX = 16,     /* as many as the launcher takes */
    SPEC_HOST_NAME_MAX = 63, /* bytes */
    SPEC_ALIASES_MAX = 8,    /* names of a sandbox in a named network */
    SPEC_HOST_TEXT_MAX = SPEC_HOST_NAME_MAX + 1 + NET_ADDR_TEXT_MAX,
};
struct extra_host {
    struct net_addr addr; /* family 0: the host's end of the sandbox's link */
    char name[SPEC_HOST_NAME_MAX + 1];
};

/* How a sandbox tells whether it is well: a command that is run in it now and then. */
struct health_check {
    bool none;   /* told to have none, whatever the image says */
    char **test; /* owned, NULL-terminated argv; NULL = none was said */
    bool shell;  /* test is one text, for the image's shell */
    int64_t interval_ms, timeout_ms, start_period_ms, start_interval_ms; /* LIMIT_UNSET */
    int64_t retries;                                                     /* LIMIT_UNSET */
};

struct spec {
    char *name;     /* owned; NULL = made from the id */
    char *image;    /* owned; a reference or id as it was asked for; NULL = none */
    char *image_id; /* owned; "sha256:…", what that was when the sandbox was made; NULL = not yet */
    char **image_layers; /* owned, NULL-terminated; the names that its layers are stored by, top
                            first, as of then; NULL = not yet */
    char **entrypoint;   /* owned, NULL-terminated; NULL = not said. With an image whose own is not
                            merged yet alone; else argv has all of it */
    char *rootfs;   /* owned; absolute host directory, SPEC_ROOTFS_HOST, or NULL = the default root
                       file system */
    char *hostname; /* owned; NULL = the sandbox's id */
    char *policy;   /* owned; name or path of a policy file; never NULL */
    char **argv;    /* owned, NULL-terminated; the command; with an image, before it is merged, the
                       arguments of its entry point */
    char **env;     /* owned, NULL-terminated "K=V"; later entries win; no duplicates */
    char *cwd;      /* owned; absolute; NULL = "/" */
    char *user;    /* owned; "name|uid[:group|gid]"; NULL = root; syntax checked, names are resolved
                      inside */
    char **groups; /* owned, NULL-terminated; names or numbers, as of user; NULL = none */
    struct volume *volumes;
    size_t volume_count;
    struct tmpfs *tmpfs;
    size_t tmpfs_count;
    struct publish *ports; /* owned */
    size_t port_count;
    struct limits limits; /* what was asked for; merged over the policy's by the plan */
    struct rlimit_value rlimits[RLIMITS_MAX];
    size_t rlimit_count;
    enum net_mode network;            /* NET_INVALID = the policy's */
    char *net_container;              /* owned; whose network it shares: a name or id; NULL */
    char *net_name;                   /* owned; the named network that it is in; NULL */
    char *net_aliases;                /* owned; its names there beside the host name, a space
                                         between them; NULL */
    struct net_access access;         /* beside the mode */
    struct net_addr dns[NET_DNS_MAX]; /* name servers instead of the host's */
    size_t dns_count;
    struct egress_rules *egress;             /* owned; NULL = what it sends is not looked at */
    struct extra_host hosts[SPEC_HOSTS_MAX]; /* of /etc/hosts, in their order */
    size_t host_count;
    uint64_t cap_drop; /* bit n: capability n, which the policy may have, is not had */
    bool read_only, tty, interactive, init;
    bool attach;        /* of kept sandboxes: the command talks to who is attached, not to a log */
    bool console;       /* the same, to any number of clients, and to a log with times */
    int64_t timeout_ms; /* LIMIT_UNSET = none */
    /* Of kept sandboxes. */
    char **labels; /* owned, NULL-terminated "K=V" */
    enum restart_policy restart;
    int64_t restart_max;  /* RESTART_ON_FAILURE: LIMIT_UNSET = no bound */
    int stop_signal;      /* SIGTERM */
    bool has_stop_signal; /* somebody said so: an image's own does not count */
    struct health_check health;
    int64_t stop_timeout_ms;
    int64_t inactivity_ms; /* LIMIT_UNSET = never stopped for it */
    bool auto_remove;      /* removed when the main process has ended */

    /* Private: env.c's bookkeeping of env. */
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
    SPEC_RESTARTS_MAX = 1000000,       /* of on-failure */
};
#define SPEC_ROOTFS_HOST "host" /* what the launcher shows of the host (policies/README.md) */
#define SPEC_TMPFS_MIN   INT64_C(4096)
#define SPEC_TIME_MAX_MS (INT64_C(366) * 24 * 3600 * 1000)

/* An empty spec (policy "untrusted", limits unset). NULL on OOM. */
struct spec *spec_new(void);
void spec_free(struct spec *s);
DEFINE_AUTO(struct spec, spec_free);

/* One option's text into the spec; -EINVAL/-ERANGE/-E2BIG with a message that quotes the text and
 * says what is accepted. */
int spec_set_name(struct spec *s, const char *text, struct err *err);
int spec_set_rootfs(struct spec *s, const char *text,
                    struct err *err); /* "host", or relative to the process's cwd */
bool spec_shows_host(const struct spec *s);
/* A reference to an image, or its id. Not with a rootfs. */
int spec_set_image(struct spec *s, const char *text, struct err *err);
/* One word, as docker has it; "" = none, also not the image's. */
int spec_set_entrypoint(struct spec *s, const char *text, struct err *err);
int spec_set_entrypoints(struct spec *s, char *const argv[], struct err *err);
/* A command for the image's shell, "none" = not the image's either. */
int spec_set_health_cmd(struct spec *s, const char *text, struct err *err);
/* For who has the image. id: "sha256:…"; layers: top first, NULL-terminated; both are copied. */
int spec_set_image_layers(struct spec *s, const char *id, char *const *layers, struct err *err);
/* What only who has the images may say: of a spec that a client sent. */
void spec_forget_image(struct spec *s);
/* argv becomes both lists (borrowed, NULL-terminated, may be NULL), entrypoint NULL. */
int spec_join_command(struct spec *s, char *const *entrypoint, char *const *command,
                      struct err *err);
/* Puts these beneath the spec's own: what that says goes before. "K=V"s, or NULL. */
int spec_env_beneath(struct spec *s, char *const *env, struct err *err);
/* The label that only rind itself sets: what the Docker façade knows of a container. No client's
 * request and no image brings it along. */
#define SPEC_LABEL_OWN "rind.docker"
bool spec_label_is_own(const char *label); /* "K=V" */
/* Labels for which there is no room, or that are none here, and SPEC_LABEL_OWN are left out. */
void spec_labels_beneath(struct spec *s, char *const *labels);
void health_check_done(struct health_check *h);
int spec_set_policy(struct spec *s, const char *text, struct err *err);
/* As a client of a daemon writes it: a name, of which only the daemon knows whether there is one.
 */
int spec_set_policy_name(struct spec *s, const char *text, struct err *err);
int spec_set_hostname(struct spec *s, const char *text, struct err *err);
int spec_set_workdir(struct spec *s, const char *text, struct err *err);
int spec_set_user(struct spec *s, const char *text, struct err *err);
int spec_add_env(struct spec *s, const char *text,
                 struct err *err); /* K=V, or K = taken from our own environment */
int spec_add_env_file(struct spec *s, const char *path,
                      struct err *err); /* K=V lines, # comments */
int spec_add_volume(struct spec *s, const char *text,
                    struct err *err); /* [SRC:]DST[:ro|rw|nocopy,…] */
int spec_add_tmpfs(struct spec *s, const char *text, struct err *err);  /* DST[:size] */
int spec_set_memory(struct spec *s, const char *text, struct err *err); /* 128m, 1g, bytes */
int spec_set_cpus(struct spec *s, const char *text, struct err *err);   /* 0.5 */
int spec_set_pids(struct spec *s, const char *text, struct err *err);
int spec_set_shm_size(struct spec *s, const char *text, struct err *err);
int spec_set_disk(struct spec *s, const char *text, struct err *err);   /* 512m, 10g, bytes */
int spec_add_ulimit(struct spec *s, const char *text, struct err *err); /* nofile=1024[:2048] */
/* none, internet, container:NAME, or the name of a network */
int spec_set_network(struct spec *s, const char *text, struct err *err);
/* A name by which the members of the named network find it. */
int spec_add_net_alias(struct spec *s, const char *text, struct err *err);
/* All by which they find it beside its host name, a space between them: those, and the sandbox's
 * own name where that can be one of a host. To be freed; *ret is NULL where there are none. */
int spec_net_names(const struct spec *s, char **ret, struct err *err);
/* CIDR with or without ports: policy/net-rule.h */
int spec_add_allow_net(struct spec *s, const char *text, struct err *err);
int spec_add_deny_net(struct spec *s, const char *text, struct err *err);
int spec_add_host_port(struct spec *s, const char *text, struct err *err); /* 8080, 53/udp */
int spec_add_dns(struct spec *s, const char *text, struct err *err);
/* GLOB[:PORT], CIDR[:PORT]: a rule of egress; with the first one that allows, what no rule matches
 * is denied. */
int spec_add_allow_host(struct spec *s, const char *text, struct err *err);
int spec_add_deny_host(struct spec *s, const char *text, struct err *err);
/* All of it, from a JSON file. */
int spec_set_egress_file(struct spec *s, const char *path, struct err *err);
/* NAME:ADDRESS, or NAME:host-gateway. */
int spec_add_host(struct spec *s, const char *text, struct err *err);
/* A name of the sandbox's /etc/group, or a number. */
int spec_add_group(struct spec *s, const char *text, struct err *err);
/* "CAP_NET_RAW", as policies spell them, or "ALL". */
int spec_add_cap_drop(struct spec *s, const char *text, struct err *err);
void spec_format_host(const struct extra_host *h, char text[SPEC_HOST_TEXT_MAX]);
int spec_validate_network(const struct spec *s, struct err *err);
int spec_set_timeout(struct spec *s, const char *text, struct err *err); /* 90, 1.5s, 2m */
int spec_set_command(struct spec *s, char *const argv[], struct err *err);
/* [HOSTIP:]HOSTPORT:PORT[/tcp|/udp]; HOSTIP is 127.0.0.1 where it is not said, an empty HOSTPORT is
 * chosen */
int spec_add_publish(struct spec *s, const char *text, struct err *err);

/* Of kept sandboxes (kept.c). */
int spec_add_label(struct spec *s, const char *text, struct err *err); /* K=V, or K = empty */
/* no, on-failure[:N], always, unless-stopped */
int spec_set_restart(struct spec *s, const char *text, struct err *err);
/* SIGTERM, TERM, 15, SIGRTMIN+3 */
int spec_set_stop_signal(struct spec *s, const char *text, struct err *err);
int spec_set_stop_timeout(struct spec *s, const char *text, struct err *err); /* as timeout, or 0 */
int spec_set_inactivity(struct spec *s, const char *text, struct err *err);   /* as timeout */
const char *spec_restart_name(enum restart_policy policy);
/* -EINVAL: removed at its end and started again at its end. Not part of spec_validate_kept: records
 * of older versions hold both, and are read. */
int spec_check_removal(const struct spec *s, struct err *err);

/* As spec_add_volume and spec_add_tmpfs, from parts that may hold colons. bytes: LIMIT_UNSET = the
 * default. */
int spec_put_volume(struct spec *s, const char *source, const char *target, bool read_only,
                    struct err *err);
/* The volume that was put last is a copy of the volume `from`, not of what the image has there. */
int spec_volume_from(struct spec *s, const char *from, struct err *err);
int spec_add_restore(struct spec *s, const char *text, struct err *err); /* VOLUME:DST */
/* A named volume; name NULL: an anonymous one, which is removed with the sandbox. */
int spec_put_named_volume(struct spec *s, const char *name, const char *target, bool read_only,
                          bool no_copy, struct err *err);
/* host: NULL = 127.0.0.1. */
int spec_put_publish(struct spec *s, const char *host, int64_t host_port, int64_t port, bool udp,
                     struct err *err);
int spec_put_tmpfs(struct spec *s, const char *target, int64_t bytes, struct err *err);

/* What only the whole shows: targets do not repeat, sizes of argv and env. */
int spec_validate_kept(const struct spec *s, struct err *err);
/* That, and that there is a command. */
int spec_validate(const struct spec *s, struct err *err);
