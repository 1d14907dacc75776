from tests.unit.engine.test_forks import *  # noqa: F403 - the same tests, on servers
