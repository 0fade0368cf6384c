/* Decodes a spec from JSON by table. Pure. */

#include "spec/json.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/strtab.h"
#include "json/decode.h"
#include "json/parse.h"
#include "policy/egress.h"
#include "policy/tables.h"
#include "spec/env.h"
#include "spec/health.h"
#include "spec/parse.h"
#include "spec/signals.h"
#include "spec/spec.h"
#include "spec/tmpfs.h"

enum { NUMBER_TEXT_MAX = 32 };

/* ---- decoding: one value ---- */

/* The decoders here get this as dst, also in nested objects. */
struct spec_decoding {
    struct spec *spec;
    /* Owned lists of borrowed strings; joined to one argv at the end. */
    const char **entrypoint, **command;
    size_t entrypoint_count, command_count;
};

static int type_error(struct err *err, const struct jpath *path, const char *want)
{
    return json_fail(err, -EINVAL, path, "must be %s", want);
}

/* Reports a command line parser's message with the JSON path in front. */
static int parser_error(struct err *err, int code, const struct jpath *path, const struct err *why)
{
    return json_fail(err, code, path, "%s", why->msg);
}

typedef int setter(struct spec *s, const char *text, struct err *err);

/*
 * Keys with a value that is passed to a command line parser as text. `number`: a JSON number is
 * accepted as well.
 */
static const struct text_key {
    const char *name;
    setter *set;
    bool number;
} text_keys[] = {
    {"name", spec_set_name, false},
    {"policy", spec_set_policy_name, false},
    {"image", spec_set_image, false},
    {"cwd", spec_set_workdir, false},
    {"user", spec_set_user, false},
    {"hostname", spec_set_hostname, false},
    {"domainname", spec_set_domainname, false},
    {"stopSignal", spec_set_stop_signal, true},
    {"memory", spec_set_memory, true},
    {"cpus", spec_set_cpus, true},
    {"pids", spec_set_pids, true},
    {"shmSize", spec_set_shm_size, true},
    {"disk", spec_set_disk, true},
    {"memorySwap", spec_set_memory_swap, true},
    {"memoryReservation", spec_set_memory_reservation, true},
    {"cpuShares", spec_set_cpu_shares, true},
    {"cpusetCpus", spec_set_cpuset_cpus, false},
    {"cpusetMems", spec_set_cpuset_mems, false},
    {"oomScoreAdj", spec_set_oom_score, true},
    {"ioWeight", spec_set_io_weight, true},
    {"ioReadBps", spec_set_io_read_bps, true},
    {"ioWriteBps", spec_set_io_write_bps, true},
    {"ioReadIops", spec_set_io_read_iops, true},
    {"ioWriteIops", spec_set_io_write_iops, true},
    {"networkRate", spec_set_net_rate, true},
};

static const struct text_key *text_key(const char *name)
{
    const struct text_key *k = text_keys;

    while (strcmp(k->name, name) != 0)
        k++;
    return k;
}

