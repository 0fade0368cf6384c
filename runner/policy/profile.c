/*
 * Decodes the Docker/OCI seccomp profile format into struct seccomp_profile. Rules that would not
 * mean what they say are refused here, so that seccomp.c only translates. Pure functions.
 */

#include <errno.h>
#include <inttypes.h>
#include <seccomp.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/strtab.h"
#include "policy/seccomp-internal.h"
#include "policy/tables.h"

enum profile_arch_id { PARCH_INVALID = 0, PARCH_X86_64, PARCH_X86, PARCH_AARCH64, PARCH_FOREIGN };

#if defined(__x86_64__)
enum { PARCH_NATIVE = (int)PARCH_X86_64, HAS_I386 = 1 };
#elif defined(__aarch64__)
enum { PARCH_NATIVE = (int)PARCH_AARCH64, HAS_I386 = 0 };
#else
#error "name this machine's architecture here"
#endif

/* clang-format off */
const struct strtab profile_action_names[] = {
    {"SCMP_ACT_ALLOW", PACT_ALLOW},
    {"SCMP_ACT_LOG", PACT_LOG},
    {"SCMP_ACT_ERRNO", PACT_ERRNO},
    {"SCMP_ACT_TRAP", PACT_TRAP},
    {"SCMP_ACT_KILL", PACT_KILL_THREAD},
    {"SCMP_ACT_KILL_THREAD", PACT_KILL_THREAD},
    {"SCMP_ACT_KILL_PROCESS", PACT_KILL_PROCESS},
    {NULL, 0},
};

static const struct strtab op_names[] = {
    {"SCMP_CMP_NE", SCMP_CMP_NE},
    {"SCMP_CMP_LT", SCMP_CMP_LT},
    {"SCMP_CMP_LE", SCMP_CMP_LE},
    {"SCMP_CMP_EQ", SCMP_CMP_EQ},
    {"SCMP_CMP_GE", SCMP_CMP_GE},
    {"SCMP_CMP_GT", SCMP_CMP_GT},
    {"SCMP_CMP_MASKED_EQ", SCMP_CMP_MASKED_EQ},
    {NULL, 0},
};

/*
 * PARCH_FOREIGN: valid in the format, ignored on this machine. x32 is one of them: every x32 call
 * gets ENOSYS, whatever the profile lists.
 */
static const struct strtab arch_names[] = {
    {"SCMP_ARCH_X86_64", PARCH_X86_64},
    {"SCMP_ARCH_X86", PARCH_X86},
    {"SCMP_ARCH_X32", PARCH_FOREIGN},
    {"SCMP_ARCH_AARCH64", PARCH_AARCH64},
    {"SCMP_ARCH_ARM", PARCH_FOREIGN},
    {"SCMP_ARCH_MIPS", PARCH_FOREIGN},
    {"SCMP_ARCH_MIPS64", PARCH_FOREIGN},
    {"SCMP_ARCH_MIPS64N32", PARCH_FOREIGN},
    {"SCMP_ARCH_MIPSEL", PARCH_FOREIGN},
    {"SCMP_ARCH_MIPSEL64", PARCH_FOREIGN},
    {"SCMP_ARCH_MIPSEL64N32", PARCH_FOREIGN},
    {"SCMP_ARCH_PPC", PARCH_FOREIGN},
    {"SCMP_ARCH_PPC64", PARCH_FOREIGN},
    {"SCMP_ARCH_PPC64LE", PARCH_FOREIGN},
    {"SCMP_ARCH_S390", PARCH_FOREIGN},
    {"SCMP_ARCH_S390X", PARCH_FOREIGN},
    {"SCMP_ARCH_PARISC", PARCH_FOREIGN},
    {"SCMP_ARCH_PARISC64", PARCH_FOREIGN},
    {"SCMP_ARCH_RISCV64", PARCH_FOREIGN},
    {"SCMP_ARCH_LOONGARCH64", PARCH_FOREIGN},
    {NULL, 0},
};

