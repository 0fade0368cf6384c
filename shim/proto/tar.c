#include "proto/tar.h"

#include <errno.h>
#include <string.h>

#include "proto/tar-xattr.h"
#include "proto/utf8.h"

/* The fields of a header block. */
enum {
    NAME = 0,
    NAME_LEN = 100,
    MODE = 100,
    UID = 108,
    GID = 116,
    SHORT_LEN = 8,
    SIZE = 124,
    MTIME = 136,
    LONG_LEN = 12,
    CHECKSUM = 148,
    TYPE = 156,
    LINK = 157,
    MAGIC = 257,
    DEV_MAJOR = 329,
    DEV_MINOR = 337,
    PREFIX = 345,
    PREFIX_LEN = 155,
    /* GNU's old format of sparse files: pieces of two numbers each, here and in further blocks */
    SPARSE = 386,
    SPARSE_COUNT = 4,
    SPARSE_MORE = 482,
    SPARSE_REAL_SIZE = 483,
    SPARSE_NEXT_COUNT = 21,
    SPARSE_NEXT_MORE = 504,
};

static const char xattr_key[] = "SCHILY.xattr.";
static const char libarchive_key[] = "LIBARCHIVE.xattr.";

/* ---- reading: numbers ---- */

/* Parses an octal number, terminated by space or NUL, or GNU's base 256. Returns false for other
 * text and beyond int64_t. */
static bool block_get_number(const uint8_t *p, size_t len, int64_t *ret)
{
    uint64_t v = 0;
    size_t i = 0;

    if (p[0] & 0x80) {
        bool negative = (p[0] & 0x40) != 0;

        v = negative ? UINT64_MAX : 0;
        for (; i < len; i++) {
            uint8_t byte = i > 0      ? p[i]
                           : negative ? (uint8_t)(p[0] | 0x80)
                                      : (uint8_t)(p[0] & 0x7f);

            if (i + 8 < len && byte != (negative ? 0xff : 0))
                return false;
            v = v << 8 | byte;
        }
        if ((v > INT64_MAX) != negative)
            return false;
        *ret = negative ? -(int64_t)(~v) - 1 : (int64_t)v;
        return true;
    }
    while (i < len && p[i] == ' ')
        i++;
    for (; i < len && p[i] >= '0' && p[i] <= '7'; i++) {
        if (v > (uint64_t)INT64_MAX >> 3)
            return false;
        v = v << 3 | (uint64_t)(p[i] - '0');
    }
    for (; i < len; i++)
        if (p[i] != ' ' && p[i] != '\0')
            return false;
    *ret = (int64_t)v;
    return true;
}

static bool block_checksum_ok(const uint8_t *block)
{
    int64_t want, sum = 0, old = 0;

    if (!block_get_number(block + CHECKSUM, SHORT_LEN, &want))
        return false;
    for (int i = 0; i < TAR_BLOCK; i++) {
        uint8_t byte = i >= CHECKSUM && i < CHECKSUM + SHORT_LEN ? ' ' : block[i];

        sum += byte;
        old += (int8_t)byte; /* as some old writers computed it, with signed bytes */
    }
    return want == sum || want == old;
}

static bool block_is_zero(const uint8_t *block)
{
    for (int i = 0; i < TAR_BLOCK; i++)
        if (block[i] != 0)
            return false;
    return true;
}

static int tar_fail(struct tar_in *t, int code, const char *why)
{
    t->why = why;
    return code;
}

/* ---- reading: bytes ---- */

static int tar_read_block(struct tar_in *t, uint8_t *block, bool *ret_end)
{
    ssize_t n = t->read(t->data, block, TAR_BLOCK);

    if (n < 0)
        return tar_fail(t, (int)n, "the archive cannot be read");
    *ret_end = n == 0;
    return n != 0 && n != TAR_BLOCK ? tar_fail(t, -EBADMSG, "the archive ends inside a block") : 0;
}

ssize_t tar_read_data(struct tar_in *t, void *buf, size_t len)
{
    ssize_t n;

    if (t->left == 0)
        return 0;
    if (len > t->left)
        len = (size_t)t->left;
    n = t->read(t->data, buf, len);
    if (n == 0)
        return tar_fail(t, -EBADMSG, "the archive ends inside a file");
    if (n < 0)
        return tar_fail(t, (int)n, "the archive cannot be read");
    t->left -= (uint64_t)n;
    return n;
}

