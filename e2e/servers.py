"""Our loopback servers, as `neuron-e2e serve` starts them."""

import json
import subprocess


class Servers:
    """The servers of one vendor while the block runs; then all their replies must be used."""

    def __init__(self, program, vendor):
        self._process = subprocess.Popen(
            [program, "serve", vendor],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )
        described = json.loads(self._process.stdout.readline())
        self.key = described["key"]
        self.model = described["model"]
        self.cases = described["cases"]

    def named(self, name):
        """The case of this name."""
        return next(case for case in self.cases if case["case"] == name)

    def having(self, key):
        """The cases whose meaning has this key."""
        return [case for case in self.cases if key in case["means"]]

    def end(self):
        """Ends the servers; false if they had replies left."""
        self._process.stdin.close()
        self._process.stdout.close()
        return self._process.wait() == 0
