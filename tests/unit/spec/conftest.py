import pytest

from tests.unit.spec.written import Written, write_everything


@pytest.fixture(scope="session")
def written() -> Written:
    return write_everything()
