/*
 * Reads and writes index.json, which holds the names of images. An entry is one name of one
 * manifest; an image without a name has one entry without a name. Data that only rind needs is kept
 * in annotations. Blocks; runs in any thread.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "image/charge.h"
#include "image/manifest.h"
#include "image/store-internal.h"
#include "json/decode.h"
#include "json/parse.h"

#define NAME_KEY    "org.opencontainers.image.ref.name"
#define ID_KEY      "dev.rind.image.id"
#define PARENT_KEY  "dev.rind.image.parent"
#define LOADED_KEY  "dev.rind.image.loaded"
#define CHAINED_KEY "dev.rind.layers.ofParents"
#define OWNER_KEY   "dev.rind.image.owner"
#define PRIVATE_KEY "dev.rind.image.private"

enum { INDEX_MAX = 64 << 20, ENTRIES_MAX = 1 << 20, CHAINED_MAX = IMAGE_LAYERS_MAX + 1 };

struct index_entry {
    char manifest[DIGEST_LEN + 1], media_type[129];
    int64_t size;
    char name[REFERENCE_MAX + 1];                    /* "" = none */
    char id[DIGEST_LEN + 1], parent[DIGEST_LEN + 1]; /* parent "" = none */
    char chained[CHAINED_MAX];                       /* '1' for each layer with of_parents */
    int64_t loaded_ms;
    int64_t owner; /* uid; -1 = the daemon's */
    bool private;  /* with owner -1: not common to all users */
};

struct index {
    struct index_entry *entries; /* owned */
    size_t count;
    int lock; /* owned; lock for a change, else FD_NONE */
};
#define INDEX_NONE                                                                                 \
    {                                                                                              \
        .lock = FD_NONE                                                                            \
    }

static void index_done(struct index *x)
{
    if (x->lock >= 0)
        (void)close(x->lock);
    free(x->entries);
}

#define auto_index __attribute__((cleanup(index_done)))

/* ---- reading and writing ---- */

static void copy_text(json_t *object, const char *key, char *ret, size_t size)
{
    const char *text = json_string_value(json_object_get(object, key));

    (void)snprintf(ret, size, "%s", text != NULL && strlen(text) < size ? text : "");
}

/* index.json is written by rind alone, so a malformed entry is damage: -EUCLEAN. */
static int decode_entry(json_t *object, struct index_entry *e)
{
    json_t *about = json_object_get(object, "annotations");
    char loaded[32], owner[32];

    copy_text(object, "digest", e->manifest, sizeof(e->manifest));
    copy_text(object, "mediaType", e->media_type, sizeof(e->media_type));
    e->size = json_integer_value(json_object_get(object, "size"));
    copy_text(about, NAME_KEY, e->name, sizeof(e->name));
    copy_text(about, ID_KEY, e->id, sizeof(e->id));
    copy_text(about, PARENT_KEY, e->parent, sizeof(e->parent));
    copy_text(about, CHAINED_KEY, e->chained, sizeof(e->chained));
    copy_text(about, LOADED_KEY, loaded, sizeof(loaded));
    e->loaded_ms = strtoll(loaded, NULL, 10);
    copy_text(about, OWNER_KEY, owner, sizeof(owner));
    e->owner = owner[0] >= '0' && owner[0] <= '9' ? strtoll(owner, NULL, 10) : -1;
    e->private = json_object_get(about, PRIVATE_KEY) != NULL;
    return digest_ok(e->manifest) && digest_ok(e->id) ? 0 : -EUCLEAN;
}

static int index_read(struct image_store *s, struct index *ret, struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    auto_free char *text = NULL;
    json_t *list, *object;
    size_t len = 0, i;
    int r;

    r = file_read_at(s->dir, "index.json", INDEX_MAX, &text, &len, err);
    if (r == 0)
        r = json_parse(text, len, INDEX_MAX, &root, err);
    if (r < 0)
        return err_wrap(err, r == -EINVAL ? -EUCLEAN : r, "images/index.json");
    list = json_object_get(root, "manifests");
    if (json_array_size(list) > ENTRIES_MAX)
        return err_set(err, -E2BIG, "images/index.json: more than %d entries", ENTRIES_MAX);
    ret->entries = calloc(json_array_size(list) + 1, sizeof(*ret->entries));
    if (ret->entries == NULL)
        return err_errno(err, -ENOMEM, "images/index.json");
    json_array_foreach(list, i, object) {
        r = decode_entry(object, &ret->entries[ret->count]);
        if (r < 0)
            return err_set(err, r, "images/index.json: entry %zu is damaged", i);
        ret->count++;
    }
    return 0;
}

