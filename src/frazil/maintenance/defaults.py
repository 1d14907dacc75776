"""Default options of actions. Light: signatures of the API need them."""

SMALL_BYTES = 1 << 20  # chunks of at most so many are packed,
PACK_BYTES = 16 << 20  # into objects of about so many
REPLACEMENT = "(redacted)"  # for messages that are purged
