"""``python -m hctrellis``: the command line."""

import sys

from hctrellis.cli import main

if __name__ == "__main__":
    sys.exit(main())
