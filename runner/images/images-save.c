/*
 * Writes images and file systems as archives. An archive of images is composed here from blobs of
 * the store: an OCI layout with a manifest.json, so that docker load accepts it too. A file system
 * is packed by a worker. Runs on the event loop of images_new, with jobs in the thread pool.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "image/layer.h"
#include "images/images-internal.h"
#include "json/decode.h"
#include "json/parse.h"
#include "sandbox/limits.h"
#include "spec/spec.h"

enum {
    BLOCK = 512,
    TRAILER = 2 * BLOCK,
    PIECE = 1 << 20,
    SAVE_NAMES_MAX = 1024,
    OCTAL_MAX_DIGITS = 11
};

struct image_save {
    struct images_job job;
    struct images *im; /* counted reference */
    struct image_view view;
    int use_fd; /* owned */
    bool in_job, paused, cancelled, told;
    const struct image_save_events *events;
    void *data;

    /* ---- for an archive of images ---- */
    char **names;             /* owned, NULL-terminated */
    struct saved_file *files; /* owned */
    size_t file_count, at;    /* at: index of the file being written */
    int64_t offset;           /* in that file; -1 = its header is next */
    int fd;                   /* owned; blob of that file */
    char *piece;              /* owned; PIECE bytes */
    size_t len;

    /* ---- for a file system ---- */
    uv_pipe_t pipe; /* read end, from the worker */
    bool pipe_open, worker_ended, pipe_ended;
    struct image_worker *worker;
    int worker_end; /* owned; write end, until the worker has it */
    int r;
    struct err err;
};

struct saved_file {
    char *name, *text; /* owned; text NULL: the contents are a blob */
    char digest[DIGEST_LEN + 1];
    int64_t size;
};

static struct image_save *save_of(struct images_job *j)
{
    return (struct image_save *)(void *)((char *)j - offsetof(struct image_save, job));
}

/* ---- the end ---- */

static void save_free(struct image_save *s)
{
    struct images *im = s->im;

    for (size_t i = 0; i < s->file_count; i++) {
        free(s->files[i].name);
        free(s->files[i].text);
    }
    free(s->files);
    json_strings_free(s->names);
    free(s->piece);
    if (s->fd >= 0)
        (void)close(s->fd);
    if (s->worker_end >= 0)
        (void)close(s->worker_end);
    if (s->use_fd >= 0)
        (void)close(s->use_fd);
    free(s);
    im->loads--;
    if (im->sweep_asked)
        images_sweep_soon(im);
    images_release(im);
}

static void on_pipe_closed(uv_handle_t *h)
{
    struct image_save *s = h->data;

    s->pipe_open = false;
    if (s->told && !s->in_job)
        save_free(s);
}

static void save_free_when_idle(struct image_save *s)
{
    image_worker_drop(take(s->worker));
    if (s->pipe_open && !uv_is_closing((uv_handle_t *)&s->pipe))
        uv_close((uv_handle_t *)&s->pipe, on_pipe_closed);
    if (!s->in_job && !s->pipe_open)
        save_free(s);
}

static void save_finish(struct image_save *s, int r, const struct err *err)
{
    if (s->told)
        return;
    s->told = true;
    if (!s->cancelled)
        s->events->on_done(s->data, r, err);
    save_free_when_idle(s);
}

void image_save_cancel(struct image_save *s)
{
    if (s == NULL || s->told)
        return;
    s->cancelled = s->told = true;
    save_free_when_idle(s);
}

static void save_job(struct image_save *s, int (*work)(struct images_job *),
                     void (*after)(struct images_job *))
{
    s->in_job = true;
    job_start(s->im, &s->job, work, after);
}

static bool save_job_done(struct image_save *s)
{
    s->in_job = false;
    if (!s->told)
        return true;
    if (!s->pipe_open)
        save_free(s);
    return false;
}

static struct image_save *save_new(struct images *im, const struct image_save_events *events,
                                   void *data, struct err *err)
{
    struct image_save *s = calloc(1, sizeof(*s));

    if (s == NULL) {
        (void)err_errno(err, -ENOMEM, "image");
        return NULL;
    }
    if (images_take_slot(im, err) < 0) {
        free(s);
        return NULL;
    }
    images_hold(im);
    s->im = im;
    s->use_fd = s->fd = s->worker_end = FD_NONE;
    s->events = events;
    s->data = data;
    return s;
}

/* ---- contents of an archive of images ---- */

static struct saved_file *add_file(struct image_save *s, const char *name)
{
    struct saved_file *more;

