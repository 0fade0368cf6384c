/* The files of the store: locks, blobs, digests. */

#include "image/store.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/dir.h"
#include "base/err.h"
#include "base/file.h"
#include "image/store-internal.h"
#include "proto/syscalls.h"

enum { READ_SIZE = 1 << 20, TRIES = 16 };

static const char layout[] = "{\"imageLayoutVersion\":\"1.0.0\"}";
static const char empty_index[] =
    "{\"schemaVersion\":2,\"mediaType\":\"application/vnd.oci.image.index.v1+json\","
    "\"manifests\":[]}";

/* ---- digests ---- */

void digest_format(const uint8_t bytes[32], char ret[DIGEST_LEN + 1])
{
    static const char digits[] = "0123456789abcdef";

    (void)memcpy(ret, "sha256:", 7);
    for (size_t i = 0; i < 32; i++) {
        ret[7 + 2 * i] = digits[bytes[i] >> 4];
        ret[8 + 2 * i] = digits[bytes[i] & 15];
    }
    ret[DIGEST_LEN] = '\0';
}

void digest_of(const void *data, size_t len, char ret[DIGEST_LEN + 1])
{
    uint8_t bytes[EVP_MAX_MD_SIZE];
    unsigned n = 0;

    if (EVP_Digest(data, len, bytes, &n, EVP_sha256(), NULL) != 1)
        abort(); /* EVP_Digest with SHA-256 only fails when out of memory */
    digest_format(bytes, ret);
}

