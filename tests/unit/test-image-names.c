/* References to images, digests, configurations and manifests: what is taken, and what is refused
 * with which words. */

#include <errno.h>
#include <jansson.h>

#include "base/auto.h"
#include "base/err.h"
#include "image/config.h"
#include "image/manifest.h"
#include "image/reference.h"
#include "image/store.h"
#include "tap.h"

#define HEX64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

TEST(references_are_normalised)
{
    static const struct {
        const char *text, *whole, *as_shown;
    } rows[] = {
        {"alpine", "docker.io/library/alpine:latest", "alpine:latest"},
        {"alpine:3.20", "docker.io/library/alpine:3.20", "alpine:3.20"},
        {"a/b", "docker.io/a/b:latest", "a/b:latest"},
        {"docker.io/alpine", "docker.io/library/alpine:latest", "alpine:latest"},
        {"index.docker.io/x/y", "docker.io/x/y:latest", "x/y:latest"},
        {"localhost/a", "localhost/a:latest", "localhost/a:latest"},
        {"localhost:5000/a:b", "localhost:5000/a:b", "localhost:5000/a:b"},
        {"REG/a", "REG/a:latest", "REG/a:latest"},
        {"[::1]:5000/a", "[::1]:5000/a:latest", "[::1]:5000/a:latest"},
        {"ghcr.io/a/b.c_d__e-f--g/h:V_1.2-3", "ghcr.io/a/b.c_d__e-f--g/h:V_1.2-3",
         "ghcr.io/a/b.c_d__e-f--g/h:V_1.2-3"},
        {"docker.io/a.b/c", "docker.io/a.b/c:latest", "docker.io/a.b/c:latest"},
        {"docker.io/library/" HEX64, "docker.io/library/" HEX64 ":latest",
         "library/" HEX64 ":latest"},
        {"a@sha256:" HEX64, "docker.io/library/a@sha256:" HEX64, "a@sha256:" HEX64},
        {"a:1@sha256:" HEX64, "docker.io/library/a:1@sha256:" HEX64, "a:1@sha256:" HEX64},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct err err = ERR_NONE;
        struct reference r;
        char text[REFERENCE_MAX + 1];

        CHECK_INT(reference_parse(rows[i].text, &r, &err), 0);
        CHECK_STR(err.msg, "");
        reference_default_tag(&r);
        reference_format(&r, text);
        CHECK_STR(text, rows[i].whole);
        reference_shorten(rows[i].whole, text);
        CHECK_STR(text, rows[i].as_shown);
    }
}

TEST(references_that_are_none)
{
    static const char *const rows[] = {
        "",
        "A",
        "a:",
        ":a",
        "a::b",
        "a:b:c",
        "a/",
        "/a",
        "a//b",
        "../a",
        "a/../b",
        "a/.",
        "a:../b",
        "a:.b",
        "a:-b",
        "a b",
        "a\n",
        "a@",
        "a@x",
        "a@sha256:",
        "a@sha256:" HEX64 "0", /* NOLINT(bugprone-suspicious-missing-comma): a digit too many */
        "a@sha512:" HEX64,
        "a@SHA256:" HEX64,
        "a___b",
        "a..b",
        "a._b",
        "-a",
        "a-",
        "_a",
        HEX64,
        "x.y:/a",
        "x.y:99999999/a",
        "-x.y/a",
        "x..y/a",
        "[::1/a",
        "[]/a",
        "a/B",
        "a%2fb",
        "a\\b",
        "a:\xc3\xa4",
    };
    char name[400];
    struct reference r;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct err err = ERR_NONE;

        if (reference_parse(rows[i], &r, &err) != -EINVAL)
            tap_fail("\"%s\" is taken", rows[i]);
        CHECK(strncmp(err.msg, "image \"", 7) == 0);
    }
    (void)memset(name, 'a', sizeof(name));
    name[REFERENCE_NAME_MAX - strlen("docker.io/library/")] = '\0';
    CHECK_INT(reference_parse(name, &r, NULL), 0);
    name[REFERENCE_NAME_MAX - strlen("docker.io/library/")] = 'a';
    name[REFERENCE_NAME_MAX - strlen("docker.io/library/") + 1] = '\0';
    CHECK_INT(reference_parse(name, &r, NULL), -EINVAL);
}

