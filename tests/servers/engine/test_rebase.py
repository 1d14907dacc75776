from tests.unit.repo.test_rebase import *  # noqa: F403 - the same tests, on servers
