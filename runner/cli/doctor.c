/* rind doctor: prints the report of doctor/doctor.h as a table, or as JSON. */

#include "doctor/doctor.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "cli/cli.h"
#include "cli/remote.h"
#include "json/parse.h"
#include "policy/host-rootfs.h"

static const struct opt_group groups[] = {REMOTE_GROUP, {0}};

static const char *const details[] = {
    "Says what this host can and cannot do for rind, what rind does without each thing, and the "
    "command that fixes it; then which barriers stand around a sandbox of the default policy. It "
    "finds out by trying, in processes of its own: nothing is changed, nothing stays behind.",
    "In a container it names what around rind is in the way, such as a seccomp filter, a "
    "capability "
    "that is not there, or control groups that are mounted read-only. Subordinate ids that it "
    "proposes are given to no user yet.",
    "Each thing is ok, limited (there, but not all of it), missing, or unknown (this user cannot "
    "find out). Those that the default policy needs are marked with a star. The exit status is 0 "
    "when the default policy can be met, and 1 when it cannot.",
    "Where a daemon answers, its sandboxes that are broken are listed, too: their files cannot be "
    "read, and they can only be removed.",
    NULL,
};

static const struct example examples[] = {
    {"sudo rind doctor", "what this host can do"},
    {"rind doctor --json | jq -r '.checks[] | select(.state == \"missing\") | .fix'",
     "only the commands that fix something"},
    {0},
};

enum {
    EXIT_NOT_MET = 1,
    STATE_WIDTH = 9,
    TITLE_WIDTH = 30,
    LINE_WIDTH = 100,
};

static void print_check(const struct check_result *c)
{
    (void)printf("  %-*s%s %-*s %s\n", STATE_WIDTH, check_state_name(c->state),
                 c->required ? "*" : " ", TITLE_WIDTH, c->title, c->found);
    if (c->state == CHECK_OK)
        return;
    (void)printf("  %*s without it: %s\n", STATE_WIDTH + 1, "", c->without);
    if (c->fix[0] != '\0')
        (void)printf("  %*s to fix it:  %s\n", STATE_WIDTH + 1, "", c->fix);
}

static void print_paths(const char *what, char *const *paths)
{
    int column = printf("  %-*s", STATE_WIDTH, what);

    for (; *paths != NULL; paths++) {
        if (column + 1 + (int)strlen(*paths) > LINE_WIDTH)
            column = printf("\n  %-*s", STATE_WIDTH, "") - 1;
        column += printf(" %s", *paths);
    }
    (void)putchar('\n');
}

static void print_host(const struct doctor_report *r)
{
    (void)printf("\nwhat --rootfs host shows of this host, as any user of it may read it\n");
    if (r->host == NULL) {
        (void)printf("  %-*s %s\n", STATE_WIDTH, "nothing", r->host_error);
        return;
    }
    print_paths("trees", r->host->trees);
    for (char **tree = r->host->trees; *tree != NULL; tree++) {
        const char *state = doctor_tree_state(*tree);

        if (strcmp(state, "shown") != 0 && strcmp(state, "not there") != 0)
            (void)printf("  %-*s %s: %s\n", STATE_WIDTH, "", *tree, state);
    }
    print_paths("hidden", r->host->hidden);
    print_paths("copies", r->host->files);
}

/*
 * Asks a running daemon for broken sandboxes. *ret stays NULL if no daemon answers; the host is
 * checked anyway.
 */
static int get_broken(const struct remote *r, json_t **ret, struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    auto_client struct client *c = NULL;
    char path[REMOTE_PATH_MAX];
    bool named = false;
    int code = remote_socket(r, path, &named, err);

    if (!named && (code < 0 || r->globals.state != NULL))
        return 0;
    if (code == 0)
        code = client_open(path, &c, err);
    if (code < 0 && !named)
        return 0;
    if (code == 0)
        code = client_json(c, "GET", "/v1/sandboxes?state=broken", NULL, &root, err);
    if (code == 0)
        *ret = json_incref(json_object_get(root, "sandboxes"));
    return code;
}

static void print_broken(const json_t *broken)
{
    json_t *s;
    size_t i;

    if (json_array_size(broken) == 0)
        return;
    (void)printf("\nsandboxes that are broken (rind rm removes them, nothing else works)\n");
    json_array_foreach(broken, i, s)
        (void)printf("  %s %s: %s\n", member(s, "id"), member(s, "name"), member(s, "error"));
}

/* Encoded as in the daemon's own report. */
static json_t *encode_broken(const json_t *broken)
{
    json_t *list = json_array(), *s;
    size_t i;

    json_array_foreach(broken, i, s)
        (void)json_array_append_new(list,
                                    json_pack("{s:s, s:s, s:s}", "id", member(s, "id"), "name",
                                              member(s, "name"), "error", member(s, "error")));
    return list;
}

static void print_table(const struct doctor_report *r)
{
    const char *group = "";

    for (size_t i = 0; i < r->check_count; i++) {
        const struct check_result *c = &r->checks[i];

        if (strcmp(group, c->group) != 0)
            (void)printf("%s%s\n", i > 0 ? "\n" : "", c->group);
        group = c->group;
        print_check(c);
    }
    (void)printf("\nbarriers around a sandbox of the default policy (a start fails rather than do "
                 "without one)\n");
    for (size_t i = 0; i < r->barrier_count; i++)
        (void)printf("  %-*s %-14s %s\n", STATE_WIDTH, r->barriers[i].on ? "on" : "off",
                     r->barriers[i].name, r->barriers[i].what);
    print_host(r);
    (void)printf("\n%s\n",
                 r->met ? "The default policy can be met."
                        : "The default policy cannot be met: see what is missing and has a star.");
}

static int print_report(const struct doctor_report *r, const json_t *broken)
{
    json_t *j = doctor_encode(r);

    if (j == NULL)
        return -1;
    if (broken != NULL)
        (void)json_object_set_new(j, "brokenSandboxes", encode_broken(broken));
    print_json(j);
    return 0;
}

static int doctor_main(const struct verb *v, const struct globals *g, char **argv)
{
    struct remote args = {.globals = *g};
    auto_ptr(json_decref) json_t *broken = NULL;
    struct doctor_report *report = NULL;
    struct err err = ERR_NONE;
    struct cli_dirs dirs;
    struct opt_rest rest;
    int status;

    if (verb_begin(v, &args, argv, &rest, &status) == VERB_DONE)
        return status;
    if (rest.operands[0] != NULL)
        return cli_failf("%.64s: doctor takes no operand", rest.operands[0]);
    if (get_broken(&args, &broken, &err) < 0 || cli_dirs(&args.globals, &dirs, &err) < 0 ||
        doctor_run(dirs.state, &report, &err) < 0)
        return cli_fail(&err);

    status = report->met ? 0 : EXIT_NOT_MET;
    if (!args.json)
        print_table(report);
    else if (print_report(report, broken) < 0)
        status = cli_failf("doctor: out of memory");
    if (!args.json)
        print_broken(broken);
    doctor_free(report);
    return cli_flush(status);
}

const struct verb verb_doctor = {
    .name = "doctor",
    .operands = "",
    .summary = "Say what this host can do for rind, and how to fix what it cannot",
    .details = details,
    .groups = groups,
    .examples = examples,
    .main = doctor_main,
};