    if ((s->file_count & (s->file_count - 1)) == 0) {
        more = reallocarray(s->files, s->file_count > 0 ? 2 * s->file_count : 1, sizeof(*more));
        if (more == NULL)
            return NULL;
        s->files = more;
    }
    s->files[s->file_count] = (struct saved_file){.name = strdup(name)};
    if (s->files[s->file_count].name == NULL)
        return NULL;
    return &s->files[s->file_count++];
}

static int add_text(struct image_save *s, const char *name, json_t *root)
{
    struct saved_file *f = add_file(s, name);

    if (f != NULL && root != NULL) {
        f->text = json_dumps(root, JSON_COMPACT);
        f->size = f->text != NULL ? (int64_t)strlen(f->text) : 0;
    }
    json_decref(root);
    return f != NULL && f->text != NULL ? 0 : -ENOMEM;
}

static int add_blob(struct image_save *s, const char *digest, int64_t size)
{
    char name[DIGEST_LEN + 16];
    struct saved_file *f;

    (void)snprintf(name, sizeof(name), "blobs/sha256/%s", digest + strlen("sha256:"));
    for (size_t i = 0; i < s->file_count; i++)
        if (strcmp(s->files[i].name, name) == 0)
            return 0;
    f = add_file(s, name);
    if (f == NULL)
        return -ENOMEM;
    (void)snprintf(f->digest, sizeof(f->digest), "%s", digest);
    f->size = size;
    return 0;
}

static json_t *path_of(const char *digest)
{
    return json_sprintf("blobs/sha256/%s", digest + strlen("sha256:"));
}

/* Adds the requested name, or all names of the image if it was requested by id. */
static void add_names(const struct image *i, const char *asked, json_t *index, json_t *tags)
{
    char whole[REFERENCE_MAX + 1], text[REFERENCE_MAX + 1];
    bool one = image_whole_name(asked, whole, NULL) == 0, any = false;

    for (char **n = i->names; one && *n != NULL; n++)
        any |= strcmp(*n, whole) == 0;
    for (char **n = i->names; *n != NULL; n++) {
        struct reference ref;

        if (any && strcmp(*n, whole) != 0)
            continue;
        reference_shorten(*n, text);
        (void)json_array_append_new(tags, json_string(text));
        (void)json_array_append_new(
            index, json_pack("{s:s, s:s, s:I, s:{s:s, s:s}}", "mediaType", i->media_type, "digest",
                             i->manifest, "size", (json_int_t)i->manifest_bytes, "annotations",
                             "io.containerd.image.name", *n, "org.opencontainers.image.ref.name",
                             reference_parse(*n, &ref, NULL) == 0 ? ref.tag : ""));
    }
    if (i->names[0] == NULL)
        (void)json_array_append_new(index, json_pack("{s:s, s:s, s:I}", "mediaType", i->media_type,
                                                     "digest", i->manifest, "size",
                                                     (json_int_t)i->manifest_bytes));
}

static int add_image(struct image_save *s, const struct image *i, const char *asked, json_t *index,
                     json_t *archive)
{
    json_t *layers = json_array(), *tags = json_array();
    int r = add_blob(s, i->manifest, i->manifest_bytes);

    if (r == 0)
        r = add_blob(s, i->id, i->config_bytes);
    for (size_t k = 0; r == 0 && k < i->layer_count; k++) {
        r = add_blob(s, i->layers[k].blob, i->layers[k].bytes);
        (void)json_array_append_new(layers, path_of(i->layers[k].blob));
    }
    add_names(i, asked, index, tags);
    if (json_array_append_new(archive, json_pack("{s:o, s:o, s:o}", "Config", path_of(i->id),
                                                 "RepoTags", tags, "Layers", layers)) < 0)
        return -ENOMEM;
    return r;
}

static int work_gather(struct images_job *j)
{
    struct image_save *s = save_of(j);
    json_t *index = json_array(), *archive = json_array();
    int r = 0;

    s->use_fd = image_store_use(j->im->store, &j->err);
    if (s->use_fd < 0)
        r = s->use_fd;
    for (char **name = s->names; r == 0 && *name != NULL; name++) {
        struct image *i = NULL;

        r = image_store_find(j->im->store, &s->view, *name, &i, &j->err);
        if (r == 0 && (r = add_image(s, i, *name, index, archive)) < 0)
            (void)err_errno(&j->err, r, "image");
        image_free(i);
    }
    if (r < 0) {
        json_decref(index);
        json_decref(archive);
        return r;
    }
    r = add_text(s, "index.json",
                 json_pack("{s:i, s:s, s:o}", "schemaVersion", 2, "mediaType",
                           "application/vnd.oci.image.index.v1+json", "manifests", index));
    if (r == 0)
        r = add_text(s, "manifest.json", archive);
    else
        json_decref(archive);
    if (r == 0)
        r = add_text(s, "oci-layout", json_pack("{s:s}", "imageLayoutVersion", "1.0.0"));
    return r < 0 ? err_errno(&j->err, r, "image") : 0;
}

