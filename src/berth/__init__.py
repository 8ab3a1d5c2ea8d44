"""berth: isolated workspaces and sandboxes for coding agents, on one machine.

Only the version lives here, so that importing the package costs nothing; ``Computer`` is loaded when it is touched.
"""

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    if name == "Computer":
        module = __import__("berth.computer", fromlist=[name])  # a name in quotes: no layer below comes to depend on it
        return module.Computer
    raise AttributeError(name)
