/* Messages of init while it starts. */
#include <string.h>
#include <unistd.h>

#include "init/init.h"

static int report_send(uint16_t type, uint32_t step, int detail, int error)
{
    struct imsg msg = {.magic = IMSG_MAGIC,
                       .version = IMSG_VERSION,
                       .type = type,
                       .step = step,
                       .value = detail,
                       .error = error};

    return wire_send(PLAN_CONTROL_FD, &msg, sizeof(msg), NULL, 0);
}

void init_fail(enum init_stage stage, int detail, int error)
{
    /* The result does not matter: a live launcher also sees EOF. */
    (void)report_send(IMSG_FAIL, stage, detail, error);
    _exit(1);
}

void init_stage(enum init_stage stage)
{
    const uint32_t word = stage;

    /* The launcher may have exited; SIGPIPE is blocked. */
    (void)!write(PLAN_STAGE_FD, &word, sizeof(word));
}

void init_tell(enum init_stage stage)
{
    if (report_send(IMSG_STAGE, stage, 0, 0) < 0)
        _exit(1);
}

void init_ready(void)
{
    /* If the launcher has exited by now, no process knows this init. */
    if (report_send(IMSG_READY, INIT_STAGE_LOOP, 0, 0) < 0)
        _exit(1);
    (void)close(PLAN_STAGE_FD);
}
