#include "images/snapshot-config.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "image/change-text.h"
#include "image/config.h"
#include "json/decode.h"
#include "json/parse.h"
#include "spec/signals.h"
#include "spec/spec.h"

enum { CHANGES_MAX = 4096 };

struct config_changes {
    char *list[CHANGES_MAX + 1]; /* owned */
    size_t count;
};

static int changes_append(struct config_changes *c, char *text)
{
    if (text == NULL)
        return -ENOMEM;
    if (c->count == CHANGES_MAX) {
        free(text);
        return -E2BIG;
    }
    c->list[c->count++] = text;
    return 0;
}

static int add_word(struct config_changes *c, const char *instruction, const char *word)
{
    char *text = NULL;
    int r = image_change_word(instruction, word, &text);

    return r < 0 ? r : changes_append(c, text);
}

static int add_list(struct config_changes *c, const char *instruction, char *const *list)
{
    auto_ptr(json_decref) json_t *array = json_array();
    char *text = NULL;
    int r;

    for (; *list != NULL; list++)
        if (json_array_append_new(array, json_string(*list)) < 0)
            return -EILSEQ;
    r = image_change_list(instruction, array, &text);
    return r < 0 ? r : changes_append(c, text);
}

static bool list_has(char *const *list, const char *text)
{
    for (; list != NULL && *list != NULL; list++)
        if (strcmp(*list, text) == 0)
            return true;
    return false;
}

static size_t list_length(char *const *list)
{
    size_t n = 0;

    while (list != NULL && list[n] != NULL)
        n++;
    return n;
}

/* True if list begins with the elements of `prefix`. */
static bool list_begins_with(char *const *list, char *const *prefix)
{
    for (; prefix != NULL && *prefix != NULL; prefix++, list++)
        if (*list == NULL || strcmp(*list, *prefix) != 0)
            return false;
    return true;
}

/*
 * Adds nothing where the image's command is the spec's. With the image's entry point, adds the
 * arguments; otherwise replaces the entry point and the command.
 */
static int add_command(struct config_changes *c, const struct spec *s,
                       const struct image_config *config)
{
    char *const *entrypoint = config != NULL ? config->entrypoint : NULL;
    char *const *cmd = config != NULL ? config->cmd : NULL;
    char *none[] = {NULL};
    size_t own = list_length(entrypoint);
    int r = 0;

    if (s->argv[0] == NULL)
        return 0;
    if (list_begins_with(s->argv, entrypoint)) {
        if (list_length(s->argv + own) == list_length(cmd) && list_begins_with(s->argv + own, cmd))
            return 0;
        return add_list(c, "CMD", s->argv + own);
    }
    r = add_list(c, "ENTRYPOINT", none);
    return r < 0 ? r : add_list(c, "CMD", s->argv);
}

static int add_all(struct config_changes *c, const struct spec *s,
                   const struct image_config *config)
{
    char signal[SIGNAL_TEXT_MAX];
    int r = add_command(c, s, config);

    for (char **e = s->env; r == 0 && *e != NULL; e++)
        if (config == NULL || !list_has(config->env, *e))
            r = add_word(c, "ENV", *e);
    for (char **l = s->labels; r == 0 && *l != NULL; l++)
        if (!spec_label_is_own(*l) && (config == NULL || !list_has(config->labels, *l)))
            r = add_word(c, "LABEL", *l);
    if (r == 0 && s->cwd != NULL &&
        (config == NULL || config->cwd == NULL || strcmp(config->cwd, s->cwd) != 0))
        r = add_word(c, "WORKDIR", s->cwd);
    if (r == 0 && s->user != NULL &&
        (config == NULL || config->user == NULL || strcmp(config->user, s->user) != 0))
        r = add_word(c, "USER", s->user);
    if (r == 0 && s->has_stop_signal) {
        signal_format(s->stop_signal, signal);
        r = add_word(c, "STOPSIGNAL", signal);
    }
    return r;
}

int snapshot_changes(const struct spec *spec, const struct image_config *config, char ***changes,
                     struct err *err)
{
    auto_free struct config_changes *c = calloc(1, sizeof(*c));
    size_t given = list_length(*changes);
    char **all = NULL;
    int r = c == NULL ? -ENOMEM : add_all(c, spec, config);

    if (r == 0 && (all = calloc(c->count + given + 1, sizeof(*all))) == NULL)
        r = -ENOMEM;
    if (r != 0) {
        for (size_t i = 0; c != NULL && i < c->count; i++)
            free(c->list[i]);
        return err_errno(err, r, "snapshot: its configuration");
    }
    for (size_t i = 0; i < c->count; i++)
        all[i] = c->list[i];
    for (size_t i = 0; i < given; i++)
        all[c->count + i] = (*changes)[i];
    free(*changes);
    *changes = all;
    return 0;
}