#define COND(member) offsetof(struct profile_cond, member)
static const struct jfield cond_fields[] = {
    {.name = "caps", .decode = j_strings, .off = COND(caps), .max = 64, .nullable = true},
    {.name = "arches", .decode = j_strings, .off = COND(arches), .max = PROFILE_ARCHES_MAX, .nullable = true},
    {.name = "minKernel", .decode = j_string, .off = COND(min_kernel), .max = 16, .nullable = true},
    {0},
};

#define ARG(member) offsetof(struct profile_arg, member)
static const struct jfield arg_fields[] = {
    {.name = "index", .decode = j_int64, .off = ARG(index), .min = 0, .max = PROFILE_ARGS_MAX - 1, .required = true},
    {.name = "value", .decode = j_int64, .off = ARG(value), .min = 0, .max = INT64_MAX, .required = true},
    {.name = "valueTwo", .decode = j_int64, .off = ARG(value_two), .min = 0, .max = INT64_MAX},
    {.name = "op", .decode = j_enum, .off = ARG(op), .names = op_names, .required = true},
    {0},
};
static const struct jarray arg_array = {
    .fields = arg_fields, .size = sizeof(struct profile_arg),
    .count_off = offsetof(struct profile_rule, arg_count),
};

#define RULE(member) offsetof(struct profile_rule, member)
static const struct jfield rule_fields[] = {
    {.name = "names", .decode = j_strings, .off = RULE(names), .min = 1, .max = PROFILE_NAMES_MAX, .nullable = true},
    {.name = "name", .decode = j_string, .off = RULE(name), .min = 1, .max = 64},
    {.name = "action", .decode = j_enum, .off = RULE(action), .names = profile_action_names, .required = true},
    {.name = "errnoRet", .decode = j_int64, .off = RULE(errno_ret), .min = 1, .max = PROFILE_ERRNO_MAX, .nullable = true},
    {.name = "args", .decode = j_objects, .off = RULE(args), .max = PROFILE_ARGS_MAX, .array = &arg_array, .nullable = true},
    {.name = "otherwise", .decode = j_bool, .off = RULE(otherwise)},
    {.name = "includes", .decode = j_object, .off = RULE(includes), .fields = cond_fields, .nullable = true},
    {.name = "excludes", .decode = j_object, .off = RULE(excludes), .fields = cond_fields, .nullable = true},
    {.name = "comment", .decode = j_ignore, .nullable = true},
    {0},
};
static const struct jarray rule_array = {
    .fields = rule_fields, .size = sizeof(struct profile_rule),
    .count_off = offsetof(struct seccomp_profile, rule_count),
};

static const struct jfield arch_map_fields[] = {
    {.name = "architecture", .decode = j_enum, .off = offsetof(struct profile_arch, arch), .names = arch_names, .required = true},
    {.name = "subArchitectures", .decode = j_strings, .off = offsetof(struct profile_arch, sub), .max = PROFILE_ARCHES_MAX, .nullable = true},
    {0},
};
static const struct jarray arch_map_array = {
    .fields = arch_map_fields, .size = sizeof(struct profile_arch),
    .count_off = offsetof(struct seccomp_profile, arch_map_count),
};

#define PROFILE(member) offsetof(struct seccomp_profile, member)
static const struct jfield profile_fields[] = {
    {.name = "defaultAction", .decode = j_enum, .off = PROFILE(default_action), .names = profile_action_names, .required = true},
    {.name = "defaultErrnoRet", .decode = j_int64, .off = PROFILE(default_errno), .min = 1, .max = PROFILE_ERRNO_MAX, .nullable = true},
    {.name = "architectures", .decode = j_strings, .off = PROFILE(architectures), .max = PROFILE_ARCHES_MAX, .nullable = true},
    {.name = "archMap", .decode = j_objects, .off = PROFILE(arch_map), .max = PROFILE_ARCHES_MAX, .array = &arch_map_array, .nullable = true},
    {.name = "flags", .decode = j_strings, .off = PROFILE(flags), .max = 0, .nullable = true},
    {.name = "syscalls", .decode = j_objects, .off = PROFILE(rules), .max = PROFILE_RULES_MAX, .array = &rule_array, .nullable = true},
    {0},
};
/* clang-format on */

/* ---- checks that the tables cannot express ---- */

