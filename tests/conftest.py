"""What all tests share: real traces, golden files, CPU devices and how hard Hypothesis tries."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from hypothesis import settings

from nsysoffload.recorders.predict.versions import VersionError, check_versions

# JAX reads both once, and tests of several parts import it.
XLA_FLAGS = (
    "--xla_force_host_platform_device_count=8",
    "--xla_backend_optimization_level=0",  # compiling is what takes the time in tests
)
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = " ".join([os.environ.get("XLA_FLAGS", ""), *XLA_FLAGS])

GOLDEN = Path(__file__).parent / "golden"

settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--golden",
        action="store_true",
        help="run only the tests of golden files, and write those files anew",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--golden"):
        items[:] = [item for item in items if "golden" in getattr(item, "fixturenames", ())]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that asks for ``real_trace`` once for each of them."""
    if "real_trace" in metafunc.fixturenames:
        folder = Path(os.environ.get("NSYSOFFLOAD_REAL_TRACES", "absent")).resolve()
        traces: list[Path | None] = [*sorted(folder.glob("*.sqlite"))] or [None]
        names = [trace.stem if trace else "none" for trace in traces]
        metafunc.parametrize("real_trace", traces, ids=names, indirect=True)


@pytest.fixture(scope="session")
def real_traces() -> Path:
    """Return the folder of real Nsight Systems exports, which are not ours to publish."""
    folder = os.environ.get("NSYSOFFLOAD_REAL_TRACES")
    if folder and any(Path(folder).glob("*.sqlite")):
        return Path(folder).resolve()
    reason = "NSYSOFFLOAD_REAL_TRACES names no folder with real exports (*.sqlite)"
    if os.environ.get("NSYSOFFLOAD_REQUIRE_REAL_TRACES") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture
def real_trace(real_traces: Path, request: pytest.FixtureRequest) -> Path:
    """Return one real export; a test that asks for it runs on every one of them."""
    return cast(Path, request.param)


@pytest.fixture(scope="session")
def compiler() -> None:
    """Ask for what compiles for a GPU: jax and its CUDA plugin, in the pinned release."""
    try:
        check_versions()
    except VersionError as error:
        if os.environ.get("NSYSOFFLOAD_REQUIRE_PREDICT") == "1":
            pytest.fail(str(error))
        pytest.skip(str(error))


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Return the comparison of a text with a file under ``tests/golden``."""

    def compare(path: str, text: str) -> None:
        file = GOLDEN / path
        if request.config.getoption("--golden"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8", newline="")
        assert file.exists(), f"{file} is not there yet; write it with 'make golden'"
        assert text == file.read_bytes().decode(), "see the change as a diff with 'make golden'"

    return compare
