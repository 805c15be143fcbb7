"""The fake trainer as JAX would run it with a profile: XLA reads that, and says what it finds.

The module that it compiles is that of `tests.profiles.modules`. With a profile it tells of a byte
that moves, by which the fake nsys makes steps shorter.
"""

import gzip
import json
import os
import re
import shlex
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from nsysoffload.recorders.flags import PROFILE_FLAG, without_paths  # noqa: E402
from tests import fake_trainer  # noqa: E402
from tests.profiles.modules import FINGERPRINT, PRINTED  # noqa: E402

_NAME = re.compile(r'name: "([^"]+)"')


def main() -> None:
    """Train."""
    flags = shlex.split(os.environ.get("XLA_FLAGS", ""))
    for flag in flags:
        if flag.startswith(f"--{PROFILE_FLAG}="):
            _take(Path(flag.partition("=")[2]))
            sys.argv += ["--d2h", "1"]
    fake_trainer.main()
    output = Path(sys.argv[sys.argv.index("--output") + 1])
    path = output / "manifest.json"
    manifest = json.loads(path.read_text()) | {"xla_flags": without_paths(tuple(flags))}
    path.write_text(json.dumps(manifest))
    (output / "schedule.hlo.gz").write_bytes(gzip.compress(PRINTED.encode()))


def _take(profile: Path) -> None:
    """Say what XLA says of a profile, where its log is on."""
    if "gpu_hlo_schedule=1" not in os.environ.get("TF_CPP_VMODULE", ""):
        return
    file = profile / f"{FINGERPRINT}.pbtxt"
    if not file.is_file():
        _say("E1", f"gpu_hlo_schedule.cc:1] PGLE profile file does not exist: {file}")
        return
    _say("I1", "gpu_hlo_schedule.cc:1] Found profile for module jit_step, using it")
    for name in _NAME.findall(file.read_text()):
        _say("I1", f"estimator.cc:1] PGLE found cost for: {name}")


def _say(kind: str, text: str) -> None:
    sys.stdout.write(f"{kind} 1 {text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
