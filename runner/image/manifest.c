/* The decoders behind image/manifest.h. Pure functions, except media_type_of_layer. */

#include "image/manifest.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "json/decode.h"
#include "json/parse.h"

enum { ARCHIVE_IMAGES_MAX = 1024, NAME_MAX_BYTES = 4095, WRAP = sizeof("{\"images\":}") };

/* ---- media types ---- */

static const struct {
    const char *type;
    enum media_kind kind;
} media_types[] = {
    {MEDIA_TYPE_MANIFEST, MEDIA_MANIFEST},
    {"application/vnd.docker.distribution.manifest.v2+json", MEDIA_MANIFEST},
    {"application/vnd.oci.image.index.v1+json", MEDIA_INDEX},
    {"application/vnd.docker.distribution.manifest.list.v2+json", MEDIA_INDEX},
    {"application/vnd.oci.image.config.v1+json", MEDIA_CONFIG},
    {"application/vnd.docker.container.image.v1+json", MEDIA_CONFIG},
    {"application/vnd.oci.image.layer.v1.tar", MEDIA_LAYER},
    {"application/vnd.oci.image.layer.v1.tar+gzip", MEDIA_LAYER},
    {"application/vnd.oci.image.layer.v1.tar+zstd", MEDIA_LAYER},
    {"application/vnd.docker.image.rootfs.diff.tar", MEDIA_LAYER},
    {"application/vnd.docker.image.rootfs.diff.tar.gzip", MEDIA_LAYER},
    {"application/vnd.docker.image.rootfs.diff.tar.zstd", MEDIA_LAYER},
};

enum media_kind media_kind(const char *type)
{
    for (size_t i = 0; i < sizeof(media_types) / sizeof(media_types[0]); i++)
        if (strcmp(media_types[i].type, type) == 0)
            return media_types[i].kind;
    return MEDIA_OTHER;
}

const char *media_type_of_layer(int fd)
{
    unsigned char magic[4] = {0};

    (void)!pread(fd, magic, sizeof(magic), 0);
    if (magic[0] == 0x1f && magic[1] == 0x8b)
        return "application/vnd.oci.image.layer.v1.tar+gzip";
    if (magic[0] == 0x28 && magic[1] == 0xb5 && magic[2] == 0x2f && magic[3] == 0xfd)
        return "application/vnd.oci.image.layer.v1.tar+zstd";
    return "application/vnd.oci.image.layer.v1.tar";
}

const char *image_architecture(void)
{
#if defined(__x86_64__)
    return "amd64";
#elif defined(__aarch64__)
    return "arm64";
#else
    return "unknown";
#endif
}

/* ---- descriptors ---- */

/* Copies a string member into ret; "" if missing. Longer strings are an error. */
static int get_text(json_t *object, const char *key, char *ret, size_t size, struct err *err)
{
    json_t *value = json_object_get(object, key);

    ret[0] = '\0';
    if (value == NULL || json_is_null(value))
        return 0;
    if (!json_is_string(value))
        return err_set(err, -EINVAL, "%s: must be a string", key);
    if (json_string_length(value) >= size)
        return err_set(err, -EINVAL, "%s: \"%.64s...\" is longer than %zu bytes", key,
                       json_string_value(value), size - 1);
    (void)memcpy(ret, json_string_value(value), json_string_length(value) + 1);
    return 0;
}

/* Finds the image's name in an index: the full name if a tool has written one, else the tag. */
static int get_name(json_t *object, char **ret, struct err *err)
{
    static const char *const keys[] = {"io.containerd.image.name",
                                       "org.opencontainers.image.ref.name"};
    json_t *annotations = json_object_get(object, "annotations");

    if (annotations == NULL || json_is_null(annotations))
        return 0;
    if (!json_is_object(annotations))
        return err_set(err, -EINVAL, "annotations: must be an object");
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        json_t *value = json_object_get(annotations, keys[i]);

        if (value == NULL)
            continue;
        if (!json_is_string(value) || json_string_length(value) > NAME_MAX_BYTES)
            return err_set(err, -EINVAL, "annotations: %s: must be a string of at most %d bytes",
                           keys[i], NAME_MAX_BYTES);
        *ret = strdup(json_string_value(value));
        return *ret != NULL ? 0 : err_errno(err, -ENOMEM, "annotations");
    }
    return 0;
}

