"""What a fault is: a line of Cinch written wrongly, which one environment variable switches on in one build."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Fault:
    """A mistake in one place of a source file. `right` is the text there, which occurs once in the file; `wrong` is
    what stands there in the faulty build, in which FAULT is true where this fault is switched on."""

    name: str
    file: str
    right: str
    wrong: str
    harm: str
