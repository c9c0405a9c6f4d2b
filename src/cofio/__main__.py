"""`python -m cofio` is `cofio`."""

from __future__ import annotations

from cofio.cli import main

if __name__ == "__main__":
    main()
