"""Queries through psql, so that no driver has to be installed. Values are quoted by psql, never by us."""

import json
import os
import subprocess


class QueryFailed(Exception):
    pass


def query(sql, **values):
    """Run one statement and return its rows as a list of dicts. A value is written ``:'name'`` in the statement."""
    wrapped = f"WITH answer AS ({sql}) SELECT coalesce(json_agg(answer), '[]') FROM answer;"
    settings = [f"--set={key}={value}" for key, value in values.items()]
    done = subprocess.run(
        ["psql", "-XAtq", "--set=ON_ERROR_STOP=1", *settings, os.environ["DATABASE_URL"]],
        input=wrapped,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise QueryFailed(done.stderr.strip())
    return json.loads(done.stdout)
