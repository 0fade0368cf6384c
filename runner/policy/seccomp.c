/*
 * Translates a decoded profile into a BPF program. These decisions are made here and nowhere else:
 *
 * - A matching deny rule overrides every allow rule, in any order.
 *
 * - A system call that the profile names, without a matching rule, gets what its rule "otherwise"
 * says; without one EPERM if the default action is ENOSYS; else the default action.
 *
 * - A number that the profile cannot have considered gets ENOSYS: unassigned, or newer than this
 * libseccomp or than the newest call named by an EPERM-by-default profile. libc's fallbacks depend
 * on that.
 *
 * - x32 and architectures that are not listed get ENOSYS.
 *
 * - i386's socketcall(2) hides the arguments of socket(2) behind a pointer. If a profile compares
 * arguments of a socket call, socketcall gets ENOSYS; the direct calls (Linux 4.3) remain.
 */

#include "policy/seccomp.h"

#include <errno.h>
#include <seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/file.h"
#include "policy/seccomp-internal.h"

enum {
    /* From 424 on all architectures use the same numbers; programs do not probe for older calls. */
    UNIFIED_NR = 424,
    I386_SOCKETCALL = 102,
    PROGRAM_BYTES_MAX =
        1 << 20, /* bytes of one exported program, before the kernel's own limit is checked */
};

/* What the allowing program returns where no rule matches, if the answer depends on the call. No
 * profile can ask for this action. */
#define NO_RULE SCMP_ACT_TRACE(0xfffe)

#if defined(__x86_64__)
#define GO_ARCH "amd64"
#else
#define GO_ARCH "arm64"
#endif

/* One occurrence of a system call in the profile. */
struct syscall_ref {
    const char *name; /* borrowed from the profile */
    const struct profile_rule *rule;
    bool applies; /* false: the rule is inactive, but makes the name known */
};

/* State of a compilation. */
struct compile {
    const struct seccomp_profile *p;
    struct syscall_ref *syscall_refs; /* owned; sorted by name, then in the profile's order */
    size_t count;
    unsigned skipped;
};

DEFINE_AUTO(void, seccomp_release);

static void compile_done(struct compile *c)
{
    free(c->syscall_refs);
}
#define auto_compile __attribute__((cleanup(compile_done)))

static bool rule_denies(const struct profile_rule *rule)
{
    return rule->action != PACT_ALLOW && rule->action != PACT_LOG;
}

static uint32_t action_value(int action, int64_t errno_ret)
{
    switch ((enum profile_action)action) {
    case PACT_ALLOW:
        return SCMP_ACT_ALLOW;
    case PACT_LOG:
        return SCMP_ACT_LOG;
    case PACT_ERRNO:
        return SCMP_ACT_ERRNO((uint32_t)(errno_ret != 0 ? errno_ret : EPERM));
    case PACT_TRAP:
        return SCMP_ACT_TRAP;
    case PACT_KILL_THREAD:
        return SCMP_ACT_KILL_THREAD;
    case PACT_KILL_PROCESS:
    case PACT_INVALID:
    case PACT_MAX:
        break;
    }
    return SCMP_ACT_KILL_PROCESS;
}

static uint32_t rule_action(const struct profile_rule *rule)
{
    return action_value(rule->action, rule->errno_ret);
}

/* ---- active rules ---- */

static bool has_string(char **list, const char *s)
{
    for (; list != NULL && *list != NULL; list++)
        if (strcmp(*list, s) == 0)
            return true;
    return false;
}

static bool rule_applies(const struct profile_rule *rule, uint64_t caps, unsigned kernel)
{
    const struct profile_cond *in = &rule->includes, *ex = &rule->excludes;

    if ((in->cap_mask & caps) != in->cap_mask || (ex->cap_mask & caps) != 0)
        return false;
    if (in->arches != NULL && in->arches[0] != NULL && !has_string(in->arches, GO_ARCH))
        return false;
    if (has_string(ex->arches, GO_ARCH))
        return false;
    if (in->kernel != 0 && kernel < in->kernel)
        return false;
    return ex->kernel == 0 || kernel < ex->kernel;
}

