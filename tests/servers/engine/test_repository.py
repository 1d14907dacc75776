from tests.unit.engine.test_repository import *  # noqa: F403 - the same tests, on servers
