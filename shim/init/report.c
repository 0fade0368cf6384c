/* What init says while it starts. */
#include <string.h>
#include <unistd.h>

#include "init/init.h"

static void send_boot(uint16_t type, uint32_t step, int detail, int error)
{
    struct imsg msg = {.magic = IMSG_MAGIC,
                       .version = IMSG_VERSION,
                       .type = type,
                       .step = step,
                       .value = detail,
                       .error = error};

    (void)wire_send(PLAN_CONTROL_FD, &msg, sizeof(msg), NULL,
                    0); /* nobody left to tell: EOF says it */
}

void init_fail(enum init_stage stage, int detail, int error)
{
    send_boot(IMSG_FAIL, stage, detail, error);
    _exit(1);
}

void init_stage(enum init_stage stage)
{
    send_boot(IMSG_STAGE, stage, 0, 0);
}

void init_ready(void)
{
    send_boot(IMSG_READY, INIT_STAGE_LOOP, 0, 0);
}
