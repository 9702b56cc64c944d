"""Tests that the strict check of responses finds mistakes."""

import copy

from report import valid
from structure import problems


def check_spoiled(report, right, expected, spoiled):
    """Checks that a valid response has no problems, and that each mistake is found at its path."""
    with report.case("a right answer is right"):
        valid(problems(right, expected), "the answer")
    for name, (spoil, path) in spoiled.items():
        with report.case(f"spoiled: {name}"):
            answer = copy.deepcopy(right)
            spoil(answer)
            found = [problem.path for problem in problems(answer, expected)]
            assert path in found, f"{path} is not among {found}"
