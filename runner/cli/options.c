/* The option parser behind options.h. Pure functions. */

#include "cli/options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

enum { WORD_MAX = 48 }; /* longer words get no suggestion */

static size_t smallest_of_3(size_t a, size_t b, size_t c)
{
    size_t m = a < b ? a : b;

    return m < c ? m : c;
}

/*
 * Damerau-Levenshtein distance (insert, delete, change, swap of neighbours). Both words have at
 * most WORD_MAX bytes.
 */
static size_t edit_distance(const char *a, size_t la, const char *b, size_t lb)
{
    size_t rows[3][WORD_MAX + 1];
    size_t *before = rows[0], *last = rows[1], *now = rows[2];

    for (size_t j = 0; j <= lb; j++)
        last[j] = j;
    for (size_t i = 1; i <= la; i++) {
        size_t *spare = before;

        now[0] = i;
        for (size_t j = 1; j <= lb; j++) {
            now[j] =
                smallest_of_3(last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                before[j - 2] + 1 < now[j])
                now[j] = before[j - 2] + 1;
        }
        before = last;
        last = now;
        now = spare;
    }
    return last[lb];
}

void nearest_offer(struct nearest *n, const char *text, const char *candidate)
{
    size_t lt = strlen(text), lc = strlen(candidate), d;

    if (lt == 0 || lt > WORD_MAX || lc > WORD_MAX)
        return;
    d = edit_distance(text, lt, candidate, lc);
    /* A prefix of the candidate counts as one edit, however much is missing. */
    if (lt >= 2 && strncmp(candidate, text, lt) == 0)
        d = 1;
    if (d > 1 + lt / 3 || (n->name != NULL && d >= n->distance))
        return;
    n->name = candidate;
    n->distance = d;
}

int opt_flag(void *target, const struct opt *o, const char *text, struct err *err)
{
    (void)text;
    (void)err;
    *(bool *)((char *)target + o->off) = true;
    return 0;
}

int opt_text(void *target, const struct opt *o, const char *text, struct err *err)
{
    if (text[0] == '\0')
        return err_set(err, -EINVAL, "must not be empty");
    *(const char **)(void *)((char *)target + o->off) = text;
    return 0;
}

static const struct opt *find_name(const struct opt_group *groups, const char *name, size_t len)
{
    for (; groups->rows != NULL; groups++)
        for (const struct opt *o = groups->rows; o->name != NULL; o++)
            if (strlen(o->name) == len && memcmp(o->name, name, len) == 0)
                return o;
    return NULL;
}

/* Flags: rows with any of them are passed over. */
static const struct opt *find_letter(const struct opt_group *groups, char letter, unsigned flags)
{
    for (; groups->rows != NULL; groups++)
        for (const struct opt *o = groups->rows; o->name != NULL; o++)
            if (o->letter == letter && (o->flags & flags) == 0)
                return o;
    return NULL;
}

static int unknown_name(const struct opt_group *groups, const char *name, size_t len,
                        struct err *err)
{
    struct nearest n = {.name = NULL};
    char word[WORD_MAX + 1];

    if (len > WORD_MAX)
        return err_set(err, -EINVAL, "--%.*s...: unknown option; --help lists them", WORD_MAX,
                       name);
    (void)memcpy(word, name, len);
    word[len] = '\0';
    for (; groups->rows != NULL; groups++)
        for (const struct opt *o = groups->rows; o->name != NULL; o++)
            if (opt_is_shown(o))
                nearest_offer(&n, word, o->name);
    if (n.name == NULL)
        return err_set(err, -EINVAL, "--%s: unknown option; --help lists them", word);
    return err_set(err, -EINVAL, "--%s: unknown option; the nearest is --%s", word, n.name);
}