static int compare_mentions(const void *a, const void *b)
{
    const struct syscall_ref *x = a, *y = b;
    int r = strcmp(x->name, y->name);

    return r != 0 ? r : (x->rule > y->rule) - (x->rule < y->rule);
}

static int compile_init(struct compile *c, const struct seccomp_profile *p, uint64_t caps,
                        unsigned kernel, struct err *err)
{
    size_t names = 0;

    c->p = p;
    for (size_t i = 0; i < p->rule_count; i++)
        for (char **n = p->rules[i].names; *n != NULL; n++)
            names++;
    c->syscall_refs = calloc(names + 1, sizeof(*c->syscall_refs));
    if (c->syscall_refs == NULL)
        return err_errno(err, -ENOMEM, "seccomp");

    for (size_t i = 0; i < p->rule_count; i++) {
        bool applies = rule_applies(&p->rules[i], caps, kernel);

        for (char **n = p->rules[i].names; *n != NULL; n++)
            c->syscall_refs[c->count++] =
                (struct syscall_ref){.name = *n, .rule = &p->rules[i], .applies = applies};
    }
    qsort(c->syscall_refs, c->count, sizeof(*c->syscall_refs), compare_mentions);
    return 0;
}

/* Returns the end of the group of mentions with the name at `first`. */
static size_t group_end(const struct compile *c, size_t first)
{
    size_t end = first;

    while (end < c->count && strcmp(c->syscall_refs[end].name, c->syscall_refs[first].name) == 0)
        end++;
    return end;
}

static int compare_name(const void *key, const void *element)
{
    return strcmp(key, ((const struct syscall_ref *)element)->name);
}

static bool is_known(const struct compile *c, const char *name)
{
    return bsearch(name, c->syscall_refs, c->count, sizeof(*c->syscall_refs), compare_name) != NULL;
}

/* ---- misleading rules ---- */

static bool is_lone_ne(const struct syscall_ref *m)
{
    const struct profile_rule *rule = m->rule;

    return m->applies && rule->action == PACT_ALLOW && rule->arg_count == 1 &&
           rule->args[0].op == SCMP_CMP_NE;
}

/* "allow if arg0 != 40" and "allow if arg0 != 38" together allow every value. */
static int check_ne_union(const struct compile *c, size_t first, size_t end, struct err *err)
{
    const struct profile_arg *seen[PROFILE_ARGS_MAX] = {NULL};

    for (size_t i = first; i < end; i++) {
        const struct profile_arg *a = c->syscall_refs[i].rule->args;

        if (!is_lone_ne(&c->syscall_refs[i]))
            continue;
        if (seen[a->index] != NULL && seen[a->index]->value != a->value)
            return err_set(err, -EINVAL,
                           "seccomp: %.64s: two SCMP_CMP_NE rules together allow every value; deny "
                           "the values with SCMP_ACT_ERRNO and SCMP_CMP_EQ (a denying rule wins)",
                           c->syscall_refs[i].name);
        seen[a->index] = a;
    }
    return 0;
}

/* ---- numbers unknown to the profile ---- */

static bool is_socket_call(const char *name)
{
    static const char *const calls[] = {
        "accept",  "accept4", "bind",       "connect",  "getpeername", "getsockname", "getsockopt",
        "listen",  "recv",    "recvfrom",   "recvmmsg", "recvmsg",     "send",        "sendmmsg",
        "sendmsg", "sendto",  "setsockopt", "shutdown", "socket",      "socketpair",
    };

    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        if (strcmp(calls[i], name) == 0)
            return true;
    return false;
}

/* Inactive rules count as well: an inactive rule must not open a way around the check. */
static bool filters_socket_args(const struct seccomp_profile *p)
{
    for (size_t i = 0; i < p->rule_count; i++)
        for (char **n = p->rules[i].names; *n != NULL; n++)
            if (p->rules[i].arg_count > 0 && is_socket_call(*n))
                return true;
    return false;
}

struct nr_table {
    bool named[SYSCALL_NR_MAX + 1]; /* libseccomp has a name for the number */
    bool known[SYSCALL_NR_MAX + 1]; /* the profile names the call as well */
    unsigned named_max, known_max;
};

