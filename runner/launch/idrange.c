#include "launch/idrange.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

#include "base/auto.h"
#include "base/dir.h"
#include "base/err.h"
#include "base/file.h"
#include "base/number.h"

enum {
    NAME_LEN = 16, /* a decimal uid and its NUL */
    /* how often the file may be replaced before its lock before the slot counts as busy */
    LOCK_TRIES = 100,
    /* for the caller's own range, which another process locks briefly, for example in a sweep */
    RETAKE_TRIES = 200,
    RETAKE_PAUSE_NSEC = 1000000,
};

static_assert(IDRANGE_FIRST % IDRANGE_SIZE == 0, "ranges start at multiples of their size");
static_assert(IDRANGE_FIRST + (int64_t)IDRANGE_COUNT * IDRANGE_SIZE <= INT32_MAX,
              "the pool ends below 2^31");

static uid_t slot_base(unsigned slot)
{
    return (uid_t)IDRANGE_FIRST + slot * (uid_t)IDRANGE_SIZE;
}

static void slot_name(uid_t base, char name[static NAME_LEN])
{
    (void)snprintf(name, NAME_LEN, "%u", (unsigned)base);
}

/* Opens and locks the range's file. The file can be unlinked and made again between open and flock
 * (idrange_release). So the lock counts only if the name still refers to the locked file. -EBUSY
 * when another process holds the lock. */
static int slot_lock_file(int registry_fd, const char *name, struct stat *ret_st, struct err *err)
{
    for (int i = 0; i < LOCK_TRIES; i++) {
        auto_close int fd = FD_NONE;
        struct stat named;

        fd = openat(registry_fd, name, O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
                    0600);
        if (fd < 0)
            return err_errno(err, -errno, "id range %s", name);
        if (flock(fd, LOCK_EX | LOCK_NB) < 0)
            return errno == EWOULDBLOCK ? -EBUSY : err_errno(err, -errno, "lock id range %s", name);
        if (fstat(fd, ret_st) < 0)
            return err_errno(err, -errno, "id range %s", name);
        if (!S_ISREG(ret_st->st_mode))
            return err_set(err, -EINVAL, "id range %s: not a regular file", name);
        if (fstatat(registry_fd, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
            named.st_dev == ret_st->st_dev && named.st_ino == ret_st->st_ino)
            return take_fd(&fd);
    }
    return -EBUSY;
}

/* True if the range that starts at base overlaps one of the sorted ranges. */
static bool is_avoided(uid_t base, const struct idrange_avoid *avoid, size_t count)
{
    uint32_t last = base + (IDRANGE_SIZE - 1);
    size_t low = 0, high = count;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (avoid[mid].last < base)
            low = mid + 1;
        else
            high = mid;
    }
    return low < count && avoid[low].first <= last;
}

/* Returns 0 and sets *ret, or -EBUSY when the range is locked or reserved. */
static int slot_try(int registry_fd, uid_t base, struct idrange *ret, struct err *err)
{
    char name[NAME_LEN];
    struct stat st;
    int fd;

    slot_name(base, name);
    fd = slot_lock_file(registry_fd, name, &st, err);
    if (fd < 0)
        return fd;
    if (st.st_size > 0) {
        (void)close(fd);
        return -EBUSY;
    }
    *ret = (struct idrange){.base = base, .lock_fd = fd};
    return 0;
}

/* Takes one of `count` slots, starting at slot `first`. */
static int slots_take(int registry_fd, unsigned first, unsigned count,
                      const struct idrange_avoid *avoid, size_t avoid_count, struct idrange *ret,
                      struct err *err)
{
    unsigned start;

