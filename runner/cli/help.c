/*
 * rind help and `--help`: printed from the option tables, so every option appears. Option names are
 * in one column, wrapped texts in another.
 */

#include <string.h>

#include "cli/cli.h"

enum {
    HELP_WIDTH = 80,
    HELP_TEXT_COLUMN = 28, /* column of the options' texts */
};

const struct exit_text exit_texts[] = {
    {"N", "The command ended with N"},
    {"128+N", "The command was ended by signal N"},
    {"125", "rind itself refused or failed; one line on standard error says why"},
    {"126", "The command was found, but cannot be executed"},
    {"127", "The command was not found"},
    {NULL, NULL},
};

/* Prints words from column `column` on, wrapped, continued at `indent`; ends the line. */
static void print_wrapped(FILE *f, const char *text, int indent, int column)
{
    int start = column;

    while (*text != '\0') {
        int len = (int)strcspn(text, " ");

        if (column > start && column + 1 + len > HELP_WIDTH) {
            (void)fprintf(f, "\n%*s", indent, "");
            start = column = indent;
        }
        column += fprintf(f, "%s%.*s", column > start ? " " : "", len, text);
        text += len;
        text += strspn(text, " ");
    }
    (void)fputc('\n', f);
}

static void print_pair(FILE *f, const char *left, const char *text)
{
    int column = fprintf(f, "  %s", left);

    if (column > HELP_TEXT_COLUMN - 2) {
        (void)fputc('\n', f);
        column = 0;
    }
    (void)fprintf(f, "%*s", HELP_TEXT_COLUMN - column, "");
    print_wrapped(f, text, HELP_TEXT_COLUMN, HELP_TEXT_COLUMN);
}

static void print_option(FILE *f, const struct opt *o)
{
    char left[128], letter[8] = "    ", text[512];

    if (!opt_is_shown(o))
        return;
    if (o->letter != 0)
        (void)snprintf(letter, sizeof(letter), "-%c, ", o->letter);
    (void)snprintf(left, sizeof(left), "%s--%s%s%s", letter, o->name, o->arg != NULL ? " " : "",
                   o->arg != NULL ? o->arg : "");
    (void)snprintf(text, sizeof(text), "%s%s", o->help,
                   o->flags & OPT_REPEAT ? " (may be repeated)" : "");
    print_pair(f, left, text);
}

static void print_group(FILE *f, const char *title, const struct opt *rows)
{
    if (title == NULL)
        return;
    (void)fprintf(f, "\n%s:\n", title);
    for (; rows->name != NULL; rows++)
        print_option(f, rows);
}

static void print_exit_statuses(FILE *f)
{
    (void)fprintf(f, "\nExit status:\n");
    for (const struct exit_text *e = exit_texts; e->status != NULL; e++)
        print_pair(f, e->status, e->what);
}

void help_top(FILE *f)
{
    (void)fprintf(f, "rind runs programs that are not trusted, each in a sandbox of its own.\n\n"
                     "Usage: rind [GLOBAL OPTIONS] COMMAND [OPTIONS] [ARG...]\n\nCommands:\n");
    for (size_t i = 0; verbs[i] != NULL; i++)
        print_pair(f, verbs[i]->name, verbs[i]->summary);
    print_group(f, "Global options", global_options);
    print_pair(f, "    --socket PATH",
               "Ask the daemon of this socket; also stands behind the command");
    print_pair(f, "    --version", "Show the version; also -v");
    print_exit_statuses(f);
    (void)fprintf(f, "\nrind COMMAND --help shows the options of a command. "
                     "First steps: rind doctor, rind run -- ps\n");
}

void help_verb(FILE *f, const struct verb *v)
{
    (void)fprintf(f, "Usage: rind %s [OPTIONS]%s%s\n\n%s.\n", v->name, v->operands[0] ? " " : "",
                  v->operands, v->summary);
    for (size_t i = 0; v->details != NULL && v->details[i] != NULL; i++) {
        (void)fputc('\n', f);
        print_wrapped(f, v->details[i], 0, 0);
    }
    for (const struct opt_group *g = v->groups; g != NULL && g->rows != NULL; g++)
        print_group(f, g->title, g->rows);
    print_group(f, "Global options", global_options);
    if (v->command_exit)
        print_exit_statuses(f);
    if (v->examples != NULL)
        (void)fprintf(f, "\nExamples:\n");
    for (const struct example *e = v->examples; e != NULL && e->command != NULL; e++)
        (void)fprintf(f, "  %s\n      %s\n", e->command, e->what);
}

struct help_args {
    struct globals globals;
    bool man, completion;
};

static const struct opt help_options[] = {
    {.name = "man",
     .set = opt_flag,
     .off = offsetof(struct help_args, man),
     .help = "Print the manual page as roff, for man -l -"},
    {.name = "bash-completion",
     .set = opt_flag,
     .off = offsetof(struct help_args, completion),
     .help = "Print the completion for bash, to be sourced"},
    {0},
};
static const struct opt_group groups[] = {{.title = "Options", .rows = help_options}, {0}};

static int help_main(const struct verb *v, const struct globals *g, char **argv)
{
    struct help_args args = {.globals = *g};
    const struct verb *about;
    struct opt_rest rest;
    int status;

    if (verb_begin(v, &args, argv, &rest, &status) == VERB_DONE)
        return status;
    if (rest.operands[0] != NULL && rest.operands[1] != NULL)
        return cli_failf("%.64s: help takes one command at most", rest.operands[1]);
    if (args.man) {
        manual_print(stdout);
    } else if (args.completion) {
        completion_print(stdout);
    } else if (rest.operands[0] == NULL) {
        help_top(stdout);
    } else {
        about = verb_find(rest.operands[0]);
        if (about == NULL)
            return verb_unknown(rest.operands[0]);
        help_verb(stdout, about);
    }
    return cli_flush(0);
}

const struct verb verb_help = {
    .name = "help",
    .operands = "[COMMAND]",
    .summary = "Show help about rind or one of its commands",
    .groups = groups,
    .main = help_main,
};
