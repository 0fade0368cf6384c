/* rind images: lists, loads, saves, names and removes images of the store. */

#include "cli/images.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "cli/foreign-options.h"
#include "cli/human.h"
#include "cli/list-format.h"
#include "cli/text-table.h"
#include "cli/url.h"
#include "json/parse.h"

enum { SHORT_ID = 12 };

/* ---- connecting ---- */

static bool is_absent(int code)
{
    return code == -ENOENT || code == -ECONNREFUSED || code == -ENOTDIR || code == -ENAMETOOLONG;
}

static int open_alone(const struct images_args *args, struct images_client *ret, struct err *err)
{
    struct cli_dirs dirs;
    int r;

    if (geteuid() != 0)
        return err_set(err, -EPERM,
                       "there is no daemon, and without one only root can work on images");
    r = cli_dirs(&args->remote.globals, &dirs, err);
    if (r == 0)
        r = alone_start(dirs.state, &ret->alone, err);
    if (r < 0)
        return r;
    r = client_adopt(ret->alone.fd, &ret->client, err);
    ret->alone.fd = FD_NONE; /* owned by the client now */
    if (r < 0)
        alone_end(&ret->alone);
    return r;
}

int images_open(const struct images_args *args, struct images_client *ret, struct err *err)
{
    char path[REMOTE_PATH_MAX];
    bool named = false;
    int r;

    *ret = (struct images_client){.alone = {.fd = FD_NONE, .alive = FD_NONE}};
    if (args->alone && args->remote.socket != NULL)
        return err_set(err, -EINVAL, "--alone: not with --socket; either says who works");
    if (args->alone || (args->remote.socket == NULL && args->remote.globals.state != NULL))
        return open_alone(args, ret, err);
    r = remote_socket(&args->remote, path, &named, err);
    if (r < 0)
        return r;
    r = client_open(path, &ret->client, err);
    if (is_absent(r) && !named && geteuid() == 0)
        return open_alone(args, ret, err);
    return r;
}

void images_close_client(struct images_client *c)
{
    client_close(c->client);
    c->client = NULL;
    if (c->alone.pid > 0)
        alone_end(&c->alone);
}

static int images_request(const struct images_args *args, const char *method, const char *target,
                          json_t *body, json_t **ret, struct err *err)
{
    auto_images struct images_client c = {.alone = {.fd = FD_NONE, .alive = FD_NONE}};
    int r = images_open(args, &c, err);

    if (r < 0) {
        json_decref(body);
        return r;
    }
    return client_json(c.client, method, target, body, ret, err);
}

static int images_request_for(const struct images_args *args, const char *method,
                              const char *format, const char *name, json_t **ret, struct err *err)
{
    auto_buf struct buf url = BUF_INIT(URL_MAX);
    int r = url_make(&url, format, name);

    return r < 0 ? err_errno(err, r, "image '%.64s'", name)
                 : images_request(args, method, url.data, NULL, ret, err);
}

/* ---- ls ---- */

static const char *short_id(const json_t *image, char ret[SHORT_ID + 1])
{
    const char *id = member(image, "id");

    (void)snprintf(ret, SHORT_ID + 1, "%s", strncmp(id, "sha256:", 7) == 0 ? id + 7 : id);
    return ret;
}

static void add_row(struct text_table *t, const json_t *image, const char *name, int64_t now)
{
    char id[SHORT_ID + 1], ago[HUMAN_MAX], size[HUMAN_MAX];
    const char *created = json_string_value(json_object_get(image, "createdAt"));

    table_add(t, name);
    table_add(t, short_id(image, id));
    if (json_is_true(json_object_get(image, "damaged")))
        table_add(t, "damaged");
    else if (created == NULL)
        table_add(t, "-");
    else
        table_addf(t, "%s ago", human_ago(created, now, ago));
    table_add(t, human_bytes((uint64_t)json_integer_value(json_object_get(image, "size")), size));
}