static int tar_skip_data(struct tar_in *t)
{
    char waste[4 * TAR_BLOCK];
    ssize_t n;

    while ((n = tar_read_data(t, waste, sizeof(waste))) > 0)
        ;
    if (n < 0)
        return (int)n;
    t->left = t->pad;
    t->pad = 0;
    while ((n = tar_read_data(t, waste, sizeof(waste))) > 0)
        ;
    return (int)n;
}

static void tar_expect_data(struct tar_in *t, uint64_t size)
{
    t->left = size;
    t->pad = (TAR_BLOCK - size % TAR_BLOCK) % TAR_BLOCK;
}

/* Reads the contents of a pax header or a long name completely into the buffer at `at`,
 * NUL-terminated. */
static int tar_read_whole(struct tar_in *t, uint64_t size, size_t at, size_t *ret)
{
    if (size > TAR_PAX_MAX - at)
        return tar_fail(t, -E2BIG, "a header of more than 256 KiB");
    tar_expect_data(t, size);
    for (*ret = 0; t->left > 0;) {
        ssize_t n = tar_read_data(t, t->pax + at + *ret, (size_t)t->left);

        if (n < 0)
            return (int)n;
        *ret += (size_t)n;
    }
    t->pax[at + *ret] = '\0';
    return tar_skip_data(t);
}

/* ---- reading: pax ---- */

/* Values that preceding headers have set for the entry. */
struct extra {
    bool has_name, has_link, has_size, has_uid, has_gid, has_mtime;
    int64_t size, uid, gid;
    /* GNU's sparse format 1.0 */
    bool has_major, has_minor, has_real_size, has_sparse_name;
    int64_t major, minor, real_size;
};

static bool pax_parse_decimal(const char *s, int64_t *ret, uint32_t *ret_ns)
{
    bool negative = *s == '-';
    uint64_t v = 0;
    uint32_t ns = 0, digit = 100000000;

    s += negative;
    if (*s < '0' || *s > '9')
        return false;
    for (; *s >= '0' && *s <= '9'; s++) {
        if (v > (uint64_t)INT64_MAX / 10 - 1)
            return false;
        v = v * 10 + (uint64_t)(*s - '0');
    }
    if (*s == '.' && ret_ns != NULL)
        for (s++; *s >= '0' && *s <= '9'; s++, digit /= 10)
            ns += digit * (uint32_t)(*s - '0');
    if (*s != '\0')
        return false;
    *ret = negative ? -(int64_t)v : (int64_t)v;
    if (negative && ns > 0) {
        *ret -= 1;
        ns = 1000000000 - ns;
    }
    if (ret_ns != NULL)
        *ret_ns = ns;
    return true;
}

static int pax_take_text(struct tar_in *t, const char *value, size_t len, char *ret)
{
    if (strlen(value) != len)
        return tar_fail(t, -EBADMSG, "a name with a NUL byte");
    if (len > FILE_PATH_MAX)
        return tar_fail(t, -ENAMETOOLONG, "a name of more than 4095 bytes");
    memcpy(ret, value, len + 1);
    return 0;
}

static struct tar_xattr *item_find_xattr(struct tar_item *item, const char *name)
{
    for (size_t i = 0; i < item->xattr_count; i++)
        if (strcmp(item->xattrs[i].name, name) == 0)
            return &item->xattrs[i];
    return NULL;
}

/* A later value of a name replaces an earlier one, but libarchive's form never one of the other. */
static int pax_take_xattr(struct tar_in *t, struct tar_item *item, const char *name,
                          const char *value, size_t len, bool keep)
{
    struct tar_xattr *found = item_find_xattr(item, name);

    if (!tar_xattr_settable(name) || (found != NULL && keep))
        return 0;
    if (found == NULL && item->xattr_count == TAR_XATTRS_MAX)
        return tar_fail(t, -E2BIG, "more than 32 extended attributes");
    if (found == NULL)
        found = &item->xattrs[item->xattr_count++];
    *found = (struct tar_xattr){.name = name, .value = value, .len = len};
    return 0;
}

static int pax_take_number(struct tar_in *t, const char *value, int64_t *ret, bool *ret_has)
{
    if (!pax_parse_decimal(value, ret, NULL) || *ret < 0)
        return tar_fail(t, -EBADMSG, "a pax number that is none");
    *ret_has = true;
    return 0;
}

