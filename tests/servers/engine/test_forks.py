from tests.unit.repo.test_forks import *  # noqa: F403 - the same tests, on servers
