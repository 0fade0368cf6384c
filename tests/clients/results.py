"""What a suite's tests came to, held against the list of what is expected to fail.

    Result      one test: passed, failed or skipped by the suite itself
    Expected    one line of the file `expected`: a suite, a pattern of test names, a kind, a reason
    Judgement   a suite's results with the list applied

A failure that no line names is unexpected. A line all of whose tests pass, or which no test fits, is stale: it is named, so
that the list stays true, and fails nothing.
"""
import collections
import dataclasses
import fnmatch
import os
import xml.etree.ElementTree as ET

KINDS = {
    "swarm": "rind has no swarm, and none of its services, tasks, nodes, secrets and configs",
    "plugins": "rind has no plugins, and no drivers of others for networks, volumes and logs",
    "registry": "there is no registry here to pull from or push to",
    "builds": "images are not built yet",
    "refused": "docs/threat-model.md closes it",
    "host": "the test needs something of the machine that is not Docker's API",
    "client": "the client or its test is wrong, on Docker as well",
    "later": "a part of the API that is not there yet",
}
MESSAGE_LIMIT = 4000


@dataclasses.dataclass
class Result:
    name: str
    state: str  # passed, failed, skipped
    message: str = ""
    seconds: float = 0.0


@dataclasses.dataclass
class Expected:
    suite: str
    pattern: str
    kind: str
    reason: str
    line: int

    def fits(self, suite, name):
        return fnmatch.fnmatchcase(suite, self.suite) and fnmatch.fnmatchcase(name, self.pattern)


def read_expected(path):
    """The lines of the list; a malformed one is an error."""
    found = []
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            if not line.strip() or line.startswith("#"):
                continue
            parts = line.split(None, 3)
            if len(parts) != 4 or parts[2] not in KINDS:
                raise ValueError(f"{path}:{number}: want SUITE PATTERN KIND REASON, with a kind of {', '.join(KINDS)}")
            found.append(Expected(*parts[:3], parts[3].strip(), number))
    return found


def read_junit(path):
    """The tests of a JUnit file, as pytest and Node's test runner write it. One that fails and then fails to clean up is there twice."""
    found = {}
    for case in ET.parse(path).getroot().iter("testcase"):
        where = case.get("file") or case.get("classname") or ""
        where = "" if where == "test" else os.path.splitext(os.path.basename(where))[0].split(".")[-1]
        name = case.get("name", "?")
        bad = [e for e in case if e.tag in ("failure", "error")]
        skipped = case.find("skipped")
        message = "\n".join(f"{e.get('message', '')}\n{e.text or ''}" for e in bad) or (skipped.get("message") or "" if skipped is not None else "")
        state = "failed" if bad else "skipped" if skipped is not None else "passed"
        result = Result("::".join(x for x in (where, name) if x).replace(" ", "_"), state, message[:MESSAGE_LIMIT], float(case.get("time") or 0))
        before = found.setdefault((case.get("classname"), name), result)
        if before is not result:
            before.state = "failed" if "failed" in (before.state, state) else before.state
            before.message = f"{before.message}\n{result.message}"[:MESSAGE_LIMIT]
    return list(found.values())


class Judgement:
    """A suite's results, sorted by what was expected of them."""

    def __init__(self, suite, results, expected):
        self.suite, self.results = suite, results
        self.lines = [e for e in expected if fnmatch.fnmatchcase(suite, e.suite)]
        self.unexpected, self.by_kind = [], collections.Counter()
        met = collections.defaultdict(list)  # line -> states
        for r in results:
            fitting = [e for e in self.lines if e.fits(suite, r.name)]
            for e in fitting:
                met[e.line].append(r.state)
            if r.state == "failed" and fitting:
                self.by_kind[fitting[0].kind] += 1
            elif r.state == "failed":
                self.unexpected.append(r)
            elif r.state == "skipped":
                self.by_kind["own"] += 1
        self.idle = [e for e in self.lines if not {"failed", "skipped"} & set(met[e.line])]

    @property
    def passed(self):
        return sum(r.state == "passed" for r in self.results)

    @property
    def kinds(self):
        return ", ".join(f"{kind} {n}" for kind, n in sorted(self.by_kind.items())) or "–"


def stale(judged, expected):
    """Lines of which nothing fails, in any of the suites that they are for; of those only that have all been run by the caller."""
    fitting = {e.line: [j for j in judged if fnmatch.fnmatchcase(j.suite, e.suite)] for e in expected}
    return [e for e in expected if fitting[e.line] and all(e in j.idle for j in fitting[e.line])]
