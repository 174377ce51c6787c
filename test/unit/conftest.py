import os
from pathlib import Path

import pytest

SHARED = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture
def shared_data():
    """Real data that is not part of this repository: a machine without it skips, CI fails."""
    if not SHARED.is_dir():
        if os.environ.get("CI"):
            pytest.fail(f"{SHARED} is missing")
        pytest.skip(f"{SHARED} is not on this machine")
    return SHARED