static void nr_table_fill(struct nr_table *t, const struct compile *c, uint32_t arch)
{
    *t = (struct nr_table){0};
    for (unsigned nr = 0; nr <= SYSCALL_NR_MAX; nr++) {
        auto_free char *name = seccomp_syscall_resolve_num_arch(arch, (int)nr);

        if (name == NULL)
            continue;
        t->named[nr] = true;
        t->named_max = nr;
        if (is_known(c, name)) {
            t->known[nr] = true;
            t->known_max = nr;
        }
    }
}

static bool default_is(const struct seccomp_profile *p, int action, int err_no)
{
    int64_t given = p->default_errno != 0 ? p->default_errno : EPERM;

    return p->default_action == action && given == err_no;
}

/* True if nr gets ENOSYS before any rule is applied. */
static bool is_guarded(const struct nr_table *t, const struct compile *c, uint32_t arch,
                       unsigned nr)
{
    unsigned newest = t->named_max;

    if (arch == SCMP_ARCH_X86 && nr == I386_SOCKETCALL && filters_socket_args(c->p))
        return true;
    if (nr > t->named_max || !t->named[nr])
        return true;
    if (default_is(c->p, PACT_ERRNO, ENOSYS))
        return !t->known[nr];
    if (c->p->default_action != PACT_ALLOW && c->p->default_action != PACT_LOG)
        newest = t->known_max > UNIFIED_NR ? t->known_max : UNIFIED_NR;
    return nr > newest;
}

/* Computes the guarded ranges. The last one is unbounded, and so includes the x32 calls. */
static size_t guard_ranges(const struct compile *c, uint32_t arch, struct nr_range *ranges)
{
    struct nr_table t;
    size_t n = 0;
    bool open = false;

    nr_table_fill(&t, c, arch);
    for (unsigned nr = 0; nr <= SYSCALL_NR_MAX; nr++) {
        bool guarded = nr == SYSCALL_NR_MAX || is_guarded(&t, c, arch, nr);

        if (guarded && !open)
            ranges[n++].first = nr;
        if (guarded)
            ranges[n - 1].last = nr;
        open = guarded;
    }
    ranges[n - 1].last = UINT32_MAX;
    return n;
}

/* ---- libseccomp ---- */

static int add_rule(scmp_filter_ctx ctx, const struct profile_rule *rule, int nr, const char *name,
                    struct err *err)
{
    struct scmp_arg_cmp args[PROFILE_ARGS_MAX];
    int r;

    for (size_t i = 0; i < rule->arg_count; i++) {
        const struct profile_arg *a = &rule->args[i];

        args[i] = (struct scmp_arg_cmp){.arg = (unsigned)a->index,
                                        .op = (enum scmp_compare)a->op,
                                        .datum_a = (scmp_datum_t)a->value,
                                        .datum_b = (scmp_datum_t)a->value_two};
    }
    r = seccomp_rule_add_array(ctx, rule_action(rule), nr, (unsigned)rule->arg_count, args);
    if (r == -EEXIST)
        return err_set(err, -EINVAL, "seccomp: %.64s: two rules for the same case disagree", name);
    return r < 0 ? err_errno(err, r, "seccomp: %.64s: add rule", name) : 0;
}

/*
 * A rule without arguments decides its system call alone, within the deny or the allow rules. *ret:
 * that rule, or NULL.
 */
static int find_unconditional(const struct compile *c, size_t first, size_t end, bool deny,
                              const struct profile_rule **ret, struct err *err)
{
    const struct profile_rule *found = NULL;

    for (size_t i = first; i < end; i++) {
        const struct profile_rule *rule = c->syscall_refs[i].rule;

        if (!c->syscall_refs[i].applies || rule_denies(rule) != deny || rule->arg_count > 0 ||
            rule->otherwise)
            continue;
        if (found != NULL && rule_action(found) != rule_action(rule))
            return err_set(err, -EINVAL, "seccomp: %.64s: two rules for the same case disagree",
                           c->syscall_refs[i].name);
        found = rule;
    }
    *ret = found;
    return 0;
}

