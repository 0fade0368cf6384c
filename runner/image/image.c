/* Reads one image of the store: its manifest and its configuration. Blocks; runs in any thread. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/rfc3339.h"
#include "image/manifest.h"
#include "image/store-internal.h"
#include "json/decode.h"
#include "json/parse.h"

const char *image_layer_name(const struct image_layer *l)
{
    return (l->of_parents ? l->chain_name : l->diff_id) + strlen("sha256:");
}

void image_free(struct image *i)
{
    if (i == NULL)
        return;
    json_strings_free(i->names);
    image_config_free(i->config);
    free(i->layers);
    json_decref(i->config_tree);
    free(i);
}

void image_list_free(struct image **list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        image_free(list[i]);
    free(list);
}

/* Converts an RFC 3339 time to milliseconds since 1970; 0 if invalid. */
static int64_t parse_time(const char *text)
{
    struct timespec t;
    int64_t ms;

    if (text == NULL || rfc3339_parse(text, &t) < 0)
        return 0;
    ms = (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
    return ms > 0 ? ms : 0;
}

void image_chain(struct image_layer *layers, size_t i)
{
    char text[2 * DIGEST_LEN + 2];

    if (i == 0) {
        (void)memcpy(layers[0].chain_id, layers[0].diff_id, sizeof(layers[0].chain_id));
    } else {
        (void)snprintf(text, sizeof(text), "%s %s", layers[i - 1].chain_id, layers[i].diff_id);
        digest_of(text, strlen(text), layers[i].chain_id);
    }
    digest_of(layers[i].chain_id, strlen(layers[i].chain_id), layers[i].chain_name);
}

int image_assemble(struct image *i, const struct manifest *m, struct err *err)
{
    if (m->layer_count != i->config->layer_count)
        return err_set(err, -EINVAL,
                       "manifest has %zu layers, the configuration %s has the diff ids of %zu",
                       m->layer_count, m->config.digest, i->config->layer_count);
    i->layers = calloc(m->layer_count + 1, sizeof(*i->layers));
    if (i->layers == NULL)
        return err_errno(err, -ENOMEM, "image");
    i->layer_count = m->layer_count;
    (void)memcpy(i->id, m->config.digest, sizeof(i->id));
    i->config_bytes = m->config.size;
    i->bytes = i->manifest_bytes + m->config.size;
    i->created_ms = parse_time(i->config->created);
    for (size_t k = 0; k < m->layer_count; k++) {
        struct image_layer *l = &i->layers[k];

        (void)memcpy(l->blob, m->layers[k].digest, sizeof(l->blob));
        (void)memcpy(l->media_type, m->layers[k].media_type, sizeof(l->media_type));
        (void)memcpy(l->diff_id, i->config->diff_ids[k], sizeof(l->diff_id));
        l->bytes = m->layers[k].size;
        if (__builtin_add_overflow(i->bytes, l->bytes, &i->bytes))
            return err_set(err, -EINVAL, "layers[%zu]: its size is not possible", k);
        image_chain(i->layers, k);
    }
    return 0;
}

int image_read(struct image_store *s, const char *manifest, struct image **ret, struct err *err)
{
    auto_ptr(image_free) struct image *i = calloc(1, sizeof(*i));
    auto_ptr(manifest_free) struct manifest *m = NULL;
    auto_free char *text = NULL, *config = NULL;
    size_t len = 0, config_len = 0;
    int r;

    if (i == NULL)
        return err_errno(err, -ENOMEM, "image");
    r = blob_read(s, manifest, MANIFEST_MAX, &text, &len, err);
    if (r < 0)
        return r;
    (void)snprintf(i->manifest, sizeof(i->manifest), "%s", manifest);
    i->manifest_bytes = (int64_t)len;
    r = manifest_parse(text, len, &m, err);
    if (r < 0)
        return err_wrap(err, r, "manifest %s", manifest);
    r = blob_read(s, m->config.digest, IMAGE_CONFIG_MAX, &config, &config_len, err);
    if (r == 0)
        r = json_parse(config, config_len, IMAGE_CONFIG_MAX, &i->config_tree, err);
    if (r == 0)
        r = image_config_decode(i->config_tree, &i->config, err);
    if (r < 0)
        return err_wrap(err, r, "configuration %s", m->config.digest);
    r = image_assemble(i, m, err);
    if (r < 0)
        return err_wrap(err, r, "manifest %s", manifest);
    *ret = take(i);
    return 0;
}
