"""`python -m frazil` is the `frazil` command."""

from frazil.cli.main import main

main()
