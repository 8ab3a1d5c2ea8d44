"""git, told by its files where that is enough and by the program where it is not.

Each module answers one kind of question: ``command`` is the door to the program, ``checkout`` reads the plain files,
``status`` says clean or dirty, ``repository`` finds where we are, ``worktrees`` knows the list, ``refs`` the starting
points, ``creation`` and ``submodules`` make a checkout, ``preservation`` and ``removal`` end one. Nothing here knows
of workspaces.
"""
