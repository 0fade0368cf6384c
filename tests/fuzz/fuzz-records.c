/*
 * Files that the daemon reads as JSON; the first byte chooses: the configuration, the client
 * policy, what of the host is shown, a volume's record. A refusal has words behind the file's name;
 * what is accepted keeps its bounds, and a record is the same when it is written and read again.
 */

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "daemon/settings.h"
#include "policy/client.h"
#include "policy/host-rootfs.h"
#include "volume/volumes-internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void refused(int r, const struct err *err, const char *where)
{
    assert(r < 0 && err->code == r && err->msg[0] != '\0');
    assert(where == NULL || strstr(err->msg, where) != NULL);
}

static size_t check_paths(char *const *list, size_t most)
{
    size_t n = 0;

    for (; list[n] != NULL; n++)
        assert(list[n][0] == '/' && strstr(list[n], "/../") == NULL && n < most);
    return n;
}

static void settings(const char *text, size_t len)
{
    struct settings s;
    struct err err = ERR_NONE;
    int r = settings_init(&s);

    assert(r == 0);
    r = settings_parse(&s, text, len, "file", &err);
    if (r < 0)
        refused(r, &err, "file");
    else
        (void)check_paths(s.bind_prefixes, SIZE_MAX);
    settings_done(&s);
}

static void client(const char *text, size_t len)
{
    struct client_policy *p = NULL;
    struct err err = ERR_NONE;
    int r = client_policy_parse(text, len, "file", &p, &err);

    if (r < 0) {
        refused(r, &err, "file");
        return;
    }
    (void)check_paths(p->bind_prefixes, CLIENT_POLICY_LIST_MAX);
    (void)check_paths(p->read_only_prefixes, CLIENT_POLICY_LIST_MAX);
    (void)check_paths(p->rootfs_prefixes, CLIENT_POLICY_LIST_MAX);
    client_policy_free(p);
}

static void host(const char *text, size_t len)
{
    struct host_rootfs *h = NULL;
    struct err err = ERR_NONE;
    int r = host_rootfs_parse(text, len, "file", &h, &err);

    if (r < 0) {
        refused(r, &err, "file");
        return;
    }
    (void)check_paths(h->trees, HOST_ROOTFS_LIST_MAX);
    (void)check_paths(h->hidden, HOST_ROOTFS_LIST_MAX);
    (void)check_paths(h->files, HOST_ROOTFS_LIST_MAX);
    host_rootfs_free(h);
}

static void volume(const char *text, size_t len)
{
    struct volume_record a = {0}, b = {0};
    struct buf out = BUF_INIT(1 << 20);
    struct err err = ERR_NONE;
    int r = volume_record_decode(text, len, &a, &err);

    if (r < 0) {
        refused(r, &err, NULL);
        return;
    }
    r = volume_record_encode(&a, &out, &err);
    assert(r == 0);
    r = volume_record_decode(out.data, out.len, &b, &err);
    assert(r == 0 && a.created_ms == b.created_ms && a.creator == b.creator);
    assert(strcmp(a.owner, b.owner) == 0 && (a.labels == NULL) == (b.labels == NULL));
    for (size_t i = 0; a.labels != NULL && (a.labels[i] != NULL || b.labels[i] != NULL); i++)
        assert(a.labels[i] != NULL && b.labels[i] != NULL && strcmp(a.labels[i], b.labels[i]) == 0);
    volume_record_done(&a);
    volume_record_done(&b);
    buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const readers[])(const char *, size_t) = {settings, client, host, volume};
    char *text;

    if (size == 0 || size > HOST_ROOTFS_TEXT_MAX)
        return 0;
    text = malloc(size > 1 ? size - 1 : 1); /* nothing behind it, not even a NUL */
    assert(text != NULL);
    (void)memcpy(text, data + 1, size - 1);
    readers[data[0] % (sizeof(readers) / sizeof(readers[0]))](text, size - 1);
    free(text);
    return 0;
}
