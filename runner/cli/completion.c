/*
 * Completion for bash, generated from the option tables. `make install` writes it with `rind help
 * --bash-completion`. It knows each verb, its words and options, and which options take a value.
 * Names of sandboxes, images, networks and volumes come from the daemon.
 */

#include <string.h>

#include "cli/cli.h"
#include "policy/policy.h"

/* Prints option names separated by blanks. values: only options that take a value. */
static void put_rows(FILE *f, const struct opt *o, bool values)
{
    for (; o->name != NULL; o++) {
        if (!opt_is_shown(o) || (values && o->arg == NULL))
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

/* True for verbs with a sandbox as operand. Verbs with words of their own list other things. */
bool completion_takes_names(const struct verb *v)
{
    return v->words == NULL &&
           (strstr(v->operands, "NAME") != NULL || strstr(v->operands, "SANDBOX") != NULL);
}

static const char engine[] =
    "_rind() {\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]} verb='' i w skip='' words files=''\n"
    "    local -a rest=()\n"
    "    COMPREPLY=()\n"
    "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
    "        w=${COMP_WORDS[i]}\n"
    "        if [ -n \"$skip\" ]; then skip=''; continue; fi\n"
    "        if _rind_values \"$verb\" | grep -qxF -e \"$w\"; then skip=$w; continue; fi\n"
    "        case $w in\n"
    "        -*) ;;\n"
    "        *) if [ -z \"$verb\" ]; then verb=$w; else rest+=(\"$w\"); fi ;;\n"
    "        esac\n"
    "    done\n"
    "    words=$(_rind_words \"$verb\")\n"
    "    if [ -n \"$skip\" ]; then\n"
    "        case $skip in\n"
    "        --image) words=$(_rind_list images) ;;\n"
    "        --network) words=\"none internet $(_rind_list network)\" ;;\n"
    "        --policy) words=$_rind_policies files=1 ;;\n"
    "        *) words='' files=1 ;;\n"
    "        esac\n"
    "    elif [[ $cur == -* && ${#rest[@]} -eq 0 ]]; then\n"
    "        words=$(_rind_options \"$verb\")\n"
    "    elif [[ -z $verb || ($verb == help && ${#rest[@]} -eq 0) ]]; then\n"
    "        words=$_rind_verbs\n"
    "    elif [[ -n $words && ${#rest[@]} -gt 0 ]]; then\n"
    "        words=$(_rind_list \"$verb\")\n"
    "        if [ \"$verb\" = images ]; then files=1; fi\n"
    "    elif [[ \" $_rind_named \" == *\" $verb \"* ]]; then\n"
    "        words=$(_rind_list ls)\n"
    "    elif [ -z \"$words\" ]; then\n"
    "        files=1\n"
    "        if [[ ${#rest[@]} -eq 0 && ($verb == run || $verb == create) ]]; then\n"
    "            words=$(_rind_list images)\n"
    "        fi\n"
    "    fi\n"
    "    mapfile -t COMPREPLY < <(compgen ${files:+-f} -W \"$words\" -- \"$cur\")\n"
    "}\n\n"
    "# Names of sandboxes (ls), images, networks or volumes.\n"
    "_rind_list() {\n"
    "    case $1 in\n"
    "    ls) rind ls ;;\n"
    "    *) rind \"$1\" ls ;;\n"
    "    esac 2>/dev/null | awk -v c=\"$1\" 'NR > 1 { n = c == \"ls\" ? $2 : $1; if (n != \"-\") "
    "print n "
    "}'\n"
    "}\n\n"
    "complete -o filenames -F _rind rind\n";

static void put_words(FILE *f)
{
    (void)fputs("_rind_words() {\n    case $1 in\n", f);
    for (size_t i = 0; verbs[i] != NULL; i++)
        if (verbs[i]->words != NULL)
            (void)fprintf(f, "    %s) echo %s ;;\n", verbs[i]->name, verbs[i]->words);
    (void)fputs("    esac\n}\n\n", f);
}

void completion_print_tables(FILE *f)
{
    (void)fputs("_rind_named='", f);
    for (size_t i = 0; verbs[i] != NULL; i++)
        if (completion_takes_names(verbs[i]))
            (void)fprintf(f, "%s ", verbs[i]->name);
    (void)fputs("'\n_rind_policies='", f);
    for (const char *const *name = policy_builtin_names(); *name != NULL; name++)
        (void)fprintf(f, "%s ", *name);
    (void)fputs("'\n\n", f);
    put_function(f, "_rind_options", false);
    put_function(f, "_rind_values", true);
    put_words(f);
}

void completion_print(FILE *f)
{
    (void)fputs("# Completion of rind's command line for bash; made by rind help "
                "--bash-completion.\n# shellcheck shell=bash\n_rind_verbs='",
                f);
    for (size_t i = 0; verbs[i] != NULL; i++)
        (void)fprintf(f, "%s%s", i > 0 ? " " : "", verbs[i]->name);
    (void)fputs("'\n", f);
    completion_print_tables(f);
    (void)fputs(engine, f);
}
