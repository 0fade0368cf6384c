/* Indexes, manifests and configurations of registries, platforms, the job, and DNS. */

#include <errno.h>

#include "base/err.h"
#include "document.h"
#include "job.h"
#include "lookup-message.h"
#include "tap.h"

#define COUNT(a)          (sizeof(a) / sizeof((a)[0]))
#define OCI               "application/vnd.oci.image."
#define DOCKER            "application/vnd.docker.distribution."
#define HEX               "0123456789012345678901234567890123456789012345678901234567890123"
#define DIGEST            "sha256:" HEX
#define CONFIG            "{\"mediaType\":\"" OCI "config.v1+json\",\"digest\":\"" DIGEST "\",\"size\":2}"
#define LAYER(type, size) "{\"mediaType\":\"" type "\",\"digest\":\"" DIGEST "\",\"size\":" size "}"

static struct document *open_document(const char *type, const char *body,
                                      enum registry_fault *fault, struct err *err)
{
    struct document *d = NULL;

    (void)document_open(type, body, strlen(body), &d, fault, err);
    return d;
}

TEST(the_kind_of_a_document_comes_from_header_or_body)
{
    static const struct {
        const char *type, *body;
        int kind;  /* 0: refused */
        int fault; /* of a refusal */
        const char *says;
    } rows[] = {
        {OCI "index.v1+json", "{\"manifests\":[]}", REGISTRY_DOCUMENT_INDEX, 0, ""},
        {OCI "manifest.v1+json", "{\"layers\":[]}", REGISTRY_DOCUMENT_MANIFEST, 0, ""},
        {"", "{\"layers\":[]}", REGISTRY_DOCUMENT_MANIFEST, 0, ""},
        {"application/json", "{\"manifests\":[]}", REGISTRY_DOCUMENT_INDEX, 0, ""},
        {"text/plain", "{\"mediaType\":\"" DOCKER "manifest.v2+json\",\"layers\":[]}",
         REGISTRY_DOCUMENT_MANIFEST, 0, ""},
        {"", "{\"layers\":[],\"manifests\":[]}", 0, REGISTRY_MALFORMED, "two readings"},
        {OCI "index.v1+json", "{\"layers\":[]}", 0, REGISTRY_MALFORMED, "neither"},
        {OCI "index.v1+json", "{\"mediaType\":\"" OCI "manifest.v1+json\"}", 0, REGISTRY_MALFORMED,
         "another one than its Content-Type"},
        {"", "{}", 0, REGISTRY_MALFORMED, "neither"},
        {"", "[]", 0, REGISTRY_MALFORMED, "no JSON that can be read"},
        {"text/html", "<html>", 0, REGISTRY_MALFORMED, "HTML"},
        {OCI "manifest.v1+json", " <!doctype html>", 0, REGISTRY_MALFORMED, "HTML"},
        {DOCKER "manifest.v1+prettyjws", "{}", 0, REGISTRY_UNSUPPORTED, "schema 1"},
        {"", "{\"schemaVersion\":1}", 0, REGISTRY_UNSUPPORTED, "schema 1"},
        {"application/x", "{\"layers\":[]}", 0, REGISTRY_UNSUPPORTED,
         "unsupported media type application/x"},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        enum registry_fault fault = REGISTRY_FAULT_INVALID;
        struct err err = ERR_NONE;
        auto_ptr(document_free) struct document *d =
            open_document(rows[i].type, rows[i].body, &fault, &err);

        if ((d != NULL ? (int)d->kind : 0) != rows[i].kind || strstr(err.msg, rows[i].says) == NULL)
            tap_fail("row %zu: %s", i, err.msg);
        if (d == NULL)
            CHECK_INT(fault, rows[i].fault);
    }
}

/* ---- platforms ---- */

