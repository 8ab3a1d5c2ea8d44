"""Start of the guest by path: ``python -I -S <this directory> <verb> ...``.

The directory's parent goes to the end of ``sys.path``, so that the same relative imports work here and as
``berth.guest``. Where the parent is the package ``berth`` itself, the name is ``berth.guest`` here too: a sandbox's
modules and the app author's ``berth.sdk`` are then the same ones in every process.
"""

import os
import sys

directory = os.path.dirname(os.path.abspath(__file__))
parent = os.path.dirname(directory)
name = os.path.basename(directory)
if os.path.basename(parent) == "berth" and os.path.exists(os.path.join(parent, "__init__.py")):
    name, parent = "berth." + name, os.path.dirname(parent)
sys.path[:] = [entry for entry in sys.path if entry != directory] + [parent]
main = __import__(name + ".main", fromlist=["main"]).main

sys.exit(main(sys.argv[1:]))
