"""Start of the guest by path: ``python -I -S <this directory> <verb> ...``.

The directory's parent goes to the end of ``sys.path``, so that the same relative imports work here and as
``berth.guest``.
"""

import os
import sys

directory = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [entry for entry in sys.path if entry != directory] + [os.path.dirname(directory)]
main = __import__(os.path.basename(directory) + ".main", fromlist=["main"]).main

sys.exit(main(sys.argv[1:]))
