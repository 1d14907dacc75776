from tests.unit.engine.test_sessions import *  # noqa: F403 - the same tests, on servers