/* ---- writing the archive ---- */

static void put_octal(char *field, size_t digits, int64_t value)
{
    for (size_t i = digits; i > 0; i--) {
        field[i - 1] = (char)('0' + (value & 7));
        value >>= 3;
    }
    field[digits] = '\0';
}

/* A size that does not fit into the octal field is written in base 256, as GNU tar does. */
static void size_field(char *field, int64_t value)
{
    if (value < (int64_t)1 << (3 * OCTAL_MAX_DIGITS)) {
        put_octal(field, OCTAL_MAX_DIGITS, value);
        return;
    }
    (void)memset(field, 0, 12);
    field[0] = (char)0x80;
    for (int i = 0; i < 8; i++)
        field[11 - i] = (char)(value >> (8 * i));
}

static void tar_header(const struct saved_file *f, char block[BLOCK])
{
    unsigned sum = 0;

    (void)memset(block, 0, BLOCK);
    (void)snprintf(block, 100, "%s", f->name);
    put_octal(block + 100, 7, 0644);
    put_octal(block + 108, 7, 0);
    put_octal(block + 116, 7, 0);
    size_field(block + 124, f->size);
    put_octal(block + 136, OCTAL_MAX_DIGITS, 0);
    (void)memset(block + 148, ' ', 8);
    block[156] = '0';
    (void)memcpy(block + 257, "ustar", 6);
    block[263] = block[264] = '0';
    for (int i = 0; i < BLOCK; i++)
        sum += (unsigned char)block[i];
    put_octal(block + 148, 6, (int64_t)sum);
}

/* Appends as many bytes of the current file as fit into the piece. */
static int fill_blob(struct image_save *s, const struct saved_file *f, struct err *err)
{
    int64_t size = 0;

    if (s->fd < 0) {
        s->fd = blob_open(s->im->store, f->digest, &size, err);
        if (s->fd < 0)
            return s->fd;
        if (size != f->size)
            return err_set(err, -EBADMSG, "blob %s: has %lld bytes, must have %lld", f->digest,
                           (long long)size, (long long)f->size);
    }
    while (s->len < PIECE && s->offset < f->size) {
        size_t room = PIECE - s->len;
        ssize_t n = pread(
            s->fd, s->piece + s->len,
            f->size - s->offset < (int64_t)room ? (size_t)(f->size - s->offset) : room, s->offset);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return err_errno(err, n < 0 ? -errno : -EIO, "blob %s", f->digest);
        s->offset += n;
        s->len += (size_t)n;
    }
    return 0;
}

static void fill_text(struct image_save *s, const struct saved_file *f)
{
    size_t left = (size_t)(f->size - s->offset), room = PIECE - s->len;
    size_t n = left < room ? left : room;

    (void)memcpy(s->piece + s->len, f->text + s->offset, n);
    s->offset += (int64_t)n;
    s->len += n;
}

static int work_piece(struct images_job *j)
{
    struct image_save *s = save_of(j);

    s->len = 0;
    while (s->at < s->file_count && s->len + TRAILER <= PIECE) {
        const struct saved_file *f = &s->files[s->at];
        int r = 0;

        if (s->offset < 0) {
            tar_header(f, s->piece + s->len);
            s->len += BLOCK;
            s->offset = 0;
        }
        if (f->text != NULL)
            fill_text(s, f);
        else
            r = fill_blob(s, f, &j->err);
        if (r < 0)
            return r;
        if (s->offset < f->size)
            return 0;
        if (f->size % BLOCK != 0) {
            size_t n = BLOCK - (size_t)(f->size % BLOCK);

            if (s->len + n > PIECE) /* happens only if the contents end at the end of the piece */
                return 0;
            (void)memset(s->piece + s->len, 0, n);
            s->len += n;
        }
        if (s->fd >= 0)
            (void)close(take_fd(&s->fd));
        s->offset = -1;
        s->at++;
    }
    if (s->at == s->file_count && s->len + TRAILER <= PIECE) {
        (void)memset(s->piece + s->len, 0, TRAILER);
        s->len += TRAILER;
        s->at++; /* the trailer is written */
    }
    return 0;
}

