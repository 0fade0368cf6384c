/*
 * Completion for bash, made from the option tables: `make install` writes it with
 * `rind help --bash-completion`. It knows every verb, option and what takes a value; the names of
 * sandboxes are asked of the daemon.
 */

#include <string.h>

#include "cli/cli.h"

/* Words separated by blanks. values: only those that take a value; else all. */
static void put_rows(FILE *f, const struct opt *o, bool values)
{
    for (; o->name != NULL; o++) {
        if ((o->flags & OPT_HIDDEN) != 0 || (values && o->arg == NULL))
            continue;
        (void)fprintf(f, " --%s", o->name);
        if (o->letter != 0)
            (void)fprintf(f, " -%c", o->letter);
    }
}

static void put_verb(FILE *f, const struct verb *v, bool values)
{
    (void)fprintf(f, "    %s) printf '%%s\\n'", v->name);
    for (const struct opt_group *g = v->groups; g != NULL && g->rows != NULL; g++)
        put_rows(f, g->rows, values);
    put_rows(f, global_options, values);
    (void)fputs(" ;;\n", f);
}

static void put_function(FILE *f, const char *name, bool values)
{
    (void)fprintf(f, "%s() {\n    case $1 in\n", name);
    for (size_t i = 0; verbs[i] != NULL; i++)
        put_verb(f, verbs[i], values);
    (void)fputs("    *) printf '%s\\n' --version", f);
    put_rows(f, global_options, values);
    (void)fputs(" ;;\n    esac\n}\n\n", f);
}

/* Verbs whose operands name sandboxes. */
static bool takes_names(const struct verb *v)
{
    return strstr(v->operands, "NAME") != NULL;
}

static const char engine[] =
    "_rind() {\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]} verb='' i w "
    "skip=''\n"
    "    local -a rest=()\n"
    "    COMPREPLY=()\n"
    "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
    "        w=${COMP_WORDS[i]}\n"
    "        if [ -n \"$skip\" ]; then skip=''; continue; fi\n"
    "        if _rind_values \"$verb\" | grep -qxF -e \"$w\"; then skip=1; continue; fi\n"
    "        case $w in\n"
    "        -*) ;;\n"
    "        *) if [ -z \"$verb\" ]; then verb=$w; else rest+=(\"$w\"); fi ;;\n"
    "        esac\n"
    "    done\n"
    "    if [ -n \"$skip\" ]; then\n"
    "        mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
    "    elif [[ $cur == -* && ${#rest[@]} -eq 0 ]]; then\n"
    "        mapfile -t COMPREPLY < <(compgen -W \"$(_rind_options \"$verb\")\" -- \"$cur\")\n"
    "    elif [ -z \"$verb\" ]; then\n"
    "        mapfile -t COMPREPLY < <(compgen -W \"$_rind_verbs\" -- \"$cur\")\n"
    "    elif [[ \" $_rind_named \" == *\" $verb \"* ]]; then\n"
    "        mapfile -t COMPREPLY < <(compgen -W \"$(_rind_names)\" -- \"$cur\")\n"
    "    else\n"
    "        mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
    "    fi\n"
    "}\n\n"
    "_rind_names() {\n"
    "    rind ls 2>/dev/null | sed -n '2,$p' | awk '{print $2}'\n"
    "}\n\n"
    "complete -o filenames -F _rind rind\n";

void completion_print(FILE *f)
{
    (void)fputs("# Completion of rind's command line for bash; made by rind help "
                "--bash-completion.\n# shellcheck shell=bash\n_rind_verbs='",
                f);
    for (size_t i = 0; verbs[i] != NULL; i++)
        (void)fprintf(f, "%s%s", i > 0 ? " " : "", verbs[i]->name);
    (void)fputs("'\n_rind_named='", f);
    for (size_t i = 0; verbs[i] != NULL; i++)
        if (takes_names(verbs[i]))
            (void)fprintf(f, "%s ", verbs[i]->name);
    (void)fputs("'\n\n", f);
    put_function(f, "_rind_options", false);
    put_function(f, "_rind_values", true);
    (void)fputs(engine, f);
}