/* Reads the index for a change, holding the exclusive lock until index_done. */
static int index_read_alone(struct image_store *s, struct index *ret, struct err *err)
{
    int lock = store_lock(s, LOCK_EX, err);

    if (lock < 0)
        return lock;
    ret->lock = lock;
    return index_read(s, ret, err);
}

static json_t *encode_entry(const struct index_entry *e)
{
    json_t *about = json_object();
    char loaded[32], owner[32];

    (void)snprintf(loaded, sizeof(loaded), "%" PRId64, e->loaded_ms);
    (void)json_object_set_new(about, ID_KEY, json_string(e->id));
    (void)json_object_set_new(about, LOADED_KEY, json_string(loaded));
    if (e->name[0] != '\0')
        (void)json_object_set_new(about, NAME_KEY, json_string(e->name));
    if (e->parent[0] != '\0')
        (void)json_object_set_new(about, PARENT_KEY, json_string(e->parent));
    if (strchr(e->chained, '1') != NULL)
        (void)json_object_set_new(about, CHAINED_KEY, json_string(e->chained));
    (void)snprintf(owner, sizeof(owner), "%" PRId64, e->owner);
    if (e->owner >= 0)
        (void)json_object_set_new(about, OWNER_KEY, json_string(owner));
    if (e->private)
        (void)json_object_set_new(about, PRIVATE_KEY, json_string("true"));
    return json_pack("{s:s, s:s, s:I, s:o}", "mediaType", e->media_type, "digest", e->manifest,
                     "size", (json_int_t)e->size, "annotations", about);
}

static int index_write(struct image_store *s, const struct index *x, struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    auto_free char *text = NULL;
    json_t *list = json_array();
    int r = list != NULL ? 0 : -ENOMEM;

    for (size_t i = 0; r == 0 && i < x->count; i++)
        if (json_array_append_new(list, encode_entry(&x->entries[i])) < 0)
            r = -ENOMEM;
    if (r == 0)
        root = json_pack("{s:i, s:s, s:o}", "schemaVersion", 2, "mediaType",
                         "application/vnd.oci.image.index.v1+json", "manifests", list);
    else
        json_decref(list);
    text = root != NULL ? json_dumps(root, JSON_INDENT(1)) : NULL;
    if (text == NULL)
        return err_errno(err, -ENOMEM, "images/index.json");
    return file_replace_at(s->dir, "index.json", text, strlen(text), 0600, err);
}

static int index_add(struct index *x, const struct index_entry *e)
{
    struct index_entry *more = reallocarray(x->entries, x->count + 1, sizeof(*more));

    if (more == NULL)
        return -ENOMEM;
    x->entries = more;
    more[x->count++] = *e;
    return 0;
}

static void index_drop(struct index *x, size_t i)
{
    (void)memmove(&x->entries[i], &x->entries[i + 1], (x->count - i - 1) * sizeof(x->entries[0]));
    x->count--;
}

/* ---- users ---- */

static bool entry_is_own(const struct index_entry *e, const struct image_view *v)
{
    return e->owner == (v->all ? -1 : v->uid);
}

static bool entry_is_seen(const struct index_entry *e, const struct image_view *v)
{
    return v->all || entry_is_own(e, v) || (e->owner < 0 && !e->private);
}

/* How early an entry is found: the user's own, the daemon's, then (for root) other users'. */
enum { RANKS = 3, RANK_NONE = RANKS };

static int entry_rank(const struct index_entry *e, const struct image_view *v)
{
    if (!entry_is_seen(e, v))
        return RANK_NONE;
    return entry_is_own(e, v) ? 0 : e->owner < 0 ? 1 : 2;
}

/* ---- lookup ---- */

static bool entry_has_name(const struct index_entry *e, const struct reference *r,
                           const char *whole)
{
    const size_t len = strlen(r->name);

    if (r->digest[0] == '\0')
        return strcmp(e->name, whole) == 0;
    return strcmp(e->manifest, r->digest) == 0 && strncmp(e->name, r->name, len) == 0 &&
           (e->name[len] == ':' || e->name[len] == '@' || e->name[len] == '\0');
}

