#pragma once

/*
 * Golden byte vectors: the files of tests/vectors/golden hold each wire format byte for byte.
 *
 * A test opens one file and hands over the bytes that the product's encoder makes of a fixed value.
 * Bytes that differ fail the test. golden_check returns the file's bytes: the test decodes them and
 * compares the fields. tests/vectors/golden/README.md says how a vector is remade on purpose.
 *
 * Bytes of a GOLDEN_FORMAT file depend on the layout alone: the file is remade only after the
 * format's version word was raised. A GOLDEN_CONTENT file holds a message that the product builds
 * for a fixed input: its layout is fixed, but the choice and order of its records may change.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "tap.h"

#define GOLDEN_DIR    "tests/vectors/golden/"
#define GOLDEN_REMAKE "RIND_REMAKE_VECTORS"

enum {
    GOLDEN_SECTIONS_MAX = 64,
    GOLDEN_PARTS_MAX = 256, /* of one section */
    GOLDEN_FILE_MAX = 1 << 20,
    GOLDEN_LINE = 16,      /* bytes of one line of hex */
    GOLDEN_DIFF_LINES = 8, /* of one message about a difference */
    GOLDEN_NAME_MAX = 48,
};

enum golden_kind { GOLDEN_FORMAT, GOLDEN_CONTENT };

/* A group of fields. It becomes a comment of the file, and names the place of a difference. */
struct golden_part {
    size_t len;
    const char *name; /* borrowed */
};

struct golden_bytes {
    unsigned char *data; /* borrowed from the file, aligned for everything */
    size_t len;
};

struct golden_section {
    char name[GOLDEN_NAME_MAX];
    struct golden_bytes bytes; /* owned */
    bool is_checked;
};

struct golden {
    const char *format, *version_word; /* borrowed */
    unsigned version, file_version;    /* of the code; of the file, 0 = there is no file */
    enum golden_kind kind;
    bool remake, is_refused;
    struct golden_section sections[GOLDEN_SECTIONS_MAX];
    size_t section_count;
    struct buf text; /* the remade file */
};

static inline void golden_path(const struct golden *g, char path[128])
{
    (void)snprintf(path, 128, GOLDEN_DIR "%s.hex", g->format);
}

/* ---- reading a file ---- */

static inline struct golden_section *golden_find(struct golden *g, const char *name)
{
    for (size_t i = 0; i < g->section_count; i++)
        if (strcmp(g->sections[i].name, name) == 0)
            return &g->sections[i];
    return NULL;
}

static inline struct golden_section *golden_add(struct golden *g, const char *name)
{
    struct golden_section *s = &g->sections[g->section_count];

    if (g->section_count == GOLDEN_SECTIONS_MAX || golden_find(g, name) != NULL) {
        tap_fail("%s: section [%s] is there twice, or one too many", g->format, name);
        return NULL;
    }
    g->section_count++;
    (void)snprintf(s->name, sizeof(s->name), "%s", name);
    return s;
}

static inline void golden_append(struct golden_section *s, const void *data, size_t len)
{
    unsigned char *grown = realloc(s->bytes.data, s->bytes.len + len + 1);

    if (grown == NULL)
        abort();
    if (len > 0)
        (void)memcpy(grown + s->bytes.len, data, len);
    s->bytes.data = grown;
    s->bytes.len += len;
}

/* Parses "52 4e  # comment". Returns false if a word is no hexadecimal byte. */
static inline bool golden_parse_hex(struct golden_section *s, const char *line)
{
    char *end;

    for (line += strspn(line, " "); *line != '\0' && *line != '#'; line = end + strspn(end, " ")) {
        unsigned long value = strtoul(line, &end, 16);
        unsigned char byte = (unsigned char)value;

        if (end != line + 2)
            return false;
        golden_append(s, &byte, 1);
    }
    return true;
}

static inline void golden_parse(struct golden *g, char *text)
{
    struct golden_section *s = NULL;
    char name[GOLDEN_NAME_MAX], *save = NULL;
    int number = 0;

    for (char *line = strtok_r(text, "\n", &save); line != NULL;
         line = strtok_r(NULL, "\n", &save)) {
        number++;
        if (line[0] == '#')
            continue;
        if (sscanf(line, "version %*s %u", &g->file_version) == 1)
            continue;
        if (sscanf(line, "[%47[^]]]", name) == 1)
            s = golden_add(g, name);
        else if (s == NULL || !golden_parse_hex(s, line))
            tap_fail("%s: line %d is neither a section nor hexadecimal: %s", g->format, number,
                     line);
    }
}

/* ---- writing a file ---- */

