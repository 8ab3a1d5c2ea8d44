"""``python -m berth``: the same program as the ``berth`` script."""

import sys

from berth.cli.main import main

sys.exit(main())
