"""Which packages compile, by what is installed; no jax is imported."""

import sys
import tomllib
from pathlib import Path

import pytest

from nsysoffload.recorders.predict.versions import (
    JAX_VERSION,
    PACKAGES,
    VersionError,
    check_versions,
)

PYPROJECT = Path(__file__).parents[3] / "pyproject.toml"


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """Return a function that makes these packages the installed ones."""

    def install(versions):
        for name, version in versions.items():
            folder = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info"
            folder.mkdir()
            (folder / "METADATA").write_text(
                f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
            )
        monkeypatch.setattr(sys, "path", [str(tmp_path)])

    return install


def test_the_extra_installs_the_release_that_is_asked_for():
    extras = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    pinned = [each.partition(";")[0] for each in extras["optional-dependencies"]["predict"]]
    assert [f"{package}=={JAX_VERSION}" for package in PACKAGES] == pinned[: len(PACKAGES)]


def test_the_pinned_release_is_fine(installed):
    installed(dict.fromkeys(PACKAGES, JAX_VERSION))
    check_versions()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        pytest.param(
            {"jax": "0.10.2"},
            "jax 0.10.2 returns wrong gradients, without a warning, for a scan that offloads "
            f"(openxla/xla#46231); for jax {JAX_VERSION} run: pip install 'nsysoffload[predict]'",
            id="wrong gradients, 0.10.2",
        ),
        pytest.param(
            {"jax": "0.11.0"},
            "jax 0.11.0 returns wrong gradients, without a warning, for a scan that offloads "
            f"(openxla/xla#46231); for jax {JAX_VERSION} run: pip install 'nsysoffload[predict]'",
            id="wrong gradients, 0.11.0",
        ),
        pytest.param(
            {"jaxlib": "0.13.0"},
            f"jaxlib 0.13.0 is out of range: predictions are made with {JAX_VERSION} alone, as "
            "schedules differ between releases; run: pip install 'nsysoffload[predict]'",
            id="out of range",
        ),
    ],
)
def test_another_release_is_refused_with_the_reason(installed, changed, message):
    installed(dict.fromkeys(PACKAGES, JAX_VERSION) | changed)
    with pytest.raises(VersionError) as raised:
        check_versions()
    assert str(raised.value) == message
    assert raised.value.exit_code == 2


@pytest.mark.parametrize("missing", PACKAGES)
@pytest.mark.parametrize(
    ("platform", "message"),
    [
        (
            "linux",
            "{} is not installed, and a prediction needs it; run: pip install "
            "'nsysoffload[predict]'",
        ),
        ("darwin", "{} is not installed, and the CUDA compiler of jax exists on Linux alone."),
    ],
)
def test_a_missing_package_is_named(installed, monkeypatch, platform, message, missing):
    monkeypatch.setattr(sys, "platform", platform)
    installed({package: JAX_VERSION for package in PACKAGES if package != missing})
    with pytest.raises(VersionError) as raised:
        check_versions()
    assert str(raised.value) == message.format(missing)