/*
 * Finds the entry of a reference; -ENOENT, -ENOTUNIQ. Only root can find several of one rank: the
 * same name of other users, of different images.
 */
static ssize_t find_name(const struct index *x, const struct image_view *v,
                         const struct reference *r)
{
    char whole[REFERENCE_MAX + 1] = "";
    int best = RANK_NONE;
    ssize_t found = -ENOENT;

    if (r->digest[0] == '\0')
        reference_format(r, whole);
    for (size_t i = 0; i < x->count; i++) {
        int rank = entry_rank(&x->entries[i], v);

        if (rank > best || rank == RANK_NONE || !entry_has_name(&x->entries[i], r, whole))
            continue;
        if (rank < best)
            found = (ssize_t)i;
        else if (r->digest[0] == '\0' && found >= 0 &&
                 strcmp(x->entries[found].id, x->entries[i].id) != 0)
            found = -ENOTUNIQ;
        best = rank;
    }
    return found;
}

static ssize_t find_id(const struct index *x, const struct image_view *v, const char *hex)
{
    int best = RANK_NONE;
    ssize_t found = -ENOENT;

    for (size_t i = 0; i < x->count; i++) {
        const char *id = x->entries[i].id + strlen("sha256:");
        int rank = entry_rank(&x->entries[i], v);

        if (rank == RANK_NONE || strncmp(id, hex, strlen(hex)) != 0)
            continue;
        if (found >= 0 && strcmp(x->entries[found].id, x->entries[i].id) != 0)
            return -ENOTUNIQ;
        if (found < 0 || rank < best) {
            found = (ssize_t)i;
            best = rank;
        }
    }
    return found;
}

/* Finds the entry for a reference or an id. *ret_by_id: name was an id, or the prefix of one. */
static ssize_t find_entry(const struct index *x, const struct image_view *v, const char *name,
                          bool *ret_by_id, struct err *err)
{
    struct reference r;
    struct err why = ERR_NONE;
    const char *hex = NULL;
    ssize_t at = -ENOENT;
    int n = reference_parse(name, &r, &why);

    *ret_by_id = false;
    if (n == 0) {
        reference_default_tag(&r);
        at = find_name(x, v, &r);
    }
    if (at == -ENOENT && digest_prefix(name, 4, &hex)) {
        *ret_by_id = true;
        at = find_id(x, v, hex);
    }
    if (at == -ENOTUNIQ)
        return err_set(err, (int)at, "image '%.80s': it is several images; write (more of) an id",
                       name);
    if (at < 0 && hex == NULL && n < 0) {
        if (err != NULL)
            *err = why;
        return n;
    }
    if (at < 0)
        return err_set(err, -ENOENT, "no such image: %.300s", name);
    return at;
}

/* ---- images ---- */

static int add_name(struct image *i, const char *name)
{
    size_t n = 0;
    char **more;

    while (i->names != NULL && i->names[n] != NULL)
        n++;
    more = reallocarray(i->names, n + 2, sizeof(*more));
    if (more == NULL)
        return -ENOMEM;
    i->names = more;
    more[n] = name[0] != '\0' ? strdup(name) : NULL;
    more[n + 1] = NULL;
    return name[0] != '\0' && more[n] == NULL ? -ENOMEM : 0;
}

static bool has_name(const struct image *i, const char *name)
{
    for (char **n = i->names; n != NULL && *n != NULL; n++)
        if (strcmp(*n, name) == 0)
            return true;
    return false;
}

static int fill_in(struct image *i, const struct index *x, const struct image_view *v,
                   const struct index_entry *e)
{
    int r = add_name(i, "");

    (void)memcpy(i->id, e->id, sizeof(i->id));
    (void)memcpy(i->manifest, e->manifest, sizeof(i->manifest));
    (void)memcpy(i->media_type, e->media_type, sizeof(i->media_type));
    (void)memcpy(i->parent, e->parent, sizeof(i->parent));
    i->loaded_ms = e->loaded_ms;
    for (size_t k = 0; k < i->layer_count; k++)
        i->layers[k].of_parents = strlen(e->chained) > k && e->chained[k] == '1';
    for (size_t k = 0; r == 0 && k < x->count; k++)
        if (strcmp(x->entries[k].id, e->id) == 0 && x->entries[k].name[0] != '\0' &&
            entry_is_seen(&x->entries[k], v) && !has_name(i, x->entries[k].name))
            r = add_name(i, x->entries[k].name);
    return r;
}

