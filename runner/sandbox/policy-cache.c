/*
 * A cache of parsed policies, one file each. Reading a file takes a tenth of the time of parsing
 * the text, which every `rind run` would have to do. Only rind can write to the directory. The
 * checks detect a damaged disk and files of an older rind; they are no defence against an attacker.
 *
 *   u32 key length | key | u64 checksum of the rest | struct packed | strings | instructions
 */
#include "sandbox/policy-cache.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "policy/policy.h"
#include "policy/seccomp.h"

enum {
    BPF_COUNT_MAX = 4096, /* BPF_MAXINSNS */
    INSN_SIZE = 8,
    KEY_MAX = POLICY_TEXT_MAX + 512,
    FILE_MAX = KEY_MAX + POLICY_TEXT_MAX + BPF_COUNT_MAX * INSN_SIZE + 4096,
};

static const char dir_name[] = "policies.cache";

/* Followed by the strings of masked, then of read_only, each NUL-terminated. */
struct packed {
    char name[POLICY_NAME_MAX + 1];
    uint8_t no_new_privs, fuse, net_admin, no_exec, core_sched;
    uint32_t network;
    struct net_access access;
    uint64_t capabilities;
    struct limits limits;
    struct rlimit_value rlimits[RLIMITS_MAX];
    uint32_t rlimit_count, masked_count, read_only_count;
    uint32_t strings_size, insn_count;
};

/*
 * The key holds every input of the result. It is stored and compared in full; the hash is only the
 * file name.
 */
static int make_key(struct buf *key, const char *text, size_t len)
{
    struct utsname u;
    int r;

    if (uname(&u) < 0)
        return -errno;
    r = buf_printf(key, "rind %s format 8 %zu\nkernel %s %s\n", RIND_VERSION, sizeof(struct packed),
                   u.release, u.machine);
    return r < 0 ? r : buf_append(key, text, len);
}

/* FNV-1a on 64-bit words. Each step is invertible, so any single changed word changes the hash. */
static uint64_t hash_words(const void *data, size_t len)
{
    const unsigned char *p = data;
    uint64_t h = 0xcbf29ce484222325u ^ len;

    while (len > 0) {
        uint64_t word = 0;
        size_t n = len < sizeof(word) ? len : sizeof(word);

        (void)memcpy(&word, p, n);
        h = (h ^ word) * 0x100000001b3u;
        h ^= h >> 32;
        p += n;
        len -= n;
    }
    return h;
}

/* ---- reading ---- */

/* Reads `count` strings from *at on; moves *at behind the last. */
static int unpack_strings(const char **at, const char *end, size_t count, char ***ret)
{
    char **list = count <= POLICY_PATHS_MAX ? calloc(count + 1, sizeof(*list)) : NULL;

    if (list == NULL)
        return -ENOMEM;
    *ret = list; /* owned by the policy, also on failure */
    for (size_t i = 0; i < count; i++) {
        const char *nul = memchr(*at, '\0', (size_t)(end - *at));

        if (nul == NULL)
            return -EINVAL;
        list[i] = strdup(*at);
        if (list[i] == NULL)
            return -ENOMEM;
        *at = nul + 1;
    }
    return 0;
}

static int unpack_policy(const char *body, size_t len, struct policy **ret, struct bpf *ret_filter)
{
    auto_ptr(policy_free) struct policy *p = calloc(1, sizeof(*p));
    auto_free void *insns = NULL;
    const char *at = body + sizeof(struct packed), *end;
    struct packed h;
    int r;

    if (p == NULL)
        return -ENOMEM;
    if (len < sizeof(h))
        return -EINVAL;
    (void)memcpy(&h, body, sizeof(h));
    if (h.rlimit_count > RLIMITS_MAX || h.insn_count < 1 || h.insn_count > BPF_COUNT_MAX ||
        h.network >= NET_MODE_MAX || h.access.rule_count > NET_RULES_MAX ||
        h.access.port_count > NET_PORTS_MAX || h.name[POLICY_NAME_MAX] != '\0' ||
        h.strings_size > len - sizeof(h) ||
        len - sizeof(h) - h.strings_size != (size_t)h.insn_count * INSN_SIZE)
        return -EINVAL;
    (void)memcpy(p->name, h.name, sizeof(p->name));
    p->capabilities = h.capabilities;
    p->no_new_privs = h.no_new_privs != 0;
    p->fuse = h.fuse != 0;
    p->net_admin = h.net_admin != 0;
    p->no_exec = h.no_exec != 0;
    p->core_sched = h.core_sched != 0;
    p->network = (enum net_mode)h.network;
    p->access = h.access;
    p->limits = h.limits;
    (void)memcpy(p->rlimits, h.rlimits, sizeof(p->rlimits));
    p->rlimit_count = h.rlimit_count;
    end = at + h.strings_size;
    r = unpack_strings(&at, end, h.masked_count, &p->masked);
    if (r == 0)
        r = unpack_strings(&at, end, h.read_only_count, &p->read_only);
    if (r < 0)
        return r;

    insns = malloc((size_t)h.insn_count * INSN_SIZE);
    if (insns == NULL)
        return -ENOMEM;
    (void)memcpy(insns, end, (size_t)h.insn_count * INSN_SIZE);
    *ret_filter = (struct bpf){.insns = take(insns), .count = h.insn_count};
    *ret = take(p);
    return 0;
}

