"""What coding agents find of berth: the skill they read, and hooks that hand over their worktrees (workspaces.md 11).

``harnesses`` is the table, ``scope`` the door to files, ``skill`` and ``hook`` install, ``merge`` edits a harness's own
JSON, ``claude`` is the one hook that runs. Nothing here drives an agent.
"""
