#pragma once

/* Shared by reaper.c (clients and time) and reaper-remove.c (the removal). */

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "api/docker/reaper-filter.h"
#include "ports/publish.h"

struct native;
struct reaper_conn;
struct sandbox;

enum {
    REAPER_FILTERS_MAX = 256,
    REAPER_CONNS_MAX = 256,
    REAPER_PROOF_MS = 5 * 1000, /* for a client to name the session; others count for nothing */
    REAPER_FIRST_MS = 60 * 1000,
    REAPER_AGAIN_MS = 10 * 1000,
};

/*
 * WAITS   has clients, or waits for the first or the next one
 * REAPS   removes; new clients are dropped
 * OVER    its sandbox has ended; it is freed with its last pending callback
 */
enum reaper_phase { REAPER_WAITS, REAPER_REAPS, REAPER_OVER };

struct reaper {
    struct reaper *next, **link; /* in all->first */
    struct reapers *all;
    struct sandbox *s; /* a reference */
    enum reaper_phase phase;
    struct reaper_conn *conns;
    unsigned conn_count;
    unsigned clients;                                  /* connections that have named the session */
    struct reaper_filter *filters[REAPER_FILTERS_MAX]; /* owned */
    size_t filter_count;
    uv_timer_t timer;
    unsigned refs;    /* the timer, and pending callbacks */
    unsigned pending; /* removals of the present step, plus one while it begins */
    unsigned step;
    unsigned containers, networks, volumes, images; /* removed */
};

struct reapers {
    struct native *native; /* borrowed */
    struct publish_taker taker;
    struct reaper *first;
};

/* Removes what matches, then stops the reaper's sandbox. */
void reaper_reap(struct reaper *rp);
void reaper_unref(struct reaper *rp);