TEST(the_nearest_platform_of_an_architecture_is_best)
{
    static const struct {
        struct platform want, image;
        int rank;
    } rows[] = {
        {{"linux", "amd64", "", 3}, {"linux", "amd64", "", 0}, 0},
        {{"linux", "amd64", "", 3}, {"linux", "amd64", "v1", 0}, 1},
        {{"linux", "amd64", "", 3}, {"linux", "amd64", "v3", 0}, 12},
        {{"linux", "amd64", "", 3}, {"linux", "amd64", "v4", 0}, -1},
        {{"linux", "amd64", "v3", 4}, {"linux", "amd64", "v2", 0}, 2},
        {{"linux", "amd64", "v3", 4}, {"linux", "amd64", "v4", 0}, -1},
        {{"linux", "arm64", "", 0}, {"linux", "arm64", "v8", 0}, 1},
        {{"linux", "arm64", "", 0}, {"linux", "arm64", "v9", 0}, -1},
        {{"linux", "arm", "v7", 0}, {"linux", "arm", "v6", 0}, 2},
        {{"linux", "arm", "v6", 0}, {"linux", "arm", "v7", 0}, -1},
        {{"linux", "arm", "v6", 0}, {"linux", "arm", "", 0}, -1},
        {{"linux", "s390x", "", 0}, {"linux", "s390x", "", 0}, 0},
        {{"linux", "s390x", "", 0}, {"linux", "s390x", "v1", 0}, -1},
        {{"linux", "amd64", "", 1}, {"windows", "amd64", "", 0}, -1},
    };

    for (size_t i = 0; i < COUNT(rows); i++)
        if (platform_rank(&rows[i].want, &rows[i].image) != rows[i].rank)
            tap_fail("row %zu: %d", i, platform_rank(&rows[i].want, &rows[i].image));
}

#define ENTRY(digit, more)                                                                         \
    "{\"mediaType\":\"" OCI "manifest.v1+json\",\"size\":5,\"digest\":\"sha256:" digit             \
    "123456789012345678901234567890123456789012345678901234567890123\"" more "}"
#define PLATFORM(os, arch, more)                                                                   \
    ",\"platform\":{\"os\":\"" os "\",\"architecture\":\"" arch "\"" more "}"

TEST(of_an_index_the_entry_for_the_platform_is_chosen)
{
    static const struct {
        const char *entries;
        char digit; /* of the chosen one; 0: none */
    } rows[] = {
        {ENTRY("1", PLATFORM("linux", "s390x", "")) "," ENTRY("2", PLATFORM("linux", "amd64", "")),
         '2'},
        {ENTRY("1", PLATFORM("linux", "amd64", ",\"variant\":\"v2\"")) "," ENTRY(
             "2", PLATFORM("linux", "amd64", "")),
         '2'},
        {ENTRY("1", PLATFORM("linux", "amd64", "")) "," ENTRY("2", PLATFORM("linux", "amd64", "")),
         '1'},
        {ENTRY("1", PLATFORM("unknown", "unknown", "")) "," ENTRY("2", ""), '2'},
        {ENTRY("1", "") "," ENTRY("2", ""), 0},
        {ENTRY("1",
               PLATFORM(
                   "linux", "amd64",
                   "") ",\"annotations\":{\"vnd.docker.reference.type\":\"attestation-manifest\"}"),
         0},
        {ENTRY("1", PLATFORM("windows", "amd64", "")), 0},
        {"5,null," ENTRY("3", PLATFORM("linux", "amd64", "")), '3'},
        {"", 0},
    };
    const struct platform want = {.os = "linux", .architecture = "amd64", .level = 2};

    for (size_t i = 0; i < COUNT(rows); i++) {
        static char body[4096];
        enum registry_fault fault = REGISTRY_FAULT_INVALID;
        auto_ptr(document_free) struct document *d = NULL;
        struct err err = ERR_NONE;
        struct pointed p = {.size = 0};
        int r;

        (void)snprintf(body, sizeof(body), "{\"manifests\":[%s]}", rows[i].entries);
        d = open_document("", body, &fault, &err);
        if (d == NULL) {
            tap_fail("row %zu: %s", i, err.msg);
            continue;
        }
        r = document_choose(d, &want, &p, &fault, &err);
        if (rows[i].digit == 0) {
            CHECK_INT(r, -ENOENT);
            CHECK_INT(fault, REGISTRY_NO_PLATFORM);
            CHECK(strstr(err.msg, "no matching manifest for linux/amd64 in the manifest list "
                                  "entries") != NULL);
        } else if (r < 0 || p.digest[7] != rows[i].digit) {
            tap_fail("row %zu: %s %s", i, p.digest, err.msg);
        }
    }
}

/* ---- manifests and configurations ---- */

