"""Measurements of the net plugin between two network namespaces."""
