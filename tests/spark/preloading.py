"""Where Python processes of Spark learn what to import before they are needed."""

from pathlib import Path

PRELOADED = Path(__file__).with_name("preloaded")  # to be on their path
