"""What is compared: the same script alone, with PyTorch's own compression, and with Cinch."""

from dataclasses import dataclass

PLAIN = "plain"
HOOKS = ("bf16", "powersgd")
CINCH = "cinch"
NAMES = f"{PLAIN}, {', '.join(HOOKS)}, {CINCH} and {CINCH}-CODEC"


class VariantError(Exception):
    """There is no such variant, or not here; the text says why."""


@dataclass(frozen=True)
class Variant:
    name: str
    hook: str = "none"
    # Of Cinch's parameters; None: the job runs without Cinch.
    settings: dict | None = None


def parse(text, wrap, device, settings):
    """The variants of a list like plain,bf16,cinch,cinch-q4. `settings` are for all of Cinch's."""
    names = [name.strip() for name in text.split(",")]
    if len(set(names)) != len(names):
        raise VariantError(f"'{text}' names a variant twice")
    return [_variant(name, wrap, device, settings) for name in names]


def default_names(wrap, device):
    hooks = HOOKS if wrap == "ddp" else HOOKS[:1]
    ours = (CINCH, f"{CINCH}-q8", f"{CINCH}-q4") if device == "cuda" else ()
    return ",".join((PLAIN, *hooks, *ours))


def _variant(name, wrap, device, settings):
    if name == PLAIN:
        return Variant(name)
    if name in HOOKS:
        if name == "powersgd" and wrap != "ddp":
            raise VariantError("powersgd is a hook of DDP, which --wrap fsdp2 does not have")
        return Variant(name, hook=name)
    family, _, codec = name.partition("-")
    if family != CINCH or name.endswith("-"):
        raise VariantError(f"'{name}' is none of {NAMES}")
    if device != "cuda":
        raise VariantError(f"{name}: --device cpu uses gloo, and Cinch compresses what NCCL sends")
    return Variant(name, settings=({"CINCH_CODEC": codec} if codec else {}) | settings)