/* Parses at most four digits. Returns the position after them, or NULL. */
static const char *short_number(const char *text, unsigned *ret)
{
    size_t len = strspn(text, "0123456789");

    *ret = 0;
    if (len == 0 || len > 4)
        return NULL;
    for (; len > 0; len--)
        *ret = *ret * 10 + (unsigned)(*text++ - '0');
    return text;
}

int kernel_parse(const char *text, bool whole, unsigned *ret)
{
    unsigned major, minor;

    text = short_number(text, &major);
    if (text == NULL || *text != '.')
        return -EINVAL;
    text = short_number(text + 1, &minor);
    if (text == NULL || (whole && *text != '\0'))
        return -EINVAL;
    *ret = KERNEL(major, minor);
    return 0;
}

static int check_cond(struct profile_cond *c, const struct jpath *up, struct err *err)
{
    struct jpath path = {.up = up, .key = "caps"};

    for (size_t i = 0; c->caps != NULL && c->caps[i] != NULL; i++) {
        struct jpath here = {.up = &path, .index = i};
        int n = strtab_value(capability_names, c->caps[i]);

        if (n < 0)
            return json_fail(err, -EINVAL, &here, "\"%.64s\" is not a capability", c->caps[i]);
        c->cap_mask |= UINT64_C(1) << n;
    }
    if (c->min_kernel == NULL)
        return 0;
    path.key = "minKernel";
    if (kernel_parse(c->min_kernel, true, &c->kernel) < 0)
        return json_fail(err, -EINVAL, &path, "\"%s\" is not a version such as \"4.8\"",
                         c->min_kernel);
    return 0;
}

static int check_args(const struct seccomp_profile *p, const struct profile_rule *rule,
                      const struct jpath *up, struct err *err)
{
    struct jpath list = {.up = up, .key = "args"};
    unsigned seen = 0;

    for (size_t i = 0; i < rule->arg_count; i++) {
        struct jpath here = {.up = &list, .index = i};
        const struct profile_arg *a = &rule->args[i];
        int64_t compared = a->op == SCMP_CMP_MASKED_EQ ? a->value_two : a->value;

        /*
         * Docker splits such a rule into two that match independently: "!= 40" and "!= 38" would
         * then allow every value.
         */
        if (seen & 1U << a->index)
            return json_fail(err, -EINVAL, &here,
                             "argument %" PRId64 " is compared twice in one rule; use one rule for "
                             "each accepted range",
                             a->index);
        seen |= 1U << a->index;
        if (a->op != SCMP_CMP_MASKED_EQ && a->value_two != 0)
            return json_fail(err, -EINVAL, &here, "valueTwo only goes with SCMP_CMP_MASKED_EQ");
        if (a->op == SCMP_CMP_MASKED_EQ && (a->value_two & ~a->value) != 0)
            return json_fail(err, -EINVAL, &here,
                             "can never match: valueTwo has bits that the mask (value) clears");
        /*
         * In a 32-bit table libseccomp compares only the low 32 bits, so the rule would match more.
         */
        if (p->x86 && compared > UINT32_MAX)
            return json_fail(err, -ERANGE, &here,
                             "%" PRId64 " does not fit the 32-bit arguments of SCMP_ARCH_X86",
                             compared);
    }
    return 0;
}

static int check_rule(const struct seccomp_profile *p, struct profile_rule *rule,
                      const struct jpath *up, struct err *err)
{
    struct jpath path = {.up = up, .key = "names"};
    int r;

    if (rule->name != NULL) {
        if (rule->names != NULL)
            return json_fail(err, -EINVAL, up, "has both name and names");
        rule->names = calloc(2, sizeof(*rule->names));
        if (rule->names == NULL)
            return json_fail(err, -ENOMEM, up, "out of memory");
        rule->names[0] = take(rule->name);
    }
    if (rule->names == NULL)
        return json_fail(err, -EINVAL, &path, "missing");
    if (rule->errno_ret != 0 && rule->action != PACT_ERRNO) {
        path.key = "errnoRet";
        return json_fail(err, -EINVAL, &path, "only goes with SCMP_ACT_ERRNO");
    }
    if (rule->otherwise && (rule->action == PACT_ALLOW || rule->action == PACT_LOG)) {
        path.key = "otherwise";
        return json_fail(err, -EINVAL, &path, "only goes with an action that denies");
    }
    if (rule->otherwise && rule->arg_count > 0) {
        path.key = "args";
        return json_fail(err, -EINVAL, &path, "a rule that says \"otherwise\" compares none");
    }
    r = check_args(p, rule, up, err);
    if (r < 0)
        return r;
    path.key = "includes";
    r = check_cond(&rule->includes, &path, err);
    if (r < 0)
        return r;
    path.key = "excludes";
    return check_cond(&rule->excludes, &path, err);
}

