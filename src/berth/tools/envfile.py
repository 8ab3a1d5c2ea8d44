"""Temporary."""


def write_block(root, name, env):
    pass
