"""That the strict check of answers sees what is wrong with one."""

import copy

from report import valid
from structure import problems


def check_spoiled(report, right, expected, spoiled):
    """A right answer has no problems; each way to spoil it makes one, at the path beside it."""
    with report.case("a right answer is right"):
        valid(problems(right, expected), "the answer")
    for name, (spoil, path) in spoiled.items():
        with report.case(f"spoiled: {name}"):
            answer = copy.deepcopy(right)
            spoil(answer)
            found = [problem.path for problem in problems(answer, expected)]
            assert path in found, f"{path} is not among {found}"
