/* Dispatch of verbs with subcommands. */

#include "cli/words.h"

#include <string.h>

#include "base/err.h"
#include "cli/cli.h"

static const struct word *find_word(const struct words *words, const char *name)
{
    const struct word *w = words->list;

    while (w->name != NULL && strcmp(w->name, name) != 0)
        w++;
    return w->name != NULL ? w : NULL;
}

static int run_word(const struct words *words, const struct word *w, void *args, char **names)
{
    const struct remote *remote = args;
    auto_client struct client *c = NULL;
    struct err err = ERR_NONE;
    size_t count = 0;

    while (names[count] != NULL)
        count++;
    if (count < w->min)
        return cli_failf("%s %s: name a %s", words->noun, w->name, words->noun);
    if (count > w->max)
        return cli_failf("%s %s: %.64s: one operand too many", words->noun, w->name, names[w->max]);
    if (w->run == NULL)
        return remote_each(remote, names, words->each, args);
    if (remote_open(remote, &c, &err) < 0 || w->run(args, c, names, &err) < 0)
        return cli_fail(&err);
    return cli_flush(0);
}

int words_main(const struct verb *v, const struct words *words, void *args, char **argv)
{
    const struct word *w;
    char **names;
    int status;

    if (remote_begin(v, args, argv, 1, REMOTE_ANY, "command", &names, &status) != VERB_GO)
        return status;
    w = find_word(words, names[0]);
    return w != NULL ? run_word(words, w, args, names + 1)
                     : cli_failf("%s %.64s: must be %s", words->noun, names[0], words->must_be);
}