static void after_piece(struct images_job *j)
{
    struct image_save *s = save_of(j);

    if (!save_job_done(s))
        return;
    if (j->r < 0) {
        save_finish(s, j->r, &j->err);
        return;
    }
    if (s->len > 0)
        s->paused = s->events->on_bytes(s->data, s->piece, s->len);
    if (s->at > s->file_count)
        save_finish(s, 0, NULL);
    else if (!s->paused)
        save_job(s, work_piece, after_piece);
}

static void after_gather(struct images_job *j)
{
    struct image_save *s = save_of(j);

    if (!save_job_done(s))
        return;
    if (j->r == 0 && (s->piece = malloc(PIECE)) == NULL)
        j->r = err_errno(&j->err, -ENOMEM, "image");
    if (j->r < 0) {
        save_finish(s, j->r, &j->err);
        return;
    }
    s->offset = -1;
    save_job(s, work_piece, after_piece);
}

int images_save(struct images *im, const struct image_view *view, const char *const *names,
                const struct image_save_events *events, void *data, struct image_save **ret,
                struct err *err)
{
    struct image_save *s = save_new(im, events, data, err);
    size_t n = 0;

    if (s == NULL)
        return err->code;
    while (n < SAVE_NAMES_MAX && names[n] != NULL)
        n++;
    s->view = *view;
    s->names = calloc(n + 1, sizeof(*s->names));
    for (size_t i = 0; s->names != NULL && i < n; i++)
        if ((s->names[i] = strdup(names[i])) == NULL) {
            json_strings_free(take(s->names));
            break;
        }
    if (s->names == NULL) {
        s->told = true;
        save_free(s);
        return err_errno(err, -ENOMEM, "image");
    }
    save_job(s, work_gather, after_gather);
    *ret = s;
    return 0;
}

/* ---- archives of a file system ---- */

static void save_finish_when_ready(struct image_save *s)
{
    if (s->worker_ended && (s->pipe_ended || s->r < 0))
        save_finish(s, s->r, &s->err);
}

static void on_worker_msg(void *data, const struct worker_msg *m)
{
    (void)data;
    (void)m;
}

static void on_worker_end(void *data, int r, const struct worker_msg *done, const struct err *err)
{
    struct image_save *s = data;

    (void)done;
    s->worker = NULL;
    s->worker_ended = true;
    s->r = r;
    if (r < 0)
        s->err = *err;
    save_finish_when_ready(s);
}

static void alloc_piece(uv_handle_t *h, size_t suggested, uv_buf_t *buf)
{
    struct image_save *s = h->data;

    (void)suggested;
    *buf = uv_buf_init(s->piece, PIECE);
}

static void on_pipe_read(uv_stream_t *h, ssize_t n, const uv_buf_t *buf)
{
    struct image_save *s = h->data;

    if (s->told || n == 0)
        return;
    if (n < 0) {
        (void)uv_read_stop(h);
        s->pipe_ended = true;
        if (n != UV_EOF && s->r == 0) {
            s->r = (int)n;
            (void)err_errno(&s->err, (int)n, "read what is packed");
        }
        save_finish_when_ready(s);
        return;
    }
    if (s->events->on_bytes(s->data, buf->base, (size_t)n)) {
        s->paused = true;
        (void)uv_read_stop(h);
    }
}

void image_save_resume(struct image_save *s)
{
    if (s == NULL || s->told || !s->paused)
        return;
    s->paused = false;
    if (s->pipe_open && !s->pipe_ended)
        (void)uv_read_start((uv_stream_t *)&s->pipe, alloc_piece, on_pipe_read);
    else if (!s->pipe_open && !s->in_job && s->at <= s->file_count)
        save_job(s, work_piece, after_piece);
}

static int open_pipe(struct image_save *s, struct err *err)
{
    int fds[2], r;

    s->piece = malloc(PIECE);
    if (s->piece == NULL)
        return err_errno(err, -ENOMEM, "image");
    if (pipe2(fds, O_CLOEXEC) < 0)
        return err_errno(err, -errno, "image");
    s->worker_end = fds[1];
    r = uv_pipe_init(s->im->config.loop, &s->pipe, 0);
    if (r == 0) {
        s->pipe.data = s;
        s->pipe_open = true;
        r = uv_pipe_open(&s->pipe, fds[0]);
    }
    if (r < 0) {
        (void)close(fds[0]);
        return err_errno(err, r, "image");
    }
    r = uv_read_start((uv_stream_t *)&s->pipe, alloc_piece, on_pipe_read);
    return r < 0 ? err_errno(err, r, "image") : 0;
}