static int get_platform(json_t *object, struct descriptor *d, struct err *err)
{
    json_t *platform = json_object_get(object, "platform");
    int r;

    if (platform == NULL || json_is_null(platform))
        return 0;
    if (!json_is_object(platform))
        return err_set(err, -EINVAL, "platform: must be an object");
    r = get_text(platform, "os", d->os, sizeof(d->os), err);
    if (r == 0)
        r = get_text(platform, "architecture", d->architecture, sizeof(d->architecture), err);
    if (r == 0)
        r = get_text(platform, "variant", d->variant, sizeof(d->variant), err);
    return r;
}

static int get_descriptor(json_t *object, struct descriptor *d, struct err *err)
{
    char digest[256];
    json_t *size;
    int r;

    if (!json_is_object(object))
        return err_set(err, -EINVAL, "must be an object");
    r = json_check_folded(object, NULL, err);
    if (r == 0)
        r = get_text(object, "digest", digest, sizeof(digest), err);
    if (r == 0)
        r = get_text(object, "mediaType", d->media_type, sizeof(d->media_type), err);
    if (r < 0)
        return r;
    if (!digest_ok(digest))
        return err_set(err, -EINVAL,
                       "digest: \"%.80s\" is not sha256: and 64 lower-case hexadecimal digits",
                       digest);
    (void)memcpy(d->digest, digest, sizeof(d->digest));
    size = json_object_get(object, "size");
    if (!json_is_integer(size) || json_integer_value(size) < 0)
        return err_set(err, -EINVAL, "size: must be a whole number, not below 0");
    d->size = json_integer_value(size);
    r = get_platform(object, d, err);
    return r < 0 ? r : get_name(object, &d->name, err);
}

static void descriptors_free(struct descriptor *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(list[i].name);
    free(list);
}

static int get_descriptors(json_t *root, const char *key, size_t max, struct descriptor **ret,
                           size_t *ret_count, struct err *err)
{
    json_t *array = json_object_get(root, key), *element;
    size_t i;

    if (!json_is_array(array))
        return err_set(err, -EINVAL, "%s: must be an array", key);
    if (json_array_size(array) > max)
        return err_set(err, -E2BIG, "%s: more than %zu entries", key, max);
    *ret = calloc(json_array_size(array) + 1, sizeof(**ret));
    if (*ret == NULL)
        return err_errno(err, -ENOMEM, "%s", key);
    *ret_count = json_array_size(array);
    json_array_foreach(array, i, element) {
        int r = get_descriptor(element, &(*ret)[i], err);

        if (r < 0)
            return err_wrap(err, r, "%s[%zu]", key, i);
    }
    return 0;
}

/* ---- manifests ---- */

/*
 * A document without a media type of its own is read as what its descriptor says it is. So one
 * document with the members of both kinds would be two images with one digest (CVE-2021-41190): a
 * scanner or a signature sees one of them, and the sandbox runs the other.
 */
static int check_kind(json_t *root, enum media_kind kind, struct err *err)
{
    static const char *const of_index[] = {"config", "layers", "fsLayers", NULL};
    static const char *const of_manifest[] = {"manifests", "fsLayers", NULL};
    const char *const *other = kind == MEDIA_INDEX ? of_index : of_manifest;
    const char *what = kind == MEDIA_INDEX ? "an index" : "a manifest";
    json_t *type = json_object_get(root, "mediaType");

    for (; *other != NULL; other++) {
        json_t *value = json_object_get(root, *other);

        if (value != NULL && !json_is_null(value))
            return err_set(err, -EINVAL, "%s: does not belong in %s (CVE-2021-41190)", *other,
                           what);
    }
    if (type == NULL || json_is_null(type))
        return 0;
    if (!json_is_string(type))
        return err_set(err, -EINVAL, "mediaType: must be a string");
    if (media_kind(json_string_value(type)) != kind)
        return err_set(err, -EINVAL, "mediaType: \"%.80s\" is not that of %s",
                       json_string_value(type), what);
    return 0;
}

static int check_schema(json_t *root, enum media_kind kind, struct err *err)
{
    json_t *version = json_object_get(root, "schemaVersion");
    int r = json_check_folded(root, NULL, err);

    if (r < 0)
        return r;
    if (!json_is_integer(version) || json_integer_value(version) != 2)
        return err_set(err, -EOPNOTSUPP, "schemaVersion: must be 2");
    return check_kind(root, kind, err);
}

