#pragma once

/* The worker: image/worker-proto.h describes its start and its messages. */

/* Does one operation. argv: "rind-rootfs", "worker", PARENTS. Returns the exit status: 0 after
 * DONE. */
int worker_main(int argc, char **argv);
