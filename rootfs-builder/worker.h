#pragma once

/* The worker: see image/worker-proto.h for what it is started with, and what it says. */

/* Does one operation. argv: "rind-rootfs", "worker", PARENTS. Returns the exit status: 0 after
 * DONE. */
int worker_main(int argc, char **argv);
