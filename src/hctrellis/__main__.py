"""``python -m hctrellis``: the command line."""

import sys

from hctrellis.cli import command

if __name__ == "__main__":
    sys.exit(command())
