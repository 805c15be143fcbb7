import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nsysoffload.errors import UsageError
from nsysoffload.recorders.measured.child import Limits, run

BOTH = "import sys; print('out', flush=True); print('err', file=sys.stderr)"


def python(code, log, **kwargs):
    limits = kwargs.pop("limits", Limits())
    return run([sys.executable, "-c", code], log, environment=os.environ, limits=limits, **kwargs)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_what_a_command_prints_is_in_the_log_and_in_the_result(tmp_path):
    log = tmp_path / "log.txt"
    log.write_text("before\n")
    ended = python(BOTH, log)
    assert (ended.status, ended.ended, ended.printed) == (0, "", "out\nerr\n")
    lines = log.read_text().splitlines()
    assert lines[:1] + lines[2:] == ["before", "out", "err"]
    assert lines[1] == f"$ {sys.executable} -c {shlex.quote(BOTH)}"


@pytest.mark.parametrize(
    ("code", "status"),
    [("raise SystemExit(42)", 42), ("import os; os.kill(os.getpid(), 9)", 137)],
)
def test_an_exit_code_is_that_of_a_shell(tmp_path, code, status):
    assert python(code, tmp_path / "log").status == status


def test_a_command_has_only_the_environment_that_it_is_given(tmp_path):
    code = "import os; print(sorted(set(os.environ) - {'LC_CTYPE'}))"
    command = [sys.executable, "-c", code]
    ended = run(command, tmp_path / "log", environment={"A": "1"}, limits=Limits())
    assert ended.printed == "['A']\n"


def test_a_program_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UsageError, match="'absent' cannot be run .*check the command"):
        run(["absent"], tmp_path / "log", environment={}, limits=Limits())


def test_a_command_that_takes_too_long_is_ended(tmp_path):
    ended = python("import time; time.sleep(60)", tmp_path / "log", limits=Limits(0.3))
    assert (ended.status, ended.ended) == (143, "timeout")
    assert ended.seconds < 10


def test_a_command_that_goes_on_after_its_result_is_there_is_ended(tmp_path):
    result = tmp_path / "result"
    code = f"import pathlib, time; pathlib.Path({str(result)!r}).write_text('x'); time.sleep(60)"
    ended = python(code, tmp_path / "log", limits=Limits(None, 0.3), result=result.exists)
    assert (ended.status, ended.ended) == (143, "hung")


def test_a_result_that_still_grows_is_waited_for(tmp_path):
    result = tmp_path / "result"
    code = (
        "import pathlib, time\n"
        f"path = pathlib.Path({str(result)!r})\n"
        "for _ in range(8): path.open('a').write('x') and time.sleep(0.2)"
    )

    def size():
        return result.stat().st_size if result.exists() else 0

    ended = python(code, tmp_path / "log", limits=Limits(None, 0.8), result=size)
    assert (ended.status, ended.ended) == (0, "")


def test_all_of_a_group_is_ended_and_nobody_else(tmp_path):
    sibling = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(child.pid, flush=True)"
    )
    try:
        ended = python(code, tmp_path / "log")  # the leader ends, its child would go on
        assert ended.status == 0
        assert not is_running(int(ended.printed))
        assert is_running(sibling.pid)
    finally:
        sibling.kill()
        sibling.wait()


def test_an_interrupt_ends_the_group(tmp_path):
    pid = tmp_path / "pid"
    code = (
        "import os, pathlib, time\n"
        f"pathlib.Path({str(pid)!r}).write_text(str(os.getpid()))\n"
        "time.sleep(60)"
    )

    def interrupt_once_there():
        if pid.exists() and pid.read_text():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        python(code, tmp_path / "log", result=interrupt_once_there)
    assert not is_running(int(pid.read_text()))


def test_a_group_that_does_not_listen_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr("nsysoffload.recorders.measured.child._PATIENCE_S", 0.3)
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)"
    began = time.monotonic()
    assert python(code, tmp_path / "log", limits=Limits(1)).status == 137
    assert time.monotonic() - began < 10


def test_a_second_interrupt_kills_what_does_not_listen(tmp_path, monkeypatch):
    pid = tmp_path / "pid"
    code = (
        "import os, pathlib, signal, time\n"
        "signal.signal(15, signal.SIG_IGN)\n"
        f"pathlib.Path({str(pid)!r}).write_text(str(os.getpid()))\n"
        "time.sleep(60)"
    )

    def interrupt(seconds):
        if pid.exists() and pid.read_text():
            raise KeyboardInterrupt

    monkeypatch.setattr("nsysoffload.recorders.measured.child.time.sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        python(code, tmp_path / "log")
    assert not is_running(int(pid.read_text()))