static int check_layer(const struct descriptor *d, size_t i, struct err *err)
{
    if (strstr(d->media_type, "nondistributable") != NULL ||
        strstr(d->media_type, "foreign") != NULL)
        return err_set(err, -EOPNOTSUPP, "layers[%zu]: is not in the image, but somewhere else", i);
    if (media_kind(d->media_type) != MEDIA_LAYER)
        return err_set(err, -EOPNOTSUPP, "layers[%zu]: media type \"%.80s\" is none of a layer", i,
                       d->media_type);
    return 0;
}

static int decode_manifest(json_t *root, struct manifest *m, struct err *err)
{
    int r = check_schema(root, MEDIA_MANIFEST, err);

    if (r == 0)
        r = get_descriptor(json_object_get(root, "config"), &m->config, err);
    if (r < 0)
        return err_wrap(err, r, "config");
    if (media_kind(m->config.media_type) != MEDIA_CONFIG)
        return err_set(err, -EOPNOTSUPP,
                       "config: media type \"%.80s\" is not that of an image's configuration",
                       m->config.media_type);
    r = get_descriptors(root, "layers", IMAGE_LAYERS_MAX, &m->layers, &m->layer_count, err);
    for (size_t i = 0; r == 0 && i < m->layer_count; i++)
        r = check_layer(&m->layers[i], i, err);
    return r;
}

int manifest_parse(const char *text, size_t len, struct manifest **ret, struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    auto_ptr(manifest_free) struct manifest *m = calloc(1, sizeof(*m));
    int r;

    if (m == NULL)
        return err_errno(err, -ENOMEM, "manifest");
    r = json_parse(text, len, MANIFEST_MAX, &root, err);
    if (r == 0)
        r = decode_manifest(root, m, err);
    if (r == 0)
        *ret = take(m);
    return r;
}

json_t *descriptor_of(const char *media_type, const char *digest, int64_t size)
{
    return json_pack("{s:s, s:s, s:I}", "mediaType", media_type, "digest", digest, "size",
                     (json_int_t)size);
}

char *manifest_format(const char *config_digest, int64_t config_size, json_t *layers)
{
    auto_ptr(json_decref) json_t *root = json_pack(
        "{s:i, s:s, s:o, s:o}", "schemaVersion", 2, "mediaType", MEDIA_TYPE_MANIFEST, "config",
        descriptor_of("application/vnd.oci.image.config.v1+json", config_digest, config_size),
        "layers", layers);

    return root != NULL ? json_dumps(root, JSON_COMPACT) : NULL;
}

void manifest_free(struct manifest *m)
{
    if (m == NULL)
        return;
    descriptors_free(m->layers, m->layer_count);
    free(m->config.name);
    free(m);
}

/* ---- indexes ---- */

int manifest_list_parse(const char *text, size_t len, struct image_list_file **ret, struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    auto_ptr(manifest_list_free) struct image_list_file *l = calloc(1, sizeof(*l));
    int r;

    if (l == NULL)
        return err_errno(err, -ENOMEM, "index");
    r = json_parse(text, len, MANIFEST_MAX, &root, err);
    if (r == 0)
        r = check_schema(root, MEDIA_INDEX, err);
    if (r == 0)
        r = get_descriptors(root, "manifests", MANIFEST_ENTRIES_MAX, &l->entries, &l->count, err);
    if (r == 0)
        *ret = take(l);
    return r;
}

void manifest_list_free(struct image_list_file *l)
{
    if (l == NULL)
        return;
    descriptors_free(l->entries, l->count);
    free(l);
}

const struct descriptor *manifest_list_pick(const struct image_list_file *l)
{
    const struct descriptor *any = NULL;

    for (size_t i = 0; i < l->count; i++) {
        const struct descriptor *d = &l->entries[i];

        if (media_kind(d->media_type) != MEDIA_MANIFEST)
            continue;
        if (strcmp(d->os, "linux") == 0 && strcmp(d->architecture, image_architecture()) == 0)
            return d;
        if (any == NULL && d->os[0] == '\0' && d->architecture[0] == '\0')
            any = d;
    }
    return any;
}

/* ---- archives of docker save ---- */

