#include "egress/ca-bundle.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "egress/egress.h"
#include "exec/files.h"
#include "gateway/truststore.h"
#include "policy/egress.h"
#include "policy/policy.h"
#include "proto/file-msg.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/sandbox-parts.h"
#include "sandbox/sandbox-request.h"

static const char *const variables[] = {
    "SSL_CERT_FILE=" CA_BUNDLE_DIR "/ca-bundle.pem", /* OpenSSL, Go */
    "CURL_CA_BUNDLE=" CA_BUNDLE_DIR "/ca-bundle.pem",
    "GIT_SSL_CAINFO=" CA_BUNDLE_DIR "/ca-bundle.pem",
    "REQUESTS_CA_BUNDLE=" CA_BUNDLE_DIR "/ca-bundle.pem", /* Python's requests and pip */
    "NODE_EXTRA_CA_CERTS=" CA_BUNDLE_DIR "/ca.pem",       /* added to its built-in ones */
    "JAVA_TOOL_OPTIONS=-Djavax.net.ssl.trustStore=" CA_BUNDLE_DIR
    "/cacerts.jks -Djavax.net.ssl.trustStoreType=JKS "
    "-Djavax.net.ssl.trustStorePassword=changeit",
    NULL,
};

/* CA bundles of distributions; the first existing one is used. */
static const char *const bundles[] = {"/etc/ssl/certs/ca-certificates.crt",
                                      "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
                                      "/etc/ssl/cert.pem"};

enum { BUNDLES = sizeof(bundles) / sizeof(bundles[0]), TAR_BLOCK = 512 };

struct ca_bundle {
    struct sandbox *s; /* a reference */
    ca_bundle_cb *cb;
    struct file_op *op;
    unsigned at; /* index into bundles */
    bool too_long;
    struct buf bundle; /* the image's CA bundle */
    struct buf tar;
    size_t sent;
};

bool ca_bundle_wanted(const struct sandbox *s)
{
    return s->spec->egress != NULL && s->spec->egress->trust;
}

const char *const *ca_bundle_env(const struct sandbox *s)
{
    return ca_bundle_wanted(s) ? variables : NULL;
}

static void trust_finish(struct ca_bundle *t, int r, const struct err *err)
{
    struct sandbox *s = t->s;
    ca_bundle_cb *cb = t->cb;

    buf_done(&t->bundle);
    buf_done(&t->tar);
    free(t);
    cb(s, r, err);
    sandbox_unref(s);
}

/* ---- the archive ---- */

static void tar_octal(char *field, size_t size, size_t value)
{
    (void)snprintf(field, size, "%0*zo", (int)size - 1, value);
}

static int tar_add_file(struct buf *tar, const char *name, const char *data, size_t len)
{
    static const char zero[TAR_BLOCK];
    char head[TAR_BLOCK] = "";
    unsigned sum = 0;
    int r;

    (void)snprintf(head, 100, "%s", name);
    tar_octal(head + 100, 8, 0644);
    tar_octal(head + 108, 8, 0);
    tar_octal(head + 116, 8, 0);
    tar_octal(head + 124, 12, len);
    tar_octal(head + 136, 12, (size_t)(clock_wall_ms() / 1000));
    (void)memset(head + 148, ' ', 8);
    head[156] = '0';
    (void)snprintf(head + 257, 6, "ustar");
    head[263] = head[264] = '0'; /* ustar version "00" */
    for (size_t i = 0; i < sizeof(head); i++)
        sum += (unsigned char)head[i];
    (void)snprintf(head + 148, 8, "%06o", sum);
    r = buf_append(tar, head, sizeof(head));
    if (r == 0)
        r = buf_append(tar, data, len);
    return r < 0 ? r : buf_append(tar, zero, (TAR_BLOCK - len % TAR_BLOCK) % TAR_BLOCK);
}

static int trust_make_archive(struct ca_bundle *t, struct err *err)
{
    static const char zero[2 * TAR_BLOCK];
    const char *ca = egress_ca(t->s->sup, err);
    const char *pems[] = {ca, t->bundle.data != NULL ? t->bundle.data : ""};
    auto_buf struct buf both = BUF_INIT(TRUSTSTORE_MAX), jks = BUF_INIT(TRUSTSTORE_MAX);
    int r;

    if (ca == NULL)
        return err->code;
    r = buf_printf(&both, "%s\n", ca);
    if (r == 0 && t->bundle.len > 0)
        r = buf_append(&both, t->bundle.data, t->bundle.len);
    if (r == 0)
        r = truststore_jks(pems, 2, (uint64_t)clock_wall_ms(), &jks, err);
    if (r == 0)
        r = tar_add_file(&t->tar, "rind/ca.pem", ca, strlen(ca));
    if (r == 0)
        r = tar_add_file(&t->tar, "rind/ca-bundle.pem", both.data, both.len);
    if (r == 0)
        r = tar_add_file(&t->tar, "rind/cacerts.jks", jks.data, jks.len);
    if (r == 0)
        r = buf_append(&t->tar, zero, sizeof(zero));
    return r < 0 && err->code == 0 ? err_errno(err, r, "trust") : r;
}

