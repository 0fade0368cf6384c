/* Dispatch of verbs with subcommands. */

#include "cli/words.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "cli/cli.h"
#include "cli/list-format.h"
#include "cli/url.h"
#include "json/parse.h"

/* The subcommands that are the same for each kind of object. */
static const struct word word_inspect = {"inspect", 1, REMOTE_ANY, NULL};
static const struct word word_rm = {"rm", 1, REMOTE_ANY, NULL};

static const struct word *find_word(const struct words *words, const char *name)
{
    const struct word *w = words->list;

    if (strcmp(name, word_inspect.name) == 0)
        return &word_inspect;
    if (strcmp(name, word_rm.name) == 0)
        return &word_rm;
    while (w->name != NULL && strcmp(w->name, name) != 0)
        w++;
    return w->name != NULL ? w : NULL;
}

static int words_inspect(const struct words *words, struct client *c, char **names, struct err *err)
{
    auto_ptr(json_decref) json_t *all = json_array();

    for (; *names != NULL; names++) {
        json_t *one = NULL;
        int r = remote_get(c, words->target, *names, &one, err);

        if (r < 0)
            return r;
        if (json_array_append_new(all, one) < 0)
            return err_errno(err, -ENOMEM, "%s", words->noun);
    }
    print_json(take(all));
    return 0;
}

/* inspect with --format: a line for each. */
static int words_format(const struct words *words, const struct remote *remote, struct client *c,
                        char **names, struct err *err)
{
    int r = 0;

    for (; r == 0 && *names != NULL; names++) {
        auto_ptr(json_decref) json_t *one = NULL;

        r = remote_get(c, words->target, *names, &one, err);
        if (r == 0)
            r = format_one(remote, one, err);
    }
    return r;
}

static int words_remove_one(struct client *c, const char *name, void *data, json_t **ret,
                            struct err *err)
{
    const struct words *words = data;
    auto_buf struct buf url = BUF_INIT(URL_MAX);
    int r = url_make(&url, words->target, name);

    return r < 0 ? err_errno(err, r, "%s '%.64s'", words->noun, name)
                 : client_json(c, "DELETE", url.data, NULL, ret, err);
}

void words_print_made(const struct remote *remote, json_t *made)
{
    if (remote->json)
        print_json(json_incref(made));
    else
        (void)printf("%s\n", member(made, "name"));
}

static int run_word(const struct words *words, const struct word *w, void *args, char **names)
{
    const struct remote *remote = args;
    auto_client struct client *c = NULL;
    struct err err = ERR_NONE;
    size_t count = 0;
    int r;

    while (names[count] != NULL)
        count++;
    if (count < w->min)
        return cli_failf("%s %s: name a %s", words->noun, w->name, words->noun);
    if (count > w->max)
        return cli_failf("%s %s: %.64s: one operand too many", words->noun, w->name, names[w->max]);
    if (remote->format != NULL && w != &word_inspect && strcmp(w->name, "ls") != 0)
        return cli_failf("--format: only of %s ls and inspect", words->noun);
    if (w == &word_rm)
        return remote_each(remote, names, words_remove_one, (void *)(uintptr_t)words);
    r = remote_open(remote, &c, &err);
    if (r == 0 && w == &word_inspect && remote->format != NULL)
        r = words_format(words, remote, c, names, &err);
    else if (r == 0)
        r = w == &word_inspect ? words_inspect(words, c, names, &err)
                               : w->run(args, c, names, &err);
    if (r < 0)
        return cli_fail(&err);
    return cli_flush(0);
}

int words_main(const struct verb *v, const struct words *words, void *args, char **argv)
{
    const struct word *w;
    char **names, what[96];
    int status;

    (void)snprintf(what, sizeof(what), "command (%s)", words->must_be);
    if (remote_begin(v, args, argv, 1, REMOTE_ANY, what, &names, &status) != VERB_GO)
        return status;
    w = find_word(words, names[0]);
    return w != NULL ? run_word(words, w, args, names + 1)
                     : cli_failf("%s %.64s: must be %s", words->noun, names[0], words->must_be);
}