static int get_names(json_t *object, const char *key, size_t max, char ***ret, struct err *err)
{
    json_t *value = json_object_get(object, key), *element;
    size_t i;

    if (value == NULL || json_is_null(value))
        return 0;
    if (!json_is_array(value) || json_array_size(value) > max)
        return err_set(err, -EINVAL, "%s: must be an array of at most %zu names", key, max);
    *ret = calloc(json_array_size(value) + 1, sizeof(**ret));
    if (*ret == NULL)
        return err_errno(err, -ENOMEM, "%s", key);
    json_array_foreach(value, i, element) {
        if (!json_is_string(element) || json_string_length(element) > NAME_MAX_BYTES)
            return err_set(err, -EINVAL, "%s[%zu]: must be a name", key, i);
        (*ret)[i] = strdup(json_string_value(element));
        if ((*ret)[i] == NULL)
            return err_errno(err, -ENOMEM, "%s", key);
    }
    return 0;
}

static int decode_archive_image(json_t *object, struct archive_image *i, struct err *err)
{
    json_t *config = json_object_get(object, "Config");
    int r;

    if (!json_is_object(object))
        return err_set(err, -EINVAL, "must be an object");
    r = json_check_folded(object, NULL, err);
    if (r < 0)
        return r;
    if (!json_is_string(config) || json_string_length(config) > NAME_MAX_BYTES)
        return err_set(err, -EINVAL, "Config: must be a name");
    i->config = strdup(json_string_value(config));
    if (i->config == NULL)
        return err_errno(err, -ENOMEM, "Config");
    r = get_names(object, "Layers", IMAGE_LAYERS_MAX, &i->layers, err);
    if (r == 0)
        r = get_names(object, "RepoTags", ARCHIVE_IMAGES_MAX, &i->tags, err);
    if (r == 0 && i->layers == NULL && (i->layers = calloc(1, sizeof(*i->layers))) == NULL)
        r = err_errno(err, -ENOMEM, "Layers");
    return r;
}

/* Parses a JSON array. json_parse accepts only objects, so the array is wrapped in one. */
static int parse_array(const char *text, size_t len, json_t **ret, struct err *err)
{
    auto_free char *object = malloc(len + WRAP);
    auto_ptr(json_decref) json_t *root = NULL;
    int r;

    if (object == NULL)
        return err_errno(err, -ENOMEM, "manifest.json");
    (void)memcpy(object, "{\"images\":", WRAP - 2);
    (void)memcpy(object + WRAP - 2, text, len);
    object[WRAP - 2 + len] = '}';
    r = json_parse(object, len + WRAP - 1, MANIFEST_MAX + WRAP, &root, err);
    if (r < 0)
        return r;
    if (json_object_size(root) != 1 || !json_is_array(json_object_get(root, "images")))
        return err_set(err, -EINVAL, "must be an array");
    *ret = json_incref(json_object_get(root, "images"));
    return 0;
}

int archive_images_parse(const char *text, size_t len, struct archive_images **ret, struct err *err)
{
    auto_ptr(archive_images_free) struct archive_images *a = calloc(1, sizeof(*a));
    auto_ptr(json_decref) json_t *array = NULL;
    json_t *element;
    size_t i;
    int r;

    if (a == NULL)
        return err_errno(err, -ENOMEM, "manifest.json");
    r = parse_array(text, len, &array, err);
    if (r < 0)
        return r;
    if (json_array_size(array) > ARCHIVE_IMAGES_MAX)
        return err_set(err, -E2BIG, "more than %d images", ARCHIVE_IMAGES_MAX);
    a->images = calloc(json_array_size(array) + 1, sizeof(*a->images));
    if (a->images == NULL)
        return err_errno(err, -ENOMEM, "manifest.json");
    json_array_foreach(array, i, element) {
        r = decode_archive_image(element, &a->images[a->count++], err);
        if (r < 0)
            return err_wrap(err, r, "[%zu]", i);
    }
    *ret = take(a);
    return 0;
}

void archive_images_free(struct archive_images *a)
{
    if (a == NULL)
        return;
    for (size_t i = 0; i < a->count; i++) {
        free(a->images[i].config);
        json_strings_free(a->images[i].layers);
        json_strings_free(a->images[i].tags);
    }
    free(a->images);
    free(a);
}
