#pragma once

/* `rind-rootfs unpack|split|inspect|pack`: the worker, started by its own program, for users and
 * tests. Returns the exit status. */
int command_main(int argc, char **argv);