    /* The first slot is random, so that simultaneous starts rarely try the same one. Early in a
     * boot the kernel may have no entropy; any number works then. */
    if (getrandom(&start, sizeof(start), GRND_NONBLOCK) != (ssize_t)sizeof(start))
        start = (unsigned)getpid();
    for (unsigned i = 0; i < count; i++) {
        uid_t base = slot_base(first + (start % count + i) % count);
        int r;

        if (is_avoided(base, avoid, avoid_count))
            continue;
        r = slot_try(registry_fd, base, ret, err);
        if (r != -EBUSY)
            return r;
    }
    return err_set(err, -ENOSPC,
                   "no free range of %d user ids: all %u of the pool are in use, kept by stopped "
                   "sandboxes or given to users in /etc/subuid; remove sandboxes",
                   IDRANGE_SIZE, count);
}

int idrange_take(int registry_fd, const struct idrange_avoid *avoid, size_t avoid_count,
                 struct idrange *ret, struct err *err)
{
    return slots_take(registry_fd, 0, IDRANGE_COUNT - IDRANGE_GUARDED, avoid, avoid_count, ret,
                      err);
}

int idrange_take_guarded(int registry_fd, const struct idrange_avoid *avoid, size_t avoid_count,
                         struct idrange *ret, struct err *err)
{
    return slots_take(registry_fd, IDRANGE_COUNT - IDRANGE_GUARDED, IDRANGE_GUARDED, avoid,
                      avoid_count, ret, err);
}

/* Returns 0 if the file contains `owner` or is empty, -EPERM if it contains another owner. */
static int slot_check_owner(int fd, const char *owner)
{
    char text[IDRANGE_OWNER_MAX + 1];
    ssize_t n;

    /* pread, because init shares the file offset of this open file description. */
    n = pread(fd, text, sizeof(text), 0);
    if (n < 0)
        return -errno;
    if (n == 0)
        return 0;
    if (owner == NULL || (size_t)n != strlen(owner) || memcmp(text, owner, (size_t)n) != 0)
        return -EPERM;
    return 0;
}

/* Retries if `patient`: then only a sweep can hold the lock, and only briefly. */
static int slot_lock_own_file(int registry_fd, const char *name, bool patient, struct stat *ret_st,
                              struct err *err)
{
    const struct timespec pause = {.tv_nsec = RETAKE_PAUSE_NSEC};
    int fd = slot_lock_file(registry_fd, name, ret_st, err);

    for (int i = 0; fd == -EBUSY && patient && i < RETAKE_TRIES; i++) {
        (void)nanosleep(&pause, NULL);
        fd = slot_lock_file(registry_fd, name, ret_st, err);
    }
    return fd;
}

int idrange_retake(int registry_fd, uid_t base, const char *owner, struct idrange *ret,
                   struct err *err)
{
    auto_close int fd = FD_NONE;
    char name[NAME_LEN];
    struct stat st;
    int r;

    if (base < IDRANGE_FIRST || (base - IDRANGE_FIRST) % IDRANGE_SIZE != 0 ||
        (base - IDRANGE_FIRST) / IDRANGE_SIZE >= IDRANGE_COUNT)
        return err_set(err, -EINVAL, "%u does not start an id range", (unsigned)base);

    slot_name(base, name);
    fd = slot_lock_own_file(registry_fd, name, owner != NULL, &st, err);
    if (fd == -EBUSY)
        return err_set(err, -EBUSY, "id range %s is in use", name);
    if (fd < 0)
        return fd;
    r = slot_check_owner(fd, owner);
    if (r == -EPERM)
        return err_set(err, r, "id range %s is kept for another sandbox", name);
    if (r < 0)
        return err_errno(err, r, "read id range %s", name);

    *ret = (struct idrange){.base = base, .lock_fd = take_fd(&fd)};
    return 0;
}

/* Opens the range's file for writing. It must be the file that r->lock_fd has locked. */
static int slot_open_locked(int registry_fd, const struct idrange *r, const char *name)
{
    auto_close int fd = FD_NONE;
    struct stat held, named;

    fd = openat(registry_fd, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &named) < 0 || fstat(r->lock_fd, &held) < 0)
        return -errno;
    if (held.st_dev != named.st_dev || held.st_ino != named.st_ino)
        return -ESTALE;
    return take_fd(&fd);
}

