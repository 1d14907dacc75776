from tests.unit.repo.test_amend import *  # noqa: F403 - the same tests, on servers
