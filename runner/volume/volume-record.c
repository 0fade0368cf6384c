/*
 * The record of a named volume: encoding and decoding. The launcher stores it beside the volume's
 * files.
 */
#include <errno.h>
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "json/decode.h"
#include "json/parse.h"
#include "launch/volume.h"
#include "spec/spec.h"
#include "volume/volumes-internal.h"

void volume_record_done(struct volume_record *r)
{
    json_strings_free(r->labels);
    r->labels = NULL;
    free(r->options);
    r->options = NULL;
}

int volume_random_name(char name[65])
{
    unsigned char bytes[32];

    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        return -EIO;
    for (size_t i = 0; i < sizeof(bytes); i++)
        (void)snprintf(name + i * 2, 3, "%02x", bytes[i]);
    return 0;
}

/* Uses the spec's rules for labels of sandboxes. */
int volume_record_labels(struct volume_record *r, char *const *labels, struct err *err)
{
    auto_ptr(spec_free) struct spec *s = spec_new();
    size_t bytes = 0;
    int n = 0;

    if (s == NULL)
        return err_errno(err, -ENOMEM, "volume");
    for (; n == 0 && labels != NULL && *labels != NULL; labels++)
        n = spec_add_label(s, *labels, err);
    if (n < 0)
        return n;
    for (char **l = s->labels; *l != NULL; l++)
        bytes += strlen(*l) + 1;
    if (bytes > VOLUME_LABELS_BYTES_MAX)
        return err_set(err, -E2BIG, "labels: more than %d bytes", VOLUME_LABELS_BYTES_MAX);
    json_strings_free(r->labels);
    r->labels = take(s->labels);
    return 0;
}

int volume_record_encode(const struct volume_record *r, struct buf *out, struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    auto_free char *text = NULL;
    json_t *labels = json_object();
    int n = 0;

    for (char *const *l = r->labels; l != NULL && *l != NULL && n == 0; l++) {
        const char *equals = strchr(*l, '=');

        n = json_object_setn_new(labels, *l, (size_t)(equals - *l), json_string(equals + 1));
    }
    if (n < 0) {
        json_decref(labels);
        return err_set(err, -EILSEQ, "labels: are not UTF-8, which JSON must be");
    }
    root = json_pack("{s:I, s:I, s:o}", "createdMs", (json_int_t)r->created_ms, "creator",
                     (json_int_t)r->creator, "labels", labels);
    if (root != NULL && r->owner[0] != '\0' &&
        json_object_set_new(root, "owner", json_string(r->owner)) < 0)
        return err_errno(err, -ENOMEM, "volume");
    if (root != NULL && r->bytes != 0 &&
        json_object_set_new(root, "sizeBytes", json_integer((json_int_t)r->bytes)) < 0)
        return err_errno(err, -ENOMEM, "volume");
    if (root != NULL && r->options != NULL &&
        json_object_set_new(root, "options", json_string(r->options)) < 0)
        return err_errno(err, -ENOMEM, "volume");
    if (root != NULL)
        text = json_dumps(root, JSON_COMPACT);
    if (text == NULL)
        return err_errno(err, -ENOMEM, "volume");
    if (strlen(text) > LAUNCH_META_MAX)
        return err_set(err, -E2BIG, "labels: their record has more than %d bytes", LAUNCH_META_MAX);
    n = buf_append_str(out, text);
    return n < 0 ? err_errno(err, n, "volume") : 0;
}

struct record_json {
    int64_t created_ms, creator, bytes;
    char *owner, *options; /* owned */
    struct spec *spec;     /* owned; holds the labels */
};

static int d_labels(json_t *value, const struct jfield *field, void *dst, const struct jpath *path,
                    struct err *err)
{
    const struct record_json *j = dst;
    const char *key;
    json_t *element;

    (void)field;
    if (!json_is_object(value))
        return json_fail(err, -EINVAL, path, "must be an object of strings");
    json_object_foreach(value, key, element) {
        auto_free char *text = NULL;
        int r;

        if (!json_is_string(element) || strchr(key, '=') != NULL)
            return json_fail(err, -EINVAL, path, "must be an object of strings");
        if (asprintf(&text, "%s=%s", key, json_string_value(element)) < 0) {
            text = NULL;
            return json_fail(err, -ENOMEM, path, "out of memory");
        }
        r = spec_add_label(j->spec, text, err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* clang-format off */
#define RECORD(member) offsetof(struct record_json, member)
static const struct jfield record_fields[] = {
    {.name = "createdMs", .decode = j_int64,  .off = RECORD(created_ms), .min = 0,  .max = INT64_MAX,  .required = true},
    {.name = "creator",   .decode = j_int64,  .off = RECORD(creator),    .min = -1, .max = UINT32_MAX, .required = true},
    {.name = "labels",    .decode = d_labels, .required = true},
    {.name = "owner",     .decode = j_string, .off = RECORD(owner),      .min = 1,  .max = VOLUME_OWNER_MAX},
    {.name = "options",   .decode = j_string, .off = RECORD(options),    .min = 1,  .max = VOLUME_OPTIONS_MAX},
    {.name = "sizeBytes", .decode = j_int64,  .off = RECORD(bytes),      .min = 0,  .max = INT64_MAX},
    {0},
};
/* clang-format on */

int volume_record_decode(const char *text, size_t len, struct volume_record *ret, struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    struct record_json j = {.creator = -1, .spec = spec_new()};
    int n = j.spec == NULL ? err_errno(err, -ENOMEM, "volume") : 0;

    if (n == 0 && len > 0)
        n = json_parse(text, len, LAUNCH_META_MAX, &root, err);
    if (n == 0 && root != NULL)
        n = json_decode(root, record_fields, &j, err);
    if (n == 0) {
        *ret = (struct volume_record){
            .created_ms = j.created_ms, .creator = j.creator, .bytes = (uint64_t)j.bytes};
        ret->labels = take(j.spec->labels);
        ret->options = take(j.options);
        (void)snprintf(ret->owner, sizeof(ret->owner), "%s", j.owner != NULL ? j.owner : "");
    }
    spec_free(j.spec);
    free(j.owner);
    free(j.options);
    return n;
}
