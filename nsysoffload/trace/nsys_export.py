"""A report of Nsight Systems -> its SQLite export, by `nsys export`."""

import re
import shutil
import subprocess
from pathlib import Path

from nsysoffload.errors import TraceError

__all__ = ["exported"]

_VERSION = re.compile(r"version (\d+(?:\.\d+)+)")
# What the analysis reads; `nsys export` takes these patterns since it knows --tables at all.
_TABLES = "StringIds,CUPTI_.*,CUDA_.*,NVTX_.*,TARGET_INFO.*,META_DATA.*,ENUM_.*,DIAGNOSTIC_EVENT"
_TARGET = "export.sqlite"


def exported(report: Path, folder: Path, nsys: str | None = None) -> Path:
    """Export a report, as far as the analysis reads it.

    Parameters
    ----------
    report : Path
        The ``.nsys-rep`` or ``.qdrep`` file.
    folder : Path
        Where ``export.sqlite`` is made; nothing is left there if that fails.
    nsys : str, optional
        The program; else the one on PATH.

    Raises
    ------
    TraceError
        If there is no nsys, or it cannot export the report.
    """
    program = nsys or shutil.which("nsys")
    if program is None:
        raise TraceError(
            f"{report.name} is an Nsight Systems report and nsys is not on PATH; export it where"
            f" nsys is, with 'nsys export --type sqlite {report.name}', and analyse that file."
        )
    program = str(Path(program).absolute())  # it runs in another folder
    target = folder / _TARGET
    # The target is named within its folder, for nsys may see placeholders in a path.
    options = ["--type", "sqlite", "--force-overwrite", "true", "--output", _TARGET]
    if "--tables" in _run(report, folder, program, "export", "--help").stdout:
        options += ["--tables", _TABLES]
    done = _run(report, folder, program, "export", *options, str(report.resolve()))
    if done.returncode != 0 or not target.is_file():
        target.unlink(missing_ok=True)
        said = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
        said = said.replace(f"{report.resolve().parent}/", "").replace(f"{folder}/", "")
        version = _VERSION.search(_run(report, folder, program, "--version").stdout)
        raise TraceError(
            f"nsys {version[1] if version else '(unknown version)'} could not export {report.name}"
            f" ({said[:300].rstrip('.')}); use the nsys that recorded it, or a newer one."
        )
    return target


def _run(report: Path, folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except OSError as error:
        raise TraceError(
            f"nsys, which {report.name} needs, cannot be run ({error.strerror}); check it."
        ) from error
