#include "images/image-archive.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "image/manifest.h"
#include "images/images-internal.h"
#include "json/decode.h"
#include "json/parse.h"

enum { LINKS_MAX = 8, NOWHERE = -1, NESTED_MAX = 4, ARCHIVED_MAX = 1024 };

/* ---- names in the archive ---- */

/*
 * Resolves text to a normal path below the archive's root: "./a//b/../c" becomes "a/c". dir: the
 * base of a relative path, in normal form ("" = the root). Caller frees *ret. -EINVAL: the path
 * leaves the root.
 */
static int normalize_path(const char *dir, const char *text, char **ret)
{
    size_t cap = strlen(dir) + strlen(text) + 3, len = 0;
    auto_free char *out = malloc(cap);

    if (out == NULL)
        return -ENOMEM;
    if (text[0] != '/') {
        len = strlen(dir);
        (void)memcpy(out, dir, len);
    }
    while (*text != '\0') {
        size_t part = strcspn(text, "/");

        if (part == 2 && text[0] == '.' && text[1] == '.') {
            if (len == 0)
                return -EINVAL;
            while (len > 0 && out[len - 1] != '/')
                len--;
            if (len > 0)
                len--;
        } else if (part > 0 && !(part == 1 && text[0] == '.')) {
            if (len > 0)
                out[len++] = '/';
            (void)memcpy(out + len, text, part);
            len += part;
        }
        text += part;
        text += *text == '/';
    }
    out[len] = '\0';
    *ret = take(out);
    return 0;
}

int archive_add(struct archive *a, const struct worker_msg *entry, struct archive_entry **ret,
                struct err *err)
{
    struct archive_entry e = {.kind = (enum worker_entry)entry->kind, .file = BLOB_FILE_NONE};
    struct archive_entry *more;
    int r;

    a->bytes += strlen(entry->name) + strlen(entry->text);
    if (a->count == ARCHIVE_ENTRIES_MAX || a->bytes > ARCHIVE_NAMES_MAX)
        return err_set(err, -E2BIG, "archive: more than %d entries, or %d bytes of names",
                       ARCHIVE_ENTRIES_MAX, ARCHIVE_NAMES_MAX);
    /* The array is full when count is a power of two; its size is doubled then. */
    if ((a->count & (a->count - 1)) == 0) {
        more = reallocarray(a->entries, a->count > 0 ? 2 * a->count : 1, sizeof(*more));
        if (more == NULL)
            return err_errno(err, -ENOMEM, "archive");
        a->entries = more;
    }
    r = normalize_path("", entry->name, &e.name);
    if (r == -EINVAL)
        e.name = strdup(""); /* no name refers to such an entry */
    if (entry->text[0] != '\0')
        e.link = strdup(entry->text);
    if (e.name == NULL || (entry->text[0] != '\0' && e.link == NULL)) {
        free(e.name);
        free(e.link);
        return err_errno(err, -ENOMEM, "archive");
    }
    a->entries[a->count] = e;
    *ret = &a->entries[a->count++];
    return 0;
}

void archive_done(struct archive *a, struct image_store *s)
{
    for (size_t i = 0; i < a->count; i++) {
        blob_drop(s, &a->entries[i].file);
        free(a->entries[i].name);
        free(a->entries[i].link);
    }
    free(a->by_name);
    free(a->by_digest);
    free(a->entries);
    *a = (struct archive){.entries = NULL};
}

/* ---- finding entries ---- */

/* Orders entries by name; equal names by their position in the archive. */
static int compare_names(const void *x, const void *y)
{
    const struct archive_entry *const *a = x, *const *b = y;
    int c = strcmp((*a)->name, (*b)->name);

    return c != 0 ? c : (*a > *b) - (*a < *b);
}

static int compare_digests(const void *x, const void *y)
{
    const struct archive_entry *const *a = x, *const *b = y;
    int c = strcmp((*a)->digest, (*b)->digest);

    return c != 0 ? c : (*a > *b) - (*a < *b);
}

