"""`python -m nextok` is `nextok`."""

import sys

from nextok.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