TEST(a_manifest_that_is_no_image_is_refused_in_words)
{
    static const struct {
        const char *body;
        int code, fault;
        const char *says;
    } rows[] = {
        {"{\"config\":" CONFIG ",\"layers\":[" LAYER(OCI "layer.v1.tar+zstd", "7") "]}", 0, 0, ""},
        {"{\"config\":" LAYER("application/vnd.cncf.helm.config.v1+json", "1") ",\"layers\":[]}",
         -EOPNOTSUPP, REGISTRY_UNSUPPORTED,
         "unsupported media type application/vnd.cncf.helm.config.v1+json"},
        {"{\"config\":" CONFIG ",\"layers\":[" LAYER(OCI "layer.nondistributable.v1.tar", "7") "]}",
         -EOPNOTSUPP, REGISTRY_UNSUPPORTED, "not in the registry"},
        {"{\"config\":" CONFIG ",\"layers\":[" LAYER("x/y", "7") "]}", -EOPNOTSUPP,
         REGISTRY_UNSUPPORTED, "unsupported media type x/y of layer 1"},
        {"{\"config\":" CONFIG
         ",\"layers\":[" LAYER(OCI "layer.v1.tar", "70") "," LAYER(OCI "layer.v1.tar", "31") "]}",
         -EFBIG, REGISTRY_LIMIT, "maxImageBytes"},
        {"{\"config\":" CONFIG ",\"layers\":[" LAYER(OCI "layer.v1.tar", "1") "," LAYER(
             OCI "layer.v1.tar", "1") "," LAYER(OCI "layer.v1.tar", "1") "]}",
         -E2BIG, REGISTRY_LIMIT, "maxImageLayers"},
        {"{\"config\":" CONFIG ",\"layers\":[" LAYER(OCI "layer.v1.tar", "-1") "]}", -EINVAL,
         REGISTRY_MALFORMED, "a layer without"},
        {"{\"layers\":[]}", -EINVAL, REGISTRY_MALFORMED, "a configuration without"},
        {"{\"config\":" CONFIG ",\"layers\":[{\"digest\":\"sha256:../../etc\",\"size\":1}]}",
         -EINVAL, REGISTRY_MALFORMED, "a layer without a valid digest"},
    };
    const struct image_limits limits = {.layers = 2, .bytes = 100};

    for (size_t i = 0; i < COUNT(rows); i++) {
        enum registry_fault fault = REGISTRY_FAULT_INVALID;
        struct err err = ERR_NONE;
        auto_ptr(document_free) struct document *d = open_document("", rows[i].body, &fault, &err);
        struct pointed config;
        size_t layers;

        if (d == NULL) {
            tap_fail("row %zu: %s", i, err.msg);
            continue;
        }
        CHECK_INT(document_check_manifest(d, &limits, &config, &layers, &fault, &err),
                  rows[i].code);
        if (rows[i].code < 0)
            CHECK_INT(fault, rows[i].fault);
        if (strstr(err.msg, rows[i].says) == NULL)
            tap_fail("row %zu: %s", i, err.msg);
    }
}

TEST(a_configuration_is_of_the_platform_and_has_all_layers)
{
    static const struct {
        const char *text;
        int code;
    } rows[] = {
        {"{\"os\":\"linux\",\"architecture\":\"amd64\",\"rootfs\":{\"diff_ids\":[\"a\"]}}", 0},
        {"{\"rootfs\":{\"diff_ids\":[\"a\"]}}", 0},
        {"{\"os\":\"linux\",\"architecture\":\"arm64\",\"rootfs\":{\"diff_ids\":[\"a\"]}}",
         -ENOENT},
        {"{\"os\":\"windows\",\"rootfs\":{\"diff_ids\":[\"a\"]}}", -ENOENT},
        {"{\"rootfs\":{\"diff_ids\":[]}}", -EINVAL},
        {"{}", -EINVAL},
        {"x", -EINVAL},
    };
    const struct platform want = {.os = "linux", .architecture = "amd64"};

    for (size_t i = 0; i < COUNT(rows); i++) {
        enum registry_fault fault;
        struct err err = ERR_NONE;

        CHECK_INT(document_check_config(rows[i].text, strlen(rows[i].text), &want, 1, &fault, &err),
                  rows[i].code);
    }
}

/* ---- the job ---- */

