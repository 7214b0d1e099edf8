"""``python -m symscale`` is the command line."""

import sys

from symscale.cli import main

sys.exit(main())