/* Handles GNU.sparse.KEY of format 1.0, whose name replaces the entry's. */
static int pax_apply_sparse(struct tar_in *t, struct tar_item *item, struct extra *x,
                            const char *key, const char *value, size_t len)
{
    if (t->map != NULL && strcmp(key, "major") == 0)
        return pax_take_number(t, value, &x->major, &x->has_major);
    if (t->map != NULL && strcmp(key, "minor") == 0)
        return pax_take_number(t, value, &x->minor, &x->has_minor);
    if (t->map != NULL && strcmp(key, "realsize") == 0)
        return pax_take_number(t, value, &x->real_size, &x->has_real_size);
    if (t->map != NULL && strcmp(key, "name") == 0) {
        x->has_name = x->has_sparse_name = true;
        return pax_take_text(t, value, len, item->name);
    }
    return tar_fail(t, -EOPNOTSUPP, "a sparse file");
}

/* Handles one "key=value". Descriptive keys (comments, user names, access times) are skipped. */
static int pax_apply(struct tar_in *t, struct tar_item *item, struct extra *x, char *key,
                     char *value, size_t len)
{
    bool empty = len == 0; /* an empty value cancels an earlier one */
    int r = 0;

    if (strcmp(key, "path") == 0) {
        if (x->has_sparse_name)
            return 0;
        x->has_name = !empty;
        r = pax_take_text(t, value, len, item->name);
    } else if (strcmp(key, "linkpath") == 0) {
        x->has_link = !empty;
        r = pax_take_text(t, value, len, item->link);
    } else if (strcmp(key, "size") == 0) {
        x->has_size = false;
        if (!empty)
            r = pax_take_number(t, value, &x->size, &x->has_size);
    } else if (strcmp(key, "uid") == 0) {
        x->has_uid = false;
        if (!empty)
            r = pax_take_number(t, value, &x->uid, &x->has_uid);
    } else if (strcmp(key, "gid") == 0) {
        x->has_gid = false;
        if (!empty)
            r = pax_take_number(t, value, &x->gid, &x->has_gid);
    } else if (strcmp(key, "mtime") == 0) {
        x->has_mtime = !empty;
        if (!empty && !pax_parse_decimal(value, &item->mtime, &item->mtime_ns))
            r = tar_fail(t, -EBADMSG, "a pax time that is none");
    } else if (strncmp(key, "GNU.sparse.", 11) == 0) {
        r = pax_apply_sparse(t, item, x, key + 11, value, len);
    } else if (strncmp(key, xattr_key, sizeof(xattr_key) - 1) == 0) {
        r = pax_take_xattr(t, item, key + sizeof(xattr_key) - 1, value, len, false);
    } else if (strncmp(key, libarchive_key, sizeof(libarchive_key) - 1) == 0) {
        key += sizeof(libarchive_key) - 1;
        if (tar_xattr_decode(key, value, &len))
            r = pax_take_xattr(t, item, key, value, len, true);
    }
    return r;
}

/* Parses records "LENGTH key=value\n"; LENGTH counts the whole record. Keys and values are
 * terminated in place: the newline becomes a NUL. */
