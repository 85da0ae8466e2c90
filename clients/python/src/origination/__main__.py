"""`python -m origination listen --forward-to URL`."""

import sys

from origination.listen import main

if __name__ == "__main__":
    sys.exit(main())