static int hash_all(int fd, EVP_MD_CTX *ctx, char *buf, int64_t *ret_size)
{
    int64_t at = 0;

    for (;;) {
        ssize_t n = pread(fd, buf, READ_SIZE, at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        if (EVP_DigestUpdate(ctx, buf, (size_t)n) != 1)
            return -ENOMEM;
        at += n;
    }
    *ret_size = at;
    return 0;
}

int digest_of_file(int fd, char ret[DIGEST_LEN + 1], int64_t *ret_size)
{
    auto_free char *buf = malloc(READ_SIZE);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    uint8_t bytes[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    int r = -ENOMEM;

    if (buf != NULL && ctx != NULL && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) == 1)
        r = hash_all(fd, ctx, buf, ret_size);
    if (r == 0 && EVP_DigestFinal_ex(ctx, bytes, &len) != 1)
        r = -ENOMEM;
    EVP_MD_CTX_free(ctx);
    if (r == 0)
        digest_format(bytes, ret);
    return r;
}

/* ---- opening ---- */

static int open_dir(int at, const char *name)
{
    int fd;

    if (mkdirat(at, name, 0700) < 0 && errno != EEXIST)
        return -errno;
    fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int make_file(int dir, const char *name, const char *text, struct err *err)
{
    if (faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return 0;
    return file_replace_at(dir, name, text, strlen(text), 0600, err);
}

/* Takes the lock, since another process may do this at the same time. */
static int make_layout(struct image_store *s, struct err *err)
{
    auto_close int lock = store_lock(s, LOCK_EX, err);
    int r;

    if (lock < 0)
        return lock;
    r = make_file(s->dir, "oci-layout", layout, err);
    return r < 0 ? r : make_file(s->dir, "index.json", empty_index, err);
}

int image_store_open(int dir_fd, struct image_store **ret, struct err *err)
{
    auto_ptr(image_store_close) struct image_store *s = calloc(1, sizeof(*s));
    auto_close int blobs = FD_NONE;
    int r;

    if (s == NULL)
        return err_errno(err, -ENOMEM, "store of images");
    s->dir = s->blobs = s->tmp = FD_NONE;
    r = s->dir = open_dir(dir_fd, "images");
    if (r >= 0)
        r = s->tmp = open_dir(s->dir, "tmp");
    if (r >= 0)
        r = blobs = open_dir(s->dir, "blobs");
    if (r >= 0)
        r = s->blobs = open_dir(blobs, "sha256");
    if (r < 0)
        return err_errno(err, r, "store of images");
    r = make_layout(s, err);
    if (r < 0)
        return err_wrap(err, r, "store of images");
    *ret = take(s);
    return 0;
}

void image_store_close(struct image_store *s)
{
    if (s == NULL)
        return;

    const int fds[] = {s->dir, s->blobs, s->tmp};

    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        if (fds[i] >= 0)
            (void)close(fds[i]);
    free(s);
}

static int lock_file(struct image_store *s, const char *name, int how)
{
    auto_close int fd = openat(s->dir, name, O_RDONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd < 0)
        return -errno;
    while (flock(fd, how) < 0)
        if (errno != EINTR)
            return -errno;
    return take_fd(&fd);
}

int store_lock(struct image_store *s, int how, struct err *err)
{
    int fd = lock_file(s, "lock", how);

    return fd < 0 ? err_errno(err, fd, "lock the store of images") : fd;
}

int image_store_use(struct image_store *s, struct err *err)
{
    int fd = lock_file(s, "use", LOCK_SH);

    return fd < 0 ? err_errno(err, fd, "lock the store of images") : fd;
}

int store_collect_lock(struct image_store *s)
{
    return lock_file(s, "use", LOCK_EX | LOCK_NB);
}

/* ---- blobs ---- */

int blob_begin(struct image_store *s, struct blob_file *ret, struct err *err)
{
    int fd = -EEXIST;

    for (int i = 0; fd == -EEXIST && i < TRIES; i++) {
        unsigned long long n = 0;

        if (getrandom(&n, sizeof(n), 0) != (ssize_t)sizeof(n))
            return err_errno(err, -EIO, "store of images");
        (void)snprintf(ret->tmp, sizeof(ret->tmp), "%016llx", n);
        fd = openat(s->tmp, ret->tmp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        fd = fd < 0 ? -errno : fd;
    }
    if (fd < 0) {
        ret->tmp[0] = '\0';
        return err_errno(err, fd, "store of images");
    }
    ret->fd = fd;
    return 0;
}

int blob_reopen(struct image_store *s, const struct blob_file *f, struct err *err)
{
    int fd = openat(s->tmp, f->tmp, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

    return fd < 0 ? err_errno(err, -errno, "store of images") : fd;
}

static void blob_done(struct blob_file *f)
{
    if (f->fd >= 0)
        (void)close(take_fd(&f->fd));
    f->tmp[0] = '\0';
}

void blob_drop(struct image_store *s, struct blob_file *f)
{
    if (f->tmp[0] != '\0')
        (void)unlinkat(s->tmp, f->tmp, 0);
    blob_done(f);
}

int blob_commit(struct image_store *s, struct blob_file *f, const char *digest, struct err *err)
{
    int r = 0;

    if (blob_there(s, digest)) {
        blob_drop(s, f);
        return 0;
    }
    if (fdatasync(f->fd) < 0 || renameat(s->tmp, f->tmp, s->blobs, digest + strlen("sha256:")) < 0)
        r = err_errno(err, -errno, "store blob %s", digest);
    if (r < 0)
        blob_drop(s, f);
    else
        blob_done(f);
    return r;
}

int blob_put(struct image_store *s, const void *data, size_t len, char ret_digest[DIGEST_LEN + 1],
             struct err *err)
{
    struct blob_file f = BLOB_FILE_NONE;
    int r = blob_begin(s, &f, err);

    if (r < 0)
        return r;
    digest_of(data, len, ret_digest);
    r = write_all(f.fd, data, len);
    if (r < 0) {
        blob_drop(s, &f);
        return err_errno(err, r, "store blob %s", ret_digest);
    }
    return blob_commit(s, &f, ret_digest, err);
}

bool blob_there(struct image_store *s, const char *digest)
{
    return digest_ok(digest) &&
           faccessat(s->blobs, digest + strlen("sha256:"), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int blob_open(struct image_store *s, const char *digest, int64_t *ret_size, struct err *err)
{
    auto_close int fd = FD_NONE;
    struct stat st;

    if (!digest_ok(digest))
        return err_set(err, -EINVAL, "blob \"%.80s\": is no digest", digest);
    fd = openat(s->blobs, digest + strlen("sha256:"), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_errno(err, -errno, "blob %s", digest);
    *ret_size = st.st_size;
    return take_fd(&fd);
}

int blob_read(struct image_store *s, const char *digest, size_t max, char **ret, size_t *ret_len,
              struct err *err)
{
    auto_free char *text = NULL;
    auto_close int fd = FD_NONE;
    char is[DIGEST_LEN + 1];
    int64_t size = 0;
    size_t len = 0;
    int r;

    fd = blob_open(s, digest, &size, err);
    if (fd < 0)
        return fd;
    r = file_read_fd(fd, max, &text, &len, err);
    if (r < 0)
        return err_wrap(err, r, "blob %s", digest);
    digest_of(text, len, is);
    if (strcmp(is, digest) != 0)
        return err_set(err, -EBADMSG, "blob %s: is damaged: its digest is %s", digest, is);
    *ret = take(text);
    *ret_len = len;
    return 0;
}

/* ---- listing files ---- */

int store_each_file(int dir_fd, int (*one)(void *arg, int dir_fd, const char *name), void *arg)
{
    auto_ptr(dir_close) DIR *d = dir_open(dir_fd, ".");
    const struct dirent *e;
    int r = 0;

    if (d == NULL)
        return -errno;
    while (r == 0 && (e = dir_next(d)) != NULL)
        r = one(arg, dir_fd, e->d_name);
    return r == 0 ? -errno : r;
}
