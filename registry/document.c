/*
 * The readers behind document.h. Runs in rind-registry, called for each document that comes. Pure.
 */
#include "document.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "json/parse.h"
#include "refusal.h"

enum { QUOTED = 80, ENTRIES_MAX = MANIFEST_ENTRIES_MAX, SHOWN_PLATFORMS = 8 };

static int document_fail(struct err *err, enum registry_fault *ret_fault, enum registry_fault fault,
                         int code, const char *text)
{
    *ret_fault = fault;
    return err_set(err, code, "%s", text);
}

/* ---- what a body is ---- */

static int document_refuse_schema_1(enum registry_fault *ret_fault, struct err *err)
{
    return document_fail(err, ret_fault, REGISTRY_UNSUPPORTED, -EOPNOTSUPP,
                         "the image has a manifest of schema 1, Docker's first format, which is "
                         "not supported: push it again with a current tool");
}

static bool type_is_schema_1(const char *type)
{
    return strncmp(type, "application/vnd.docker.distribution.manifest.v1", 47) == 0;
}

/* Types that say nothing of the body. */
static bool type_is_vague(const char *type)
{
    return type[0] == '\0' || strcmp(type, "application/json") == 0 ||
           strcmp(type, "text/plain") == 0;
}

static int document_find_kind(struct document *d, const char *type, enum registry_fault *ret_fault,
                              struct err *err)
{
    const bool has_entries = json_object_get(d->root, "manifests") != NULL,
               has_layers = json_object_get(d->root, "layers") != NULL;
    json_t *own = json_object_get(d->root, "mediaType"),
           *version = json_object_get(d->root, "schemaVersion");
    const char *said = json_is_string(own) ? json_string_value(own) : "";
    char shown[4 * QUOTED];
    enum media_kind kind;

    if (json_is_integer(version) && json_integer_value(version) == 1)
        return document_refuse_schema_1(ret_fault, err);
    *ret_fault = REGISTRY_MALFORMED;
    if (own != NULL && !json_is_string(own) && !json_is_null(own))
        return err_set(err, -EINVAL, "the manifest's mediaType is not a text");
    if (has_entries && has_layers)
        return err_set(err, -EINVAL,
                       "a document with both \"manifests\" and \"layers\", which has two readings");
    if (!type_is_vague(type) && said[0] != '\0' && strcmp(type, said) != 0)
        return err_set(err, -EINVAL,
                       "the manifest's mediaType is another one than its Content-Type");
    if (!type_is_vague(type))
        said = type;
    if (said[0] == '\0')
        said = has_entries  ? "application/vnd.oci.image.index.v1+json"
               : has_layers ? MEDIA_TYPE_MANIFEST
                            : "";
    kind = media_kind(said);
    if (kind == MEDIA_INDEX && !has_layers) {
        d->kind = REGISTRY_DOCUMENT_INDEX;
    } else if (kind == MEDIA_MANIFEST && !has_entries) {
        d->kind = REGISTRY_DOCUMENT_MANIFEST;
    } else if (kind == MEDIA_INDEX || kind == MEDIA_MANIFEST || said[0] == '\0') {
        return err_set(err, -EINVAL, "a document that is neither an image's manifest nor an index");
    } else {
        text_for_terminal(said, strlen(said), shown, sizeof(shown));
        *ret_fault = REGISTRY_UNSUPPORTED;
        return err_set(err, -EOPNOTSUPP, "unsupported media type %s", shown);
    }
    (void)snprintf(d->media_type, sizeof(d->media_type), "%s", said);
    return 0;
}

int document_open(const char *type, const char *body, size_t len, struct document **ret,
                  enum registry_fault *ret_fault, struct err *err)
{
    auto_ptr(document_free) struct document *d = calloc(1, sizeof(*d));
    int r;

    if (d == NULL)
        return document_fail(err, ret_fault, REGISTRY_LOCAL, -ENOMEM, "out of memory");
    if (type_is_schema_1(type))
        return document_refuse_schema_1(ret_fault, err);
    if (strcmp(type, "text/html") == 0 || text_is_html(body, len))
        return document_fail(err, ret_fault, REGISTRY_MALFORMED, -EINVAL,
                             "a page of HTML came instead of a manifest, as from a proxy or the "
                             "sign-in of a network");
    r = json_parse(body, len, DOCUMENT_MAX, &d->root, err);
    if (r < 0) {
        *ret_fault = r == -EFBIG ? REGISTRY_LIMIT : REGISTRY_MALFORMED;
        return err_wrap(err, r, "the manifest is no JSON that can be read");
    }
    r = document_find_kind(d, type, ret_fault, err);
    if (r == 0)
        *ret = take(d);
    return r;
}

void document_free(struct document *d)
{
    if (d == NULL)
        return;
    json_decref(d->root);
    free(d);
}

/* ---- descriptors ---- */