int image_store_find(struct image_store *s, const struct image_view *view, const char *name,
                     struct image **ret, struct err *err)
{
    auto_index struct index x = INDEX_NONE;
    auto_ptr(image_free) struct image *i = NULL;
    bool by_id;
    ssize_t at;
    int r;

    r = index_read(s, &x, err);
    if (r < 0)
        return r;
    at = find_entry(&x, view, name, &by_id, err);
    if (at < 0)
        return (int)at;
    r = image_read(s, x.entries[at].manifest, &i, err);
    if (r == 0 && strcmp(i->id, x.entries[at].id) != 0)
        r = err_set(err, -EUCLEAN, "its id is %s", i->id);
    if (r < 0)
        return err_wrap(err, r == -ENOENT ? -EUCLEAN : r, "image %.300s is damaged", name);
    r = fill_in(i, &x, view, &x.entries[at]);
    if (r < 0)
        return err_errno(err, r, "image");
    *ret = take(i);
    return 0;
}

static int newest_first(const void *a, const void *b)
{
    const struct image *x = *(struct image *const *)a, *y = *(struct image *const *)b;

    if (x->created_ms != y->created_ms)
        return x->created_ms < y->created_ms ? 1 : -1;
    return strcmp(x->id, y->id);
}

/*
 * True if an earlier entry that the user sees has the same image. An image may have several
 * manifests, if its layers were compressed differently.
 */
static bool is_duplicate(const struct index *x, const struct image_view *v, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (entry_is_seen(&x->entries[i], v) && strcmp(x->entries[i].id, x->entries[at].id) == 0)
            return true;
    return false;
}

/*
 * Frees what a list does not show, as configurations may be large and images many. Returns the
 * remaining size in bytes.
 */
static size_t image_shorten(struct image *i)
{
    json_decref(i->config_tree);
    i->config_tree = NULL;
    free(i->layers);
    i->layers = NULL;
    i->layer_count = 0;
    return i->config != NULL ? image_config_shorten(i->config) : 0;
}

int image_store_list(struct image_store *s, const struct image_view *view, struct image ***ret,
                     size_t *ret_count, struct err *err)
{
    auto_index struct index x = INDEX_NONE;
    struct image **list;
    size_t count = 0, bytes = 0;
    int r = index_read(s, &x, err);

    if (r < 0)
        return r;
    list = calloc(x.count + 1, sizeof(struct image *));
    r = list != NULL ? 0 : -ENOMEM;
    for (size_t at = 0; r == 0 && at < x.count; at++) {
        struct image *i = NULL;

        if (!entry_is_seen(&x.entries[at], view) || is_duplicate(&x, view, at))
            continue;
        if (image_read(s, x.entries[at].manifest, &i, NULL) < 0)
            i = calloc(1, sizeof(*i)); /* damaged: listed all the same, so that it can be removed */
        r = i != NULL ? fill_in(i, &x, view, &x.entries[at]) : -ENOMEM;
        if (i == NULL)
            continue;
        list[count++] = i;
        bytes += image_shorten(i);
        if (r == 0 && bytes > IMAGE_LIST_LABELS_MAX)
            r = -E2BIG;
    }
    if (r < 0) {
        image_list_free(list, count);
        return r == -E2BIG ? err_set(err, r,
                                     "images: the labels of all together have more than %d bytes; "
                                     "remove some images by their names",
                                     IMAGE_LIST_LABELS_MAX)
                           : err_errno(err, r, "images");
    }
    qsort(list, count, sizeof(struct image *), newest_first);
    *ret = list;
    *ret_count = count;
    return 0;
}

/* ---- adding and naming ---- */

static size_t count_images(const struct index *x, const struct image_view *v)
{
    size_t n = 0;

    for (size_t i = 0; i < x->count; i++)
        n += entry_is_seen(&x->entries[i], v) && !is_duplicate(x, v, i);
    return n;
}

