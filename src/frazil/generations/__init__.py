"""File generations before version 1, and pre-releases of version 2; docs/generations.md lists them.

The engine opens them through `opener.py`, and no other module outside this package names it.
Decoders return the records of version 2. Only what the documents alpha1 and alpha2 describe is
written.
"""