static int print_images(const json_t *list)
{
    static const char *const titles[] = {"NAME", "ID", "CREATED", "SIZE", NULL};
    auto_table struct text_table *t = table_new(titles);
    int64_t now = clock_wall_ms();
    json_t *image, *name;
    size_t i, k;

    if (t == NULL)
        return -ENOMEM;
    json_array_foreach(list, i, image) {
        json_t *names = json_object_get(image, "names");

        if (json_array_size(names) == 0)
            add_row(t, image, "-", now);
        json_array_foreach(names, k, name)
            add_row(t, image, json_string_value(name), now);
    }
    return table_print(t, stdout);
}

/* One element for each name, with "name", "repository" and "tag" (NULL for an image without). */
static json_t *images_by_name(const json_t *list)
{
    json_t *all = json_array(), *image, *name;
    size_t i, k;

    json_array_foreach(list, i, image) {
        json_t *names = json_object_get(image, "names");

        if (json_array_size(names) == 0)
            (void)json_array_append(all, image);
        json_array_foreach(names, k, name) {
            json_t *one = json_copy(image);

            (void)json_object_set(one, "name", name);
            (void)json_array_append_new(all, one);
        }
    }
    return all;
}

/* Docker's fields; an image without a name has docker's "<none>". */
static json_t *image_row(const json_t *image)
{
    json_t *row = row_new(image);
    const char *name = json_string_value(json_object_get(image, "name"));
    const char *colon = name != NULL ? strrchr(name, ':') : NULL;
    char id[SHORT_ID + 1], size[HUMAN_MAX];

    row_text(row, "ID", short_id(image, id));
    row_text(row, "Name", name);
    (void)json_object_set_new(
        row, "Repository",
        name == NULL ? json_string("<none>")
                     : json_stringn(name, colon != NULL ? (size_t)(colon - name) : strlen(name)));
    row_text(row, "Tag", colon != NULL ? colon + 1 : "<none>");
    row_text(row, "CreatedAt", json_string_value(json_object_get(image, "createdAt")));
    row_ago(row, "CreatedSince", json_object_get(image, "createdAt"));
    row_text(row, "Size",
             human_bytes((uint64_t)json_integer_value(json_object_get(image, "size")), size));
    return row;
}

static int do_ls(const struct images_args *args, char **names, struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    char id[SHORT_ID + 1];
    json_t *list, *image;
    size_t i;
    int r = images_request(args, "GET", "/v1/images", NULL, &root, err);

    (void)names;
    if (r < 0)
        return r;
    list = json_object_get(root, "images");
    if (args->remote.json) {
        print_json(json_incref(list));
    } else if (args->quiet) {
        json_array_foreach(list, i, image)
            (void)printf("%s\n", short_id(image, id));
    } else if (format_is_given(&args->remote)) {
        auto_ptr(json_decref) json_t *all = images_by_name(list);

        return format_list(&args->remote, all, image_row, err);
    } else {
        r = print_images(list);
    }
    return r < 0 ? err_errno(err, r, "images") : 0;
}

static int do_df(const struct images_args *args, char **names, struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    char blobs[HUMAN_MAX], layers[HUMAN_MAX];
    json_t *usage;
    json_int_t count;
    int r = images_request(args, "GET", "/v1/images?usage=true", NULL, &root, err);

    (void)names;
    if (r < 0)
        return r;
    usage = json_object_get(root, "usage");
    count = json_integer_value(json_object_get(usage, "images"));
    if (args->remote.json)
        print_json(json_incref(usage));
    else
        (void)printf(
            "%lld image%s: %s of archives, %s unpacked\n", (long long)count, count == 1 ? "" : "s",
            human_bytes((uint64_t)json_integer_value(json_object_get(usage, "blobBytes")), blobs),
            human_bytes((uint64_t)json_integer_value(json_object_get(usage, "layerBytes")),
                        layers));
    return 0;
}