/* Removes a user's name from the index; the user's last entry of the image stays without a name. */
static void index_take_name(struct index *x, int64_t owner, const char *name)
{
    for (size_t i = 0; i < x->count; i++) {
        bool other = false;

        if (x->entries[i].owner != owner || strcmp(x->entries[i].name, name) != 0)
            continue;
        for (size_t k = 0; k < x->count; k++)
            other |= k != i && x->entries[k].owner == owner &&
                     strcmp(x->entries[k].id, x->entries[i].id) == 0;
        if (other)
            index_drop(x, i);
        else
            x->entries[i].name[0] = '\0';
        return;
    }
}

/*
 * Gives the image of e a name of e's owner, or adds it without one unless the owner has it. What
 * the owner adds as common makes common what it had as private under no name.
 */
static int index_give_name(struct index *x, const struct index_entry *e, const char *name)
{
    struct index_entry own = *e;
    size_t same = x->count;

    if (name[0] != '\0')
        index_take_name(x, e->owner, name);
    for (size_t i = 0; i < x->count; i++)
        if (x->entries[i].owner == e->owner && strcmp(x->entries[i].id, e->id) == 0) {
            same = i;
            if (x->entries[i].name[0] == '\0') { /* takes over the entry without a name */
                (void)snprintf(x->entries[i].name, sizeof(x->entries[i].name), "%s", name);
                x->entries[i].private = x->entries[i].private && e->private;
                return 0;
            }
        }
    if (name[0] == '\0' && same < x->count)
        return 0;
    (void)snprintf(own.name, sizeof(own.name), "%s", name);
    return index_add(x, &own);
}

static void entry_of(const struct image *i, struct index_entry *e)
{
    *e = (struct index_entry){.size = i->manifest_bytes, .loaded_ms = clock_wall_ms()};
    (void)memcpy(e->manifest, i->manifest, sizeof(e->manifest));
    (void)memcpy(e->media_type, i->media_type, sizeof(e->media_type));
    (void)memcpy(e->id, i->id, sizeof(e->id));
    (void)memcpy(e->parent, i->parent, sizeof(e->parent));
    for (size_t k = 0; k < i->layer_count && k + 1 < sizeof(e->chained); k++)
        e->chained[k] = i->layers[k].of_parents ? '1' : '0';
}

/* ---- what the images of members take ---- */

static int charge_image(struct charge *c, struct image_store *s, const struct index *x,
                        const struct index_entry *e, const struct image_bounds *bounds)
{
    const size_t skip = strlen("sha256:");
    auto_ptr(image_free) struct image *i = NULL;
    int r = image_read(s, e->manifest, &i, NULL);

    if (r < 0) /* a damaged image; its layers are unknown */
        return r == -ENOMEM ? r : 0;
    r = fill_in(i, x, &IMAGE_VIEW_ALL, e);
    if (r == 0)
        r = charge_add(c, CHARGE_BLOB, e->id + skip, i->config_bytes, e->owner < 0);
    if (r == 0)
        r = charge_add(c, CHARGE_BLOB, e->manifest + skip, i->manifest_bytes, e->owner < 0);
    for (size_t k = 0; r == 0 && k < i->layer_count; k++) {
        const char *tree = image_layer_name(&i->layers[k]);

        r = charge_add(c, CHARGE_BLOB, i->layers[k].blob + skip, i->layers[k].bytes, e->owner < 0);
        if (r == 0)
            r = charge_add(c, CHARGE_TREE, tree, image_bounds_tree(bounds, tree), e->owner < 0);
    }
    return r;
}

/* uid -1: of all members. */
static int64_t charge_of(struct image_store *s, const struct index *x, int64_t uid,
                         const struct image_bounds *bounds)
{
    auto_charge struct charge c = {.items = NULL};
    int r = 0;

    for (size_t i = 0; r == 0 && i < x->count; i++)
        if (x->entries[i].owner < 0 || uid < 0 || x->entries[i].owner == uid)
            r = charge_image(&c, s, x, &x->entries[i], bounds);
    return r < 0 ? r : charge_sum(&c);
}