/* 15 digits keep 0.1 as 0.1, and show excess precision of the client's number. */
static void number_text(const json_t *value, char text[NUMBER_TEXT_MAX])
{
    if (json_is_integer(value))
        (void)snprintf(text, NUMBER_TEXT_MAX, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else
        (void)snprintf(text, NUMBER_TEXT_MAX, "%.15g", json_real_value(value));
}

static int d_text(json_t *value, const struct jfield *field, void *dst, const struct jpath *path,
                  struct err *err)
{
    const struct text_key *key = text_key(field->name);
    char number[NUMBER_TEXT_MAX];
    struct spec_decoding *d = dst;
    struct err why = ERR_NONE;
    const char *text = number;
    int r;

    if (json_is_string(value))
        text = json_string_value(value);
    else if (json_is_number(value) && key->number)
        number_text(value, number);
    else
        return type_error(err, path, key->number ? "a string or a number" : "a string");
    r = key->set(d->spec, text, &why);
    return r < 0 ? parser_error(err, r, path, &why) : 0;
}

static int d_bool(json_t *value, const struct jfield *field, void *dst, const struct jpath *path,
                  struct err *err)
{
    return j_bool(value, field, ((struct spec_decoding *)dst)->spec, path, err);
}

static int d_int64(json_t *value, const struct jfield *field, void *dst, const struct jpath *path,
                   struct err *err)
{
    return j_int64(value, field, ((struct spec_decoding *)dst)->spec, path, err);
}

/*
 * Host paths must be absolute, since the daemon has no working directory that a client could know.
 */
static int check_absolute(const char *text, const struct jpath *path, struct err *err)
{
    if (text[0] != '/')
        return json_fail(err, -EINVAL, path, "\"%.*s\": must be an absolute path", QUOTE_MAX, text);
    return 0;
}

static int d_rootfs(json_t *value, const struct jfield *field, void *dst, const struct jpath *path,
                    struct err *err)
{
    struct spec_decoding *d = dst;
    struct err why = ERR_NONE;
    int r;

    (void)field;
    if (!json_is_string(value))
        return type_error(err, path, "a string");
    if (strcmp(json_string_value(value), SPEC_ROOTFS_HOST) != 0) {
        r = check_absolute(json_string_value(value), path, err);
        if (r < 0)
            return r;
    }
    r = spec_set_rootfs(d->spec, json_string_value(value), &why);
    return r < 0 ? parser_error(err, r, path, &why) : 0;
}

/* ---- the command ---- */

static int d_entrypoint(json_t *value, const struct jfield *field, void *dst,
                        const struct jpath *path, struct err *err)
{
    struct spec_decoding *d = dst;

    (void)field;
    return json_borrow_strings(value, SPEC_ARGS_MAX, path, &d->entrypoint, &d->entrypoint_count,
                               err);
}

static int d_command(json_t *value, const struct jfield *field, void *dst, const struct jpath *path,
                     struct err *err)
{
    struct spec_decoding *d = dst;

    (void)field;
    return json_borrow_strings(value, SPEC_ARGS_MAX, path, &d->command, &d->command_count, err);
}

/* Keeps entry point and command separate until they are merged with the image's. */
static int keep_apart(const struct spec_decoding *d, struct err *err)
{
    char **list[2] = {NULL, NULL};
    int r = 0;

    /* Only the const qualifiers are cast away; the called functions copy the strings. */
    (void)memcpy(&list[0], &d->entrypoint, sizeof(list[0]));
    (void)memcpy(&list[1], &d->command, sizeof(list[1]));
    if (list[0] != NULL)
        r = spec_set_entrypoints(d->spec, list[0], err);
    if (r == 0 && d->command_count > 0)
        r = spec_set_command(d->spec, list[1], err);
    return r;
}

/* Joins entry point and command, as images do: the command is appended to the entry point. */
static int join_command(const struct spec_decoding *d, struct err *err)
{
    size_t count = d->entrypoint_count + d->command_count;
    auto_free char **argv = NULL;

    if (d->spec->image != NULL && d->spec->image_id == NULL)
        return keep_apart(d, err);
    if (count == 0)
        return 0;
    argv = calloc(count + 1, sizeof(*argv));
    if (argv == NULL)
        return err_errno(err, -ENOMEM, "command");
    /* Only the const qualifier is cast away; spec_set_command copies the strings. */
    if (d->entrypoint_count > 0)
        (void)memcpy(argv, d->entrypoint, d->entrypoint_count * sizeof(*argv));
    if (d->command_count > 0)
        (void)memcpy(argv + d->entrypoint_count, d->command, d->command_count * sizeof(*argv));
    return spec_set_command(d->spec, argv, err);
}

/* ---- environment and labels ---- */

static int decode_env_entry(struct spec *s, const char *name, size_t len, const char *value,
                            const struct jpath *path, struct err *err)
{
    struct err why = ERR_NONE;
    int r;

    if (len == 0 || memchr(name, '=', len) != NULL)
        return json_fail(err, -EINVAL, path, "a name must not be empty or hold =");
    r = env_put(s, name, len, value, &why);
    return r < 0 ? parser_error(err, r, path, &why) : 0;
}

static int decode_env_list(json_t *value, struct spec *s, const struct jpath *path, struct err *err)
{
    json_t *element;
    size_t i;
    int r;

    json_array_foreach(value, i, element) {
        struct jpath here = {.up = path, .index = i};
        const char *text = json_string_value(element), *equals;

        equals = text != NULL ? strchr(text, '=') : NULL;
        /* A bare NAME would be read from rind's own environment. */
        if (equals == NULL)
            return type_error(err, &here, "NAME=VALUE");
        r = decode_env_entry(s, text, (size_t)(equals - text), equals + 1, &here, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int d_env(json_t *value, const struct jfield *field, void *dst, const struct jpath *path,
                 struct err *err)
{
    struct spec *s = ((struct spec_decoding *)dst)->spec;
    const char *key;
    json_t *element;
    int r;

    (void)field;
    if (json_is_array(value))
        return decode_env_list(value, s, path, err);
    if (!json_is_object(value))
        return type_error(err, path, "an object of strings, or an array of NAME=VALUE");
    json_object_foreach(value, key, element) {
        struct jpath here = {.up = path, .key = key};

        if (!json_is_string(element))
            return type_error(err, &here, "a string");
        r = decode_env_entry(s, key, strlen(key), json_string_value(element), &here, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int d_labels(json_t *value, const struct jfield *field, void *dst, const struct jpath *path,
                    struct err *err)
{
    struct spec *s = ((struct spec_decoding *)dst)->spec;
    const char *key;
    json_t *element;

    (void)field;
    if (!json_is_object(value))
        return type_error(err, path, "an object of strings");
    json_object_foreach(value, key, element) {
        struct jpath here = {.up = path, .key = key};
        auto_free char *text = NULL;
        struct err why = ERR_NONE;
        int r;

        if (!json_is_string(element))
            return type_error(err, &here, "a string");
        if (strchr(key, '=') != NULL)
            return json_fail(err, -EINVAL, &here, "a label's key must not hold =");
        if (asprintf(&text, "%s=%s", key, json_string_value(element)) < 0) {
            text = NULL;
            return json_fail(err, -ENOMEM, &here, "out of memory");
        }
        r = spec_add_label(s, text, &why);
        if (r < 0)
            return parser_error(err, r, &here, &why);
    }
    return 0;
}

/* ---- mounts ---- */

struct volume_json {
    char *source, *target, *from; /* owned */
    bool read_only, no_copy, make;
};

static const struct jfield volume_fields[] = {
    {.name = "source",
     .decode = j_string,
     .off = offsetof(struct volume_json, source),
     .min = 1,
     .max = SPEC_PATH_MAX,
     .nullable = true},
    {.name = "target",
     .decode = j_string,
     .off = offsetof(struct volume_json, target),
     .min = 1,
     .max = SPEC_PATH_MAX,
     .required = true},
    {.name = "readOnly", .decode = j_bool, .off = offsetof(struct volume_json, read_only)},
    {.name = "noCopy", .decode = j_bool, .off = offsetof(struct volume_json, no_copy)},
    {.name = "makeSource", .decode = j_bool, .off = offsetof(struct volume_json, make)},
    {.name = "from",
     .decode = j_string,
     .off = offsetof(struct volume_json, from),
     .min = 1,
     .max = SPEC_VOLUME_NAME_MAX,
     .nullable = true},
    {0},
};

static int decode_volume(json_t *element, struct spec *s, const struct jpath *path, struct err *err)
{
    struct jpath source = {.up = path, .key = "source"};
    struct err why = ERR_NONE;
    struct volume_json v = {0};
    int r;

    r = json_decode_at(element, volume_fields, &v, path, err);
    if (r == 0) {
        bool named = v.source == NULL || strchr(v.source, '/') == NULL;

        if (!named && v.no_copy)
            r = json_fail(err, -EINVAL, path, "noCopy: only of a named volume");
        else if (named && v.make)
            r = json_fail(err, -EINVAL, path, "makeSource: only of a directory of the host");
        else if (v.from != NULL && (!named || v.no_copy))
            r = json_fail(err, -EINVAL, path, "from: only of a named volume that is filled");
        else if (!named)
            r = check_absolute(v.source, &source, err);
        if (r == 0) {
            r = named ? spec_put_named_volume(s, v.source, v.target, v.read_only, v.no_copy, &why)
                      : spec_put_volume(s, v.source, v.target, v.read_only, &why);
            if (r == 0 && v.from != NULL)
                r = spec_volume_from(s, v.from, &why);
            if (r == 0 && v.make)
                spec_volume_make(s);
            r = r < 0 ? parser_error(err, r, path, &why) : 0;
        }
    }
    free(v.source);
    free(v.target);
    free(v.from);
    return r;
}

struct tmpfs_json {
    struct tmpfs t; /* first; target is owned */
    char *mode;     /* owned; octal digits, or NULL */
    int64_t uid, gid;
};

/* Decodes a size: a number of bytes, or text with a unit. */
static int d_tmpfs_size(json_t *value, const struct jfield *field, void *dst,
                        const struct jpath *path, struct err *err)
{
    struct tmpfs *t = &((struct tmpfs_json *)dst)->t;
    char number[NUMBER_TEXT_MAX];
    const char *text = number;
    struct err why = ERR_NONE;
    int r;

    (void)field;
    if (json_is_string(value))
        text = json_string_value(value);
    else if (json_is_integer(value))
        number_text(value, number);
    else
        return type_error(err, path, "a string or a whole number");
    r = parse_bytes("tmpfs size", text, SPEC_TMPFS_MIN, LIMIT_BYTES_MAX, &t->bytes, &why);
    return r < 0 ? parser_error(err, r, path, &why) : 0;
}

static const struct jfield tmpfs_fields[] = {
    {.name = "target",
     .decode = j_string,
     .off = offsetof(struct tmpfs_json, t.target),
     .min = 1,
     .max = SPEC_PATH_MAX,
     .required = true},
    {.name = "size", .decode = d_tmpfs_size, .nullable = true},
    {.name = "readOnly", .decode = j_bool, .off = offsetof(struct tmpfs_json, t.read_only)},
    {.name = "noExec", .decode = j_bool, .off = offsetof(struct tmpfs_json, t.no_exec)},
    {.name = "mode",
     .decode = j_string,
     .off = offsetof(struct tmpfs_json, mode),
     .min = 1,
     .max = TMPFS_MODE_DIGITS_MAX,
     .nullable = true},
    {.name = "uid",
     .decode = j_int64,
     .off = offsetof(struct tmpfs_json, uid),
     .min = 0,
     .max = SPEC_GROUP_ID_MAX,
     .nullable = true},
    {.name = "gid",
     .decode = j_int64,
     .off = offsetof(struct tmpfs_json, gid),
     .min = 0,
     .max = SPEC_GROUP_ID_MAX,
     .nullable = true},
    {0},
};

static int decode_tmpfs(json_t *element, struct spec *s, const struct jpath *path, struct err *err)
{
    struct tmpfs_json j = {.t = tmpfs_default()};
    struct err why = ERR_NONE;
    int r;

    r = json_decode_at(element, tmpfs_fields, &j, path, err);
    if (r == 0) {
        j.t.uid = (uint32_t)j.uid;
        j.t.gid = (uint32_t)j.gid;
        r = j.mode != NULL ? tmpfs_parse_mode(j.mode, &j.t.mode, &why) : 0;
        if (r == 0)
            r = spec_put_tmpfs(s, j.t.target, &j.t, &why);
        r = r < 0 ? parser_error(err, r, path, &why) : 0;
    }
    free(j.t.target);
    free(j.mode);
    return r;
}

/* ---- ulimits ---- */

struct ulimit_json {
    char *name; /* owned */
    int64_t soft, hard;
    bool has_hard;
};

static int d_hard(json_t *value, const struct jfield *field, void *dst, const struct jpath *path,
                  struct err *err)
{
    struct ulimit_json *u = dst;

    u->has_hard = true;
    return j_int64(value, field, dst, path, err);
}

static const struct jfield ulimit_fields[] = {
    {.name = "name",
     .decode = j_string,
     .off = offsetof(struct ulimit_json, name),
     .min = 1,
     .max = 16,
     .required = true},
    {.name = "soft",
     .decode = j_int64,
     .off = offsetof(struct ulimit_json, soft),
     .min = RLIMIT_UNLIMITED,
     .max = INT64_MAX,
     .required = true},
    {.name = "hard",
     .decode = d_hard,
     .off = offsetof(struct ulimit_json, hard),
     .min = RLIMIT_UNLIMITED,
     .max = INT64_MAX,
     .nullable = true},
    {0},
};

static int decode_ulimit(json_t *element, struct spec *s, const struct jpath *path, struct err *err)
{
    struct ulimit_json u = {0};
    struct err why = ERR_NONE;
    char text[80];
    int r;

    r = json_decode_at(element, ulimit_fields, &u, path, err);
    if (r == 0) {
        (void)snprintf(text, sizeof(text), "%s=%" PRId64 ":%" PRId64, u.name, u.soft,
                       u.has_hard ? u.hard : u.soft);
        r = spec_add_ulimit(s, text, &why);
        r = r < 0 ? parser_error(err, r, path, &why) : 0;
    }
    free(u.name);
    return r;
}

/* ---- published ports ---- */

enum { PROTOCOL_TCP, PROTOCOL_UDP };
static const struct strtab protocols[] = {{"tcp", PROTOCOL_TCP}, {"udp", PROTOCOL_UDP}, {NULL, 0}};

struct port_json {
    char *host; /* owned */
    int64_t host_port, host_last, port;
    int protocol;
};

#define PORT(member) .off = offsetof(struct port_json, member)
/* clang-format off */
static const struct jfield port_fields[] = {
    {.name = "hostAddress", .decode = j_string, PORT(host), .min = 1, .max = ADDRESS_TEXT_MAX, .nullable = true},
    {.name = "hostPort",    .decode = j_int64,  PORT(host_port), .min = 0, .max = 65535, .nullable = true},
    {.name = "hostPortLast", .decode = j_int64, PORT(host_last), .min = 1, .max = 65535, .nullable = true},
    {.name = "port",        .decode = j_int64,  PORT(port), .min = 1, .max = 65535, .required = true},
    {.name = "protocol",    .decode = j_enum,   PORT(protocol), .names = protocols},
    {0},
};
/* clang-format on */

static int decode_port(json_t *element, struct spec *s, const struct jpath *path, struct err *err)
{
    struct port_json p = {.protocol = PROTOCOL_TCP};
    struct err why = ERR_NONE;
    int r;

    r = json_decode_at(element, port_fields, &p, path, err);
    if (r == 0) {
        r = spec_put_publish_range(s, p.host, p.host_port, p.host_last, p.port,
                                   p.protocol == PROTOCOL_UDP, &why);
        r = r < 0 ? parser_error(err, r, path, &why) : 0;
    }
    free(p.host);
    return r;
}

/* ---- arrays ---- */

static const struct element_key {
    const char *name;
    int (*decode)(json_t *element, struct spec *s, const struct jpath *path, struct err *err);
} element_keys[] = {{"volumes", decode_volume},
                    {"tmpfs", decode_tmpfs},
                    {"ulimits", decode_ulimit},
                    {"ports", decode_port}};

static int d_elements(json_t *value, const struct jfield *field, void *dst,
                      const struct jpath *path, struct err *err)
{
    const struct element_key *k = element_keys;
    struct spec_decoding *d = dst;
    json_t *element;
    size_t i;

    if (!json_is_array(value))
        return type_error(err, path, "an array");
    while (strcmp(k->name, field->name) != 0)
        k++;
    json_array_foreach(value, i, element) {
        struct jpath here = {.up = path, .index = i};
        int r = k->decode(element, d->spec, &here, err);

        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- network ---- */

/* Arrays of texts, each passed to a command line parser. `number`: numbers are accepted as well. */
static const struct list_key {
    const char *name;
    setter *add;
    bool number;
} list_keys[] = {
    {"allow", spec_add_allow_net, false},       {"deny", spec_add_deny_net, false},
    {"hostPorts", spec_add_host_port, true},    {"dns", spec_add_dns, false},
    {"extraHosts", spec_add_host, false},       {"capDrop", spec_add_cap_drop, false},
    {"groups", spec_add_group, true},           {"aliases", spec_add_net_alias, false},
    {"links", spec_add_net_link, false},        {"sysctls", spec_add_sysctl, false},
    {"share", spec_add_share, false},           {"dnsSearch", spec_add_dns_search, false},
    {"dnsOptions", spec_add_dns_option, false}, {"ioDevices", spec_add_io_device, false},
};

static int d_list(json_t *value, const struct jfield *field, void *dst, const struct jpath *path,
                  struct err *err)
{
    const struct list_key *k = list_keys;
    struct spec_decoding *d = dst;
    json_t *element;
    size_t i;

    if (!json_is_array(value))
        return type_error(err, path, "an array");
    while (strcmp(k->name, field->name) != 0)
        k++;
    json_array_foreach(value, i, element) {
        struct jpath here = {.up = path, .index = i};
        char number[NUMBER_TEXT_MAX];
        const char *text = json_string_value(element);
        struct err why = ERR_NONE;
        int r;

        if (text == NULL && k->number && json_is_integer(element)) {
            number_text(element, number);
            text = number;
        }
        if (text == NULL)
            return type_error(err, &here, k->number ? "a string or a number" : "a string");
        r = k->add(d->spec, text, &why);
        if (r < 0)
            return parser_error(err, r, &here, &why);
    }
    return 0;
}

/* Only mode names are accepted here; names of networks have a key of their own. */
static int d_mode(json_t *value, const struct jfield *field, void *dst, const struct jpath *path,
                  struct err *err)
{
    struct spec_decoding *d = dst;

    (void)field;
    if (json_is_string(value) && strtab_value(net_mode_names, json_string_value(value)) < 0)
        return type_error(err, path, "none or internet");
    if (!json_is_string(value))
        return type_error(err, path, "a string");
    return spec_set_network(d->spec, json_string_value(value), err);
}

static int network_word(json_t *value, struct spec_decoding *d, const char *prefix,
                        const struct jpath *path, struct err *err)
{
    auto_free char *text = NULL;
    struct err why = ERR_NONE;
    int r;

    if (!json_is_string(value))
        return type_error(err, path, "a string");
    if (*prefix == '\0' && strtab_value(net_mode_names, json_string_value(value)) >= 0)
        return type_error(err, path, "a name, not none or internet");
    if (asprintf(&text, "%s%s", prefix, json_string_value(value)) < 0) {
        text = NULL;
        return json_fail(err, -ENOMEM, path, "out of memory");
    }
    r = spec_set_network(d->spec, text, &why);
    return r < 0 ? parser_error(err, r, path, &why) : 0;
}

static int d_net_container(json_t *value, const struct jfield *field, void *dst,
                           const struct jpath *path, struct err *err)
{
    (void)field;
    return network_word(value, dst, "container:", path, err);
}

static int d_net_name(json_t *value, const struct jfield *field, void *dst,
                      const struct jpath *path, struct err *err)
{
    (void)field;
    return network_word(value, dst, "", path, err);
}

static int d_net_address(json_t *value, const struct jfield *field, void *dst,
                         const struct jpath *path, struct err *err)
{
    struct spec_decoding *d = dst;
    struct err why = ERR_NONE;
    int r;

    (void)field;
    if (!json_is_string(value))
        return type_error(err, path, "a string");
    r = spec_set_ip(d->spec, json_string_value(value), &why);
    return r < 0 ? parser_error(err, r, path, &why) : 0;
}

/* An element of network.more: {"name": …, "aliases": […], "address": …}. */
static int d_one_more(json_t *value, struct spec_decoding *d, const struct jpath *path,
                      struct err *err)
{
    const json_t *name = json_object_get(value, "name"), *list = json_object_get(value, "aliases");
    const json_t *address = json_object_get(value, "address");
    const char *aliases[SPEC_ALIASES_MAX + 2] = {NULL};
    const json_t *element;
    struct err why = ERR_NONE;
    size_t i;
    int r;

    if (!json_is_object(value) || !json_is_string(name) ||
        (list != NULL && !json_is_null(list) && !json_is_array(list)) ||
        (address != NULL && !json_is_null(address) && !json_is_string(address)) ||
        json_object_size(value) != 1U + (list != NULL) + (address != NULL))
        return type_error(err, path, "an object with name, aliases and address");
    json_array_foreach(list, i, element) {
        if (!json_is_string(element))
            return type_error(err, path, "an object whose aliases are strings");
        if (i <= SPEC_ALIASES_MAX) /* with one too many it is refused */
            aliases[i] = json_string_value(element);
    }
    r = spec_add_net(d->spec, json_string_value(name), aliases, &why);
    if (r == 0 && json_is_string(address))
        r = spec_set_net_address(d->spec, json_string_value(name), json_string_value(address),
                                 &why);
    return r < 0 ? parser_error(err, r, path, &why) : 0;
}

static int d_more_nets(json_t *value, const struct jfield *field, void *dst,
                       const struct jpath *path, struct err *err)
{
    struct spec_decoding *d = dst;
    json_t *element;
    size_t i;

    (void)field;
    if (!json_is_array(value))
        return type_error(err, path, "an array");
    if (d->spec->net_name == NULL && json_array_size(value) > 0)
        return type_error(err, path, "beside a name");
    json_array_foreach(value, i, element) {
        const struct jpath here = {.up = path, .index = i};
        int r = d_one_more(element, d, &here, err);

        if (r < 0)
            return r;
    }
    return 0;
}

/* clang-format off */
static const struct jfield network_fields[] = {
    {.name = "mode",      .decode = d_mode,          .nullable = true},
    {.name = "container", .decode = d_net_container, .nullable = true},
    {.name = "name",      .decode = d_net_name,      .nullable = true},
    {.name = "aliases",   .decode = d_list,          .nullable = true},
    {.name = "address",   .decode = d_net_address,   .nullable = true},
    {.name = "more",      .decode = d_more_nets,     .nullable = true},
    {.name = "links",     .decode = d_list,          .nullable = true},
    {.name = "allow",     .decode = d_list,          .nullable = true},
    {.name = "deny",      .decode = d_list,          .nullable = true},
    {.name = "hostPorts", .decode = d_list,          .nullable = true},
    {.name = "dns",       .decode = d_list,          .nullable = true},
    {.name = "dnsSearch", .decode = d_list,          .nullable = true},
    {.name = "dnsOptions", .decode = d_list,         .nullable = true},
    {0},
};
/* clang-format on */

/* Accepts the command line's single word, or an object. */
static int d_network(json_t *value, const struct jfield *field, void *dst, const struct jpath *path,
                     struct err *err)
{
    struct spec_decoding *d = dst;
    struct err why = ERR_NONE;
    int r;

    (void)field;
    if (json_is_object(value))
        return json_decode_at(value, network_fields, dst, path, err);
    if (!json_is_string(value))
        return type_error(err, path, "a string or an object");
    r = spec_set_network(d->spec, json_string_value(value), &why);
    return r < 0 ? parser_error(err, r, path, &why) : 0;
}

static int d_egress(json_t *value, const struct jfield *field, void *dst, const struct jpath *path,
                    struct err *err)
{
    struct spec_decoding *d = dst;

    (void)field;
    return egress_from_json(value, path, &d->spec->egress, err);
}

/* ---- restarting ---- */

struct restart_json {
    char *policy; /* owned */
    int64_t max;
};

static const struct jfield restart_fields[] = {
    {.name = "policy",
     .decode = j_string,
     .off = offsetof(struct restart_json, policy),
     .min = 1,
     .max = 32,
     .required = true},
    {.name = "maxRetries",
     .decode = j_int64,
     .off = offsetof(struct restart_json, max),
     .min = 1,
     .max = SPEC_RESTARTS_MAX,
     .nullable = true},
    {0},
};

static int d_restart(json_t *value, const struct jfield *field, void *dst, const struct jpath *path,
                     struct err *err)
{
    struct spec_decoding *d = dst;
    struct restart_json j = {.max = LIMIT_UNSET};
    struct err why = ERR_NONE;
    char text[64];
    int r;

    (void)field;
    r = json_decode_at(value, restart_fields, &j, path, err);
    if (r == 0) {
        if (j.max == LIMIT_UNSET)
            (void)snprintf(text, sizeof(text), "%s", j.policy);
        else
            (void)snprintf(text, sizeof(text), "%s:%" PRId64, j.policy, j.max);
        r = spec_set_restart(d->spec, text, &why);
        r = r < 0 ? parser_error(err, r, path, &why) : 0;
    }
    free(j.policy);
    return r;
}

/* ---- the resolved image ---- */

static int d_image_id(json_t *value, const struct jfield *field, void *dst,
                      const struct jpath *path, struct err *err)
{
    struct spec_decoding *d = dst;

    (void)field;
    if (!json_is_string(value) || json_string_length(value) > SPEC_IMAGE_MAX)
        return type_error(err, path, "a string");
    free(d->spec->image_id);
    d->spec->image_id = strdup(json_string_value(value));
    return d->spec->image_id != NULL ? 0 : json_fail(err, -ENOMEM, path, "out of memory");
}

static int d_image_layers(json_t *value, const struct jfield *field, void *dst,
                          const struct jpath *path, struct err *err)
{
    struct spec_decoding *d = dst;
    const struct jfield bounded = {.name = field->name, .max = SPEC_IMAGE_LAYERS_MAX};

    json_strings_free(take(d->spec->image_layers));
    return j_strings(value, &bounded, &d->spec->image_layers, path, err);
}

/* ---- health ---- */

static int d_health(json_t *value, const struct jfield *field, void *dst, const struct jpath *path,
                    struct err *err)
{
    (void)field;
    return spec_health_from_json(value, &((struct spec_decoding *)dst)->spec->health, path, err);
}

/* ---- the table ---- */

#define SPEC(member) offsetof(struct spec, member)
/* clang-format off */
static const struct jfield limit_fields[] = {
    {.name = "memory",  .decode = d_text, .nullable = true},
    {.name = "cpus",    .decode = d_text, .nullable = true},
    {.name = "pids",    .decode = d_text, .nullable = true},
    {.name = "shmSize", .decode = d_text, .nullable = true},
    {.name = "disk",    .decode = d_text, .nullable = true},
    {.name = "memorySwap",  .decode = d_text, .nullable = true},
    {.name = "memoryReservation", .decode = d_text, .nullable = true},
    {.name = "cpuShares",   .decode = d_text, .nullable = true},
    {.name = "cpusetCpus",  .decode = d_text, .nullable = true},
    {.name = "cpusetMems",  .decode = d_text, .nullable = true},
    {.name = "oomScoreAdj", .decode = d_text, .nullable = true},
    {.name = "ioWeight",    .decode = d_text, .nullable = true},
    {.name = "ioReadBps",   .decode = d_text, .nullable = true},
    {.name = "ioWriteBps",  .decode = d_text, .nullable = true},
    {.name = "ioReadIops",  .decode = d_text, .nullable = true},
    {.name = "ioWriteIops", .decode = d_text, .nullable = true},
    {.name = "ioDevices",   .decode = d_list, .nullable = true},
    {.name = "networkRate", .decode = d_text, .nullable = true},
    {0},
};

static const struct jfield spec_fields[] = {
    {.name = "name",       .decode = d_text,       .nullable = true},
    {.name = "rootfs",     .decode = d_rootfs,     .nullable = true},
    {.name = "image",      .decode = d_text,       .nullable = true},
    {.name = "imageId",    .decode = d_image_id,   .nullable = true},
    {.name = "imageLayers", .decode = d_image_layers, .nullable = true},
    {.name = "policy",     .decode = d_text,       .nullable = true},
    {.name = "entrypoint", .decode = d_entrypoint, .nullable = true},
    {.name = "command",    .decode = d_command,    .nullable = true},
    {.name = "env",        .decode = d_env,        .nullable = true},
    {.name = "cwd",        .decode = d_text,       .nullable = true},
    {.name = "user",       .decode = d_text,       .nullable = true},
    {.name = "hostname",   .decode = d_text,       .nullable = true},
    {.name = "domainname", .decode = d_text,       .nullable = true},
    {.name = "labels",     .decode = d_labels,     .nullable = true},
    {.name = "share",      .decode = d_list,       .nullable = true},
    {.name = "limits",     .decode = j_object,     .nullable = true, .fields = limit_fields},
    {.name = "ulimits",    .decode = d_elements,   .nullable = true},
    {.name = "volumes",    .decode = d_elements,   .nullable = true},
    {.name = "tmpfs",      .decode = d_elements,   .nullable = true},
    {.name = "ports",      .decode = d_elements,   .nullable = true},
    {.name = "network",    .decode = d_network,    .nullable = true},
    {.name = "egress",     .decode = d_egress,     .nullable = true},
    {.name = "extraHosts", .decode = d_list,       .nullable = true},
    {.name = "capDrop",    .decode = d_list,       .nullable = true},
    {.name = "groups",     .decode = d_list,       .nullable = true},
    {.name = "sysctls",    .decode = d_list,       .nullable = true},
    {.name = "readOnly",   .decode = d_bool,       .nullable = true, .off = SPEC(read_only)},
    {.name = "init",       .decode = d_bool,       .nullable = true, .off = SPEC(init)},
    {.name = "noExec",     .decode = d_bool,       .nullable = true, .off = SPEC(no_exec)},
    {.name = "tty",        .decode = d_bool,       .nullable = true, .off = SPEC(tty)},
    {.name = "stdin",      .decode = d_bool,       .nullable = true, .off = SPEC(interactive)},
    {.name = "attach",     .decode = d_bool,       .nullable = true, .off = SPEC(attach)},
    {.name = "console",    .decode = d_bool,       .nullable = true, .off = SPEC(console)},
    {.name = "discardOutput", .decode = d_bool,    .nullable = true, .off = SPEC(discard)},
    {.name = "restart",    .decode = d_restart,    .nullable = true},
    {.name = "stopSignal", .decode = d_text,       .nullable = true},
    {.name = "stopTimeoutMs",       .decode = d_int64, .nullable = true, .off = SPEC(stop_timeout_ms),
     .min = 0, .max = SPEC_TIME_MAX_MS},
    {.name = "inactivityTimeoutMs", .decode = d_int64, .nullable = true, .off = SPEC(inactivity_ms),
     .min = 1, .max = SPEC_TIME_MAX_MS},
    {.name = "hardTimeoutMs",       .decode = d_int64, .nullable = true, .off = SPEC(timeout_ms),
     .min = 1, .max = SPEC_TIME_MAX_MS},
    {.name = "autoRemove", .decode = d_bool,       .nullable = true, .off = SPEC(auto_remove)},
    {.name = "healthcheck", .decode = d_health,    .nullable = true},
    {0},
};
/* clang-format on */

int spec_from_json(json_t *root, struct spec **ret, struct err *err)
{
    auto_ptr(spec_free) struct spec *s = spec_new();
    struct spec_decoding d = {.spec = s};
    int r;

    if (s == NULL)
        return err_errno(err, -ENOMEM, "spec");
    r = json_decode(root, spec_fields, &d, err);
    if (r == 0)
        r = join_command(&d, err);
    if (r == 0)
        r = spec_validate_kept(s, err);
    if (r == 0 && s->discard && !s->console)
        r = err_set(err, -EINVAL, "discardOutput: goes with console alone");
    free(d.entrypoint);
    free(d.command);
    if (r < 0)
        return r;
    *ret = take(s);
    return 0;
}
