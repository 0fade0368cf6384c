/*
 * rind completion: prints the completion for a shell. That for bash is in completion.c; those for
 * zsh and fish are made here, from the same tables. Only this process's output; nothing is kept.
 */

#include <string.h>

#include "cli/cli.h"
#include "policy/policy.h"

enum { SUMMARY_MAX = 96 /* bytes of an option's text that are shown */ };

/* The first clause of an option's help. */
static void summary_of(const char *text, char ret[SUMMARY_MAX])
{
    size_t len = 0;

    while (text[len] != '\0' && len + 1 < SUMMARY_MAX &&
           !(strchr(".;:", text[len]) != NULL && text[len + 1] == ' '))
        len++;
    (void)memcpy(ret, text, len);
    ret[len] = '\0';
}

/* Prints text as the inside of single quotes: of fish with backslashes, else of a POSIX shell. */
static void put_quoted(FILE *f, const char *text, bool fish)
{
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            (void)fputs(fish ? "\\'" : "'\\''", f);
        else if (*text == '\\' && fish)
            (void)fputs("\\\\", f);
        else
            (void)fputc(*text, f);
    }
}

static void put_policies(FILE *f)
{
    for (const char *const *name = policy_builtin_names(); *name != NULL; name++)
        (void)fprintf(f, "%s ", *name);
}

/* ---- zsh ---- */

static void zsh_put_rows(FILE *f, const struct opt *o)
{
    char summary[SUMMARY_MAX];

    for (; o->name != NULL; o++) {
        if (!opt_is_shown(o))
            continue;
        summary_of(o->help, summary);
        (void)fprintf(f, " '--%s:", o->name);
        put_quoted(f, summary, false);
        (void)fputc('\'', f);
    }
}

static void zsh_put_options(FILE *f)
{
    (void)fputs("_rind_described() {\n    case $1 in\n", f);
    for (size_t i = 0; verbs[i] != NULL; i++) {
        (void)fprintf(f, "    %s) printf '%%s\\n'", verbs[i]->name);
        for (const struct opt_group *g = verbs[i]->groups; g != NULL && g->rows != NULL; g++)
            zsh_put_rows(f, g->rows);
        zsh_put_rows(f, global_options);
        (void)fputs(" ;;\n", f);
    }
    (void)fputs("    *) printf '%s\\n' '--version:Show the version'", f);
    zsh_put_rows(f, global_options);
    (void)fputs(" ;;\n    esac\n}\n\n", f);
}

static const char zsh_engine[] =
    "# Names of sandboxes (ls), images, networks or volumes, one a line.\n"
    "_rind_list() {\n"
    "    case $1 in\n"
    "    ls) command rind ls --format '{{.Name}}' ;;\n"
    "    *) command rind \"$1\" ls --format '{{.Name}}' ;;\n"
    "    esac 2>/dev/null\n"
    "}\n\n"
    "_rind() {\n"
    "    local verb='' skip='' w i subs\n"
    "    local -a rest list\n"
    "    for ((i = 2; i < CURRENT; i++)); do\n"
    "        w=${words[i]}\n"
    "        if [[ -n $skip ]]; then skip=''; continue; fi\n"
    "        if _rind_values \"$verb\" | grep -qxF -e \"$w\"; then skip=$w; continue; fi\n"
    "        [[ $w == -* ]] && continue\n"
    "        if [[ -z $verb ]]; then verb=$w; else rest+=(\"$w\"); fi\n"
    "    done\n"
    "    subs=$(_rind_words \"$verb\")\n"
    "    if [[ -n $skip ]]; then\n"
    "        case $skip in\n"
    "        --image) list=(${(f)\"$(_rind_list images)\"}) ;;\n"
    "        --network) list=(none internet ${(f)\"$(_rind_list network)\"}) ;;\n"
    "        --policy) list=(${=_rind_policies}) ;;\n"
    "        *) _files; return ;;\n"
    "        esac\n"
    "    elif [[ ${words[CURRENT]} == -* && ${#rest} -eq 0 ]]; then\n"
    "        list=(${(f)\"$(_rind_described \"$verb\")\"})\n"
    "        _describe -o option list\n"
    "        return\n"
    "    elif [[ -z $verb || ( $verb == help && ${#rest} -eq 0 ) ]]; then\n"
    "        list=(\"${_rind_verbs[@]}\")\n"
    "        _describe command list\n"
    "        return\n"
    "    elif [[ -n $subs && ${#rest} -eq 0 ]]; then\n"
    "        list=(${=subs})\n"
    "    elif [[ -n $subs ]]; then\n"
    "        list=(${(f)\"$(_rind_list \"$verb\")\"})\n"
    "    elif [[ \" $_rind_named \" == *\" $verb \"* ]]; then\n"
    "        list=(${(f)\"$(_rind_list ls)\"})\n"
    "    elif [[ ${#rest} -eq 0 && ( $verb == run || $verb == create ) ]]; then\n"
    "        list=(${(f)\"$(_rind_list images)\"})\n"
    "    else\n"
    "        _files\n"
    "        return\n"
    "    fi\n"
    "    compadd -a list\n"
    "}\n\n"
    "# Read from a directory of $fpath it is the function itself, sourced it registers it.\n"
    "if [[ ${funcstack[1]} == _rind ]]; then _rind \"$@\"; else compdef _rind rind; fi\n";

static void zsh_print(FILE *f)
{
    (void)fputs("#compdef rind\n# Completion of rind's command line for zsh; made by rind "
                "completion zsh.\n_rind_verbs=(",
                f);
    for (size_t i = 0; verbs[i] != NULL; i++) {
        (void)fprintf(f, " '%s:", verbs[i]->name);
        put_quoted(f, verbs[i]->summary, false);
        (void)fputc('\'', f);
    }
    (void)fputs(" )\n", f);
    completion_print_tables(f);
    zsh_put_options(f);
    (void)fputs(zsh_engine, f);
}

