"""berth: isolated workspaces and sandboxes for coding agents, on one machine.

Only the version lives here, so that importing the package costs nothing.
"""

__version__ = "0.1.0"