static int save_start_worker(struct image_save *s, struct image_work *work, struct err *err)
{
    static const struct image_worker_events events = {.on_msg = on_worker_msg,
                                                      .on_end = on_worker_end};
    const struct supervisor_limits *limits = s->im->config.limits;
    bool changes = work->kind == LAUNCH_WORK_CHANGES;
    int r = open_pipe(s, err);

    if (r < 0)
        return r;
    work->start = (struct worker_msg){.op = changes ? WORKER_CHANGES : WORKER_PACK,
                                      .kind = WORKER_PLAIN,
                                      .flags = changes ? 0 : WORKER_ROOT_ENTRY,
                                      .bytes = INT64_MAX,
                                      .files = INT64_MAX,
                                      .entries = limits->image_files};
    work->fd = take_fd(&s->worker_end);
    return image_worker_start(s->im, work, &events, s, &s->worker, err);
}

static void on_image_ready(void *data, int r, struct image *image, const struct err *err)
{
    struct image_save *s = data;
    const char *layers[IMAGE_LAYERS_MAX + 1];
    struct image_work work = {.kind = LAUNCH_WORK_IMAGE, .layers = layers, .fd = FD_NONE};
    struct err own = ERR_NONE;
    size_t n = 0;

    s->in_job = false;
    if (s->told) {
        image_free(image);
        save_free(s);
        return;
    }
    if (r < 0)
        own = *err;
    for (size_t i = r == 0 ? image->layer_count : 0; i > 0; i--)
        layers[n++] = image_layer_name(&image->layers[i - 1]);
    layers[n] = NULL;
    if (r == 0 && n == 0)
        r = err_set(&own, -EINVAL, "the image has no layers");
    if (r == 0)
        r = save_start_worker(s, &work, &own);
    image_free(image);
    if (r < 0)
        save_finish(s, r, &own);
}

int images_export(struct images *im, const struct image_view *view, const char *name,
                  const struct image_save_events *events, void *data, struct image_save **ret,
                  struct err *err)
{
    struct image_save *s = save_new(im, events, data, err);
    int r;

    if (s == NULL)
        return err->code;
    r = images_ready(im, view, name, on_image_ready, s, err);
    if (r < 0) {
        s->told = true;
        save_free(s);
        return r;
    }
    s->in_job = true; /* on_image_ready clears it */
    *ret = s;
    return 0;
}

/* Starts a worker that reads the files of a sandbox. */
static int read_sandbox(struct images *im, enum launch_work kind, const char *sandbox_id,
                        const struct spec *spec, const struct image_save_events *events, void *data,
                        struct image_save **ret, struct err *err)
{
    const char *base[BUILTIN_NAMES_MAX] = {NULL};
    struct image_work work = {.kind = kind,
                              .layers = (const char *const *)spec->image_layers,
                              .base_layers = base,
                              .sandbox = sandbox_id,
                              .fd = FD_NONE};
    struct image_save *s;
    int r;

    if (spec->rootfs != NULL)
        return err_set(err, -EOPNOTSUPP,
                       "the sandbox's root is a directory of the host's, which is no image");
    /*
     * The layers below the image (mount points, shim) are compared as well, so that they do not
     * count as a change. An export leaves them out.
     */
    if (kind == LAUNCH_WORK_CHANGES)
        image_builtin_names(spec->image_layers != NULL, spec_is_docker(spec), base);
    else if (spec->image_layers == NULL)
        base[0] = image_builtin_name(BUILTIN_ROOT);
    s = save_new(im, events, data, err);
    if (s == NULL)
        return err->code;
    r = save_start_worker(s, &work, err);
    if (r < 0) {
        s->told = true;
        save_free_when_idle(s);
        return r;
    }
    *ret = s;
    return 0;
}

int images_export_sandbox(struct images *im, const char *sandbox_id, const struct spec *spec,
                          const struct image_save_events *events, void *data,
                          struct image_save **ret, struct err *err)
{
    int r = read_sandbox(im, LAUNCH_WORK_ROOT, sandbox_id, spec, events, data, ret, err);

    return r < 0 ? err_wrap(err, r, "export") : 0;
}

int images_changes_sandbox(struct images *im, const char *sandbox_id, const struct spec *spec,
                           const struct image_save_events *events, void *data,
                           struct image_save **ret, struct err *err)
{
    int r = read_sandbox(im, LAUNCH_WORK_CHANGES, sandbox_id, spec, events, data, ret, err);

    return r < 0 ? err_wrap(err, r, "changes") : 0;
}
