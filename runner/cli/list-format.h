#pragma once

/*
 * --format of the lists and of inspect, as docker has it: a template (docker-template.h) that is
 * expanded once for each row, `json` for a line of JSON each, `table TEMPLATE` for columns with
 * titles, which \t separates. A row is what the API says about the object, with docker's names of
 * fields beside it ({{.ID}}, {{.Names}}).
 */

#include <jansson.h>
#include <stdbool.h>

#include "cli/remote.h"

struct err;

#define FORMAT_HELP                                                                                \
    "Print each by a template, such as '{{.Name}}' or 'table {{.ID}}\\t{{.Name}}', or json for a " \
    "line of JSON each; '{{json .}}' shows what there is"

/* Options --socket, --json and --format. */
extern const struct opt format_options[];
#define FORMAT_GROUP                                                                               \
    {                                                                                              \
        .title = "Daemon and output", .rows = format_options                                       \
    }

/* True if --format asks for something else than the table that is printed without it. */
bool format_is_given(const struct remote *r);
/* Makes the row of an element: a new reference, NULL = out of memory. */
typedef json_t *list_row_fn(const json_t *element);
/* Prints the list by --format. -EINVAL: the template; -ENOMEM. */
int format_list(const struct remote *r, const json_t *list, list_row_fn *row, struct err *err);
/* Prints one line for root, without docker's names. */
int format_one(const struct remote *r, json_t *root, struct err *err);

/* A copy of element for the fields of a row to be added to. NULL = out of memory. */
json_t *row_new(const json_t *element);
/* text NULL: "". */
void row_text(json_t *row, const char *key, const char *text);
/* An object {"k":"v"} as "k=v,k2=v2". */
void row_labels(json_t *row, const char *key, const json_t *labels);
/* "3 min ago" of an RFC 3339 time. */
void row_ago(json_t *row, const char *key, const json_t *time);
