"""A thousand networks on one host: adding and removing the last hundred beside the first hundred."""
from benchlib import Case, Reach, Series

COUNT, QUICK_COUNT = 1000, 300
ADD_FIRST, ADD_LAST = "network: add, first 100", "network: add, last 100 of 1000"
REMOVE_FIRST, REMOVE_LAST = "network: remove, first 100", "network: remove, last 100 of 1000"


def cases(ctx):
    program = ctx.build("networks", ["networks.c"], runner=True)
    count = QUICK_COUNT if ctx.quick else COUNT

    def batch(_):
        lists = ctx.samples([program, str(count)])
        return {name: [ns / 1e3 for ns in values] for name, values in zip((ADD_FIRST, ADD_LAST, REMOVE_FIRST, REMOVE_LAST), lists)}

    return [Case([Series(ADD_FIRST), Series(ADD_LAST, peer=ADD_FIRST, reach=Reach(ratio=1.5)), Series(REMOVE_FIRST),
                  Series(REMOVE_LAST, peer=REMOVE_FIRST, reach=Reach(ratio=1.5))], batch, once=True)]