/* Copies a string member; false: it is too long or no string. A missing one is "". */
static bool member_copy(json_t *object, const char *key, char *ret, size_t size)
{
    json_t *value = json_object_get(object, key);

    ret[0] = '\0';
    if (value == NULL || json_is_null(value))
        return true;
    if (!json_is_string(value) || json_string_length(value) >= size)
        return false;
    (void)memcpy(ret, json_string_value(value), json_string_length(value) + 1);
    return true;
}

static bool pointed_read(json_t *object, struct pointed *ret)
{
    json_t *size = json_object_get(object, "size");

    if (!json_is_object(object) ||
        !member_copy(object, "digest", ret->digest, sizeof(ret->digest)) ||
        !digest_ok(ret->digest) ||
        !member_copy(object, "mediaType", ret->media_type, sizeof(ret->media_type)) ||
        !json_is_integer(size) || json_integer_value(size) < 0)
        return false;
    ret->size = json_integer_value(size);
    return true;
}

static int pointed_fail(const char *what, enum registry_fault *ret_fault, struct err *err)
{
    *ret_fault = REGISTRY_MALFORMED;
    return err_set(err, -EINVAL, "%s without a valid digest (sha256), size or mediaType", what);
}

/* ---- indexes ---- */

/* False: the entry has no platform. */
static bool entry_read_platform(json_t *entry, struct platform *ret)
{
    json_t *platform = json_object_get(entry, "platform");

    *ret = (struct platform){.os = ""};
    return json_is_object(platform) && member_copy(platform, "os", ret->os, sizeof(ret->os)) &&
           member_copy(platform, "architecture", ret->architecture, sizeof(ret->architecture)) &&
           member_copy(platform, "variant", ret->variant, sizeof(ret->variant)) &&
           (ret->os[0] != '\0' || ret->architecture[0] != '\0');
}

static bool entry_is_attestation(json_t *entry)
{
    struct platform p;

    return json_object_get(json_object_get(entry, "annotations"), "vnd.docker.reference.type") !=
               NULL ||
           (entry_read_platform(entry, &p) && strcmp(p.os, "unknown") == 0 &&
            strcmp(p.architecture, "unknown") == 0);
}

/* Names the platforms of an index, for a message. */
static void index_format_platforms(json_t *entries, char *ret, size_t size)
{
    char whole[SHOWN_PLATFORMS * 110] = "", one[110];
    size_t at = 0, shown = 0, index;
    json_t *entry;

    json_array_foreach(entries, index, entry) {
        struct platform p;

        if (entry_is_attestation(entry) || !entry_read_platform(entry, &p))
            continue;
        if (shown++ == SHOWN_PLATFORMS) {
            (void)snprintf(whole + at, sizeof(whole) - at, ", ...");
            break;
        }
        platform_format(&p, one, sizeof(one));
        at += (size_t)snprintf(whole + at, sizeof(whole) - at, "%s%s", at > 0 ? ", " : "", one);
        if (at >= sizeof(whole) - 8)
            break;
    }
    text_for_terminal(whole, strlen(whole), ret, size);
}

static int index_fail_choice(json_t *entries, const struct platform *want,
                             enum registry_fault *ret_fault, struct err *err)
{
    char wanted[110], have[300];

    platform_format(want, wanted, sizeof(wanted));
    index_format_platforms(entries, have, sizeof(have));
    *ret_fault = REGISTRY_NO_PLATFORM;
    return err_set(err, -ENOENT, "no matching manifest for %s in the manifest list entries%s%s",
                   wanted, have[0] != '\0' ? "; it has " : "", have);
}

int document_choose(const struct document *index, const struct platform *want, struct pointed *ret,
                    enum registry_fault *ret_fault, struct err *err)
{
    json_t *entries = json_object_get(index->root, "manifests"), *entry, *best = NULL,
           *vague = NULL;
    size_t i, vague_count = 0;
    int best_rank = -1;

    if (!json_is_array(entries) || json_array_size(entries) > ENTRIES_MAX)
        return document_fail(err, ret_fault, REGISTRY_MALFORMED, -EINVAL,
                             "an index whose \"manifests\" is no list, or too long a one");
    json_array_foreach(entries, i, entry) {
        struct platform p;
        char type[MEDIA_TYPE_MAX + 1];
        enum media_kind kind;
        int rank;

        if (!json_is_object(entry) || !member_copy(entry, "mediaType", type, sizeof(type)) ||
            entry_is_attestation(entry))
            continue;
        kind = type[0] == '\0' ? MEDIA_MANIFEST : media_kind(type);
        if (kind != MEDIA_MANIFEST && kind != MEDIA_INDEX)
            continue;
        if (!entry_read_platform(entry, &p)) {
            vague = entry;
            vague_count++;
            continue;
        }
        rank = platform_rank(want, &p);
        if (rank >= 0 && (best == NULL || rank < best_rank)) {
            best = entry;
            best_rank = rank;
        }
    }
    if (best == NULL && vague_count == 1)
        best = vague;
    if (best == NULL)
        return index_fail_choice(entries, want, ret_fault, err);
    return pointed_read(best, ret) ? 0 : pointed_fail("an entry of the index", ret_fault, err);
}