TEST(digests_are_checked)
{
    const char *hex = NULL;
    char text[DIGEST_LEN + 1];

    CHECK(digest_ok("sha256:" HEX64));
    CHECK(!digest_ok(HEX64));
    CHECK(!digest_ok("sha256:" HEX64 "0"));
    CHECK(!digest_ok("sha256:../../../../etc/passwd"));
    CHECK(!digest_ok("sha256:0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef"));
    CHECK(digest_prefix("abcd", 4, &hex));
    CHECK_STR(hex, "abcd");
    CHECK(digest_prefix("sha256:abcd", 4, &hex));
    CHECK_STR(hex, "abcd");
    CHECK(!digest_prefix("abc", 4, &hex));
    CHECK(!digest_prefix("abcg", 4, &hex));
    digest_of("abc", 3, text);
    CHECK_STR(text, "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

/* ---- configurations ---- */

static struct image_config *parse(const char *text, struct err *err)
{
    struct image_config *c = NULL;

    (void)image_config_parse(text, strlen(text), &c, err);
    return c;
}

TEST(a_configuration)
{
    struct err err = ERR_NONE;
    struct image_config *c = parse(
        "{\"os\":\"linux\",\"unknown\":[1],\"created\":\"2020-01-02T03:04:05Z\",\"config\":{"
        "\"Entrypoint\":[\"a\"],\"Cmd\":null,\"Env\":[\"A=1\",\"bad\",\"=x\",\"B "
        "C=1\"],\"User\":\"\","
        "\"Volumes\":{\"/v\":{},\"rel\":{}},\"ExposedPorts\":{\"80/tcp\":{},\"0/tcp\":{},\"99999/"
        "tcp\":{},\"1/x\":{}},\"Labels\":{\"a\":\"b\",\"c=d\":\"e\"},\"Healthcheck\":{\"Test\":["
        "\"NONE\"],\"Interval\":2000000,\"Retries\":-3}},\"rootfs\":{\"diff_ids\":[\"sha256:" HEX64
        "\"]},\"history\":[{\"created_by\":\"x\",\"empty_layer\":true}]}",
        &err);

    CHECK_STR(err.msg, "");
    if (c == NULL) {
        tap_fail("was refused");
        return;
    }
    CHECK_STR(c->entrypoint[0], "a");
    CHECK(c->cmd == NULL && c->user == NULL);
    CHECK_STR(c->env[0], "A=1");
    CHECK(c->env[1] == NULL);
    CHECK_STR(c->volumes[0], "/v");
    CHECK(c->volumes[1] == NULL);
    CHECK_STR(c->exposed[0], "80/tcp");
    CHECK(c->exposed[1] == NULL);
    CHECK_STR(c->labels[0], "a=b");
    CHECK(c->labels[1] == NULL);
    CHECK_INT(c->health.interval_ms, 2);
    CHECK_INT(c->health.retries, 0);
    CHECK_INT(c->layer_count, 1);
    CHECK_INT(c->history_count, 1);
    CHECK(c->history[0].empty_layer);
    image_config_free(c);
}

TEST(configurations_that_are_none)
{
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"{}", "rootfs: must be an object"},
        {"[]", "must be"},
        {"{\"rootfs\":{\"diff_ids\":[\"x\"]}}", "rootfs: diff_ids[0]: \"x\" is not sha256:"},
        {"{\"rootfs\":{\"diff_ids\":{}}}", "rootfs: diff_ids: must be an array of strings"},
        {"{\"os\":1,\"rootfs\":{}}", "os: must be a string"},
        {"{\"config\":[],\"rootfs\":{}}", "config: must be an object"},
        {"{\"config\":{\"Cmd\":\"x\"},\"rootfs\":{}}", "config: Cmd: must be an array of strings"},
        {"{\"config\":{\"Env\":[1]},\"rootfs\":{}}", "config: Env: must be an array of strings"},
        {"{\"config\":{\"Labels\":{\"a\":1}},\"rootfs\":{}}",
         "config: Labels: must be an object of strings"},
        {"{\"config\":{\"Healthcheck\":{\"Interval\":\"1s\"}},\"rootfs\":{}}",
         "config: Healthcheck: Interval: must be a whole number"},
        {"{\"config\":{\"Cmd\":[],\"cmd\":[]},\"rootfs\":{}}", "config: "},
        {"{\"history\":{},\"rootfs\":{}}", "history: must be an array"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct err err = ERR_NONE;
        struct image_config *c = parse(rows[i].text, &err);

        if (c != NULL || strstr(err.msg, rows[i].message) == NULL)
            tap_fail("%s: \"%s\", want \"%s\"", rows[i].text, err.msg, rows[i].message);
        image_config_free(c);
    }
}

TEST(changes_are_parsed)
{
    static const struct {
        const char *change, *config; /* config NULL: refused */
    } rows[] = {
        {"CMD [\"a\",\"b c\"]", "{\"Cmd\":[\"a\",\"b c\"]}"},
        {"cmd a b", "{\"Cmd\":[\"/bin/sh\",\"-c\",\"a b\"]}"},
        {"CMD=[\"x\"]", "{\"Cmd\":[\"x\"]}"},
        {"ENV A=1 B=\"x y\" C='z' D=a\\ b", "{\"Env\":[\"A=1\",\"B=x y\",\"C=z\",\"D=a b\"]}"},
        {"ENV A some words", "{\"Env\":[\"A=some words\"]}"},
        {"LABEL a=b", "{\"Labels\":{\"a\":\"b\"}}"},
        {"EXPOSE 80 53/udp", "{\"ExposedPorts\":{\"53/udp\":{},\"80/tcp\":{}}}"},
        {"VOLUME [\"/a\",\"/b\"]", "{\"Volumes\":{\"/a\":{},\"/b\":{}}}"},
        {"WORKDIR w", "{\"WorkingDir\":\"/w\"}"},
        {"HEALTHCHECK --interval=1.5s --retries=2 CMD x y",
         "{\"Healthcheck\":{\"Interval\":1500000000,\"Retries\":2,\"Test\":[\"CMD-SHELL\",\"x "
         "y\"]}}"},
        {"HEALTHCHECK NONE", "{\"Healthcheck\":{\"Test\":[\"NONE\"]}}"},
        {"RUN x", NULL},
        {"ENV", NULL},
        {"ENV A", NULL},
        {"ENV =x", NULL},
        {"USER a b", NULL},
        {"HEALTHCHECK --x=1 CMD y", NULL},
        {"HEALTHCHECK x", NULL},
        {"", NULL},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        json_t *tree = json_object();
        struct err err = ERR_NONE;
        int r = image_config_change(tree, rows[i].change, &err);
        char *text = json_dumps(json_object_get(tree, "config"), JSON_COMPACT | JSON_SORT_KEYS);

        if (rows[i].config == NULL && (r != -EINVAL || err.msg[0] == '\0'))
            tap_fail("\"%s\" is taken: %d %s", rows[i].change, r, err.msg);
        else if (rows[i].config != NULL && (r < 0 || strcmp(text, rows[i].config) != 0))
            tap_fail("\"%s\" makes %s (%s), want %s", rows[i].change, text, err.msg,
                     rows[i].config);
        free(text);
        json_decref(tree);
    }
}

/* ---- manifests ---- */

#define DESCRIPTOR(type) "{\"mediaType\":\"" type "\",\"digest\":\"sha256:" HEX64 "\",\"size\":1}"
#define OCI_CONFIG       "application/vnd.oci.image.config.v1+json"
#define OCI_LAYER        "application/vnd.oci.image.layer.v1.tar"
#define MANIFEST_WITH(more, layer)                                                                 \
    "{\"schemaVersion\":2," more "\"config\":" DESCRIPTOR(OCI_CONFIG) ",\"layers\":[" layer "]}"
#define MANIFEST(layer) MANIFEST_WITH("", layer)
#define TYPED(type)     MANIFEST_WITH("\"mediaType\":\"" type "\",", "")

TEST(manifests_are_parsed)
{
    static const struct {
        const char *text, *message; /* message NULL: taken */
    } rows[] = {
        {MANIFEST(DESCRIPTOR(OCI_LAYER)), NULL},
        {MANIFEST(DESCRIPTOR("application/vnd.docker.image.rootfs.diff.tar.gzip")), NULL},
        {MANIFEST(""), NULL},
        {MANIFEST(DESCRIPTOR("application/vnd.oci.image.layer.nondistributable.v1.tar")),
         "layers[0]: is not in the image"},
        {MANIFEST(DESCRIPTOR(OCI_CONFIG)), "layers[0]: media type"},
        {MANIFEST("1"), "layers[0]: must be an object"},
        {MANIFEST("{\"digest\":\"sha256:" HEX64 "\",\"size\":1.5}"), "layers[0]: size"},
        {MANIFEST("{\"digest\":\"sha256:" HEX64 "\",\"size\":-1}"), "layers[0]: size"},
        {MANIFEST("{\"digest\":\"sha256:../x\",\"size\":1}"), "layers[0]: digest"},
        {MANIFEST("{\"digest\":\"sha256:" HEX64 "\",\"Digest\":\"x\",\"size\":1}"), "layers[0]: "},
        {"{\"schemaVersion\":2,\"layers\":[]}", "config: must be an object"},
        {"{\"schemaVersion\":1}", "schemaVersion: must be 2"},
        {"{\"schemaVersion\":2,\"config\":" DESCRIPTOR("text/plain") ",\"layers\":[]}",
         "config: media type"},
        {TYPED("application/vnd.docker.distribution.manifest.v2+json"), NULL},
        {TYPED("application/vnd.oci.image.index.v1+json"),
         "mediaType: \"application/vnd.oci.image"},
        {TYPED("text/html"), "is not that of a manifest"},
        {MANIFEST_WITH("\"mediaType\":1,", ""), "mediaType: must be a string"},
        {MANIFEST_WITH("\"mediaType\":null,\"manifests\":null,", ""), NULL},
        {MANIFEST_WITH("\"manifests\":[],", ""), "manifests: does not belong in a manifest"},
        {MANIFEST_WITH("\"fsLayers\":[],", ""), "fsLayers: does not belong in a manifest"},
        {"{", "line 1"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct manifest *m = NULL;
        struct err err = ERR_NONE;
        int r = manifest_parse(rows[i].text, strlen(rows[i].text), &m, &err);

        if (rows[i].message == NULL ? r != 0 : r >= 0 || strstr(err.msg, rows[i].message) == NULL)
            tap_fail("%s: %d \"%s\", want \"%s\"", rows[i].text, r, err.msg,
                     rows[i].message != NULL ? rows[i].message : "");
        manifest_free(m);
    }
}

TEST(an_index_names_the_platforms_manifest)
{
    static const char text[] =
        "{\"schemaVersion\":2,\"manifests\":["
        "{\"mediaType\":\"x/y\",\"digest\":\"sha256:" HEX64 "\",\"size\":1},"
        "{\"mediaType\":\"application/vnd.oci.image.manifest.v1+json\",\"digest\":\"sha256:" HEX64
        "\",\"size\":2,\"platform\":{\"os\":\"linux\",\"architecture\":\"riscv64\"}},"
        "{\"mediaType\":\"application/vnd.oci.image.manifest.v1+json\",\"digest\":\"sha256:" HEX64
        "\",\"size\":3,\"annotations\":{\"org.opencontainers.image.ref.name\":\"n\"}}]}";
    struct image_list_file *l = NULL;
    struct err err = ERR_NONE;

    CHECK_INT(manifest_list_parse(text, strlen(text), &l, &err), 0);
    if (l == NULL)
        return;
    CHECK_INT(l->count, 3);
    CHECK(manifest_list_pick(l) == &l->entries[2]);
    CHECK_STR(l->entries[2].name, "n");
    manifest_list_free(l);
}

TEST(an_index_is_no_manifest)
{
    static const struct {
        const char *more, *message; /* message NULL: taken */
    } rows[] = {
        {"", NULL},
        {",\"mediaType\":\"application/vnd.docker.distribution.manifest.list.v2+json\"", NULL},
        {",\"layers\":[]", "layers: does not belong in an index"},
        {",\"config\":{}", "config: does not belong in an index"},
        {",\"fsLayers\":[]", "fsLayers: does not belong in an index"},
        {",\"mediaType\":\"" MEDIA_TYPE_MANIFEST "\"", "is not that of an index"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct image_list_file *l = NULL;
        struct err err = ERR_NONE;
        char text[256];
        int r;

        (void)snprintf(text, sizeof(text), "{\"schemaVersion\":2,\"manifests\":[]%s}",
                       rows[i].more);
        r = manifest_list_parse(text, strlen(text), &l, &err);
        if (rows[i].message == NULL ? r != 0 : r >= 0 || strstr(err.msg, rows[i].message) == NULL)
            tap_fail("%s: %d \"%s\"", text, r, err.msg);
        manifest_list_free(l);
    }
}

TAP_MAIN
