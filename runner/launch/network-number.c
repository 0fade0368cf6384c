/*
 * The number of a named network is a digest of its name and of a secret in the state directory.
 * Clients choose names. Without the secret they cannot compute numbers, and 64 bits are too many
 * to find an equal number by trying networks out. Two daemons of one host have different secrets
 * and paths, and so share no network.
 */
#include "launch/network-number.h"

#include <errno.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "launch/sandbox.h"
#include "policy/net-setup.h"

enum { NETWORK_TEXT_MAX = 8192 };

static const char key_file[] = "network-key";

static int network_key_make(struct launcher *l, struct err *err)
{
    uint8_t key[NETWORK_KEY_SIZE];
    int r;

    if (getrandom(key, sizeof(key), 0) != (ssize_t)sizeof(key))
        return err_errno(err, -EIO, "network: random bytes for %s", key_file);
    r = file_replace_at(l->state_fd, key_file, key, sizeof(key), 0600, err);
    if (r < 0)
        return err_wrap(err, r, "network: the key of the networks' numbers");
    (void)memcpy(l->network_key, key, sizeof(key));
    l->network_keyed = true;
    return 0;
}

/* A damaged key is not replaced: running sandboxes have numbers that were made with it. */
static int network_key_have(struct launcher *l, struct err *err)
{
    auto_free char *text = NULL;
    size_t len = 0;
    int r;

    if (l->network_keyed)
        return 0;
    r = file_read_at(l->state_fd, key_file, NETWORK_KEY_SIZE, &text, &len, err);
    if (r == -ENOENT)
        return network_key_make(l, err);
    if (r == 0 && len != NETWORK_KEY_SIZE)
        r = err_set(err, -EIO, "%s: %zu bytes instead of %d", key_file, len, NETWORK_KEY_SIZE);
    if (r < 0)
        return err_wrap(err, r, "network: the key of the networks' numbers");
    (void)memcpy(l->network_key, text, NETWORK_KEY_SIZE);
    l->network_keyed = true;
    return 0;
}

int network_number(struct launcher *l, const char *name, uint64_t *ret, struct err *err)
{
    unsigned char digest[SHA256_DIGEST_LENGTH];
    auto_buf struct buf text = BUF_INIT(NETWORK_TEXT_MAX);
    uint64_t number;
    int r = network_key_have(l, err);

    if (r < 0)
        return r;
    r = buf_append(&text, l->network_key, NETWORK_KEY_SIZE);
    if (r == 0)
        r = buf_printf(&text, "%s\n%s", l->state_dir, name);
    if (r < 0)
        return err_errno(err, r, "network: the number of %s", name);
    (void)SHA256((const unsigned char *)text.data, text.len, digest);
    (void)memcpy(&number, digest, sizeof(number));
    /* Numbers of 32 bits are those of earlier launchers. */
    *ret = number | UINT64_C(1) << 63;
    return 0;
}