/* ---- manifests ---- */

static int layer_check(json_t *layer, size_t i, int64_t *left, const struct image_limits *limits,
                       enum registry_fault *ret_fault, struct err *err)
{
    struct pointed p;
    char shown[4 * QUOTED];

    if (!pointed_read(layer, &p))
        return pointed_fail("a layer", ret_fault, err);
    *ret_fault = REGISTRY_UNSUPPORTED;
    if (strstr(p.media_type, "nondistributable") != NULL || strstr(p.media_type, "foreign") != NULL)
        return err_set(err, -EOPNOTSUPP,
                       "layer %zu is a foreign one, not in the registry but elsewhere", i + 1);
    if (media_kind(p.media_type) != MEDIA_LAYER) {
        text_for_terminal(p.media_type, strlen(p.media_type), shown, sizeof(shown));
        return err_set(err, -EOPNOTSUPP, "unsupported media type %s of layer %zu", shown, i + 1);
    }
    if (p.size > *left) {
        *ret_fault = REGISTRY_LIMIT;
        return err_set(err, -EFBIG,
                       "limit maxImageBytes: its layers have more than %" PRId64 " bytes",
                       limits->bytes);
    }
    *left -= p.size;
    return 0;
}

int document_check_manifest(const struct document *manifest, const struct image_limits *limits,
                            struct pointed *ret_config, size_t *ret_layers,
                            enum registry_fault *ret_fault, struct err *err)
{
    json_t *config = json_object_get(manifest->root, "config"),
           *layers = json_object_get(manifest->root, "layers"), *layer;
    int64_t left = limits->bytes;
    struct pointed p = {.digest = ""};
    char shown[4 * QUOTED];
    size_t i;

    if (!pointed_read(config, &p))
        return pointed_fail("a configuration", ret_fault, err);
    if (media_kind(p.media_type) != MEDIA_CONFIG) {
        text_for_terminal(p.media_type, strlen(p.media_type), shown, sizeof(shown));
        *ret_fault = REGISTRY_UNSUPPORTED;
        return err_set(err, -EOPNOTSUPP, "unsupported media type %s", shown);
    }
    if (!json_is_array(layers))
        return document_fail(err, ret_fault, REGISTRY_MALFORMED, -EINVAL,
                             "a manifest whose \"layers\" is no list");
    if ((int64_t)json_array_size(layers) > limits->layers) {
        *ret_fault = REGISTRY_LIMIT;
        return err_set(err, -E2BIG, "limit maxImageLayers: it has %zu layers, more than %" PRId64,
                       json_array_size(layers), limits->layers);
    }
    if (p.size > DOCUMENT_CONFIG_MAX)
        return document_fail(err, ret_fault, REGISTRY_LIMIT, -EFBIG,
                             "its configuration is larger than 8 MiB");
    json_array_foreach(layers, i, layer) {
        int r = layer_check(layer, i, &left, limits, ret_fault, err);

        if (r < 0)
            return r;
    }
    *ret_config = p;
    *ret_layers = json_array_size(layers);
    return 0;
}

int document_check_config(const char *text, size_t len, const struct platform *want, size_t layers,
                          enum registry_fault *ret_fault, struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    struct platform p = {.os = ""};
    char wanted[110], have[300], shown[400];
    json_t *ids;
    int r = json_parse(text, len, DOCUMENT_CONFIG_MAX, &root, err);

    *ret_fault = REGISTRY_MALFORMED;
    if (r < 0)
        return err_wrap(err, r, "the image's configuration is no JSON that can be read");
    if (!member_copy(root, "os", p.os, sizeof(p.os)) ||
        !member_copy(root, "architecture", p.architecture, sizeof(p.architecture)))
        return err_set(err, -EINVAL, "the image's configuration has no valid os or architecture");
    if ((p.os[0] != '\0' && strcmp(p.os, want->os) != 0) ||
        (p.architecture[0] != '\0' && strcmp(p.architecture, want->architecture) != 0)) {
        platform_format(want, wanted, sizeof(wanted));
        platform_format(&p, have, sizeof(have));
        text_for_terminal(have, strlen(have), shown, sizeof(shown));
        *ret_fault = REGISTRY_NO_PLATFORM;
        return err_set(err, -ENOENT,
                       "image with platform %s does not match the wanted platform %s; another one "
                       "can be asked for with --platform",
                       shown, wanted);
    }
    ids = json_object_get(json_object_get(root, "rootfs"), "diff_ids");
    if (!json_is_array(ids) || json_array_size(ids) != layers)
        return err_set(err, -EINVAL,
                       "the image's configuration names %zu layers and its manifest %zu",
                       json_array_size(ids), layers);
    return 0;
}
