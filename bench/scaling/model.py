"""The cost model of interpose/policy, asked through build/bin/scaling_model."""

import json
import os
import subprocess

NOTHING = {"fixed_s": 0.0, "s_per_byte": 0.0}


class ModelFailed(Exception):
    """The program is not there, or refuses a question; the text says which."""


class Model:
    def __init__(self, build):
        self._program = os.path.join(build, "bin", "scaling_model")

    def ask(self, questions):
        """The answers to all questions, as scaling_model.cc describes both."""
        try:
            done = subprocess.run(
                [self._program], input=json.dumps(questions), capture_output=True, text=True
            )
        except OSError as error:
            raise ModelFailed(f"{self._program}: {error.strerror}") from error
        if done.returncode != 0:
            raise ModelFailed(done.stderr.strip())
        return json.loads(done.stdout)

    def fit(self, samples):
        """(bytes, seconds[, seconds that are known]) -> a cost."""
        return self.ask([{"fit": samples}])[0]

    def predict(self, questions):
        """For each question a dictionary of schemes."""
        return [{row["scheme"]: row for row in answer} for answer in self.ask(questions)]


def per_byte(rate):
    """The cost of a link or codec that handles `rate` bytes a second."""
    return {"fixed_s": 0.0, "s_per_byte": 1 / rate}


def scaled(cost, factor):
    """What the bytes cost where they are handled so many times slower."""
    return cost | {"s_per_byte": cost["s_per_byte"] * factor}