/* ---- inspect, history ---- */

static int do_inspect(const struct images_args *args, char **names, struct err *err)
{
    int r = 0;

    for (; r == 0 && *names != NULL; names++) {
        json_t *root = NULL;

        r = images_request_for(args, "GET", "/v1/images/inspect?name=%s", *names, &root, err);
        if (r == 0 && args->remote.format != NULL) {
            r = format_one(&args->remote, root, err);
            json_decref(root);
        } else if (r == 0) {
            print_json(root);
        }
    }
    return r;
}

static int do_history(const struct images_args *args, char **names, struct err *err)
{
    static const char *const titles[] = {"CREATED", "SIZE", "CREATED BY", "COMMENT", NULL};
    auto_table struct text_table *t = table_new(titles);
    auto_ptr(json_decref) json_t *root = NULL;
    int64_t now = clock_wall_ms();
    json_t *list;
    int r = images_request_for(args, "GET", "/v1/images/history?name=%s", names[0], &root, err);

    if (r < 0)
        return r;
    list = json_object_get(root, "history");
    if (args->remote.json) {
        print_json(json_incref(list));
        return 0;
    }
    /* Newest first, as docker does. */
    for (size_t i = json_array_size(list); t != NULL && i > 0; i--) {
        json_t *h = json_array_get(list, i - 1);
        const char *created = json_string_value(json_object_get(h, "createdAt"));
        char ago[HUMAN_MAX], size[HUMAN_MAX];

        if (created != NULL)
            table_addf(t, "%s ago", human_ago(created, now, ago));
        else
            table_add(t, "-");
        table_add(t, human_bytes((uint64_t)json_integer_value(json_object_get(h, "size")), size));
        table_add(t, member(h, "createdBy"));
        table_add(t, member(h, "comment"));
    }
    r = t != NULL ? table_print(t, stdout) : -ENOMEM;
    return r < 0 ? err_errno(err, r, "history") : 0;
}

/* ---- names and removal ---- */

static int do_tag(const struct images_args *args, char **names, struct err *err)
{
    return images_request(args, "POST", "/v1/images/tag",
                          json_pack("{s:s, s:s}", "name", names[0], "newName", names[1]), NULL,
                          err);
}

static void print_removed(const struct images_args *args, json_t *root)
{
    char size[HUMAN_MAX];
    json_t *text;
    size_t i;

    if (args->remote.json) {
        print_json_line(json_incref(root));
        return;
    }
    json_array_foreach(json_object_get(root, "untagged"), i, text)
        (void)printf("untagged %s\n", json_string_value(text));
    json_array_foreach(json_object_get(root, "deleted"), i, text)
        (void)printf("removed %s\n", json_string_value(text));
    if (json_array_size(json_object_get(root, "deleted")) > 0)
        (void)printf(
            "freed %s of archives\n",
            human_bytes((uint64_t)json_integer_value(json_object_get(root, "bytes")), size));
}

static int do_rm(const struct images_args *args, char **names, struct err *err)
{
    int r = 0;

    for (; *names != NULL; names++) {
        auto_ptr(json_decref) json_t *root = NULL;
        struct err own = ERR_NONE;
        int n = images_request_for(
            args, "DELETE", args->force ? "/v1/images?force=true&name=%s" : "/v1/images?name=%s",
            *names, &root, &own);

        if (n == 0) {
            print_removed(args, root);
            continue;
        }
        if (r < 0) /* the other images are still removed; each failure is printed */
            (void)cli_fail(err);
        r = n;
        *err = own;
    }
    return r;
}

static int do_prune(const struct images_args *args, char **names, struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    int r = images_request(args, "POST", "/v1/images/prune",
                           json_pack("{s:b}", "all", (int)args->all), &root, err);

    (void)names;
    if (r == 0)
        print_removed(args, root);
    return r;
}

/* ---- bytes ---- */

