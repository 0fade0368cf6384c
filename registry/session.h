#pragma once

/*
 * What all requests of the process share: the job, the hosts that it is about with what is known of
 * them (scheme, challenge, tokens), and the socket to the parent. And one running request: its
 * thread's state, how it is told of progress, whether it is canceled.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "challenge.h"
#include "http.h"
#include "image/registry-proto.h"
#include "job.h"
#include "trouble.h"
#include "url.h"

enum { REMOTE_TOKENS_MAX = 8, REMOTE_SCOPE_MAX = 4 * CHALLENGE_TEXT_MAX, REMOTES_MAX = 17 };

struct host_token {
    char *scope, *text; /* owned; scope NULL: the place is free */
    int64_t until;      /* monotonic ms */
    uint64_t number;    /* of this token, among all of the host */
};

/* A host with one repository: the origin or a mirror. */
struct registry_host {
    const char *host, *shown, *repository;   /* borrowed from the job */
    const struct job_credential *credential; /* borrowed */
    int pull;                                /* enum job_pull: of a mirror */
    bool is_mirror;
    pthread_mutex_t lock; /* of what follows */
    bool ready;           /* the first look has chosen the scheme */
    struct url base;      /* its target is "/" */
    struct challenge challenge;
    struct host_token tokens[REMOTE_TOKENS_MAX];
    uint64_t token_number;
};

struct session {
    const struct registry_job *job; /* borrowed */
    int control;                    /* borrowed */
    pthread_mutex_t send_lock;
    struct registry_host remotes[REMOTES_MAX]; /* mirrors in their order, then the origin */
    size_t remote_count;
};

/* One request of the parent, while a thread runs it. */
struct errand {
    struct session *session; /* borrowed */
    struct http *http;       /* borrowed from the thread */
    atomic_bool canceled;
    struct registry_msg msg;
    int fd;            /* owned; FD_NONE = none came */
    int64_t told;      /* when PROGRESS was sent */
    int64_t waited_ms; /* for retries so far */
};

void session_init(struct session *s, const struct registry_job *job, int control);
struct registry_host *session_origin(struct session *s);

/* Sends a message of the errand's id. A parent that is gone ends the process anyway. */
void errand_send(struct errand *e, struct registry_msg *m, int fd);
/* Sends PROGRESS, if the last one is not too fresh. */
void errand_tell_progress(struct errand *e, int64_t offset);
/* Sends a body as a document in a memfd. */
int errand_send_document(struct errand *e, enum registry_document kind, const char *digest,
                         const char *media_type, const void *data, size_t len, struct trouble *t);

/*
 * Decides after a failed attempt whether there is another one, and waits for it: growing times, or
 * what Retry-After asked for, within the job's bounds. *attempt counts, from 0. False: t is final.
 */
bool errand_try_again(struct errand *e, int *attempt, struct trouble *t);
