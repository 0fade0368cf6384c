#pragma once

/* Where rind keeps things when root runs it and nobody says otherwise. */

#define CORE_STATE_DIR   "/var/lib/rind"
#define CORE_RUNTIME_DIR "/run/rind"
/* One id range registry for the whole host, whatever the state directory: ranges never collide. */
#define CORE_IDS_DIR "/var/lib/rind/ids"
