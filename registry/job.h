#pragma once

/* The job: what the parent asks of this process, for whom, and within which bounds
 * (image/registry-proto.h). It comes from the supervisor, before any byte of a network. Pure. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"
#include "platform.h"

struct err;

enum {
    JOB_CONNECT_MS = 30000,
    JOB_HEAD_MS = 60000,  /* from the last byte of a request to the end of the answer's head */
    JOB_IDLE_MS = 60000,  /* without a byte */
    JOB_FLOOR_MS = 60000, /* in each such time at least JOB_FLOOR_BYTES come or go */
    JOB_FLOOR_BYTES = 60 << 10,
    JOB_RETRIES = 4,     /* after the first attempt */
    JOB_WAIT_MS = 60000, /* all waits of a request together, for Retry-After and others */
};

struct job_credential {
    char *username, *password; /* owned; NULL = none */
    char *identity;            /* owned; an identity token: a refresh token of the token server */
    char *bearer;              /* owned; a token of the registry as it stands */
};

enum job_pull {
    JOB_PULL_ALL = 0,
    JOB_PULL_DIGEST,
    JOB_PULL_TAG,
};

struct job_mirror {
    char *host, *repository; /* owned; repository NULL = the job's */
    struct job_credential credential;
    int pull; /* enum job_pull */
};

struct job_tls {
    char *host;                   /* owned */
    char *ca, *certificate, *key; /* owned; PEM; NULL = none */
};

enum job_addresses {
    JOB_ADDRESSES_INTERNET = 0,
    JOB_ADDRESSES_ANY,
};

struct registry_job {
    char *host, *shown, *repository, *user_agent; /* owned; shown and user_agent never NULL */
    bool push;
    struct job_credential credential;
    struct platform platform;
    char **insecure, **exempt; /* owned, NULL-terminated; NULL = none */
    struct job_mirror *mirrors;
    size_t mirror_count;
    struct job_tls *tls;
    size_t tls_count;
    char *proxy_http, *proxy_https, *proxy_no; /* owned; NULL = none */
    int addresses;                             /* enum job_addresses */
    int64_t layers_max, bytes_max;
    int64_t connect_ms, head_ms, idle_ms, floor_ms, floor_bytes, retries, wait_ms;
};

/* Parses a job. -EINVAL, -ERANGE, -ENOMEM. */
int job_parse(const char *text, size_t len, struct registry_job **ret, struct err *err);
/* Wipes what is secret. */
void job_free(struct registry_job *j);
DEFINE_AUTO(struct registry_job, job_free);

/* What the job says of TLS for a host; port: never 0. NULL: nothing. */
const struct job_tls *job_find_tls(const struct registry_job *j, const char *host, uint16_t port,
                                   bool is_default_port);
/* True if "host" or "host:port" is in the list. */
bool job_lists_host(char *const *list, const char *host, uint16_t port, bool with_bare_names);