static inline void golden_write_head(struct golden *g)
{
    (void)buf_printf(
        &g->text,
        "# Bytes of %s. Made by tests/unit/test-golden-*; README.md says how to remake "
        "them.\n"
        "version %s %u\n",
        g->format, g->version_word, g->version);
}

/* Appends the bytes as text if all of them are printable. */
static inline void golden_write_text(struct buf *b, const unsigned char *data, size_t len)
{
    size_t shown = len > 0 && data[len - 1] == '\0' ? len - 1 : len;

    if (shown < 2)
        return;
    for (size_t i = 0; i < shown; i++)
        if (data[i] < ' ' || data[i] > '~')
            return;
    (void)buf_printf(b, " \"%.*s\"", (int)shown, (const char *)data);
}

static inline void golden_write_part(struct buf *b, const unsigned char *data, size_t len,
                                     const char *name)
{
    for (size_t at = 0; at < len; at += GOLDEN_LINE) {
        size_t n = len - at < GOLDEN_LINE ? len - at : GOLDEN_LINE;

        for (size_t i = 0; i < n; i++)
            (void)buf_printf(b, i > 0 ? " %02x" : "%02x", data[at + i]);
        if (at == 0) {
            (void)buf_printf(b, "%*s # %s", len > 8 ? 3 * (GOLDEN_LINE - (int)n) : 3 * (8 - (int)n),
                             "", name);
            golden_write_text(b, data, len);
        }
        (void)buf_append_str(b, "\n");
    }
}

/* Returns the length of part i; past the last part, all remaining bytes are one part. */
static inline size_t golden_part_len(const struct golden_part *parts, size_t count, size_t i,
                                     size_t left)
{
    return i >= count || parts[i].len > left ? left : parts[i].len;
}

static inline const char *golden_part_name(const struct golden_part *parts, size_t count, size_t i)
{
    return i < count ? parts[i].name : "rest";
}

static inline void golden_write_section(struct golden *g, const char *name,
                                        const struct golden_part *parts, size_t count,
                                        const unsigned char *data, size_t len)
{
    (void)buf_printf(&g->text, "\n[%s]\n", name);
    for (size_t i = 0, at = 0; at < len; i++) {
        size_t n = golden_part_len(parts, count, i, len - at);

        golden_write_part(&g->text, data + at, n, golden_part_name(parts, count, i));
        at += n;
    }
}

/* ---- printing a difference ---- */

static inline size_t golden_first_difference(const unsigned char *a, size_t a_len,
                                             const unsigned char *b, size_t b_len)
{
    size_t at = 0;

    while (at < a_len && at < b_len && a[at] == b[at])
        at++;
    return at;
}

static inline void golden_print_line(const char *what, size_t at, const unsigned char *data,
                                     size_t len)
{
    printf("#   %s %04zx ", what, at);
    for (size_t i = 0; i < GOLDEN_LINE; i++)
        if (at + i < len)
            printf(" %02x", data[at + i]);
        else
            printf("   ");
    printf("  |");
    for (size_t i = 0; i < GOLDEN_LINE && at + i < len; i++)
        printf("%c", data[at + i] >= ' ' && data[at + i] <= '~' ? data[at + i] : '.');
    printf("|\n");
}

/* Prints the part and offset of the first difference, and the lines of both dumps that differ. */
static inline void golden_print_difference(const struct golden_part *parts, size_t count,
                                           struct golden_bytes want, const unsigned char *got,
                                           size_t got_len)
{
    size_t first = golden_first_difference(want.data, want.len, got, got_len);
    size_t longest = want.len > got_len ? want.len : got_len, i = 0, at = 0;
    int lines = 0;

    while (i < count && at + parts[i].len <= first)
        at += parts[i++].len;
    printf("#   %zu bytes, the vector has %zu; they differ from byte %zu on, in \"%s\"\n", got_len,
           want.len, first, golden_part_name(parts, count, i));
    for (at = first - first % GOLDEN_LINE; at < longest && lines < GOLDEN_DIFF_LINES;
         at += GOLDEN_LINE) {
        size_t want_n = at >= want.len ? 0 : want.len - at,
               got_n = at >= got_len ? 0 : got_len - at;

        want_n = want_n < GOLDEN_LINE ? want_n : GOLDEN_LINE;
        got_n = got_n < GOLDEN_LINE ? got_n : GOLDEN_LINE;
        if (want_n == got_n && memcmp(want.data + at, got + at, got_n) == 0)
            continue;
        if (want_n > 0)
            golden_print_line("vector", at, want.data, want.len);
        if (got_n > 0)
            golden_print_line("now   ", at, got, got_len);
        lines++;
    }
}