/* Adds the rules of one system call. */
static int add_group(scmp_filter_ctx ctx, struct compile *c, size_t first, size_t end, bool deny,
                     uint32_t fallback, size_t *added, struct err *err)
{
    const char *name = c->syscall_refs[first].name;
    int r, nr = seccomp_syscall_resolve_name(name);
    const struct profile_rule *only = NULL;

    if (nr == __NR_SCMP_ERROR) {
        c->skipped += deny ? 1 : 0; /* both passes get here; only one counts */
        return 0;
    }
    r = find_unconditional(c, first, end, deny, &only, err);
    if (r < 0)
        return r;
    for (size_t i = first; i < end; i++) {
        const struct syscall_ref *m = &c->syscall_refs[i];

        if (!m->applies || m->rule->otherwise || rule_denies(m->rule) != deny ||
            (only != NULL && only != m->rule) || rule_action(m->rule) == fallback)
            continue;
        r = add_rule(ctx, m->rule, nr, name, err);
        if (r < 0)
            return r;
        (*added)++;
    }
    return 0;
}

static int export_program(scmp_filter_ctx ctx, struct bpf *ret, struct err *err)
{
    auto_close int fd = FD_NONE;
    auto_free char *data = NULL;
    size_t len;
    int r;

    fd = memfd_create("rind-bpf", MFD_CLOEXEC);
    if (fd < 0)
        return err_errno(err, -errno, "seccomp: memfd_create");
    r = seccomp_export_bpf(ctx, fd);
    if (r < 0)
        return err_errno(err, r, "seccomp: export");
    if (lseek(fd, 0, SEEK_SET) < 0)
        return err_errno(err, -errno, "seccomp: memfd");
    r = file_read_fd(fd, PROGRAM_BYTES_MAX, &data, &len, err);
    if (r < 0)
        return err_wrap(err, r, "seccomp: export");
    ret->insns = take(data);
    ret->count = len / 8;
    return 0;
}

static const struct {
    enum scmp_filter_attr attr;
    uint32_t value;
    const char *name;
} filter_attrs[] = {
    {SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS), "bad architecture action"},
    {SCMP_FLTATR_CTL_OPTIMIZE, 2, "binary tree"}, /* log2(n) steps instead of n */
};

/*
 * Builds one libseccomp program, of the deny rules or the allow rules. Empty if there are no deny
 * rules.
 */
static int build_program(struct compile *c, bool deny, uint32_t fallback, struct bpf *ret,
                         struct err *err)
{
    auto_ptr(seccomp_release) void *ctx = NULL;
    size_t added = 0;
    int r;

    ctx = seccomp_init(fallback);
    if (ctx == NULL)
        return err_errno(err, -ENOMEM, "seccomp");
    for (size_t i = 0; i < sizeof(filter_attrs) / sizeof(filter_attrs[0]); i++) {
        r = seccomp_attr_set(ctx, filter_attrs[i].attr, filter_attrs[i].value);
        if (r < 0)
            return err_errno(err, r, "seccomp: %s", filter_attrs[i].name);
    }
    if (c->p->x86) {
        r = seccomp_arch_add(ctx, SCMP_ARCH_X86);
        if (r < 0)
            return err_errno(err, r, "seccomp: SCMP_ARCH_X86");
    }
    for (size_t first = 0, end; first < c->count; first = end) {
        end = group_end(c, first);
        r = add_group(ctx, c, first, end, deny, fallback, &added, err);
        if (r < 0)
            return r;
    }
    return added > 0 || !deny ? export_program(ctx, ret, err) : 0;
}

/* ---- answers of calls that no rule matches ---- */

/* Returns the call's rule "otherwise", or NULL in *ret. */
static int find_otherwise(const struct compile *c, size_t first, size_t end,
                          const struct profile_rule **ret, struct err *err)
{
    *ret = NULL;
    for (size_t i = first; i < end; i++) {
        const struct syscall_ref *m = &c->syscall_refs[i];

        if (!m->applies || !m->rule->otherwise)
            continue;
        if (*ret != NULL && rule_action(*ret) != rule_action(m->rule))
            return err_set(err, -EINVAL, "seccomp: %.64s: two rules for the same case disagree",
                           m->name);
        *ret = m->rule;
    }
    return 0;
}

