/*
 * The manual page rind(1): prose is here, options come from the tables. `make` writes build/rind.1
 * with `rind help --man`.
 */

#include <string.h>

#include "cli/cli.h"

struct section {
    const char *title;
    const char *const *paragraphs;
};

static const char *const description[] = {
    "rind runs programs that are not trusted. Each runs in a sandbox of its own: new user, mount, "
    "pid, network, uts, ipc, and cgroup namespaces, a range of 65536 user ids that no other "
    "sandbox and no user of the host has, a system call filter, a bounded set of capabilities, "
    "limits on memory, processes, and processor time, and a root file system whose changes are "
    "thrown away.",
    "`rind run` needs no daemon. What is kept for longer is the daemon's (`rind serve`), and the "
    "other commands ask it.",
    "What a sandbox may do is said by a policy. Where this host cannot give what the policy asks "
    "for, the start fails and names what is missing; `rind doctor` says it beforehand. Nothing "
    "is weakened silently.",
    NULL,
};

static const char *const diagnostics[] = {
    "An error is one line on standard error: rind, what was asked for, why it is refused, and, "
    "after a semicolon, how to fix it. After an error nothing is left behind: no process, mount, "
    "cgroup, network device, or directory. What a rind that was killed could not remove, the next "
    "start removes.",
    NULL,
};

static const char *const environment[] = {
    "RIND_SOCKET is the daemon's socket, for every command that asks it; --socket goes before it.",
    "XDG_DATA_HOME and XDG_RUNTIME_DIR say where a user other than root keeps sandboxes and "
    "sockets. Nothing of rind's own environment reaches a sandbox, but what --env names.",
    NULL,
};

static const char *const files[] = {
    "/var/lib/rind holds images and sandboxes, /run/rind sockets and locks; --state and --runtime "
    "name others. Both are made when needed. The daemon's socket is rind.sock in the latter.",
    NULL,
};

static const struct section sections_before[] = {{"DESCRIPTION", description}, {0}};
static const struct section sections_after[] = {
    {"DIAGNOSTICS", diagnostics}, {"ENVIRONMENT", environment}, {"FILES", files}, {0}};

/*
 * Prints text as roff: escapes requests and escape sequences, keeps dashes copyable, and prints
 * text between backquotes in bold.
 */
static void put_text(FILE *f, const char *text)
{
    bool bold = false;

    if (*text == '.' || *text == '\'')
        (void)fputs("\\&", f);
    for (; *text != '\0'; text++) {
        if (*text == '\\')
            (void)fputs("\\e", f);
        else if (*text == '-')
            (void)fputs("\\-", f);
        else if (*text == '\'')
            (void)fputs("\\(aq", f);
        else if (*text == '`')
            (void)fputs((bold = !bold) ? "\\fB" : "\\fR", f);
        else
            (void)fputc(*text, f);
    }
}

/* Prints a heading as a quoted macro argument, in which only quotes need escaping. */
static void put_heading(FILE *f, const char *macro, const char *text)
{
    (void)fprintf(f, ".%s \"", macro);
    for (; *text != '\0'; text++) {
        if (*text == '"')
            (void)fputs("\\(dq", f);
        else
            put_text(f, (const char[]){*text, '\0'});
    }
    (void)fputs("\"\n", f);
}

static void put_paragraphs(FILE *f, const char *const *paragraphs)
{
    for (size_t i = 0; paragraphs != NULL && paragraphs[i] != NULL; i++) {
        if (i > 0)
            (void)fputs(".PP\n", f);
        put_text(f, paragraphs[i]);
        (void)fputc('\n', f);
    }
}

static void put_sections(FILE *f, const struct section *s)
{
    for (; s->title != NULL; s++) {
        put_heading(f, "SH", s->title);
        put_paragraphs(f, s->paragraphs);
    }
}

static void put_option(FILE *f, const struct opt *o)
{
    if (!opt_is_shown(o))
        return;
    (void)fputs(".TP\n", f);
    if (o->letter != 0)
        (void)fprintf(f, "\\fB\\-%c\\fR, ", o->letter);
    (void)fputs("\\fB\\-\\-", f);
    put_text(f, o->name);
    (void)fputs("\\fR", f);
    if (o->arg != NULL) {
        (void)fputs(" \\fI", f);
        put_text(f, o->arg);
        (void)fputs("\\fR", f);
    }
    (void)fputc('\n', f);
    put_text(f, o->help);
    (void)fputs(o->flags & OPT_REPEAT ? ". May be repeated.\n" : ".\n", f);
}

static void put_options(FILE *f, const struct opt *o)
{
    for (; o->name != NULL; o++)
        put_option(f, o);
}

static void put_verb(FILE *f, const struct verb *v)
{
    (void)fputs(".SS ", f);
    (void)fprintf(f, "rind %s [OPTIONS]%s", v->name, v->operands[0] ? " " : "");
    put_text(f, v->operands);
    (void)fputc('\n', f);
    if (v->details != NULL) {
        put_paragraphs(f, v->details);
    } else {
        put_text(f, v->summary);
        (void)fputs(".\n", f);
    }
    for (const struct opt_group *g = v->groups; g != NULL && g->rows != NULL; g++) {
        if (g->title == NULL)
            continue;
        (void)fputs(".PP\n", f);
        put_text(f, g->title);
        (void)fputs(":\n", f);
        put_options(f, g->rows);
    }
}

static void put_examples(FILE *f)
{
    (void)fputs(".SH EXAMPLES\n", f);
    for (size_t i = 0; verbs[i] != NULL; i++) {
        for (const struct example *e = verbs[i]->examples; e != NULL && e->command != NULL; e++) {
            (void)fputs(".TP\n\\fB", f);
            put_text(f, e->command);
            (void)fputs("\\fR\n", f);
            put_text(f, e->what);
            (void)fputs(".\n", f);
        }
    }
}

void manual_print(FILE *f)
{
    (void)fprintf(f, ".TH RIND 1 \"\" \"rind %s\" \"User Commands\"\n.nh\n.ad l\n", RIND_VERSION);
    (void)fputs(".SH NAME\nrind \\- run programs that are not trusted, isolated\n"
                ".SH SYNOPSIS\n\\fBrind\\fR [\\fIGLOBAL OPTIONS\\fR] \\fICOMMAND\\fR "
                "[\\fIOPTIONS\\fR] [\\fIARG\\fR...]\n",
                f);
    put_sections(f, sections_before);
    (void)fputs(".SH COMMANDS\n", f);
    for (size_t i = 0; verbs[i] != NULL; i++)
        put_verb(f, verbs[i]);
    (void)fputs(".SH GLOBAL OPTIONS\nThese stand before or after the command's name.\n", f);
    put_options(f, global_options);
    (void)fputs(".TP\n\\fB\\-v\\fR, \\fB\\-\\-version\\fR\nShow the version.\n.SH EXIT STATUS\n",
                f);
    for (const struct exit_text *e = exit_texts; e->status != NULL; e++)
        (void)fprintf(f, ".TP\n\\fB%s\\fR\n%s.\n", e->status, e->what);
    put_sections(f, sections_after);
    put_examples(f);
    (void)fputs(".SH SEE ALSO\n\\fBbwrap\\fR(1), \\fBunshare\\fR(1), \\fBnamespaces\\fR(7), "
                "\\fBseccomp\\fR(2), \\fBcgroups\\fR(7)\n",
                f);
}
