"""Temporary."""

import os, shutil


def make_directories(root, names, *, mode):
    here = root
    for n in names:
        here = os.path.join(here, n)
        os.makedirs(here, mode=mode, exist_ok=True)


def delete_below(root, names):
    shutil.rmtree(os.path.join(root, *names), ignore_errors=True)


def delete_tree(path, last=None):
    shutil.rmtree(path)


def foreign_files(path):
    return []