/* Returns 1 if the list contains `want`; unknown names are an error. */
static int check_arches(char **list, int want, const struct jpath *path, struct err *err)
{
    int found = 0;

    for (size_t i = 0; list != NULL && list[i] != NULL; i++) {
        struct jpath here = {.up = path, .index = i};
        int arch = strtab_value(arch_names, list[i]);

        if (arch < 0)
            return json_fail(err, -EINVAL, &here, "\"%.64s\" is not an architecture", list[i]);
        if (arch == want)
            found = 1;
    }
    return found;
}

static int check_arch_map(struct seccomp_profile *p, const struct jpath *path, struct err *err)
{
    bool native = p->arch_map_count == 0;

    for (size_t i = 0; i < p->arch_map_count; i++) {
        struct jpath here = {.up = path, .index = i};
        struct jpath sub = {.up = &here, .key = "subArchitectures"};
        int x86 = check_arches(p->arch_map[i].sub, PARCH_X86, &sub, err);

        if (x86 < 0)
            return x86;
        if (p->arch_map[i].arch != PARCH_NATIVE)
            continue;
        native = true;
        p->x86 = x86 > 0 && HAS_I386;
    }
    return native ? 0 : json_fail(err, -EINVAL, path, "does not list this machine's architecture");
}

static int check_architectures(struct seccomp_profile *p, const struct jpath *up, struct err *err)
{
    struct jpath path = {.up = up, .key = "archMap"};
    int native, x86;

    if (p->architectures == NULL || p->architectures[0] == NULL)
        return check_arch_map(p, &path, err);
    if (p->arch_map_count > 0)
        return json_fail(err, -EINVAL, up, "has both architectures and archMap");

    path.key = "architectures";
    native = check_arches(p->architectures, PARCH_NATIVE, &path, err);
    if (native < 0)
        return native;
    if (native == 0)
        return json_fail(err, -EINVAL, &path, "does not list this machine's architecture");
    x86 = check_arches(p->architectures, PARCH_X86, &path, err);
    p->x86 = x86 > 0 && HAS_I386;
    return 0;
}

int j_seccomp(json_t *value, const struct jfield *field, void *dst, const struct jpath *path,
              struct err *err)
{
    struct jpath list = {.up = path, .key = "syscalls"};
    struct seccomp_profile *p;
    int r;

    p = calloc(1, sizeof(*p));
    if (p == NULL)
        return json_fail(err, -ENOMEM, path, "out of memory");
    *(struct seccomp_profile **)(void *)((char *)dst + field->off) = p; /* freed with dst */

    r = json_decode_at(value, profile_fields, p, path, err);
    if (r < 0)
        return r;
    r = check_architectures(p, path, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < p->rule_count; i++) {
        struct jpath here = {.up = &list, .index = i};

        r = check_rule(p, &p->rules[i], &here, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static void cond_done(struct profile_cond *c)
{
    json_strings_free(c->caps);
    json_strings_free(c->arches);
    free(c->min_kernel);
}

void seccomp_profile_free(struct seccomp_profile *p)
{
    if (p == NULL)
        return;
    for (size_t i = 0; i < p->rule_count; i++) {
        json_strings_free(p->rules[i].names);
        free(p->rules[i].name);
        free(p->rules[i].args);
        cond_done(&p->rules[i].includes);
        cond_done(&p->rules[i].excludes);
    }
    for (size_t i = 0; i < p->arch_map_count; i++)
        json_strings_free(p->arch_map[i].sub);
    free(p->rules);
    free(p->arch_map);
    json_strings_free(p->architectures);
    json_strings_free(p->flags);
    free(p);
}