static int pax_parse(struct tar_in *t, struct tar_item *item, struct extra *x, char *at, char *end)
{
    while (at < end) {
        size_t len = 0;
        char *key = at, *equals;
        int r;

        for (; key < end && *key >= '0' && *key <= '9' && len < TAR_PAX_MAX; key++)
            len = len * 10 + (size_t)(*key - '0');
        if (key >= end || *key != ' ' || len > (size_t)(end - at) || at + len < key + 3 ||
            at[len - 1] != '\n')
            return tar_fail(t, -EBADMSG, "a broken pax header");
        key++;
        at += len;
        at[-1] = '\0';
        equals = memchr(key, '=', (size_t)(at - key));
        if (equals == NULL || equals == key)
            return tar_fail(t, -EBADMSG, "a broken pax header");
        *equals = '\0';
        r = pax_apply(t, item, x, key, equals + 1, (size_t)(at - 1 - (equals + 1)));
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- reading: entries ---- */

static int type_kind(struct tar_in *t, uint8_t type, enum tar_kind *ret)
{
    static const enum tar_kind kinds[] = {TAR_REGULAR,   TAR_HARD_LINK,    TAR_SYMBOLIC,
                                          TAR_CHARACTER, TAR_BLOCK_DEVICE, TAR_DIRECTORY,
                                          TAR_PIPE,      TAR_REGULAR};

    if (type == '\0' || (type == 'S' && t->map != NULL)) {
        *ret = TAR_REGULAR;
        return 0;
    }
    if (type < '0' || type > '7')
        return tar_fail(t, -EOPNOTSUPP, type == 'S' ? "a sparse file" : "an unknown kind of entry");
    *ret = kinds[type - '0'];
    return 0;
}

static void block_get_text(const uint8_t *p, size_t max, char *ret)
{
    size_t len = strnlen((const char *)p, max);

    memcpy(ret, p, len);
    ret[len] = '\0';
}

/* Joins prefix and name; only with ustar's own magic, as GNU uses that field differently. */
static void block_get_name(const uint8_t *block, char *ret)
{
    size_t at = 0;

    if (memcmp(block + MAGIC, "ustar\0", 6) == 0 && block[PREFIX] != '\0') {
        block_get_text(block + PREFIX, PREFIX_LEN, ret);
        at = strlen(ret);
        ret[at++] = '/';
    }
    block_get_text(block + NAME, NAME_LEN, ret + at);
}

static uint32_t clamp_id(int64_t id)
{
    return id >= 0 && id <= TAR_ID_MAX ? (uint32_t)id : TAR_ID_NOBODY;
}

static int block_get_item(struct tar_in *t, const uint8_t *block, const struct extra *x,
                          struct tar_item *item)
{
    int64_t mode, uid, gid, size, mtime, major, minor;
    size_t len;
    int r = type_kind(t, block[TYPE], &item->kind);

    if (r < 0)
        return r;
    if (!block_get_number(block + MODE, SHORT_LEN, &mode) ||
        !block_get_number(block + UID, SHORT_LEN, &uid) ||
        !block_get_number(block + GID, SHORT_LEN, &gid) ||
        !block_get_number(block + SIZE, LONG_LEN, &size) ||
        !block_get_number(block + MTIME, LONG_LEN, &mtime))
        return tar_fail(t, -EBADMSG, "a header with a number that is none");
    if (!block_get_number(block + DEV_MAJOR, SHORT_LEN, &major) ||
        !block_get_number(block + DEV_MINOR, SHORT_LEN, &minor))
        major = minor = 0; /* missing in old archives */
    if (!x->has_name)
        block_get_name(block, item->name);
    if (!x->has_link)
        block_get_text(block + LINK, NAME_LEN, item->link);
    item->mode = (uint32_t)mode & 07777;
    item->uid = clamp_id(x->has_uid ? x->uid : uid);
    item->gid = clamp_id(x->has_gid ? x->gid : gid);
    item->dev_major = (uint32_t)major;
    item->dev_minor = (uint32_t)minor;
    if (!x->has_mtime) {
        item->mtime = mtime;
        item->mtime_ns = 0;
    }
    if (x->has_size)
        size = x->size;
    if (size < 0)
        return tar_fail(t, -EBADMSG, "a negative size");
    len = strlen(item->name);
    if (item->kind == TAR_REGULAR && len > 0 && item->name[len - 1] == '/')
        item->kind = TAR_DIRECTORY; /* as in archives before ustar */
    /* Some writers give links the size of their target, but no data follows. */
    item->size = item->kind == TAR_REGULAR ? (uint64_t)size : 0;
    tar_expect_data(t, item->size);
    return 0;
}

/* ---- reading: sparse files ---- */

static int sparse_add(struct tar_in *t, const struct tar_item *item, int64_t offset, int64_t len)
{
    const struct tar_piece *last = t->map_count > 0 ? &t->map[t->map_count - 1] : NULL;
    uint64_t after = last != NULL ? last->offset + last->len : 0;

    if (t->map_count == TAR_SPARSE_MAX)
        return tar_fail(t, -E2BIG, "a sparse file of more than 16384 pieces");
    if (offset < 0 || len < 0 || (uint64_t)offset < after || (uint64_t)offset > item->real_size ||
        (uint64_t)len > item->real_size - (uint64_t)offset)
        return tar_fail(t, -EBADMSG, "a broken map of a sparse file");
    t->map[t->map_count++] = (struct tar_piece){.offset = (uint64_t)offset, .len = (uint64_t)len};
    return 0;
}

/* Adds up to count pieces of a block; a piece without numbers is the end of them. */
static int sparse_add_old(struct tar_in *t, const struct tar_item *item, const uint8_t *at,
                          int count)
{
    for (; count > 0 && at[0] != '\0'; count--, at += 2 * LONG_LEN) {
        int64_t offset, len;
        int r;

        if (!block_get_number(at, LONG_LEN, &offset) ||
            !block_get_number(at + LONG_LEN, LONG_LEN, &len))
            return tar_fail(t, -EBADMSG, "a broken map of a sparse file");
        r = sparse_add(t, item, offset, len);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Reads the map of GNU's old format, which stands before the contents and does not count to them.
 */
static int sparse_read_old(struct tar_in *t, const uint8_t *head, struct tar_item *item)
{
    uint8_t block[TAR_BLOCK];
    bool more = head[SPARSE_MORE] != 0, end = false;
    int64_t size;
    int r;

    if (!block_get_number(head + SPARSE_REAL_SIZE, LONG_LEN, &size) || size < 0)
        return tar_fail(t, -EBADMSG, "a header with a number that is none");
    item->real_size = (uint64_t)size;
    r = sparse_add_old(t, item, head + SPARSE, SPARSE_COUNT);
    while (r == 0 && more) {
        r = tar_read_block(t, block, &end);
        if (r == 0 && end)
            r = tar_fail(t, -EBADMSG, "the archive ends inside a file");
        /* A block without a piece could be followed by as many as there are. */
        if (r == 0 && block[0] == '\0')
            r = tar_fail(t, -EBADMSG, "a broken map of a sparse file");
        if (r == 0)
            r = sparse_add_old(t, item, block, SPARSE_NEXT_COUNT);
        more = block[SPARSE_NEXT_MORE] != 0;
    }
    return r;
}

/* Reads one number of the map of format 1.0, at *at in a block of the contents. */
static int sparse_read_number(struct tar_in *t, uint8_t *block, size_t *at, int64_t *ret)
{
    *ret = 0;
    for (;;) {
        uint8_t c;

        if (*at == TAR_BLOCK) {
            ssize_t n = t->left >= TAR_BLOCK ? t->read(t->data, block, TAR_BLOCK) : 0;

            if (n != TAR_BLOCK)
                return tar_fail(t, n < 0 ? (int)n : -EBADMSG, "a broken map of a sparse file");
            t->left -= TAR_BLOCK;
            *at = 0;
        }
        c = block[(*at)++];
        if (c == '\n')
            return 0;
        if (c < '0' || c > '9' || *ret > INT64_MAX / 10 - 1)
            return tar_fail(t, -EBADMSG, "a broken map of a sparse file");
        *ret = *ret * 10 + (c - '0');
    }
}

/* Reads the map of format 1.0, which is the beginning of the contents: lines with the number of
 * pieces, and each one's offset and length, to the end of a block. */
static int sparse_read_map(struct tar_in *t, struct tar_item *item)
{
    uint8_t block[TAR_BLOCK];
    size_t at = TAR_BLOCK;
    int64_t count;
    int r = sparse_read_number(t, block, &at, &count);

    for (int64_t i = 0; r == 0 && i < count; i++) {
        int64_t offset, len;

        r = sparse_read_number(t, block, &at, &offset);
        if (r == 0)
            r = sparse_read_number(t, block, &at, &len);
        if (r == 0)
            r = sparse_add(t, item, offset, len);
    }
    return r;
}

static int sparse_read(struct tar_in *t, const uint8_t *block, const struct extra *x,
                       struct tar_item *item)
{
    bool in_pax = x->has_major || x->has_minor || x->has_real_size || x->has_sparse_name;
    uint64_t sum = 0;
    int r;

    item->sparse = (block[TYPE] == 'S' || in_pax) && item->kind == TAR_REGULAR;
    if (!item->sparse)
        return 0;
    t->map_count = 0;
    if (block[TYPE] == 'S') {
        r = sparse_read_old(t, block, item);
    } else if (x->has_major && x->has_minor && x->has_real_size && x->major == 1 && x->minor == 0) {
        item->real_size = (uint64_t)x->real_size;
        r = sparse_read_map(t, item);
    } else {
        r = tar_fail(t, -EOPNOTSUPP, "a sparse file of another format than GNU's 1.0");
    }
    for (size_t i = 0; r == 0 && i < t->map_count; i++)
        sum += t->map[i].len; /* no overflow: at most real_size */
    item->size = t->left;
    return r == 0 && sum != item->size ? tar_fail(t, -EBADMSG, "a broken map of a sparse file") : r;
}

/* Reads GNU's long name or link: the contents up to a NUL. */
static int tar_read_long_name(struct tar_in *t, uint64_t size, size_t at, char *ret)
{
    size_t len;
    int r = tar_read_whole(t, size, at, &len);

    if (r < 0)
        return r;
    len = strlen(t->pax + at);
    return pax_take_text(t, t->pax + at, len, ret);
}

/* Handles a header that describes other entries. Returns 1 if the block is none. */
static int tar_read_meta(struct tar_in *t, const uint8_t *block, struct tar_item *item,
                         struct extra *x, size_t *used)
{
    struct tar_item global;
    struct extra ignored;
    int64_t size;
    size_t len;
    int r;

    if (strchr("xgLKX", block[TYPE]) == NULL || block[TYPE] == '\0')
        return 1;
    if (!block_get_number(block + SIZE, LONG_LEN, &size) || size < 0)
        return tar_fail(t, -EBADMSG, "a header with a number that is none");
    switch (block[TYPE]) {
    case 'L':
        x->has_name = true;
        return tar_read_long_name(t, (uint64_t)size, *used, item->name);
    case 'K':
        x->has_link = true;
        return tar_read_long_name(t, (uint64_t)size, *used, item->link);
    default:
        r = tar_read_whole(t, (uint64_t)size, *used, &len);
        if (r < 0)
            return r;
        if (block[TYPE] == 'g') {
            /* A global header: none of its keys is used, but it must be well formed. */
            global.xattr_count = 0;
            return pax_parse(t, &global, &ignored, t->pax + *used, t->pax + *used + len);
        }
        r = pax_parse(t, item, x, t->pax + *used, t->pax + *used + len);
        *used += len + 1; /* the xattrs point into it */
        return r;
    }
}

static int tar_read_end(struct tar_in *t)
{
    uint8_t block[TAR_BLOCK];
    uint64_t slack = 0;
    bool end = false;
    int r = tar_read_block(t, block, &end);

    if (r < 0 || end || !block_is_zero(block))
        return r < 0 ? r : tar_fail(t, -EBADMSG, "no proper end of the archive");
    for (;;) {
        ssize_t n = t->read(t->data, block, sizeof(block));

        if (n <= 0)
            return n < 0 ? tar_fail(t, (int)n, "the archive cannot be read") : 0;
        slack += (uint64_t)n;
        if (slack > TAR_SLACK_MAX)
            return tar_fail(t, -E2BIG, "more than 1 MiB behind the archive's end");
    }
}

int tar_read(struct tar_in *t, struct tar_item *item)
{
    struct extra x = {.has_name = false};
    uint8_t block[TAR_BLOCK];
    size_t used = 0;
    bool end = false, meta = false;
    int r = tar_skip_data(t);

    item->xattr_count = 0;
    while (r == 0) {
        r = tar_read_block(t, block, &end);
        if (r < 0)
            return r;
        if (end)
            return tar_fail(t, -EBADMSG, "no proper end of the archive");
        if (block_is_zero(block))
            return meta ? tar_fail(t, -EBADMSG, "a header without an entry") : tar_read_end(t);
        if (!block_checksum_ok(block))
            return tar_fail(t, -EBADMSG,
                            "not a tar archive (compressed ones are not unpacked), or broken");
        if (used >= TAR_PAX_MAX - TAR_BLOCK)
            return tar_fail(t, -E2BIG, "a header of more than 256 KiB");
        r = tar_read_meta(t, block, item, &x, &used);
        meta = true;
    }
    if (r < 0)
        return r;
    r = block_get_item(t, block, &x, item);
    if (r == 0)
        r = sparse_read(t, block, &x, item);
    return r < 0 ? r : 1;
}

int tar_clean_name(const char *name, char *ret)
{
    size_t at = 0;

    if (name[0] == '\0' || name[0] == '/')
        return -EINVAL;
    while (*name != '\0') {
        size_t len = strcspn(name, "/");

        if (len == 2 && name[0] == '.' && name[1] == '.')
            return -EINVAL;
        if (len > 0 && !(len == 1 && name[0] == '.')) {
            if (at > 0)
                ret[at++] = '/';
            memcpy(ret + at, name, len);
            at += len;
        }
        name += len;
        name += strspn(name, "/");
    }
    ret[at] = '\0';
    return 0;
}

/* ---- writing ---- */

static void field_put_octal(uint8_t *p, size_t len, uint64_t v)
{
    p[len - 1] = '\0';
    for (size_t i = len - 1; i-- > 0; v >>= 3)
        p[i] = (uint8_t)('0' + (v & 7));
}

static uint8_t *field_put_text(uint8_t *p, const char *s)
{
    while (*s != '\0')
        *p++ = (uint8_t)*s++;
    return p;
}

struct pax {
    uint8_t *at; /* records */
    size_t len;
    bool too_big;
};

static size_t digits_of(size_t n)
{
    size_t digits = 1;

    while (n >= 10) {
        n /= 10;
        digits++;
    }
    return digits;
}

static size_t put_decimal(uint8_t *p, uint64_t v)
{
    size_t len = digits_of((size_t)v);

    for (size_t i = len; i-- > 0; v /= 10)
        p[i] = (uint8_t)('0' + v % 10);
    return len;
}

static void pax_put(struct pax *x, const char *key, const char *key2, const void *value, size_t len)
{
    size_t body = 1 + strlen(key) + strlen(key2) + 1 + len + 1, digits = digits_of(body);
    uint8_t *p;

    digits = digits_of(body + digits);
    digits = digits_of(body + digits);
    if (x->len + body + digits > TAR_PAX_MAX) {
        x->too_big = true;
        return;
    }
    p = x->at + x->len;
    x->len += body + digits;
    p += put_decimal(p, body + digits);
    *p++ = ' ';
    p = field_put_text(p, key);
    p = field_put_text(p, key2);
    *p++ = '=';
    if (len > 0)
        memcpy(p, value, len);
    p[len] = '\n';
}

static void pax_put_number(struct pax *x, const char *key, int64_t v)
{
    uint8_t text[24];
    size_t at = 0;

    if (v < 0)
        text[at++] = '-';
    at += put_decimal(text + at, v < 0 ? (uint64_t) - (v + 1) + 1 : (uint64_t)v);
    pax_put(x, key, "", text, at);
}

/* Formats seconds and nine digits of nanoseconds; "-1.25" is a quarter of a second before -1. */
static void pax_put_time(struct pax *x, const char *key, int64_t s, uint32_t ns)
{
    uint8_t text[40];
    size_t at = 0;
    uint64_t whole;

    if (s < 0 && ns > 0) {
        s++;
        ns = 1000000000 - ns;
        text[at++] = '-';
        whole = (uint64_t)-s;
    } else {
        if (s < 0)
            text[at++] = '-';
        whole = s < 0 ? (uint64_t) - (s + 1) + 1 : (uint64_t)s;
    }
    at += put_decimal(text + at, whole);
    if (ns > 0) {
        text[at++] = '.';
        for (size_t i = 9; i-- > 0; ns /= 10)
            text[at + i] = (uint8_t)('0' + ns % 10);
        at += 9;
    }
    pax_put(x, key, "", text, at);
}

/* Splits a name into ustar's two fields; false when it does not fit. */
static bool block_put_name(uint8_t *block, const char *name, bool directory)
{
    size_t len = strlen(name), room = NAME_LEN - (directory ? 1 : 0);
    const char *cut = name;

    if (len > room) {
        cut = memchr(name + len - room - 1, '/', room + 1);
        if (cut == NULL || cut == name || (size_t)(cut - name) > PREFIX_LEN || cut[1] == '\0')
            return false;
        memcpy(block + PREFIX, name, (size_t)(cut - name));
        cut++;
    }
    len = strlen(cut);
    memcpy(block + NAME, cut, len);
    if (directory)
        block[NAME + len] = '/';
    return true;
}

static void block_finish(uint8_t *block)
{
    unsigned sum = 0;

    (void)field_put_text(block + MAGIC, "ustar");
    (void)field_put_text(block + MAGIC + 6, "00");
    memset(block + CHECKSUM, ' ', SHORT_LEN);
    for (int i = 0; i < TAR_BLOCK; i++)
        sum += block[i];
    field_put_octal(block + CHECKSUM, SHORT_LEN - 1, sum);
}

/* Fills the fields of the item's own block; values that do not fit are added to x. */
static void block_put_fields(uint8_t *block, struct pax *x, const struct tar_item *item)
{
    static const char types[] = {
        [TAR_REGULAR] = '0',   [TAR_HARD_LINK] = '1',    [TAR_SYMBOLIC] = '2',
        [TAR_CHARACTER] = '3', [TAR_BLOCK_DEVICE] = '4', [TAR_DIRECTORY] = '5',
        [TAR_PIPE] = '6'};
    const uint64_t size_max = UINT64_C(077777777777), id_max = 07777777;
    bool directory = item->kind == TAR_DIRECTORY, fits;
    size_t link_len = strlen(item->link);

    if (item->sparse) {
        /* Readers without support for sparse files must not take the map for the file. */
        (void)field_put_text(block + NAME, "GNUSparseFile.0/sparse");
        pax_put(x, "GNU.sparse.major", "", "1", 1);
        pax_put(x, "GNU.sparse.minor", "", "0", 1);
        pax_put(x, "GNU.sparse.name", "", item->name, strlen(item->name));
        pax_put_number(x, "GNU.sparse.realsize", (int64_t)item->real_size);
    } else if (!block_put_name(block, item->name, directory)) {
        pax_put(x, "path", "", item->name, strlen(item->name));
    }
    if (link_len <= NAME_LEN)
        memcpy(block + LINK, item->link, link_len);
    else
        pax_put(x, "linkpath", "", item->link, link_len);
    field_put_octal(block + MODE, SHORT_LEN, item->mode & 07777);
    field_put_octal(block + UID, SHORT_LEN, item->uid <= id_max ? item->uid : 0);
    if (item->uid > id_max)
        pax_put_number(x, "uid", item->uid);
    field_put_octal(block + GID, SHORT_LEN, item->gid <= id_max ? item->gid : 0);
    if (item->gid > id_max)
        pax_put_number(x, "gid", item->gid);
    field_put_octal(block + SIZE, LONG_LEN, item->size <= size_max ? item->size : 0);
    if (item->size > size_max)
        pax_put_number(x, "size", (int64_t)item->size);
    fits = item->mtime >= 0 && (uint64_t)item->mtime <= size_max;
    field_put_octal(block + MTIME, LONG_LEN, fits ? (uint64_t)item->mtime : 0);
    if (!fits || item->mtime_ns > 0)
        pax_put_time(x, "mtime", item->mtime, item->mtime_ns);
    field_put_octal(block + DEV_MAJOR, SHORT_LEN, item->dev_major & id_max);
    field_put_octal(block + DEV_MINOR, SHORT_LEN, item->dev_minor & id_max);
    block[TYPE] = (uint8_t)types[item->kind];
}

ssize_t tar_put_item(uint8_t *out, const struct tar_item *item)
{
    struct pax x = {.at = out + TAR_BLOCK};
    uint8_t block[TAR_BLOCK] = {0};
    size_t padded;

    /* Readers assume that pax text is UTF-8, so another encoding is declared. */
    if (!utf8_valid(item->name, strlen(item->name)) || !utf8_valid(item->link, strlen(item->link)))
        pax_put(&x, "hdrcharset", "", "BINARY", 6);
    block_put_fields(block, &x, item);
    for (size_t i = 0; i < item->xattr_count; i++)
        pax_put(&x, xattr_key, item->xattrs[i].name, item->xattrs[i].value, item->xattrs[i].len);
    if (x.too_big)
        return -E2BIG;
    block_finish(block);
    if (x.len == 0) {
        memcpy(out, block, TAR_BLOCK);
        return TAR_BLOCK;
    }
    memset(out, 0, TAR_BLOCK);
    (void)field_put_text(out + NAME, "././@PaxHeader");
    field_put_octal(out + MODE, SHORT_LEN, 0644);
    field_put_octal(out + UID, SHORT_LEN, 0);
    field_put_octal(out + GID, SHORT_LEN, 0);
    field_put_octal(out + SIZE, LONG_LEN, x.len);
    field_put_octal(out + MTIME, LONG_LEN, 0);
    out[TYPE] = 'x';
    block_finish(out);
    padded = (x.len + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
    memset(out + TAR_BLOCK + x.len, 0, padded - x.len);
    memcpy(out + TAR_BLOCK + padded, block, TAR_BLOCK);
    return (ssize_t)(TAR_BLOCK + padded + TAR_BLOCK);
}
