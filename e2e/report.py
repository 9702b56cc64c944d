"""Counts cases, and prints their result at the end.

`cargo xtask` reads the first line of the output and the exit status.
"""

import contextlib
import sys
import traceback


class Report:
    """The cases of one script."""

    def __init__(self):
        self.passed = 0
        self.failed = 0

    @contextlib.contextmanager
    def case(self, name):
        """Runs one case. The other cases run even if it fails."""
        try:
            yield
        except AssertionError as error:
            self._fail(name, error)
        except Exception:  # A client may raise anything.
            self._fail(name, traceback.format_exc().rstrip())
        else:
            self.passed += 1

    def _fail(self, name, reason):
        self.failed += 1
        print(f"failed: {name}: {reason}", file=sys.stderr)

    def end(self, summary):
        """Prints the summary and the result, and ends the script."""
        print(summary)
        print(f"{self.passed} cases passed, {self.failed} failed")
        sys.exit(1 if self.failed else 0)


def equal(found, expected, what):
    """Fails unless both are equal."""
    assert found == expected, f"{what}: {found!r}, but {expected!r} was meant"


def valid(found, what):
    """Fails unless there are no problems."""
    assert not found, f"{what}: " + "; ".join(map(str, found))


def raised(call):
    """Returns the error that a call raises. Fails if it raises none."""
    try:
        call()
    except Exception as error:
        return error
    raise AssertionError("no error was raised")
