from tests.unit.engine.test_rebase import *  # noqa: F403 - the same tests, on servers
