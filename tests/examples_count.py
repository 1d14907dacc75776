"""How many examples hypothesis tries in tests that are too slow for the usual hundred."""

from hypothesis import settings

_USUAL = 100  # hypothesis's own default, which the profiles ci and local keep


def scaled(examples: int) -> int:
    """`examples` in the profiles ci and local, and in proportion more in the profile deep."""
    profile = settings.get_current_profile_name()
    factor = settings.get_profile(profile).max_examples / _USUAL
    return max(1, round(examples * factor))