static int do_load(const struct images_args *args, char **names, struct err *err)
{
    return images_load_from(args, names[0] != NULL ? names[0] : "-", err);
}

static int do_import(const struct images_args *args, char **names, struct err *err)
{
    return images_import_from(args, names[0], names[1], err);
}

static int do_save(const struct images_args *args, char **names, struct err *err)
{
    return images_save_to(args, names, err);
}

static int do_export(const struct images_args *args, char **names, struct err *err)
{
    return images_export_to(args, names[0], err);
}

/* ---- the verbs ---- */

static const struct sub {
    const char *name, *operands;
    size_t min, max;
    int (*run)(const struct images_args *args, char **names, struct err *err);
} subs[] = {
    {"ls", "", 0, 0, do_ls},
    {"inspect", "NAME...", 1, REMOTE_ANY, do_inspect},
    {"history", "NAME", 1, 1, do_history},
    {"tag", "NAME NEW-NAME", 2, 2, do_tag},
    {"rm", "NAME...", 1, REMOTE_ANY, do_rm},
    {"prune", "", 0, 0, do_prune},
    {"df", "", 0, 0, do_df},
    {"load", "[FILE|DIRECTORY|-]", 0, 1, do_load},
    {"import", "FILE|- [NAME]", 1, 2, do_import},
    {"save", "NAME...", 1, REMOTE_ANY, do_save},
    {"export", "NAME", 1, 1, do_export},
};

static int opt_change(void *target, const struct opt *o, const char *text, struct err *err)
{
    struct images_args *args = target;

    (void)o;
    if (args->change_count == CHANGES_MAX)
        return err_set(err, -E2BIG, "more than %d changes", CHANGES_MAX);
    args->changes[args->change_count++] = text;
    return 0;
}

#define OFF(member) offsetof(struct images_args, member)
/* clang-format off */
#define ALONE_ROW                                                                                  \
    { .name = "alone", .set = opt_flag, .off = OFF(alone),                                         \
      .help = "Do without the daemon, also where there is one" }
#define TAG_ROW(of)                                                                                \
    { .name = "tag", .letter = 't', .arg = "NAME", .set = opt_text, .off = OFF(tag),               \
      .help = of "ame the archive's only image so, instead of its own name" }

static const struct opt images_options[] = {
    { .name = "quiet",   .letter = 'q', .set = opt_flag, .off = OFF(quiet),
      .help = "Of ls: print ids alone" },
    { .name = "force",   .letter = 'f', .set = opt_flag, .off = OFF(force),
      .help = "Of rm: also an image with several names, or that sandboxes are made from" },
    { .name = "all",     .letter = 'a', .set = opt_flag, .off = OFF(all),
      .help = "Of prune: also images with names" },
    { .name = "output",  .letter = 'o', .arg = "FILE", .set = opt_text, .off = OFF(output),
      .help = "Of save and export: write to FILE, not to standard output" },
    { .name = "change",  .letter = 'c', .arg = "INSTRUCTION", .set = opt_change, .flags = OPT_REPEAT,
      .help = "Of import: change the configuration, as a Dockerfile does: 'CMD [\"sh\"]'" },
    { .name = "message", .letter = 'm', .arg = "TEXT", .set = opt_text, .off = OFF(message),
      .help = "Of import: the comment in the image's history" },
    TAG_ROW("Of load: n"),
    ALONE_ROW,
    {0},
};
static const struct opt load_options[] = {TAG_ROW("N"), ALONE_ROW, {0}};
/* clang-format on */

static const struct opt_group groups[] = {{.title = "Options", .rows = images_options},
                                          FORMAT_GROUP,
                                          FOREIGN_GROUP(foreign_image_options),
                                          {0}};
static const struct opt_group load_groups[] = {{.title = "Options", .rows = load_options},
                                               REMOTE_GROUP,
                                               FOREIGN_GROUP(foreign_image_options),
                                               {0}};