static int cache_load(int dir_fd, const char *name, const struct buf *key, struct policy **ret,
                      struct bpf *ret_filter)
{
    auto_free char *data = NULL;
    size_t len, head = sizeof(uint32_t) + key->len + sizeof(uint64_t);
    uint64_t sum;
    uint32_t key_len;
    int r;

    r = file_read_at(dir_fd, name, FILE_MAX, &data, &len, NULL);
    if (r < 0)
        return r;
    if (len <= head)
        return -EINVAL;
    assert(key->data != NULL);
    (void)memcpy(&key_len, data, sizeof(key_len));
    if (key_len != key->len || memcmp(data + sizeof(key_len), key->data, key->len) != 0)
        return -EINVAL;
    (void)memcpy(&sum, data + sizeof(key_len) + key->len, sizeof(sum));
    if (sum != hash_words(data + head, len - head))
        return -EINVAL;
    return unpack_policy(data + head, len - head, ret, ret_filter);
}

/* ---- writing ---- */

static int pack_strings(struct buf *b, char *const *list, uint32_t *ret_count)
{
    int r = 0;

    for (*ret_count = 0; r == 0 && list != NULL && list[*ret_count] != NULL; ++*ret_count)
        r = buf_append(b, list[*ret_count], strlen(list[*ret_count]) + 1);
    return r;
}

static int pack_policy(struct buf *b, const struct policy *p, const struct bpf *filter)
{
    auto_buf struct buf strings = BUF_INIT(POLICY_TEXT_MAX);
    struct packed h;
    int r;

    (void)memset(&h, 0, sizeof(h)); /* clears the padding as well, which the checksum covers */
    (void)memcpy(h.name, p->name, sizeof(h.name));
    h.no_new_privs = p->no_new_privs;
    h.fuse = p->fuse;
    h.net_admin = p->net_admin;
    h.no_exec = p->no_exec;
    h.core_sched = p->core_sched;
    h.network = p->network;
    h.access = p->access;
    h.capabilities = p->capabilities;
    h.limits = p->limits;
    (void)memcpy(h.rlimits, p->rlimits, sizeof(h.rlimits));
    h.rlimit_count = (uint32_t)p->rlimit_count;
    h.insn_count = (uint32_t)filter->count;
    r = pack_strings(&strings, p->masked, &h.masked_count);
    if (r == 0)
        r = pack_strings(&strings, p->read_only, &h.read_only_count);
    h.strings_size = (uint32_t)strings.len;
    if (r == 0)
        r = buf_append(b, &h, sizeof(h));
    if (r == 0 && strings.len > 0)
        r = buf_append(b, strings.data, strings.len);
    return r < 0 ? r : buf_append(b, filter->insns, filter->count * INSN_SIZE);
}

static void cache_store(int dir_fd, const char *name, const struct buf *key, const struct policy *p,
                        const struct bpf *filter)
{
    auto_buf struct buf body = BUF_INIT(FILE_MAX), file = BUF_INIT(FILE_MAX);
    uint32_t key_len = (uint32_t)key->len;
    uint64_t sum;

    if (pack_policy(&body, p, filter) < 0)
        return;
    sum = hash_words(body.data, body.len);
    if (buf_append(&file, &key_len, sizeof(key_len)) == 0 &&
        buf_append(&file, key->data, key->len) == 0 && buf_append(&file, &sum, sizeof(sum)) == 0 &&
        buf_append(&file, body.data, body.len) == 0)
        (void)file_replace_at(dir_fd, name, file.data, file.len, 0600,
                              NULL); /* if it fails, the next call writes it */
}

/* ---- lookup ---- */

static int policy_compile(const char *where, const char *text, size_t len, struct policy **ret,
                          struct bpf *ret_filter, struct err *err)
{
    auto_ptr(policy_free) struct policy *p = NULL;
    int r;

    r = policy_parse(text, len, where, &p, err);
    if (r < 0)
        return r;
    r = seccomp_compile(p->seccomp, p->capabilities, ret_filter, NULL, err);
    if (r < 0)
        return err_wrap(err, r, "policy '%s'", p->name);
    seccomp_profile_free(p->seccomp);
    p->seccomp = NULL;
    *ret = take(p);
    return 0;
}

int policy_cached(int state_fd, const char *where, const char *text, size_t len,
                  struct policy **ret, struct bpf *ret_filter, struct err *err)
{
    auto_buf struct buf key = BUF_INIT(KEY_MAX);
    auto_close int dir = FD_NONE;
    char name[32];
    int r;

    r = make_key(&key, text, len);
    if (r < 0)
        return err_errno(err, r, "policy '%s'", where);
    (void)snprintf(name, sizeof(name), "%016llx.bin",
                   (unsigned long long)hash_words(key.data, key.len));
    dir = openat(state_fd, dir_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir >= 0 && cache_load(dir, name, &key, ret, ret_filter) == 0)
        return 0;

    r = policy_compile(where, text, len, ret, ret_filter, err);
    if (r < 0)
        return r;
    if (dir < 0 && mkdirat(state_fd, dir_name, 0700) == 0)
        dir = openat(state_fd, dir_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir >= 0)
        cache_store(dir, name, &key, *ret, ret_filter);
    return 0;
}