/* The text fits into one write and one page of the file, so a crash leaves all of it or nothing. */
static int slot_write_owner(int fd, const char *owner, bool durable)
{
    size_t len = owner != NULL ? strlen(owner) : 0;
    ssize_t n;

    if (len > 0) {
        n = pwrite(fd, owner, len, 0);
        if (n < 0)
            return -errno;
        if ((size_t)n != len)
            return -EIO;
    }
    if (ftruncate(fd, (off_t)len) < 0 || (durable && fsync(fd) < 0))
        return -errno;
    return 0;
}

static int slot_set_owner(int registry_fd, const struct idrange *r, const char *owner, bool durable,
                          struct err *err)
{
    auto_close int fd = FD_NONE;
    char name[NAME_LEN];
    int code;

    if (owner != NULL && (*owner == '\0' || strlen(owner) > IDRANGE_OWNER_MAX))
        return err_set(err, -EINVAL, "owner of an id range: must have 1 to %d bytes",
                       IDRANGE_OWNER_MAX);
    slot_name(r->base, name);
    fd = slot_open_locked(registry_fd, r, name);
    if (fd < 0)
        return err_errno(err, fd, "open id range %s", name);
    code = slot_write_owner(fd, owner, durable);
    /* A file that idrange_take has created needs its directory entry on disk, too. */
    if (code == 0 && durable && owner != NULL && fsync(registry_fd) < 0)
        code = -errno;
    return code < 0 ? err_errno(err, code, "write id range %s", name) : 0;
}

int idrange_reserve(int registry_fd, const struct idrange *r, const char *owner, struct err *err)
{
    return slot_set_owner(registry_fd, r, owner, true, err);
}

int idrange_claim(int registry_fd, const struct idrange *r, const char *owner, struct err *err)
{
    return slot_set_owner(registry_fd, r, owner, false, err);
}

/* Locks the range's file if it exists and is unlocked. While the lock is held, the name refers to
 * this file, and no other process unlinks or fills it. Returns the fd or a negative errno. */