TEST(a_job_has_defaults_and_no_unknown_key)
{
    static const char job[] =
        "{\"host\":\"r.example:5000\",\"repository\":\"a/b\",\"platform\":{\"architecture\":"
        "\"arm\",\"variant\":\"v7\"},\"insecure\":[\"10.0.0.0/8\"],\"exempt\":[\"r.example:5000\"],"
        "\"mirrors\":[{\"host\":\"m\",\"pull\":\"digest-only\"}],\"addresses\":\"any\"}";
    static const char *const refused[] = {
        "{}",
        "{\"host\":\"\"}",
        "{\"host\":\"a b\"}",
        "{\"host\":\"h\",\"unknown\":1}",
        "{\"host\":\"h\",\"repository\":\"../x\"}",
        "{\"host\":\"h\",\"repository\":\"a//b\"}",
        "{\"host\":\"h\",\"repository\":\"a:tag\"}",
        "{\"host\":\"h\",\"shown\":\"a\\nb\"}",
        "{\"host\":\"h\",\"timing\":{\"headMs\":60001}}",
    };
    auto_ptr(job_free) struct registry_job *j = NULL;
    struct err err = ERR_NONE;

    CHECK_INT(job_parse(job, strlen(job), &j, &err), 0);
    if (j == NULL)
        return;
    CHECK_STR(j->shown, "r.example:5000");
    CHECK_STR(j->platform.os, "linux");
    CHECK_STR(j->platform.variant, "v7");
    CHECK_INT(j->retries, JOB_RETRIES);
    CHECK_INT(j->mirrors[0].pull, JOB_PULL_DIGEST);
    CHECK(job_lists_host(j->exempt, "r.example", 5000, false));
    CHECK(!job_lists_host(j->exempt, "r.example", 5001, true));
    for (size_t i = 0; i < COUNT(refused); i++) {
        struct registry_job *none = NULL;

        if (job_parse(refused[i], strlen(refused[i]), &none, &err) >= 0)
            tap_fail("taken: %s", refused[i]);
    }
}

/* ---- DNS ---- */

TEST(an_answer_of_a_name_server_fits_its_question)
{
    uint8_t question[LOOKUP_QUESTION_MAX], answer[512];
    const int len = lookup_write("r.example", LOOKUP_TYPE_A, 0x1234, question);
    static const uint8_t record[] = {0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1};
    struct lookup_answer a;

    CHECK_INT(len, 12 + 11 + 4);
    (void)memcpy(answer, question, (size_t)len);
    (void)memcpy(answer + len, record, sizeof(record));
    answer[2] = 0x81;
    answer[7] = 1;
    answer[13] = 'R'; /* names are compared without regard to case */
    CHECK_INT(lookup_read(answer, (size_t)len + sizeof(record), question, (size_t)len, &a), 0);
    CHECK_INT(a.count, 1);
    CHECK_INT(a.addresses[0].family, 4);
    CHECK_INT(a.addresses[0].bytes[0], 192);
    CHECK_INT(lookup_read(answer, (size_t)len + sizeof(record) - 1, question, (size_t)len, &a),
              -EBADMSG);
    answer[0] ^= 1; /* another id */
    CHECK_INT(lookup_read(answer, (size_t)len + sizeof(record), question, (size_t)len, &a),
              -EBADMSG);
    answer[0] ^= 1;
    answer[14]++; /* another name */
    CHECK_INT(lookup_read(answer, (size_t)len + sizeof(record), question, (size_t)len, &a),
              -EBADMSG);
}

TEST(names_that_no_message_can_have_are_refused)
{
    static char label[70], whole[300];
    uint8_t question[LOOKUP_QUESTION_MAX];

    (void)memset(label, 'a', 64);
    for (size_t i = 0; i < 290; i++)
        whole[i] = i % 50 == 49 ? '.' : 'a';
    CHECK_INT(lookup_write(label, LOOKUP_TYPE_A, 1, question), -EINVAL);
    CHECK_INT(lookup_write(whole, LOOKUP_TYPE_A, 1, question), -EINVAL);
    CHECK_INT(lookup_write("a..b", LOOKUP_TYPE_A, 1, question), -EINVAL);
    CHECK_INT(lookup_write("", LOOKUP_TYPE_A, 1, question), -EINVAL);
    CHECK_INT(lookup_write("a.b.", LOOKUP_TYPE_A, 1, question), 12 + 5 + 4);
}

TAP_MAIN
