"""The error that these programs print as it is: its text names the cause and what to do."""


class Unusable(Exception):
    """Something that is needed is not there, or not as it has to be."""