/* x has the new image already. */
static int check_bounds(struct image_store *s, const struct index *x, const struct image_view *v,
                        const struct image_bounds *bounds, struct err *err)
{
    int64_t have;

    if (bounds == NULL || v->all)
        return 0;
    have = bounds->one >= 0 ? charge_of(s, x, v->uid, bounds) : 0;
    if (have > bounds->one && bounds->one >= 0)
        return err_set(err, -EDQUOT,
                       "limit perMember.imageBytes: with this image yours would take %" PRId64
                       " bytes; the client policy allows %" PRId64,
                       have, bounds->one);
    if (have >= 0 && bounds->all >= 0)
        have = charge_of(s, x, -1, bounds);
    if (have < 0)
        return err_errno(err, (int)have, "images");
    if (bounds->all >= 0 && have > bounds->all)
        return err_set(err, -EDQUOT,
                       "limit allMembers.imageBytes: with this image those of the group's members "
                       "would take %" PRId64 " bytes; the client policy allows %" PRId64,
                       have, bounds->all);
    return 0;
}

int image_store_add(struct image_store *s, const struct image_view *view, const struct image *image,
                    char *const *names, unsigned max, const struct image_bounds *bounds,
                    struct err *err)
{
    auto_index struct index x = INDEX_NONE;
    struct index_entry e;
    int r;

    r = index_read_alone(s, &x, err);
    if (r < 0)
        return r;
    entry_of(image, &e);
    e.owner = view->all ? -1 : view->uid;
    e.private = view->all && view->private;
    /* The image may exist already, with layers that were unpacked differently. */
    for (size_t i = 0; i < x.count; i++)
        if (strcmp(x.entries[i].id, e.id) == 0) {
            (void)memcpy(x.entries[i].chained, e.chained, sizeof(e.chained));
            if (e.parent[0] != '\0')
                (void)memcpy(x.entries[i].parent, e.parent, sizeof(e.parent));
        }
    if (names == NULL || names[0] == NULL)
        r = index_give_name(&x, &e, "");
    for (size_t i = 0; r == 0 && names != NULL && names[i] != NULL; i++)
        r = index_give_name(&x, &e, names[i]);
    if (r < 0)
        return err_errno(err, r, "images");
    if (count_images(&x, &IMAGE_VIEW_ALL) > max)
        return err_set(err, -EAGAIN, "limit maxImages: there are %u images already", max);
    r = check_bounds(s, &x, view, bounds, err);
    return r < 0 ? r : index_write(s, &x, err);
}

int image_store_each(struct image_store *s, bool (*fn)(void *data, const struct image *i),
                     void *data, struct err *err)
{
    auto_index struct index x = INDEX_NONE;
    bool more = true;
    int r = index_read(s, &x, err);

    for (size_t i = 0; r == 0 && more && i < x.count; i++) {
        auto_ptr(image_free) struct image *image = NULL;

        /* Names of one image mostly stand together. */
        if ((i == 0 || strcmp(x.entries[i].manifest, x.entries[i - 1].manifest) != 0) &&
            image_read(s, x.entries[i].manifest, &image, NULL) == 0)
            more = fn(data, image);
    }
    return r;
}

int image_store_tag(struct image_store *s, const struct image_view *view, const char *name,
                    const char *whole, char ret_id[DIGEST_LEN + 1], struct err *err)
{
    auto_index struct index x = INDEX_NONE;
    struct index_entry e;
    bool by_id;
    ssize_t at;
    int r;

    r = index_read_alone(s, &x, err);
    if (r < 0)
        return r;
    at = find_entry(&x, view, name, &by_id, err);
    if (at < 0)
        return (int)at;
    e = x.entries[at];
    (void)memcpy(ret_id, e.id, sizeof(e.id));
    /* The name is the caller's. Root makes nothing common by a name for what was not. */
    e.private = view->all && (e.private || e.owner >= 0);
    e.owner = view->all ? -1 : view->uid;
    r = index_give_name(&x, &e, whole);
    if (r < 0)
        return err_errno(err, r, "images");
    return index_write(s, &x, err);
}

/* ---- removing ---- */

void store_removal_done(struct store_removal *r)
{
    json_strings_free(r->untagged);
    json_strings_free(r->deleted);
    *r = (struct store_removal){.untagged = NULL};
}

static int append_text(char ***list, const char *text)
{
    size_t n = 0;
    char **more;

    while (*list != NULL && (*list)[n] != NULL)
        n++;
    more = reallocarray(*list, n + 2, sizeof(*more));
    if (more == NULL)
        return -ENOMEM;
    *list = more;
    more[n + 1] = NULL;
    more[n] = strdup(text);
    return more[n] != NULL ? 0 : -ENOMEM;
}

