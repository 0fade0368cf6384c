#include <errno.h>

#include "api/audit.h"
#include "api/common.h"
#include "api/native/doctor-reader.h"
#include "api/native/native.h"
#include "api/rights-table.h"
#include "http/route.h"
#include "sandbox/limits.h"
#include "sandbox/services.h"

const struct route *const native_tables[] = {
    native_sandbox_routes,   native_exec_routes,  native_process_routes,
    native_file_routes,      native_event_routes, native_exposure_routes,
    native_port_http_routes, native_port_routes,  native_system_routes,
    native_egress_routes,    native_image_routes, native_volume_routes,
    native_network_routes,   native_audit_routes, NULL,
};
_Static_assert(sizeof(native_tables) / sizeof(native_tables[0]) - 1 <= NATIVE_SETS_MAX,
               "each table has a set");

int native_init(struct native *n, const struct native_config *config)
{
    *n = (struct native){.config = *config};
    n->config.doctor_fd = -1;
    n->config.images = supervisor_images(config->supervisor);
    return doctor_reader_new(supervisor_loop(config->supervisor), config->doctor_fd, &n->doctor);
}

int native_open_audit(struct native *n, int dir_fd, struct err *err)
{
    const struct audit_config config = {
        .loop = supervisor_loop(n->config.supervisor),
        .dir_fd = dir_fd,
        .bytes = supervisor_limits(n->config.supervisor)->audit_bytes,
    };

    return config.bytes > 0 ? audit_log_open(&config, &n->audit, err) : 0;
}

void native_done(struct native *n)
{
    doctor_reader_close(n->doctor);
    n->doctor = NULL;
    audit_log_close(n->audit);
    n->audit = NULL;
    rights_free(n->rights);
    n->rights = NULL;
}

int native_bind_rights(struct native *n, const struct route_set *sets, struct err *err)
{
    return rights_new(sets, &n->rights, err);
}

size_t native_route_sets(struct native *n, struct route_set *sets)
{
    size_t count = 0;

    for (; native_tables[count] != NULL; count++)
        sets[count] = (struct route_set){.routes = native_tables[count],
                                         .context = n,
                                         .admit = api_admit,
                                         .replied = audit_replied};
    sets[count] = (struct route_set){0};
    return count;
}