static int slot_lock_if_free(int registry_fd, const char *name)
{
    auto_close int fd = FD_NONE;
    struct stat held, named;

    fd = openat(registry_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
        return -errno;
    if (fstat(fd, &held) < 0 || fstatat(registry_fd, name, &named, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (!S_ISREG(held.st_mode) || held.st_dev != named.st_dev || held.st_ino != named.st_ino)
        return -ESTALE;
    return take_fd(&fd);
}

/* The contents of a range's file. */
struct owner {
    char text[IDRANGE_OWNER_MAX + 1];
    ssize_t len;
};

static struct owner slot_read_owner(int fd)
{
    struct owner o;

    o.len = pread(fd, o.text, sizeof(o.text), 0);
    return o;
}

static bool owner_unchanged(int fd, const struct owner *before)
{
    const struct owner now = slot_read_owner(fd);

    return now.len >= 0 && now.len == before->len &&
           memcmp(now.text, before->text, (size_t)now.len) == 0;
}

/* Clears the reservation while a running sandbox holds a copy of the lock; that sandbox is then the
 * last user of the range. No fsync is needed: after a crash the owner's next sweep finds its own
 * name. */
static void slot_clear_owner(int registry_fd, const char *name, const struct owner *ours)
{
    auto_close int fd = openat(registry_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    if (fd >= 0 && ours->len > 0 && owner_unchanged(fd, ours))
        (void)!ftruncate(fd, 0);
}

static void idrange_unlock(int registry_fd, struct idrange *r, int tries)
{
    const struct timespec pause = {.tv_nsec = RETAKE_PAUSE_NSEC};
    auto_close int fd = FD_NONE;
    struct owner ours;
    char name[NAME_LEN];

    if (r->lock_fd < 0)
        return;
    slot_name(r->base, name);
    ours = slot_read_owner(r->lock_fd);
    /* The launcher's copy of the lock is closed first. Unlinking the file while a running sandbox
     * holds another copy would free the name, and a second sandbox would get these ids. A process
     * that takes the range in between holds its lock, or has written another owner. */
    idrange_done(r);
    fd = slot_lock_if_free(registry_fd, name);
    while (fd == -EWOULDBLOCK && tries-- > 0) {
        (void)nanosleep(&pause, NULL);
        fd = slot_lock_if_free(registry_fd, name);
    }
    if (fd >= 0 && owner_unchanged(fd, &ours))
        (void)unlinkat(registry_fd, name, 0);
    else if (fd == -EWOULDBLOCK)
        slot_clear_owner(registry_fd, name, &ours);
}

void idrange_release(int registry_fd, struct idrange *r)
{
    idrange_unlock(registry_fd, r, 0);
}

void idrange_give_back(int registry_fd, struct idrange *r)
{
    idrange_unlock(registry_fd, r, RETAKE_TRIES);
}

void idrange_done(struct idrange *r)
{
    if (r->lock_fd >= 0)
        (void)close(take_fd(&r->lock_fd));
    r->base = 0;
}

/* Returns the id in "<state_dir>\n<id>\n", terminated in place, or NULL for any other text. */
static char *owned_id(char *text, size_t len, const char *state_dir)
{
    size_t dir_len = strlen(state_dir);
    char *id = text + dir_len + 1;

    if (len < dir_len + 3 || memcmp(text, state_dir, dir_len) != 0 || text[dir_len] != '\n' ||
        text[len - 1] != '\n')
        return NULL;
    text[len - 1] = '\0';
    return strlen(id) == len - dir_len - 2 && strchr(id, '\n') == NULL ? id : NULL;
}

/* Returns 1 if a reservation was cleared, 0 if the range is unchanged. */
static int slot_sweep(int registry_fd, const char *name, const char *state_dir,
                      bool (*keep)(void *arg, const char *id), void *arg)
{
    auto_close int fd = slot_lock_if_free(registry_fd, name);
    char text[IDRANGE_OWNER_MAX + 1];
    const char *id;
    ssize_t n;

    if (fd < 0)
        return 0;
    n = pread(fd, text, sizeof(text), 0);
    if (n < 0)
        return 0;
    if (n > 0) {
        id = owned_id(text, (size_t)n, state_dir);
        if (id == NULL || keep(arg, id))
            return 0;
    }
    if (unlinkat(registry_fd, name, 0) < 0)
        return 0;
    return n > 0;
}

static bool is_range_name(const char *name)
{
    size_t len = strspn(name, "0123456789");

    return len > 0 && len < NAME_LEN && name[len] == '\0';
}

static bool slot_has_owner(int registry_fd, const char *name, const char *owner)
{
    auto_close int fd = openat(registry_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct owner o = {.len = 0};

    if (fd >= 0)
        o = slot_read_owner(fd);
    return o.len > 0 && (size_t)o.len == strlen(owner) && memcmp(o.text, owner, (size_t)o.len) == 0;
}

int idrange_find(int registry_fd, const char *owner, uid_t *ret_base, struct err *err)
{
    auto_ptr(dir_close) DIR *d = dir_open(registry_fd, ".");
    const struct dirent *e;

    if (d == NULL)
        return err_errno(err, -errno, "id range registry");
    while ((e = dir_next(d)) != NULL) {
        if (!is_range_name(e->d_name) || !slot_has_owner(registry_fd, e->d_name, owner))
            continue;
        *ret_base = (uid_t)number_whole(e->d_name, NAME_LEN - 1);
        return 0;
    }
    return err_set(err, -ENOENT, "no id range is kept for it");
}

int idrange_sweep(int registry_fd, const char *state_dir, bool (*keep)(void *arg, const char *id),
                  void *arg, struct err *err)
{
    auto_ptr(dir_close) DIR *d = dir_open(registry_fd, ".");
    const struct dirent *e;
    int swept = 0;

    if (d == NULL)
        return err_errno(err, -errno, "id range registry");
    while ((e = dir_next(d)) != NULL)
        if (is_range_name(e->d_name))
            swept += slot_sweep(registry_fd, e->d_name, state_dir, keep, arg);
    return swept;
}

/* Parses decimal digits up to `stop`; a number above UINT32_MAX is an error, or is clamped. */
static int subid_cut_number(const char **p, const char *end, char stop, bool clamp, uint32_t *ret)
{
    uint64_t value = 0;
    const char *s = *p;

    for (; s < end && *s != stop; s++) {
        if (*s < '0' || *s > '9')
            return -EINVAL;
        value = value * 10 + (uint64_t)(*s - '0');
        if (value > UINT32_MAX && !clamp)
            return -EINVAL;
        if (value > UINT32_MAX)
            value = UINT32_MAX;
    }
    if (s == *p)
        return -EINVAL;
    *ret = (uint32_t)value;
    *p = s + (s < end);
    return 0;
}

int idrange_parse_subid(const char *line, size_t len, struct idrange_avoid *ret)
{
    const char *end = line + len, *colon;
    uint32_t start, count;

    if (line == end || *line == '#')
        return 0;
    colon = memchr(line, ':', (size_t)(end - line));
    if (colon == NULL || colon == line || memchr(line, '\0', (size_t)(end - line)) != NULL)
        return -EINVAL;
    line = colon + 1;
    if (memchr(line, ':', (size_t)(end - line)) == NULL)
        return -EINVAL;
    if (subid_cut_number(&line, end, ':', false, &start) < 0)
        return -EINVAL;
    /* A count past the last id takes the rest: it is safe to avoid too much. */
    if (subid_cut_number(&line, end, '\n', true, &count) < 0)
        return -EINVAL;
    if (count == 0)
        return 0;
    ret->first = start;
    ret->last = count - 1 > UINT32_MAX - start ? UINT32_MAX : start + (count - 1);
    return 1;
}

static int range_compare(const void *a, const void *b)
{
    const struct idrange_avoid *x = a, *y = b;

    return (x->first > y->first) - (x->first < y->first);
}

/* Sorts the ranges and merges those that overlap or touch. Returns the new count. */
static size_t ranges_merge(struct idrange_avoid *v, size_t count)
{
    size_t n = 0;

    qsort(v, count, sizeof(*v), range_compare);
    for (size_t i = 0; i < count; i++) {
        if (n > 0 && (v[n - 1].last == UINT32_MAX || v[i].first <= v[n - 1].last + 1)) {
            if (v[i].last > v[n - 1].last)
                v[n - 1].last = v[i].last;
        } else {
            v[n++] = v[i];
        }
    }
    return n;
}

int idrange_parse_subids(const char *text, size_t len, struct idrange_avoid **ret,
                         size_t *ret_count)
{
    const char *end = text + len;
    auto_free struct idrange_avoid *v = NULL;
    size_t lines = 1, n = 0;

    for (const char *p = text; p < end; p++)
        lines += *p == '\n';
    if (lines > IDRANGE_SUBIDS_MAX)
        return -E2BIG;
    v = calloc(lines, sizeof(*v));
    if (v == NULL)
        return -ENOMEM;

    while (text < end) {
        const char *eol = memchr(text, '\n', (size_t)(end - text));
        const char *stop = eol != NULL ? eol : end;
        int r = idrange_parse_subid(text, (size_t)(stop - text), &v[n]);

        if (r < 0)
            return r;
        n += (size_t)r;
        text = stop + (eol != NULL);
    }
    *ret_count = n > 0 ? ranges_merge(v, n) : 0;
    *ret = take(v);
    return 0;
}