static size_t names_of(const struct index *x, int64_t owner, const char *id)
{
    size_t n = 0;

    for (size_t i = 0; i < x->count; i++)
        n += x->entries[i].owner == owner && strcmp(x->entries[i].id, id) == 0 &&
             x->entries[i].name[0] != '\0';
    return n;
}

/* True if another user than the owner has the image, too. */
static bool others_have(const struct index *x, int64_t owner, const char *id)
{
    for (size_t i = 0; i < x->count; i++)
        if (x->entries[i].owner != owner && strcmp(x->entries[i].id, id) == 0)
            return true;
    return false;
}

/* Removes all entries of an image that the owner has, or with `all` of every user. */
static int drop_image(struct index *x, int64_t owner, bool all, const char *id,
                      const struct image_view *v, struct store_removal *ret)
{
    char own[DIGEST_LEN + 1];
    bool left = false;
    int r = 0;

    (void)snprintf(own, sizeof(own), "%s", id); /* id may point into an entry that moves */
    for (size_t i = 0; r == 0 && i < x->count;) {
        if (strcmp(x->entries[i].id, own) != 0 || (!all && x->entries[i].owner != owner)) {
            left |= strcmp(x->entries[i].id, own) == 0 && entry_is_seen(&x->entries[i], v);
            i++;
            continue;
        }
        if (x->entries[i].name[0] != '\0')
            r = append_text(&ret->untagged, x->entries[i].name);
        index_drop(x, i);
    }
    /* To the user it is deleted when the user sees it no more, whatever others have. */
    return r == 0 && !left ? append_text(&ret->deleted, own) : r;
}

int image_store_remove(struct image_store *s, const struct image_view *view, const char *name,
                       bool force, bool (*is_used)(void *data, const char *id), void *data,
                       struct store_removal *ret, struct err *err)
{
    auto_index struct index x = INDEX_NONE;
    struct index_entry e;
    bool by_id;
    ssize_t at;
    size_t names;
    int r;

    r = index_read_alone(s, &x, err);
    if (r < 0)
        return r;
    at = find_entry(&x, view, name, &by_id, err);
    if (at < 0)
        return (int)at;
    e = x.entries[at];
    if (!view->all && !entry_is_own(&e, view))
        return err_set(err, -EPERM,
                       "image %.300s: it is the daemon's; only its owner and root remove it", name);
    names = names_of(&x, e.owner, e.id);
    if (!by_id && names > 1) { /* the image keeps its other names */
        r = append_text(&ret->untagged, e.name);
        index_drop(&x, (size_t)at);
    } else if (names > 1 && !force) {
        return err_set(err, -EBUSY,
                       "image %.300s has %zu names; remove those, or all of it with force", name,
                       names);
    } else if (!force && !others_have(&x, e.owner, e.id) && is_used(data, e.id)) {
        return err_set(err, -EBUSY,
                       "conflict: unable to remove image %.300s (must force): a sandbox is using "
                       "its referenced image; remove that first",
                       name);
    } else {
        r = drop_image(&x, e.owner, view->all && by_id && force, e.id, view, ret);
    }
    return r < 0 ? err_errno(err, r, "images") : index_write(s, &x, err);
}

int image_store_prune(struct image_store *s, const struct image_view *view, bool all,
                      bool (*keeps)(void *data, const char *id),
                      bool (*is_used)(void *data, const char *id), void *data,
                      struct store_removal *ret, struct err *err)
{
    auto_index struct index x = INDEX_NONE;
    int r;

    r = index_read_alone(s, &x, err);
    for (size_t i = 0; r == 0 && i < x.count;) {
        const struct index_entry *e = &x.entries[i];

        if (!entry_is_own(e, view) || (!all && names_of(&x, e->owner, e->id) > 0) ||
            (keeps != NULL && keeps(data, e->id)) ||
            (!others_have(&x, e->owner, e->id) && is_used(data, e->id)))
            i++;
        else
            r = drop_image(&x, e->owner, false, e->id, view, ret);
        /*
         * drop_image has removed all entries of the owner's image, none of them before i; the entry
         * now at i is checked next.
         */
    }
    return r < 0 ? err_wrap(err, r, "images") : index_write(s, &x, err);
}

/* ---- removing unused files ---- */

