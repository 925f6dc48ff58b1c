"""``python -m flatscore``."""

from flatscore.cli import main

raise SystemExit(main())
