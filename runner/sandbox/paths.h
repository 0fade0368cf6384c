#pragma once

/* Directories of a rind that root runs without other settings. */

#define CORE_STATE_DIR   "/var/lib/rind"
#define CORE_RUNTIME_DIR "/run/rind"
/* One id range registry for the whole host, whatever the state directory: ranges never collide. */
#define CORE_IDS_DIR "/var/lib/rind/ids"
