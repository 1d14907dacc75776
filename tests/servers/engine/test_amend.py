from tests.unit.engine.test_amend import *  # noqa: F403 - the same tests, on servers
