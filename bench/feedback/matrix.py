"""All runs of the study, the most telling ones first: it can be stopped at any time."""

from dataclasses import replace

from feedback.trial import Trial

SEEDS = (1, 2, 3)
NONE, LOW, FULL = ({"gain": gain} for gain in (0.0, 0.1, 1.0))
DECAY = {"gain": 0.8, "decay": 0.8}
BF16 = {"gradient": "bf16", "residual": "bf16"}


def rows(task, steps, codecs, feedback, seeds=SEEDS, **settings):
    """The run without compression, then each codec with each feedback, seed by seed."""
    for seed in seeds:
        exact = Trial(task, steps, seed, **settings)
        yield exact
        for codec in codecs:
            for rule in feedback:
                yield replace(exact, codec=codec, **rule)


def _groups():
    every = (NONE, LOW, FULL)
    others = [{"gain": gain} for gain in (0.05, 0.2, 0.4)]
    yield "2 bits", rows("lm", 600, ("q2", "h2"), every)
    yield "convolution", rows("convolution", 400, ("q2", "h2"), every)
    for ranks in (2, 8):
        yield f"{ranks} ranks", rows("lm", 600, ("q2",), every, ranks=ranks)
    # A job's first steps are not compressed: Cinch has to learn its slots.
    later = [rule | {"exact": 15} for rule in every]
    yield "from step 15", rows("lm", 600, ("q2", "h2"), later)
    yield "convolution, from step 15", rows("convolution", 400, ("q2", "h2"), later)
    # Of 1/4, 1/2 and 1 times the rate of the short runs, 1/2 is the best for fp32.
    yield "long", rows("lm", 5000, ("q2",), every, (1,), rate=0.5)
    yield "long h2", rows("lm", 5000, ("h2",), (NONE, LOW), (1,), rate=0.5)
    yield "convolution, gain", rows("convolution", 400, ("q2", "h2"), others)
    yield "bf16", rows("lm", 600, ("q2",), [rule | BF16 for rule in every])
    yield "3 and 4 bits", rows("lm", 600, ("q3", "q4"), every)
    yield "int8", rows("lm", 600, ("q2", "h2"), (LOW | {"residual": "int8"},))
    yield "beta2", rows("lm", 600, ("q2",), every, beta2=0.999)
    yield "attention", rows("attention", 600, ("q2", "h2"), every)
    yield "attention, more seeds", rows("attention", 600, ("h2",), every, range(4, 13))
    yield "convolution, more seeds", rows("convolution", 400, ("q2",), every, range(4, 13))
    yield "convolution, 3 and 4 bits, more seeds", rows(
        "convolution", 400, ("q3", "q4"), every, range(4, 13)
    )
    yield "attention, longer", rows("attention", 1800, ("h2",), (NONE, LOW), (1, 2))
    yield "long, all", rows("lm", 5000, ("h2",), every, (1,), rate=0.5)
    yield "clip", rows("lm", 600, ("q2",), every, clip=0.9)
    yield "convolution, 3 and 4 bits", rows("convolution", 400, ("q3", "q4"), every)
    yield "digits", rows("digits", 400, ("h2", "q2"), every)
    forgetful = [{"gain": gain, "decay": 0.9} for gain in (0.05, 0.1)]
    for task, steps in (("lm", 600), ("attention", 600), ("convolution", 400)):
        yield f"{task}, decay", rows(task, steps, ("q2", "h2"), forgetful)
    yield "long, decay", rows("lm", 5000, ("q2", "h2"), forgetful, (1,), rate=0.5)
    yield "noise", rows("lm", 600, ("q8",), (NONE,))
    yield "long, again", rows("lm", 5000, ("q2", "h2"), every, (2,), rate=0.5)
    yield "gain", rows("lm", 600, ("q2", "h2"), others)
    yield "sign", rows("lm", 600, ("sign",), (*every, DECAY))
    yield "long, third", rows("lm", 5000, ("q2", "h2"), every, (3,), rate=0.5)
    yield "long, 3 and 4 bits", rows("lm", 5000, ("q3", "q4"), every, rate=0.5)
    yield "attention, 3 bits", rows("attention", 600, ("q3",), every)
    for ranks in (2, 8):
        yield f"h2, {ranks} ranks", rows("lm", 600, ("h2",), every, ranks=ranks)
    yield "h2, beta2", rows("lm", 600, ("h2",), every, beta2=0.999)
    yield "h2, clip", rows("lm", 600, ("h2",), every, clip=0.9)
    yield "h2, bf16", rows("lm", 600, ("h2",), [rule | BF16 for rule in every])
    for rate in (0.5, 2.0):
        yield f"rate x {rate}", rows("lm", 600, ("q2", "h2"), every, rate=rate)
    yield "momentum", rows("lm", 600, ("q2", "h2"), every, optimiser="momentum", rate=37.5)
    yield "long, rate x 1", rows("lm", 5000, ("q2",), every)
    # Sharded training has no residuals: decision 021.
    for task, steps, seeds in (("lm", 600, SEEDS), ("convolution", 400, range(1, 13)), ("digits", 400, SEEDS),
                               ("attention", 600, SEEDS), ("lm", 5000, (1,))):
        codecs = ("q8", "q6", "q5", "h4", "q4", "h3")
        yield f"scattered, {task} {steps}", rows(task, steps, codecs, (NONE | {"scattered": True},), seeds)


GROUPS = {name: tuple(trials) for name, trials in _groups()}
