#include "core/filter-cache.h"

#include <errno.h>
#include <fcntl.h>
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
    FILE_MAX = KEY_MAX + BPF_COUNT_MAX * INSN_SIZE + 64,
};

static const char dir_name[] = "policies.cache";

/* The whole of what the filter depends on. It is stored and compared in full: the hash only names
 * the file. */
static int make_key(struct buf *key, const struct policy *p, const char *text, size_t len)
{
    struct utsname u;
    int r;

    if (uname(&u) < 0)
        return -errno;
    r = buf_printf(key, "rind %s format 3\nkernel %s %s\ncapabilities %llx\n", RIND_VERSION,
                   u.release, u.machine, (unsigned long long)p->capabilities);
    return r < 0 ? r : buf_append(key, text, len);
}

static uint64_t fnv1a(const void *data, size_t len)
{
    const unsigned char *p = data;
    uint64_t h = 0xcbf29ce484222325u;

    for (size_t i = 0; i < len; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}

/* Of what the file holds behind its key. The directory is ours alone: this is against a damaged
 * disk, not an attacker. */
static uint64_t checksum(const struct buf *key, const void *insns, size_t len)
{
    return fnv1a(key->data, key->len) ^ fnv1a(insns, len);
}

/* File: u32 key length, key, u64 checksum, instructions. */
static int load(int dir_fd, const char *name, const struct buf *key, struct bpf *ret)
{
    auto_free char *data = NULL;
    size_t len, head = sizeof(uint32_t) + key->len + sizeof(uint64_t);
    uint64_t sum;
    uint32_t key_len;
    int r;

    r = file_read_at(dir_fd, name, FILE_MAX, &data, &len, NULL);
    if (r < 0)
        return r;
    if (len <= head || (len - head) % INSN_SIZE != 0 || (len - head) / INSN_SIZE > BPF_COUNT_MAX)
        return -EINVAL;
    (void)memcpy(&key_len, data, sizeof(key_len));
    if (key_len != key->len || memcmp(data + sizeof(key_len), key->data, key->len) != 0)
        return -EINVAL;
    (void)memcpy(&sum, data + sizeof(key_len) + key->len, sizeof(sum));
    if (sum != checksum(key, data + head, len - head))
        return -EINVAL;
    ret->insns = malloc(len - head);
    if (ret->insns == NULL)
        return -ENOMEM;
    (void)memcpy(ret->insns, data + head, len - head);
    ret->count = (len - head) / INSN_SIZE;
    return 0;
}

static void store(int dir_fd, const char *name, const struct buf *key, const struct bpf *bpf)
{
    auto_buf struct buf file = BUF_INIT(FILE_MAX);
    uint64_t sum = checksum(key, bpf->insns, bpf->count * INSN_SIZE);
    uint32_t key_len = (uint32_t)key->len;

    if (buf_append(&file, &key_len, sizeof(key_len)) == 0 &&
        buf_append(&file, key->data, key->len) == 0 && buf_append(&file, &sum, sizeof(sum)) == 0 &&
        buf_append(&file, bpf->insns, bpf->count * INSN_SIZE) == 0)
        (void)file_replace_at(dir_fd, name, file.data, file.len, 0600, NULL); /* next time, then */
}

int filter_cached(int state_fd, const struct policy *p, const char *text, size_t len,
                  struct bpf *ret, struct err *err)
{
    auto_buf struct buf key = BUF_INIT(KEY_MAX);
    auto_close int dir = FD_NONE;
    char name[32];
    int r;

    r = make_key(&key, p, text, len);
    if (r < 0)
        return err_errno(err, r, "policy '%s'", p->name);
    (void)snprintf(name, sizeof(name), "%016llx.bpf", (unsigned long long)fnv1a(key.data, key.len));
    (void)mkdirat(state_fd, dir_name, 0700);
    dir = openat(state_fd, dir_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir >= 0 && load(dir, name, &key, ret) == 0)
        return 0;

    r = seccomp_compile(p->seccomp, p->capabilities, ret, NULL, err);
    if (r < 0)
        return err_wrap(err, r, "policy '%s'", p->name);
    if (dir >= 0)
        store(dir, name, &key, ret);
    return 0;
}
