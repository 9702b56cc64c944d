"""The order in which a vendor's client is driven against our servers."""

from report import Report


class Driver:
    """Drives the client of one vendor. A subclass has a method for each kind of case."""

    def __init__(self, servers):
        self.servers = servers
        self.report = Report()

    def run(self):
        """Runs all cases, prints their result and ends the script."""
        for key, drive in {
            "answer": self.answer,
            "failure": self.failure,
            "break": self.broken,
            "embeddings": self.embeddings,
        }.items():
            for case in self.servers.having(key):
                drive(case)
        self.right_requests()
        self.wrong_requests()
        self.spoiled_answers()
        self.after_all()
        driven = self.report.passed
        with self.report.case("the end of the servers"):
            assert self.servers.end(), "replies were left"
        self.report.end(f"{driven} cases driven")

    def embeddings(self, case):
        raise AssertionError(f"{case['case']}: this vendor has no embeddings")

    def after_all(self):
        """Runs cases that need the result of all others."""
