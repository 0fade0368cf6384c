/*
 * What comes with images, by the first byte: a reference (what is taken is written as it is read
 * again), a configuration, a manifest, an index, the manifest.json of docker save, a change of a
 * configuration. A refusal has a message.
 */

#include <assert.h>
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "image/config.h"
#include "image/manifest.h"
#include "image/reference.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void refusal(int r, const struct err *err)
{
    assert(r >= 0 || (err->code < 0 && err->msg[0] != '\0'));
}

static void reference(const char *text)
{
    struct reference r, again;
    char whole[REFERENCE_MAX + 1], second[REFERENCE_MAX + 1];
    struct err err = ERR_NONE;
    int n = reference_parse(text, &r, &err);

    refusal(n, &err);
    if (n < 0)
        return;
    assert(strstr(r.name, "..") == NULL && strchr(r.name, '/') != NULL);
    reference_format(&r, whole);
    assert(reference_parse(whole, &again, NULL) == 0);
    reference_format(&again, second);
    assert(strcmp(whole, second) == 0);
    reference_format_short(&r, whole);
    assert(reference_parse(whole, &again, NULL) == 0);
    reference_format(&again, whole);
    assert(strcmp(whole, second) == 0);
}

static void change(const char *text)
{
    json_t *tree = json_object();
    struct err err = ERR_NONE;

    refusal(image_config_change(tree, text, &err), &err);
    json_decref(tree);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct image_config *c = NULL;
    struct manifest *m = NULL;
    struct image_list_file *l = NULL;
    struct archive_images *a = NULL;
    struct err err = ERR_NONE;
    char *text;

    if (size < 1)
        return 0;
    text = malloc(size);
    if (text == NULL)
        return 0;
    (void)memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    switch (data[0] % 6) {
    case 0:
        reference(text);
        break;
    case 1:
        refusal(image_config_parse(text, size - 1, &c, &err), &err);
        break;
    case 2:
        refusal(manifest_parse(text, size - 1, &m, &err), &err);
        break;
    case 3:
        refusal(manifest_list_parse(text, size - 1, &l, &err), &err);
        break;
    case 4:
        refusal(archive_images_parse(text, size - 1, &a, &err), &err);
        break;
    default:
        change(text);
        break;
    }
    image_config_free(c);
    manifest_free(m);
    manifest_list_free(l);
    archive_images_free(a);
    free(text);
    return 0;
}
