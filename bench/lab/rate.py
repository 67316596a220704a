"""Link rates, in the notation of tc: 250mbit, 1gbit, 1.5gbit."""

import re

_UNITS = {"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9, "tbit": 10**12}


def bits_per_second(text):
    """The rate as a number. Raises ValueError with what is accepted."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?bit)", text.strip().lower())
    if not match or float(match[1]) <= 0:
        raise ValueError(f"link rate '{text}' is not one of the form 250mbit, 1gbit or 1.5gbit")
    return float(match[1]) * _UNITS[match[2]]