static const char *const details[] = {
    "ls lists images; inspect NAME... shows all that is known of some; history NAME shows how one "
    "was made; df shows how much of the disk they take.",
    "load [FILE|DIRECTORY|-] takes images from an archive of docker save, or an OCI layout, "
    "as a directory or an archive, plain or compressed with gzip or zstd. import FILE|- [NAME] "
    "makes an image of the archive of a root file system. save NAME... writes images to an archive "
    "that rind, docker, podman and skopeo load. export NAME writes an image's file system.",
    "tag NAME NEW-NAME gives an image another name. rm NAME... takes names away, and with its last "
    "name the image itself; by id the whole image. prune removes images without a name that no "
    "sandbox is made from.",
    "A name is one as docker has it, such as alpine:3.20 or ghcr.io/a/b, or an id or the beginning "
    "of one.",
    NULL,
};

static const struct example examples[] = {
    {"docker save app | rind load", "take an image over from Docker"},
    {"rind run -it alpine sh", "run a command in one"},
    {"rind images import -c 'CMD [\"sh\"]' rootfs.tar base", "an image from a root file system"},
    {0},
};

static int run_sub(const struct sub *s, const struct images_args *args, char **names)
{
    struct err err = ERR_NONE;
    size_t n = 0;

    while (names[n] != NULL)
        n++;
    if (n < s->min || n > s->max)
        return cli_failf("images %s: %s; it is used so: rind images %s%s%s", s->name,
                         n < s->min ? "an operand is missing" : "an operand too many", s->name,
                         s->operands[0] != '\0' ? " " : "", s->operands);
    if (args->remote.format != NULL && s->run != do_ls && s->run != do_inspect)
        return cli_failf("--format: only of images ls and inspect");
    return s->run(args, names, &err) < 0 ? cli_fail(&err) : cli_flush(0);
}

static int images_main(const struct verb *v, const struct globals *g, char **argv)
{
    struct images_args args = {.remote.globals = *g};
    static char *none[] = {NULL};
    char **names;
    int status;

    if (remote_begin(v, &args, argv, 0, REMOTE_ANY, "", &names, &status) == VERB_DONE)
        return status;
    if (names[0] == NULL)
        return run_sub(&subs[0], &args, none);
    for (size_t i = 0; i < sizeof(subs) / sizeof(subs[0]); i++)
        if (strcmp(subs[i].name, names[0]) == 0)
            return run_sub(&subs[i], &args, names + 1);
    return cli_failf("images %.64s: there is ls, inspect, history, tag, rm, prune, df, load, "
                     "import, save and export",
                     names[0]);
}

const struct verb verb_images = {
    .name = "images",
    .operands = "[COMMAND [ARG...]]",
    .words = "ls inspect history tag rm prune df load import save export",
    .summary = "List, load, save, name and remove images",
    .details = details,
    .groups = groups,
    .examples = examples,
    .main = images_main,
};

static int load_main(const struct verb *v, const struct globals *g, char **argv)
{
    struct images_args args = {.remote.globals = *g};
    struct err err = ERR_NONE;
    char **names;
    int status;

    if (remote_begin(v, &args, argv, 0, 1, "", &names, &status) == VERB_DONE)
        return status;
    return do_load(&args, names, &err) < 0 ? cli_fail(&err) : cli_flush(0);
}

static const char *const load_details[] = {
    "Takes images from an archive of docker save, or from an OCI layout, as a directory or an "
    "archive, plain or compressed. Without an operand, or with -, it is read from standard input.",
    NULL,
};

static const struct example load_examples[] = {
    {"docker save app | rind load", "take an image over from Docker"}, {0}};

const struct verb verb_load = {
    .name = "load",
    .operands = "[FILE|DIRECTORY|-]",
    .summary = "Load images from an archive",
    .details = load_details,
    .groups = load_groups,
    .examples = load_examples,
    .main = load_main,
};