static int unknown_letter(const struct opt_group *groups, char letter, struct err *err)
{
    const struct opt *other = NULL;

    if ((letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z'))
        other = find_letter(groups, (char)(letter ^ 0x20), OPT_HIDDEN | OPT_FOREIGN);
    if (other == NULL)
        return err_set(err, -EINVAL, "-%c: unknown option; --help lists them", letter);
    return err_set(err, -EINVAL, "-%c: unknown option; the nearest is -%c, --%s", letter,
                   other->letter, other->name);
}

/*
 * True if a message already begins with the option's name (`env file "x": …` for --env-file,
 * `allow-net: "x": …`).
 */
static bool begins_with_name(const char *msg, const char *name)
{
    for (; *name != '\0'; name++, msg++)
        if (*msg != *name && !(*name == '-' && *msg == ' '))
            return false;
    return *msg == ' ' || *msg == ':';
}

/*
 * Prefixes the handler's message with the option, replacing its name if the message begins with it.
 */
static int wrap_error(const struct opt *o, int code, struct err *err)
{
    char rest[ERR_MSG_MAX];

    if (err == NULL || !begins_with_name(err->msg, o->name))
        return err_wrap(err, code, "--%s", o->name);
    (void)snprintf(rest, sizeof(rest), "%s", err->msg + strlen(o->name));
    return err_set(err, code, "--%s%s", o->name, rest);
}

static int apply_option(void *target, const struct opt *o, const char *text, struct opt_rest *rest,
                        struct err *err)
{
    int r;

    r = o->set(target, o, text, err);
    if (r < 0)
        return wrap_error(o, r, err);
    if (o->flags & OPT_STOP)
        rest->stop = o;
    return 0;
}

/* Parses one `--name…` word. *next is the following word; it is advanced if that is the value. */
static int parse_name(const struct opt_group *groups, void *target, const char *word, char ***next,
                      struct opt_rest *rest, struct err *err)
{
    size_t len = strcspn(word, "=");
    const char *text = word[len] == '=' ? word + len + 1 : NULL;
    const struct opt *o = find_name(groups, word, len);

    if (o == NULL)
        return unknown_name(groups, word, len, err);
    if (o->flags & OPT_FOREIGN)
        return err_set(err, -EINVAL, "--%s: %s", o->name, o->help);
    /* Docker's flags may have a value. */
    if (o->arg == NULL && text != NULL && strcmp(text, "false") == 0)
        return 0;
    if (o->arg == NULL && text != NULL && strcmp(text, "true") == 0)
        text = NULL;
    if (o->arg == NULL && text != NULL)
        return err_set(err, -EINVAL, "--%s: takes no value; write --%s alone", o->name, o->name);
    if (o->arg != NULL && text == NULL) {
        text = **next;
        if (text == NULL)
            return err_set(err, -EINVAL, "--%s: needs a value; write --%s %s", o->name, o->name,
                           o->arg);
        (*next)++;
    }
    return apply_option(target, o, text, rest, err);
}

/* True if a value stands in the same word behind the letter, or is the next word. */
static bool letter_has_value(const char *word, char *const *next)
{
    return word[1] != '\0' || (*next != NULL && (*next)[0] != '-');
}

/*
 * Parses one `-abc` word: flags, up to a letter that takes the rest, or the next word, as its
 * value.
 */
static int parse_letters(const struct opt_group *groups, void *target, const char *word,
                         char ***next, struct opt_rest *rest, struct err *err)
{
    for (; *word != '\0'; word++) {
        const struct opt *o = find_letter(groups, *word, 0);
        const char *text = NULL;
        int r;

        if (o != NULL && (o->flags & OPT_SHARED_LETTER) && !letter_has_value(word, *next))
            o = find_letter(groups, *word, OPT_SHARED_LETTER);
        if (o == NULL)
            return unknown_letter(groups, *word, err);
        if (o->flags & OPT_FOREIGN)
            return err_set(err, -EINVAL, "-%c: %s", *word, o->help);
        if (o->arg == NULL) {
            if (word[1] == '=')
                return err_set(err, -EINVAL, "-%c: takes no value; write -%c alone", *word, *word);
        } else if (word[1] != '\0') {
            text = word[1] == '=' ? word + 2 : word + 1;
        } else {
            text = **next;
            if (text == NULL)
                return err_set(err, -EINVAL, "-%c: needs a value; write -%c %s", *word, *word,
                               o->arg);
            (*next)++;
        }
        r = apply_option(target, o, text, rest, err);
        if (r < 0 || rest->stop != NULL || text != NULL)
            return r;
    }
    return 0;
}

int opts_parse(const struct opt_group *groups, void *target, char **argv, struct opt_rest *ret,
               struct err *err)
{
    struct opt_rest rest = {.operands = NULL};
    int r;

    while (*argv != NULL && rest.stop == NULL) {
        const char *word = *argv;

        if (word[0] != '-' || word[1] == '\0')
            break;
        argv++;
        if (strcmp(word, "--") == 0) {
            rest.dashes = true;
            break;
        }
        r = word[1] == '-' ? parse_name(groups, target, word + 2, &argv, &rest, err)
                           : parse_letters(groups, target, word + 1, &argv, &rest, err);
        if (r < 0)
            return r;
    }
    rest.operands = argv;
    *ret = rest;
    return 0;
}

/*
 * Parses runs of options with their values; moves the operands between the runs to the front, in
 * order.
 */
int opts_parse_anywhere(const struct opt_group *groups, void *target, char **argv,
                        struct opt_rest *ret, struct err *err)
{
    struct opt_rest rest = {.operands = argv};
    size_t kept = 0;
    int r;

    do {
        r = opts_parse(groups, target, rest.operands, &rest, err);
        if (r < 0)
            return r;
        if (rest.dashes || rest.stop != NULL || rest.operands[0] == NULL)
            break;
        argv[kept++] = *rest.operands++;
    } while (true);
    while (*rest.operands != NULL)
        argv[kept++] = *rest.operands++;
    argv[kept] = NULL;
    rest.operands = argv;
    *ret = rest;
    return 0;
}
