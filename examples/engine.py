"""The package the examples run with: frazil, or with `--engine icechunk` the reference.

In a program of yours this is one line: `import frazil as icechunk`, or `import icechunk`.
"""

import argparse
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import frazil as icechunk
else:
    _parser = argparse.ArgumentParser()
    _parser.add_argument("--engine", choices=["frazil", "icechunk"], default="frazil")
    icechunk = import_module(_parser.parse_args().engine)

__all__ = ["icechunk"]
