#include "daemon/parts.h"

#include "egress/ca-bundle.h"
#include "egress/egress.h"
#include "exec/console.h"
#include "exec/health.h"
#include "exec/process.h"
#include "images/images.h"
#include "ports/exposure.h"
#include "ports/names.h"
#include "ports/net-socket.h"
#include "ports/networks.h"
#include "ports/publish.h"
#include "sandbox/exec.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/shared.h"
#include "volume/volume-use.h"
#include "volume/volumes.h"
#include "workerd/loopback-forward.h"

/* ---- adapters ---- */

static void image_let_go(struct sandbox *s)
{
    if (s->spec != NULL && s->spec->image_id != NULL && s->sup->images != NULL)
        images_sandbox_gone(s->sup->images);
}

static int volumes_check(struct supervisor *sup, struct spec *spec, const struct caller *creator,
                         struct err *err)
{
    return volumes_check_spec(sup, spec, creator, err);
}

static int networks_check(struct supervisor *sup, struct spec *spec, const struct caller *creator,
                          struct err *err)
{
    return networks_check_spec(sup, spec, creator, err);
}

static void health_main_runs(struct sandbox *s, struct exec *main, bool adopted)
{
    if (!adopted || (exec_get_state(main) != EXEC_ENDED &&
                     (s->state == SANDBOX_RUNNING || s->state == SANDBOX_PAUSED)))
        health_begin(s);
}

static void console_main_runs(struct sandbox *s, struct exec *main, bool adopted)
{
    if (!s->spec->console)
        return;
    if (adopted)
        console_reattach(s, main);
    else
        console_begin(s, main);
}

/* ---- the table ---- */

const struct sandbox_part sandbox_parts[] = {
    {.name = "image", .told = {[PART_FORGOTTEN] = image_let_go}},
    {.name = "egress",
     .steps = {[STAGE_NETWORK] = egress_start, [STAGE_REOPEN] = egress_reopen},
     .told = {[PART_CLOSE] = egress_close, [PART_LET_GO] = egress_close}},
    {.name = "names",
     .steps = {[STAGE_NETWORK] = names_start, [STAGE_REOPEN] = names_reopen},
     .told = {[PART_CLOSE] = names_close, [PART_LET_GO] = names_close}},
    {.name = "net sockets",
     .told = {[PART_CLOSE] = net_sockets_close,
              [PART_LET_GO] = net_sockets_close,
              [PART_FREED] = net_sockets_free}},
    {.name = "loopback-forward",
     .steps = {[STAGE_INIT] = loopback_forward_start},
     .told = {[PART_CLOSE] = loopback_forward_close,
              [PART_LET_GO] = loopback_forward_close,
              [PART_FREED] = loopback_forward_free}},
    {.name = "ports",
     .steps = {[STAGE_PREPARE] = publish_start,
               [STAGE_MAIN] = publish_start,
               [STAGE_REOPEN] = publish_reopen},
     .told = {[PART_CLOSE] = publish_close,
              [PART_LET_GO] = publish_close,
              [PART_FREED] = publish_free}},
    {.name = "exposures",
     .told = {[PART_LOADED] = exposure_load, [PART_FREED] = exposure_free_all}},
    {.name = "volumes",
     .check_spec = volumes_check,
     .complete_spec = volumes_name_anonymous,
     .usage = volumes_usage,
     .steps = {[STAGE_PREPARE] = volumes_prepare},
     .told = {[PART_CANCEL] = volumes_prepare_cancel, [PART_REMOVED] = volumes_sandbox_gone}},
    {.name = "networks",
     .check_spec = networks_check,
     .usage = networks_usage,
     .steps = {[STAGE_PREPARE] = networks_start,
               [STAGE_MAIN] = networks_take_addresses,
               [STAGE_REOPEN] = networks_reopen},
     .main_runs = networks_main_runs,
     .told = {[PART_MAIN_ENDED] = networks_main_ended, [PART_CLOSE] = networks_close_addresses}},
    {.name = "trust", .steps = {[STAGE_INIT] = ca_bundle_start}, .env = ca_bundle_env},
    {.name = "processes",
     .told = {[PART_TAKEN_UP] = process_load_all,
              [PART_MAIN_ENDED] = process_main_ended,
              [PART_FORGOTTEN] = process_free_all,
              [PART_FREED] = process_free_all}},
    {.name = "health",
     .main_runs = health_main_runs,
     .told = {[PART_MAIN_ENDED] = health_end,
              [PART_CLOSE] = health_end,
              [PART_FORGOTTEN] = health_free}},
    {.name = "console",
     .main_runs = console_main_runs,
     .told = {[PART_NO_RUN] = console_no_run, [PART_FREED] = console_free}},
    {.name = NULL},
};
