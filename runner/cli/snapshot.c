/* rind snapshot: makes an image of a sandbox, or a volume of one of its directories. */

#include <errno.h>
#include <stddef.h>
#include <stdio.h>

#include "base/auto.h"
#include "base/err.h"
#include "cli/remote.h"
#include "json/parse.h"

struct snapshot_args {
    struct remote remote; /* first */
    const char *dir, *message, *author;
    json_t *changes; /* owned, or NULL */
    bool no_pause;
};

static int opt_change(void *target, const struct opt *o, const char *text, struct err *err)
{
    struct snapshot_args *args = target;

    (void)o;
    if (args->changes == NULL)
        args->changes = json_array();
    if (json_array_append_new(args->changes, json_string(text)) < 0)
        return err_set(err, -EINVAL, "'%.64s': is not UTF-8", text);
    return 0;
}

/* clang-format off */
static const struct opt snapshot_options[] = {
    { .name = "dir",      .arg = "PATH", .set = opt_text, .off = offsetof(struct snapshot_args, dir),
      .help = "Make a volume of this directory of the sandbox, instead of an image of all of it" },
    { .name = "message",  .letter = 'm', .arg = "TEXT", .set = opt_text,
      .off = offsetof(struct snapshot_args, message), .help = "The comment in the image's history" },
    { .name = "author",   .arg = "TEXT", .set = opt_text,
      .off = offsetof(struct snapshot_args, author), .help = "Who has made it" },
    { .name = "change",   .letter = 'c', .arg = "INSTRUCTION", .set = opt_change, .flags = OPT_REPEAT,
      .help = "Change the image's configuration, as a Dockerfile does: 'CMD [\"sh\"]'" },
    { .name = "no-pause", .set = opt_flag, .off = offsetof(struct snapshot_args, no_pause),
      .help = "Do not pause the sandbox while its files are read: they may then not fit together" },
    {0},
};
/* clang-format on */
static const struct opt_group groups[] = {
    {.title = "Options", .rows = snapshot_options}, REMOTE_GROUP, {0}};

static const char *const details[] = {
    "Makes an image of what SANDBOX has changed of its files, and prints its id. IMAGE is what it "
    "is "
    "called. Its configuration is that of the sandbox's image, with the command, environment, "
    "user, "
    "directory and labels that the sandbox was made with. A sandbox that runs is paused meanwhile. "
    "Volumes are not part of it.",
    "With --dir it makes a named volume of one directory; the second operand is what that is "
    "called. "
    "`rind run --restore VOLUME:PATH` gives a sandbox a copy of it.",
    NULL,
};

static const struct example examples[] = {
    {"rind snapshot web web:before-upgrade", "an image, to start others from"},
    {"rind snapshot --dir /workspace web ws-1", "one directory"},
    {0},
};

static int put_text(json_t *body, const char *key, const char *text, struct err *err)
{
    if (text == NULL || json_object_set_new(body, key, json_string(text)) == 0)
        return 0;
    return err_set(err, -EINVAL, "%s '%.64s': is not UTF-8", key, text);
}

static int snapshot_request(struct snapshot_args *args, char **names, struct err *err)
{
    auto_client struct client *c = NULL;
    auto_ptr(json_decref) json_t *made = NULL;
    json_t *body = json_pack("{s:b}", "pause", (int)!args->no_pause);
    int r = put_text(body, "name", names[1], err);

    if (r == 0)
        r = put_text(body, "dir", args->dir, err);
    if (r == 0)
        r = put_text(body, "message", args->message, err);
    if (r == 0)
        r = put_text(body, "author", args->author, err);
    if (args->changes != NULL)
        (void)json_object_set(body, "changes", args->changes);
    if (r == 0)
        r = remote_open(&args->remote, &c, err);
    if (r < 0) {
        json_decref(body);
        return r;
    }
    r = remote_post(c, names[0], "snapshot", body, &made, err);
    if (r < 0)
        return r;
    if (args->remote.json)
        print_json(json_incref(made));
    else
        (void)printf("%s\n", member(made, args->dir != NULL ? "name" : "id"));
    return 0;
}

static int snapshot_main(const struct verb *v, const struct globals *g, char **argv)
{
    struct snapshot_args args = {.remote.globals = *g};
    struct err err = ERR_NONE;
    char **names;
    int status;

    if (remote_begin(v, &args, argv, 1, 2, "sandbox", &names, &status) == VERB_GO)
        status = cli_flush(snapshot_request(&args, names, &err) < 0 ? cli_fail(&err) : 0);
    json_decref(args.changes);
    return status;
}

const struct verb verb_snapshot = {
    .name = "snapshot",
    .operands = "SANDBOX [IMAGE|VOLUME]",
    .summary = "Make an image of a sandbox, or a volume of a directory of it",
    .details = details,
    .groups = groups,
    .examples = examples,
    .main = snapshot_main,
};
