"""Default options of actions, which signatures of the API show: this module is light."""

from typing import Final

SMALL_BYTES: Final = 1 << 20  # chunks of at most so many are packed,
PACK_BYTES: Final = 16 << 20  # into objects of about so many
REPLACEMENT: Final = "(redacted)"  # for messages that are purged