/* Fails the test, and says how the vector is remade. */
static inline void golden_refuse(struct golden *g, const char *name, const char *what)
{
    if (g->file_version != 0 && g->file_version != g->version)
        tap_fail("%s [%s]: %s: remake the vector", g->format, name, what);
    else if (g->kind == GOLDEN_CONTENT)
        tap_fail("%s [%s]: %s. Raise %s if the layout has changed; if only what is built has, "
                 "remake the vector: " GOLDEN_REMAKE "=1",
                 g->format, name, what, g->version_word);
    else
        tap_fail(
            "%s [%s]: %s: raise its version (%s, now %u), then remake the vector: " GOLDEN_REMAKE
            "=1",
            g->format, name, what, g->version_word, g->version);
}

/* Returns true if the vectors of the file must not change. */
static inline bool golden_is_fixed(const struct golden *g)
{
    return !g->remake || (g->kind == GOLDEN_FORMAT && g->file_version == g->version);
}

static inline void golden_write_file(struct golden *g)
{
    auto_close int dir = open(GOLDEN_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct err err = ERR_NONE;
    char name[64];

    (void)snprintf(name, sizeof(name), "%s.hex", g->format);
    if (file_replace_at(dir, name, g->text.data, g->text.len, 0644, &err) < 0)
        tap_fail("%s", err.msg);
}

/* ---- the interface ---- */

/* Reads the file. version_word names the constant that is raised when the format changes. Never
 * NULL; golden_close frees it. */
static inline struct golden *golden_open(const char *format, enum golden_kind kind,
                                         const char *version_word, unsigned version)
{
    struct golden *g = calloc(1, sizeof(*g));
    struct err err = ERR_NONE;
    char path[128], *text = NULL;
    size_t len;
    int r;

    if (g == NULL)
        abort();
    g->format = format;
    g->kind = kind;
    g->version_word = version_word;
    g->version = version;
    g->remake = getenv(GOLDEN_REMAKE) != NULL;
    g->text = (struct buf)BUF_INIT(GOLDEN_FILE_MAX);
    golden_path(g, path);
    r = file_read_at(AT_FDCWD, path, GOLDEN_FILE_MAX, &text, &len, &err);
    if (r == 0)
        golden_parse(g, text);
    else if (r != -ENOENT || !g->remake)
        tap_fail("%s", err.msg);
    free(text);
    if (r == 0 && g->file_version != version && !g->remake)
        tap_fail("%s: the vectors are of version %u, %s is %u: remake them: " GOLDEN_REMAKE "=1",
                 path, g->file_version, version_word, version);
    golden_write_head(g);
    return g;
}

/*
 * Compares the encoder's bytes with the file's section. Returns the file's, to be decoded, or the
 * encoder's if the file has no such section or is remade. The bytes are valid until golden_close.
 */
static inline struct golden_bytes golden_check(struct golden *g, const char *name,
                                               const struct golden_part *parts, size_t count,
                                               const void *data, size_t len)
{
    struct golden_section *s = golden_find(g, name);
    bool is_new = s == NULL, differs;

    if (is_new) {
        s = golden_add(g, name);
        if (s == NULL)
            abort();
        if (!g->remake)
            golden_refuse(g, name, "there is no such vector");
        golden_append(s, data, len);
    }
    if (s->is_checked)
        tap_fail("%s [%s] is checked twice", g->format, name);
    s->is_checked = true;
    differs = s->bytes.len != len || memcmp(s->bytes.data, data, len) != 0;
    if (differs && golden_is_fixed(g)) {
        golden_refuse(g, name, g->kind == GOLDEN_FORMAT ? "the format changed" : "other bytes");
        golden_print_difference(parts, count, s->bytes, data, len);
        g->is_refused = true;
    }
    golden_write_section(g, name, parts, count, data, len);
    if (differs && g->remake) {
        s->bytes.len = 0;
        golden_append(s, data, len);
    }
    return s->bytes;
}

/* Fails the test if a section of the file was not checked. Writes the file if it is remade. */
static inline void golden_close(struct golden *g)
{
    for (size_t i = 0; i < g->section_count; i++)
        if (!g->sections[i].is_checked && golden_is_fixed(g)) {
            golden_refuse(g, g->sections[i].name, "no test encodes it any more");
            g->is_refused = true;
        }
    if (g->remake && !g->is_refused)
        golden_write_file(g);
    for (size_t i = 0; i < g->section_count; i++)
        free(g->sections[i].bytes.data);
    buf_done(&g->text);
    free(g);
}

#define GOLDEN_PARTS(list) (list), sizeof(list) / sizeof((list)[0])
