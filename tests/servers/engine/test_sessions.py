from tests.unit.repo.test_sessions import *  # noqa: F403 - the same tests, on servers