/* Images of the archive may name thousands of files each, so a linear search would be quadratic. */
static int sort_entries(struct archive *a, struct err *err)
{
    a->by_name = calloc(a->count + 1, sizeof(struct archive_entry *));
    a->by_digest = calloc(a->count + 1, sizeof(struct archive_entry *));
    if (a->by_name == NULL || a->by_digest == NULL)
        return err_errno(err, -ENOMEM, "archive");
    for (size_t i = 0; i < a->count; i++)
        a->by_name[i] = a->by_digest[i] = &a->entries[i];
    qsort(a->by_name, a->count, sizeof(struct archive_entry *), compare_names);
    qsort(a->by_digest, a->count, sizeof(struct archive_entry *), compare_digests);
    return 0;
}

/* The last entry of a name wins, as in unpacking. */
static ssize_t find_exact(const struct archive *a, const char *name)
{
    size_t low = 0, high = a->count; /* end of the entries that are less or equal */

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (strcmp(a->by_name[mid]->name, name) <= 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low > 0 && strcmp(a->by_name[low - 1]->name, name) == 0
               ? a->by_name[low - 1] - a->entries
               : NOWHERE;
}

/* Finds the file that a manifest of the archive names; follows links inside the archive. */
static ssize_t find_file(const struct archive *a, const char *name)
{
    auto_free char *at = NULL;
    ssize_t i = NOWHERE;

    if (normalize_path("", name, &at) < 0 || at[0] == '\0')
        return NOWHERE;
    for (int links = 0; links <= LINKS_MAX; links++) {
        auto_free char *dir = NULL;
        const struct archive_entry *e;
        char *to = NULL;

        i = find_exact(a, at);
        if (i < 0)
            return NOWHERE;
        e = &a->entries[i];
        if (e->kind == WORKER_ENTRY_FILE)
            return i;
        if (e->link == NULL)
            return NOWHERE;
        dir = strdup(e->kind == WORKER_ENTRY_SYMBOLIC && strchr(at, '/') != NULL ? at : "");
        if (dir == NULL)
            return NOWHERE;
        if (strrchr(dir, '/') != NULL)
            *strrchr(dir, '/') = '\0';
        if (normalize_path(dir, e->link, &to) < 0)
            return NOWHERE;
        free(at);
        at = to;
    }
    return NOWHERE;
}

/* Finds the first entry with a digest; only files have one. */
static ssize_t find_digest(const struct archive *a, const char *digest)
{
    size_t low = 0, high = a->count;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (strcmp(a->by_digest[mid]->digest, digest) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low < a->count && strcmp(a->by_digest[low]->digest, digest) == 0
               ? a->by_digest[low] - a->entries
               : NOWHERE;
}

static int read_entry(struct archive *a, size_t i, size_t max, char **ret, size_t *ret_len,
                      struct err *err)
{
    const struct archive_entry *e = &a->entries[i];
    auto_close int fd = FD_NONE;
    auto_free char *text = NULL;
    size_t len = 0;

    if (e->size < 0 || (uint64_t)e->size > max)
        return err_set(err, -EFBIG, "%.200s: larger than %zu bytes", e->name, max);
    if ((size_t)e->size > ARCHIVE_JSON_MAX - a->parsed)
        return err_set(err, -E2BIG, "%.200s: the archive's images have more than %d bytes of JSON",
                       e->name, ARCHIVE_JSON_MAX);
    a->parsed += (size_t)e->size;
    fd = blob_reopen(a->store, &e->file, err);
    if (fd < 0)
        return err_wrap(err, fd, "%.200s", e->name);
    text = malloc((size_t)e->size + 1);
    if (text == NULL)
        return err_errno(err, -ENOMEM, "%.200s", e->name);
    while (len < (size_t)e->size) {
        ssize_t n = pread(fd, text + len, (size_t)e->size - len, (off_t)len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return err_errno(err, n < 0 ? -errno : -EIO, "%.200s", e->name);
        len += (size_t)n;
    }
    text[len] = '\0';
    *ret = take(text);
    *ret_len = len;
    return 0;
}

/* Finds a descriptor's blob and checks that its digest and size match. */
static ssize_t find_blob(const struct archive *a, const struct descriptor *d, struct err *err)
{
    char path[DIGEST_LEN + 16];
    ssize_t i = find_digest(a, d->digest);

    if (i < 0) {
        (void)snprintf(path, sizeof(path), "blobs/sha256/%s", d->digest + strlen("sha256:"));
        i = find_file(a, path);
        return i < 0 ? err_set(err, -ENOENT, "blob %s: is not in the archive", d->digest)
                     : err_set(err, -EBADMSG, "blob %s: is damaged: its digest is %s", d->digest,
                               a->entries[i].digest);
    }
    if (a->entries[i].size != d->size)
        return err_set(err, -EBADMSG, "blob %s: has %lld bytes, its descriptor says %lld",
                       d->digest, (long long)a->entries[i].size, (long long)d->size);
    return i;
}

/* ---- one image ---- */

static void archived_done(struct archived *x)
{
    image_free(x->image);
    json_strings_free(x->names);
    free(x->blobs);
    free(x->manifest);
    free(x->config);
    *x = (struct archived){.image = NULL};
}

void archived_list_done(struct archived_list *l)
{
    for (size_t i = 0; i < l->count; i++)
        archived_done(&l->images[i]);
    free(l->images);
    *l = (struct archived_list){.images = NULL};
}

static struct archived *add_image(struct archived_list *l, struct err *err)
{
    struct archived *more = NULL;

    if (l->count == ARCHIVED_MAX) {
        (void)err_set(err, -E2BIG, "more than %d images", ARCHIVED_MAX);
        return NULL;
    }
    more = reallocarray(l->images, l->count + 1, sizeof(*more));
    if (more == NULL) {
        (void)err_errno(err, -ENOMEM, "archive");
        return NULL;
    }
    l->images = more;
    more[l->count] = (struct archived){.image = calloc(1, sizeof(struct image)),
                                       .names = calloc(1, sizeof(char *)),
                                       .blobs = calloc(IMAGE_LAYERS_MAX + 2, sizeof(size_t))};
    if (more[l->count].image == NULL || more[l->count].names == NULL ||
        more[l->count].blobs == NULL) {
        archived_done(&more[l->count]);
        (void)err_errno(err, -ENOMEM, "archive");
        return NULL;
    }
    return &more[l->count++];
}

static int add_name(struct archived *x, const char *text, struct err *err)
{
    char whole[REFERENCE_MAX + 1];
    size_t n = 0;
    char **more;
    int r = image_whole_name(text, whole, err);

    if (r < 0)
        return r;
    while (x->names[n] != NULL) {
        if (strcmp(x->names[n], whole) == 0)
            return 0;
        n++;
    }
    more = reallocarray(x->names, n + 2, sizeof(*more));
    if (more == NULL)
        return err_errno(err, -ENOMEM, "archive");
    x->names = more;
    more[n + 1] = NULL;
    more[n] = strdup(whole);
    return more[n] != NULL ? 0 : err_errno(err, -ENOMEM, "archive");
}

static void add_blob(struct archived *x, size_t entry)
{
    x->blobs[x->blob_count++] = entry;
}

static int parse_config(struct archived *x, const char *text, size_t len, const char *what,
                        struct err *err)
{
    int r = json_parse(text, len, IMAGE_CONFIG_MAX, &x->image->config_tree, err);

    if (r == 0)
        r = image_config_decode(x->image->config_tree, &x->image->config, err);
    /* The remaining configuration, possibly large, is never used for an archived image. */
    json_decref(x->image->config_tree);
    x->image->config_tree = NULL;
    return r < 0 ? err_wrap(err, r, "configuration %.200s", what) : 0;
}

/* ---- an OCI layout ---- */

static int archived_add_layers(const struct archive *a, struct archived *x,
                               const struct manifest *m, struct err *err)
{
    for (size_t k = 0; k < m->layer_count; k++) {
        ssize_t i = find_blob(a, &m->layers[k], err);

        if (i < 0)
            return err_wrap(err, (int)i, "layer %zu of %zu", k + 1, m->layer_count);
        x->layer_entries[k] = (size_t)i;
        add_blob(x, (size_t)i);
    }
    return 0;
}

static int archived_add_manifest(struct archive *a, struct archived *x, const struct descriptor *d,
                                 const char *text, size_t len, struct err *err)
{
    auto_ptr(manifest_free) struct manifest *m = NULL;
    auto_free char *config = NULL;
    size_t config_len = 0;
    ssize_t i;
    int r;

    r = manifest_parse(text, len, &m, err);
    if (r < 0)
        return r;
    i = find_blob(a, &m->config, err);
    if (i < 0)
        return err_wrap(err, (int)i, "configuration");
    add_blob(x, (size_t)i);
    r = read_entry(a, (size_t)i, IMAGE_CONFIG_MAX, &config, &config_len, err);
    if (r == 0)
        r = parse_config(x, config, config_len, m->config.digest, err);
    if (r < 0)
        return r;
    (void)memcpy(x->image->manifest, d->digest, sizeof(x->image->manifest));
    (void)memcpy(x->image->media_type, d->media_type, sizeof(x->image->media_type));
    x->image->manifest_bytes = (int64_t)len;
    r = image_assemble(x->image, m, err);
    return r < 0 ? r : archived_add_layers(a, x, m, err);
}

static int interpret_descriptor(struct archive *a, struct archived_list *l,
                                const struct descriptor *d, const char *name, unsigned depth,
                                struct err *err)
{
    auto_ptr(manifest_list_free) struct image_list_file *list = NULL;
    const enum media_kind kind = media_kind(d->media_type);
    auto_free char *text = NULL;
    struct archived *x;
    size_t len = 0;
    ssize_t i;
    int r;

    if (kind != MEDIA_MANIFEST && kind != MEDIA_INDEX)
        return 0; /* signatures and other artifacts are ignored */
    i = find_blob(a, d, err);
    r = i < 0 ? (int)i : read_entry(a, (size_t)i, MANIFEST_MAX, &text, &len, err);
    if (r < 0)
        return err_wrap(err, r, "manifest");
    if (kind == MEDIA_INDEX) {
        r = depth < NESTED_MAX ? manifest_list_parse(text, len, &list, err)
                               : err_set(err, -ELOOP, "indexes in indexes");
        d = r == 0 ? manifest_list_pick(list) : NULL;
        if (r == 0 && d == NULL)
            r = err_set(err, -EOPNOTSUPP, "has no image for linux/%s", image_architecture());
        return r < 0 ? err_wrap(err, r, "index %s", a->entries[i].digest)
                     : interpret_descriptor(a, l, d, name, depth + 1, err);
    }
    x = add_image(l, err);
    if (x == NULL)
        return err->code;
    add_blob(x, (size_t)i);
    r = archived_add_manifest(a, x, d, text, len, err);
    if (r == 0 && name != NULL)
        r = add_name(x, name, err);
    return r < 0 ? err_wrap(err, r, "manifest %s", d->digest) : 0;
}

static int interpret_layout(struct archive *a, size_t index, struct archived_list *ret,
                            struct err *err)
{
    auto_ptr(manifest_list_free) struct image_list_file *list = NULL;
    auto_free char *text = NULL;
    size_t len = 0;
    int r;

    r = read_entry(a, index, MANIFEST_MAX, &text, &len, err);
    if (r == 0)
        r = manifest_list_parse(text, len, &list, err);
    if (r < 0)
        return err_wrap(err, r, "index.json");
    for (size_t i = 0; r == 0 && i < list->count; i++)
        r = interpret_descriptor(a, ret, &list->entries[i], list->entries[i].name, 0, err);
    return r;
}

/* ---- archives of docker save ---- */

static const char *layer_type(const struct archive *a, size_t entry)
{
    auto_close int fd = blob_reopen(a->store, &a->entries[entry].file, NULL);

    return media_type_of_layer(fd);
}

/*
 * Archives of docker save have no registry manifest, so one is made from the configuration and
 * layers.
 */
static int make_manifest(const struct archive *a, struct archived *x, const char *config_digest,
                         int64_t config_size, struct err *err)
{
    auto_ptr(manifest_free) struct manifest *m = NULL;
    json_t *layers = json_array();
    size_t len;
    int r;

    for (size_t k = 0; k < x->image->config->layer_count; k++) {
        const struct archive_entry *e = &a->entries[x->layer_entries[k]];

        (void)json_array_append_new(
            layers, descriptor_of(layer_type(a, x->layer_entries[k]), e->digest, e->size));
    }
    x->manifest = manifest_format(config_digest, config_size, layers);
    if (x->manifest == NULL)
        return err_errno(err, -ENOMEM, "manifest");
    len = strlen(x->manifest);
    digest_of(x->manifest, len, x->image->manifest);
    (void)snprintf(x->image->media_type, sizeof(x->image->media_type), "%s", MEDIA_TYPE_MANIFEST);
    x->image->manifest_bytes = (int64_t)len;
    r = manifest_parse(x->manifest, len, &m, err);
    return r < 0 ? r : image_assemble(x->image, m, err);
}

static int archived_add_layer_file(const struct archive *a, struct archived *x, size_t k,
                                   const char *name, struct err *err)
{
    ssize_t i = find_file(a, name);

    if (i < 0)
        return err_set(err, -EINVAL, "Layers[%zu]: \"%.200s\" names no file of the archive", k,
                       name);
    x->layer_entries[k] = (size_t)i;
    add_blob(x, (size_t)i);
    return 0;
}

static int interpret_archive_image(struct archive *a, struct archived *x,
                                   const struct archive_image *image, struct err *err)
{
    auto_free char *text = NULL;
    size_t len = 0, n = 0;
    ssize_t i = find_file(a, image->config);
    int r;

    if (i < 0)
        return err_set(err, -EINVAL, "Config: \"%.200s\" names no file of the archive",
                       image->config);
    add_blob(x, (size_t)i);
    r = read_entry(a, (size_t)i, IMAGE_CONFIG_MAX, &text, &len, err);
    if (r == 0)
        r = parse_config(x, text, len, image->config, err);
    for (; r == 0 && image->layers[n] != NULL; n++)
        r = archived_add_layer_file(a, x, n, image->layers[n], err);
    if (r == 0 && n != x->image->config->layer_count)
        r = err_set(err, -EINVAL,
                    "Layers: there are %zu, the configuration has the diff ids of %zu", n,
                    x->image->config->layer_count);
    if (r == 0)
        r = make_manifest(a, x, a->entries[i].digest, a->entries[i].size, err);
    for (char **t = image->tags; r == 0 && t != NULL && *t != NULL; t++)
        r = add_name(x, *t, err);
    return r;
}

static int interpret_docker(struct archive *a, size_t manifest, struct archived_list *ret,
                            struct err *err)
{
    auto_ptr(archive_images_free) struct archive_images *list = NULL;
    auto_free char *text = NULL;
    size_t len = 0;
    int r;

    r = read_entry(a, manifest, MANIFEST_MAX, &text, &len, err);
    if (r == 0)
        r = archive_images_parse(text, len, &list, err);
    for (size_t i = 0; r == 0 && i < list->count; i++) {
        struct archived *x = add_image(ret, err);

        r = x != NULL ? interpret_archive_image(a, x, &list->images[i], err) : err->code;
        if (r < 0)
            return err_wrap(err, r, "manifest.json: [%zu]", i);
    }
    return r < 0 ? err_wrap(err, r, "manifest.json") : 0;
}

/* ---- docker save's older form: one directory for each layer, with its parent's id ---- */

/* Reads the JSON file of one layer. */
static int read_v1(struct archive *a, const char *id, json_t **ret, struct err *err)
{
    auto_free char *text = NULL, *path = NULL;
    size_t len = 0;
    ssize_t i;
    int r;

    if (strspn(id, "0123456789abcdef") != strlen(id) || id[0] == '\0')
        return err_set(err, -EINVAL, "\"%.80s\" is no id", id);
    if (asprintf(&path, "%s/json", id) < 0) {
        path = NULL;
        return err_errno(err, -ENOMEM, "archive");
    }
    i = find_file(a, path);
    if (i < 0)
        return err_set(err, -EINVAL, "%.80s is not in the archive", path);
    r = read_entry(a, (size_t)i, IMAGE_CONFIG_MAX, &text, &len, err);
    return r < 0 ? r : json_parse(text, len, IMAGE_CONFIG_MAX, ret, err);
}

static json_t *copy_members(json_t *from)
{
    static const char *const keys[] = {"architecture", "os",     "variant",
                                       "created",      "author", "config"};
    json_t *root = json_object();

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (json_object_get(from, keys[i]) != NULL)
            (void)json_object_set(root, keys[i], json_object_get(from, keys[i]));
    return root;
}

/* Walks from the topmost layer down to the one without a parent. */
static int read_v1_chain(struct archive *a, struct archived *x, const char *top, json_t **ret,
                         struct err *err)
{
    size_t entries[IMAGE_LAYERS_MAX], n = 0;
    auto_free char *id = strdup(top);
    json_t *ids = json_array();

    while (id != NULL && id[0] != '\0') {
        auto_ptr(json_decref) json_t *about = NULL;
        auto_free char *path = NULL;
        const char *parent;
        ssize_t i;
        int r = n < IMAGE_LAYERS_MAX
                    ? read_v1(a, id, &about, err)
                    : err_set(err, -E2BIG, "more than %d layers", IMAGE_LAYERS_MAX);

        if (r == 0 && asprintf(&path, "%s/layer.tar", id) < 0) {
            path = NULL;
            r = err_errno(err, -ENOMEM, "archive");
        }
        i = r == 0 ? find_file(a, path) : NOWHERE;
        if (r == 0 && i < 0)
            r = err_set(err, -EINVAL, "%.80s is not in the archive", path);
        if (r < 0) {
            json_decref(ids);
            return r;
        }
        if (n == 0)
            *ret = copy_members(about);
        entries[n++] = (size_t)i;
        parent = json_string_value(json_object_get(about, "parent"));
        free(id);
        id = strdup(parent != NULL ? parent : "");
    }
    for (size_t k = 0; k < n; k++) {
        x->layer_entries[k] = entries[n - 1 - k];
        add_blob(x, x->layer_entries[k]);
        (void)json_array_append_new(ids, json_string(a->entries[x->layer_entries[k]].digest));
    }
    (void)json_object_set_new(*ret, "rootfs",
                              json_pack("{s:s, s:o}", "type", "layers", "diff_ids", ids));
    return 0;
}

static int interpret_v1_image(struct archive *a, struct archived *x, const char *top,
                              struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    char digest[DIGEST_LEN + 1];
    size_t len;
    int r = read_v1_chain(a, x, top, &root, err);

    if (r < 0)
        return r;
    x->config = json_dumps(root, JSON_COMPACT);
    if (x->config == NULL)
        return err_errno(err, -ENOMEM, "archive");
    len = strlen(x->config);
    digest_of(x->config, len, digest);
    r = parse_config(x, x->config, len, top, err);
    return r < 0 ? r : make_manifest(a, x, digest, (int64_t)len, err);
}

static int interpret_v1(struct archive *a, size_t repositories, struct archived_list *ret,
                        struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    auto_free char *text = NULL;
    json_t *tags, *id;
    const char *name, *tag;
    size_t len = 0;
    int r;

    r = read_entry(a, repositories, MANIFEST_MAX, &text, &len, err);
    if (r == 0)
        r = json_parse(text, len, MANIFEST_MAX, &root, err);
    if (r < 0)
        return err_wrap(err, r, "repositories");
    json_object_foreach(root, name, tags) {
        json_object_foreach(tags, tag, id) {
            auto_free char *whole = NULL;
            struct archived *x = add_image(ret, err);

            if (x == NULL)
                return err->code;
            if (!json_is_string(id) || asprintf(&whole, "%s:%s", name, tag) < 0) {
                whole = NULL;
                return err_set(err, -EINVAL, "repositories: must be an object of objects of ids");
            }
            r = interpret_v1_image(a, x, json_string_value(id), err);
            if (r == 0)
                r = add_name(x, whole, err);
            if (r < 0)
                return err_wrap(err, r, "repositories: %.200s", whole);
        }
    }
    return 0;
}

int archive_interpret(struct archive *a, struct image_store *s, struct archived_list *ret,
                      struct err *err)
{
    struct archived_list l = {.images = NULL};
    ssize_t i;
    int r;

    a->store = s;
    a->parsed = 0;
    r = sort_entries(a, err);
    if (r < 0)
        return r;
    if (find_file(a, "oci-layout") >= 0 && (i = find_file(a, "index.json")) >= 0)
        r = interpret_layout(a, (size_t)i, &l, err);
    else if ((i = find_file(a, "manifest.json")) >= 0)
        r = interpret_docker(a, (size_t)i, &l, err);
    else if ((i = find_file(a, "repositories")) >= 0)
        r = interpret_v1(a, (size_t)i, &l, err);
    else
        r = err_set(err, -EINVAL,
                    "the archive is none of images: it has neither an index.json with an "
                    "oci-layout nor a manifest.json nor repositories (a root file system is "
                    "imported: rind images import)");
    if (r == 0 && l.count == 0)
        r = err_set(err, -EINVAL, "the archive has no image");
    if (r < 0) {
        archived_list_done(&l);
        return r;
    }
    *ret = l;
    return 0;
}