/* ---- writing ---- */

static void ca_bundle_feed(struct ca_bundle *t)
{
    while (t->sent < t->tar.len) {
        size_t n = t->tar.len - t->sent;

        if (n > FILES_INPUT_PAUSE)
            n = FILES_INPUT_PAUSE;
        t->sent += n;
        if (file_op_write(t->op, t->tar.data + t->sent - n, n))
            return; /* on_files_drain continues */
    }
    file_op_write_end(t->op);
}

static void on_drain(void *data)
{
    ca_bundle_feed(data);
}

/* The first DATA frame means that the destination directory is open. */
static void on_frame(void *data, const struct frame *f)
{
    struct ca_bundle *t = data;

    if (f->kind == FRAME_DATA && t->sent == 0)
        ca_bundle_feed(t);
}

static void on_written(void *data, int r, const struct err *err)
{
    struct err own = ERR_NONE;

    if (r < 0)
        (void)err_set(&own, r, "egress.trust: %s", err->msg);
    trust_finish(data, r, &own);
}

static int trust_write_files(struct ca_bundle *t, struct err *err)
{
    static const char *const argv[] = {"rind-tar-in", "/etc", "--no-owners", NULL};
    static const struct file_request request = {.argv = argv,
                                                .stream = FRAME_STREAM_RECORDS,
                                                .max_frame = FILE_BATCH_MAX,
                                                .input = true,
                                                .timeout_ms = FILES_PROMPT_MS};
    static const struct file_events events = {
        .on_frame = on_frame, .on_drain = on_drain, .on_done = on_written};
    int r = trust_make_archive(t, err);

    return r < 0 ? r : file_op_start(t->s, &request, &events, t, &t->op, err);
}

/* ---- reading ---- */

static int ca_bundle_read_next(struct ca_bundle *t, struct err *err);

static bool on_bytes(void *data, const void *bytes, size_t len)
{
    struct ca_bundle *t = data;

    if (buf_append(&t->bundle, bytes, len) < 0)
        t->too_long = true;
    return false;
}

static void on_read(void *data, int r, const struct err *err)
{
    struct ca_bundle *t = data;
    struct err own = ERR_NONE;

    (void)err;
    /* A missing or unreadable file counts as no bundle. */
    if (r < 0 || t->too_long) {
        buf_done(&t->bundle);
        t->bundle = (struct buf)BUF_INIT(TRUSTSTORE_MAX / 2);
        t->too_long = false;
        t->at++;
    } else {
        t->at = BUNDLES;
    }
    r = ca_bundle_read_next(t, &own);
    if (r < 0)
        trust_finish(t, r, &own);
}

static int ca_bundle_read_next(struct ca_bundle *t, struct err *err)
{
    const char *argv[] = {"rind-read", t->at < BUNDLES ? bundles[t->at] : "", NULL};
    const struct file_request request = {.argv = argv,
                                         .stream = FRAME_STREAM_RECORDS,
                                         .max_frame = FILE_BATCH_MAX,
                                         .raw = true,
                                         .timeout_ms = FILES_PROMPT_MS};
    static const struct file_events events = {.on_bytes = on_bytes, .on_done = on_read};

    if (t->at >= BUNDLES)
        return trust_write_files(t, err);
    return file_op_start(t->s, &request, &events, t, &t->op, err);
}

int ca_bundle_place(struct sandbox *s, ca_bundle_cb *cb, struct err *err)
{
    struct ca_bundle *t = calloc(1, sizeof(*t));
    int r;

    if (t == NULL)
        return err_errno(err, -ENOMEM, "egress.trust");
    *t = (struct ca_bundle){.s = s,
                            .cb = cb,
                            .bundle = BUF_INIT(TRUSTSTORE_MAX / 2),
                            .tar = BUF_INIT((size_t)4 * TRUSTSTORE_MAX)};
    r = ca_bundle_read_next(t, err);
    if (r < 0)
        free(t);
    else
        sandbox_ref(s);
    return r;
}

int ca_bundle_start(struct sandbox *s, struct err *err)
{
    return ca_bundle_wanted(s) ? ca_bundle_place(s, sandbox_part_done, err) : 1;
}