/* A list of file names, sorted before it is searched. */
struct index_names {
    char **list; /* owned, NULL-terminated */
    size_t count;
};

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int names_add(struct index_names *n, const char *text)
{
    char **more;

    /* The list is full when count + 1 is a power of two; its size is doubled then. */
    if ((n->count & (n->count + 1)) == 0) {
        more = reallocarray(n->list, 2 * (n->count + 1), sizeof(*more));
        if (more == NULL)
            return -ENOMEM;
        n->list = more;
    }
    n->list[n->count] = strdup(text);
    if (n->list[n->count] == NULL)
        return -ENOMEM;
    n->list[++n->count] = NULL;
    return 0;
}

static void names_sort(struct index_names *n)
{
    if (n->count > 1)
        qsort(n->list, n->count, sizeof(char *), by_text);
}

static int add_image(struct image_store *s, const struct index *x, const struct index_entry *e,
                     struct index_names *blobs, struct index_names *layers)
{
    const size_t skip = strlen("sha256:");
    auto_ptr(image_free) struct image *i = NULL;
    int r = names_add(blobs, e->manifest + skip);

    if (r == 0)
        r = names_add(blobs, e->id + skip);
    if (r < 0)
        return r;
    r = image_read(s, e->manifest, &i, NULL);
    /* A damaged image's layers are unknown. Other errors may be temporary, and stop the removal. */
    if (r < 0)
        return r == -EBADMSG || r == -EINVAL || r == -ENOENT || r == -EUCLEAN ? 0 : r;
    r = fill_in(i, x, &IMAGE_VIEW_ALL, e);
    for (size_t k = 0; r == 0 && k < i->layer_count; k++) {
        r = names_add(blobs, i->layers[k].blob + skip);
        if (r == 0)
            r = names_add(layers, image_layer_name(&i->layers[k]));
    }
    return r;
}

struct index_removal {
    const struct index_names *keep;
    int64_t bytes;
};

static int remove_other(void *arg, int dir_fd, const char *name)
{
    struct index_removal *rm = arg;
    struct stat st;

    if (rm->keep != NULL && rm->keep->count > 0 &&
        bsearch(&name, rm->keep->list, rm->keep->count, sizeof(char *), by_text) != NULL)
        return 0;
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && unlinkat(dir_fd, name, 0) == 0)
        rm->bytes += (int64_t)st.st_blocks * 512;
    return 0;
}

int image_store_collect(struct image_store *s, char ***ret_layers, int64_t *ret_bytes,
                        struct err *err)
{
    auto_index struct index x = INDEX_NONE;
    auto_close int alone = store_collect_lock(s);
    struct index_names blobs = {.list = NULL}, layers = {.list = NULL};
    struct index_removal rm = {.keep = &blobs};
    int r;

    if (alone == -EWOULDBLOCK)
        return FD_NONE;
    if (alone < 0)
        return err_errno(err, alone, "lock the store of images");
    r = index_read(s, &x, err);
    for (size_t i = 0; r == 0 && i < x.count; i++)
        r = add_image(s, &x, &x.entries[i], &blobs, &layers);
    if (r == 0) {
        names_sort(&blobs);
        names_sort(&layers);
        r = store_each_file(s->blobs, remove_other, &rm);
    }
    if (r == 0) {
        rm.keep = NULL;
        r = store_each_file(s->tmp, remove_other, &rm);
    }
    json_strings_free(blobs.list);
    if (r == 0 && layers.list == NULL && (layers.list = calloc(1, sizeof(char *))) == NULL)
        r = -ENOMEM;
    if (r < 0) {
        json_strings_free(layers.list);
        return err_errno(err, r, "sweep the store of images");
    }
    *ret_layers = layers.list;
    *ret_bytes = rm.bytes;
    return take_fd(&alone);
}

static int add_bytes(void *arg, int dir_fd, const char *name)
{
    struct stat st;

    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        *(int64_t *)arg += (int64_t)st.st_blocks * 512;
    return 0;
}

int image_store_usage(struct image_store *s, const struct image_view *view, int64_t *ret_bytes,
                      uint64_t *ret_images, struct err *err)
{
    auto_index struct index x = INDEX_NONE;
    int64_t bytes = 0;
    int r = index_read(s, &x, err);

    if (r == 0) {
        r = store_each_file(s->blobs, add_bytes, &bytes);
        if (r < 0)
            (void)err_errno(err, r, "images");
    }
    if (r < 0)
        return r;
    *ret_bytes = bytes;
    *ret_images = count_images(&x, view);
    return 0;
}
