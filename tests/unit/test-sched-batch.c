/* With much to move a thread interrupts nobody; with less it is an ordinary one again. */
#include <assert.h>
#include <sched.h>
#include <unistd.h>
#include <uv.h>

#include "base/err.h"
#include "base/evloop.h"
#include "gateway/sched-batch.h"
#include "tap.h"

struct lab {
    uv_loop_t loop;
    struct evloop *evloop;
    struct sched_batch t;
};

static void lab_open(struct lab *lab)
{
    struct err err = ERR_NONE;

    assert(uv_loop_init(&lab->loop) == 0);
    assert(evloop_new(&lab->loop, &lab->evloop, &err) == 0);
    sched_batch_init(&lab->t, lab->evloop);
}

static void lab_close(struct lab *lab)
{
    sched_batch_close(&lab->t);
    evloop_close(lab->evloop);
    (void)uv_run(&lab->loop, UV_RUN_DEFAULT);
    CHECK_INT(uv_loop_close(&lab->loop), 0);
}

static int policy(void)
{
    return sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
}

static void turn(struct lab *lab)
{
    (void)uv_run(&lab->loop, UV_RUN_NOWAIT);
}

static void let_pass(struct lab *lab, unsigned ms)
{
    uint64_t until;

    uv_update_time(&lab->loop);
    until = uv_now(&lab->loop) + ms;
    while (uv_now(&lab->loop) <= until) {
        (void)usleep(1000);
        turn(lab);
    }
}

TEST(much_is_moved_without_interrupting_others)
{
    struct lab lab;

    lab_open(&lab);
    sched_batch_moved(&lab.t, SCHED_BATCH_MUCH);
    sched_batch_moved(&lab.t, SCHED_BATCH_MUCH);
    CHECK_INT(policy(), SCHED_BATCH);
    for (int i = 0; i < 5; i++) { /* and as long as it goes on, over more than one window */
        sched_batch_moved(&lab.t, SCHED_BATCH_MUCH);
        let_pass(&lab, SCHED_BATCH_WINDOW_MS / 2);
        CHECK_INT(policy(), SCHED_BATCH);
    }
    let_pass(&lab, 3 * SCHED_BATCH_WINDOW_MS);
    CHECK_INT(policy(), SCHED_OTHER);
    CHECK(lab.t.window.link == NULL); /* no timer while nothing moves */
    lab_close(&lab);
}

TEST(little_at_a_time_is_not_much)
{
    struct lab lab;

    lab_open(&lab);
    for (int i = 0; i < 6; i++) {
        sched_batch_moved(&lab.t, SCHED_BATCH_MUCH / 2 - 1);
        CHECK_INT(policy(), SCHED_OTHER);
        CHECK(lab.t.window.link == NULL);
        let_pass(&lab, SCHED_BATCH_WINDOW_MS + 1);
    }
    lab_close(&lab);
}

TEST(closed_in_the_middle)
{
    struct lab lab;

    lab_open(&lab);
    sched_batch_moved(&lab.t, SCHED_BATCH_MUCH);
    sched_batch_moved(&lab.t, SCHED_BATCH_MUCH);
    CHECK_INT(policy(), SCHED_BATCH);
    lab_close(&lab);
    CHECK_INT(policy(), SCHED_OTHER);
}

/* An administrator may have put the whole daemon last. */
TEST(another_choice_stays)
{
    const struct sched_param none = {.sched_priority = 0};
    struct lab lab;

    assert(sched_setscheduler(0, SCHED_IDLE, &none) == 0);
    lab_open(&lab);
    sched_batch_moved(&lab.t, SCHED_BATCH_MUCH);
    sched_batch_moved(&lab.t, SCHED_BATCH_MUCH);
    CHECK_INT(policy(), SCHED_IDLE);
    lab_close(&lab);
    CHECK_INT(policy(), SCHED_IDLE);
    assert(sched_setscheduler(0, SCHED_OTHER, &none) == 0);
}

TAP_MAIN