/* ---- fish ---- */

static void fish_put_rows(FILE *f, const char *condition, const struct opt *o)
{
    char summary[SUMMARY_MAX];

    for (; o->name != NULL; o++) {
        if (!opt_is_shown(o))
            continue;
        summary_of(o->help, summary);
        (void)fprintf(f, "complete -c rind -n '%s' -l %s", condition, o->name);
        if (o->letter != 0)
            (void)fprintf(f, " -s %c", o->letter);
        if (strcmp(o->name, "image") == 0)
            (void)fputs(" -r -a '(__rind_list images)'", f);
        else if (strcmp(o->name, "network") == 0)
            (void)fputs(" -r -a 'none internet (__rind_list network)'", f);
        else if (strcmp(o->name, "policy") == 0) {
            (void)fputs(" -r -F -a '", f);
            put_policies(f);
            (void)fputc('\'', f);
        } else if (o->arg != NULL)
            (void)fputs(" -r -F", f);
        (void)fputs(" -d '", f);
        put_quoted(f, summary, true);
        (void)fputs("'\n", f);
    }
}

/* What the operands of a verb may be. */
static void fish_put_operands(FILE *f, const struct verb *v, const char *condition)
{
    if (v->words != NULL)
        (void)fprintf(f,
                      "complete -c rind -n '%s; and not __fish_seen_subcommand_from %s' -a '%s'\n",
                      condition, v->words, v->words);
    if (v->words != NULL && (strcmp(v->name, "system") != 0 && strcmp(v->name, "completion") != 0))
        (void)fprintf(f,
                      "complete -c rind -n '%s; and __fish_seen_subcommand_from %s' -a "
                      "'(__rind_list %s)'\n",
                      condition, v->words, v->name);
    if (completion_takes_names(v))
        (void)fprintf(f, "complete -c rind -n '%s' -a '(__rind_list ls)'\n", condition);
    else if (strcmp(v->name, "run") == 0 || strcmp(v->name, "create") == 0)
        (void)fprintf(f, "complete -c rind -n '%s' -F -a '(__rind_list images)'\n", condition);
    else if (v->words == NULL && v->operands[0] != '\0')
        (void)fprintf(f, "complete -c rind -n '%s' -F\n", condition);
}

static void fish_print(FILE *f)
{
    char condition[96];

    (void)fputs("# Completion of rind's command line for fish; made by rind completion fish.\n"
                "function __rind_list\n"
                "    if test $argv[1] = ls\n"
                "        command rind ls --format '{{.Name}}' 2>/dev/null\n"
                "    else\n"
                "        command rind $argv[1] ls --format '{{.Name}}' 2>/dev/null\n"
                "    end\n"
                "end\n\n"
                "complete -c rind -f\n"
                "complete -c rind -n __fish_use_subcommand -l version -d 'Show the version'\n",
                f);
    fish_put_rows(f, "__fish_use_subcommand", global_options);
    for (size_t i = 0; verbs[i] != NULL; i++) {
        (void)fprintf(f, "complete -c rind -n __fish_use_subcommand -a %s -d '", verbs[i]->name);
        put_quoted(f, verbs[i]->summary, true);
        (void)fputs("'\n", f);
    }
    for (size_t i = 0; verbs[i] != NULL; i++) {
        (void)snprintf(condition, sizeof(condition), "__fish_seen_subcommand_from %s",
                       verbs[i]->name);
        for (const struct opt_group *g = verbs[i]->groups; g != NULL && g->rows != NULL; g++)
            fish_put_rows(f, condition, g->rows);
        fish_put_rows(f, condition, global_options);
        fish_put_operands(f, verbs[i], condition);
    }
}

/* ---- the verb ---- */

static const char *const details[] = {
    "Prints a script that lets the shell complete rind's commands, options, and names of "
    "sandboxes, "
    "images, networks and volumes. make install puts that for bash in place.",
    NULL,
};

static const struct example examples[] = {
    {"source <(rind completion bash)", "for this shell; in ~/.bashrc for all"},
    {"rind completion zsh >~/.zfunc/_rind", "where ~/.zfunc is in fpath, before compinit"},
    {"rind completion fish >~/.config/fish/completions/rind.fish", "for fish"},
    {0},
};

static int completion_main(const struct verb *v, const struct globals *g, char **argv)
{
    static const struct {
        const char *name;
        void (*print)(FILE *f);
    } shells[] = {{"bash", completion_print}, {"zsh", zsh_print}, {"fish", fish_print}};
    struct globals args = *g;
    struct opt_rest rest;
    int status;

    if (verb_begin(v, &args, argv, &rest, &status) == VERB_DONE)
        return status;
    if (rest.operands[0] == NULL || rest.operands[1] != NULL)
        return cli_failf("completion: name one shell: bash, zsh or fish");
    for (size_t i = 0; i < sizeof(shells) / sizeof(shells[0]); i++)
        if (strcmp(shells[i].name, rest.operands[0]) == 0) {
            shells[i].print(stdout);
            return cli_flush(0);
        }
    return cli_failf("completion %.64s: there is bash, zsh and fish", rest.operands[0]);
}

const struct verb verb_completion = {
    .name = "completion",
    .operands = "SHELL",
    .words = "bash zsh fish",
    .summary = "Print the completion for bash, zsh or fish",
    .details = details,
    .examples = examples,
    .main = completion_main,
};
