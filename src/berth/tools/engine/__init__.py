"""Docker and Podman through their command lines: the only package that knows an engine's name.

``client``: one engine, its environment, its calls, why one failed, who it is. ``containers``: find, create, start,
exec, stop, remove, copy in. ``images``: what is there, builds, volumes. None of it knows workspaces or sandboxes.
"""
