"""The generations of the format before its first release, A1a to V1pre2, and V2pre: FORMATS.

Decoders give the records that the rest of frazil works with. What is written is what two documents
describe, alpha1 and alpha2.
"""