/* Fills the answers. Returns whether one differs from the fallback. */
static int otherwise_fill(struct bpf_otherwise *o, const struct compile *c, const uint32_t *archs,
                          size_t arch_count, uint32_t fallback, struct err *err)
{
    int any = 0;

    o->stand_in = NO_RULE;
    for (size_t a = 0; a < arch_count; a++)
        for (size_t nr = 0; nr <= SYSCALL_NR_MAX; nr++)
            o->answers[a][nr] = fallback;
    for (size_t first = 0, end; first < c->count; first = end) {
        const struct profile_rule *rule;
        int r;

        end = group_end(c, first);
        r = find_otherwise(c, first, end, &rule, err);
        if (r < 0)
            return r;
        for (size_t a = 0; rule != NULL && a < arch_count; a++) {
            int nr = seccomp_syscall_resolve_name_arch(archs[a], c->syscall_refs[first].name);

            if (nr < 0 || nr > SYSCALL_NR_MAX)
                continue;
            o->answers[a][nr] = rule_action(rule);
            any = 1;
        }
    }
    return any;
}

#define auto_bpf __attribute__((cleanup(bpf_done)))

int seccomp_compile_for(const struct seccomp_profile *p, uint64_t capabilities, unsigned kernel,
                        struct bpf *ret, unsigned *ret_skipped, struct err *err)
{
    struct nr_range ranges[2][SYSCALL_NR_MAX / 2 + 1];
    struct nr_guard guards[2] = {0};
    const uint32_t archs[2] = {seccomp_arch_native(), SCMP_ARCH_X86};
    const size_t arch_count = p->x86 ? 2 : 1;
    auto_compile struct compile c = {0};
    auto_bpf struct bpf deny = {0}, allow = {0}, program = {0};
    uint32_t fallback = action_value(p->default_action, p->default_errno);
    struct bpf_otherwise otherwise;
    int r, any;

    r = compile_init(&c, p, capabilities, kernel, err);
    if (r < 0)
        return r;
    for (size_t first = 0, end; first < c.count; first = end) {
        end = group_end(&c, first);
        r = check_ne_union(&c, first, end, err);
        if (r < 0)
            return r;
    }

    /* Unknown numbers were caught by the guards; a known call without a rule is denied. */
    if (default_is(p, PACT_ERRNO, ENOSYS))
        fallback = SCMP_ACT_ERRNO(EPERM);
    any = otherwise_fill(&otherwise, &c, archs, arch_count, fallback, err);
    if (any < 0)
        return any;
    r = build_program(&c, true, SCMP_ACT_ALLOW, &deny, err);
    if (r < 0)
        return r;
    r = build_program(&c, false, any > 0 ? otherwise.stand_in : fallback, &allow, err);
    if (r < 0)
        return r;

    for (size_t i = 0; i < arch_count; i++) {
        guards[i].audit_arch = archs[i];
        guards[i].ranges = ranges[i];
        guards[i].count = guard_ranges(&c, archs[i], ranges[i]);
    }
    r = bpf_join(guards, arch_count, &deny, &allow, &program, err);
    if (r == 0)
        r = bpf_compact(archs, arch_count, SCMP_ACT_ERRNO(ENOSYS), any > 0 ? &otherwise : NULL,
                        &program, err);
    if (r < 0)
        return r;
    *ret = program;
    program = (struct bpf){0};
    if (ret_skipped != NULL)
        *ret_skipped = c.skipped;
    return 0;
}

int seccomp_compile(const struct seccomp_profile *p, uint64_t capabilities, struct bpf *ret,
                    unsigned *ret_skipped, struct err *err)
{
    unsigned kernel = 0;
    struct utsname u;

    if (uname(&u) < 0)
        return err_errno(err, -errno, "uname");
    if (kernel_parse(u.release, false, &kernel) < 0)
        return err_set(err, -EINVAL, "cannot read the kernel version \"%s\"", u.release);
    return seccomp_compile_for(p, capabilities, kernel, ret, ret_skipped, err);
}
