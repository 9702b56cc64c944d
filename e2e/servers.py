"""Our loopback servers, which `neuron-e2e serve` starts."""

import json
import subprocess


class Servers:
    """The servers of one vendor, which run until `end` is called."""

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
        """Returns the case with this name."""
        return next(case for case in self.cases if case["case"] == name)

    def having(self, key):
        """Returns the cases whose meaning has this key."""
        return [case for case in self.cases if key in case["means"]]

    def end(self):
        """Ends the servers. Returns false if replies are left."""
        self._process.stdin.close()
        self._process.stdout.close()
        return self._process.wait() == 0
