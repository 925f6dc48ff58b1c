"""``python -m flatscore``."""

import sys

from flatscore.cli import main

sys.exit(main())
