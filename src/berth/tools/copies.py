"""Temporary."""


def read_includes(p):
    return []


def copy_into(*a, **k):
    return []
