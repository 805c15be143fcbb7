"""`nsys profile`: run a command, and leave a report of the steps that it told of.

What the command does on the GPU it tells by lines, see `tests.fake_trainer`:

=======================  ======================================================
``start``, ``stop``      cudaProfilerStart and cudaProfilerStop
``push NAME``            an NVTX range of that name begins
``pop NAME``             and ends
``step NAME K D2H H2D``  a step with K kernels and so many bytes to and from
                         the host; its range is NAME, ``-`` is none
=======================  ======================================================

Of a command that tells nothing, three steps within its range are recorded.
"""

import json
import os
import re
import resource
import select
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.fake_nsys.options import BUILDS, Parsed, Version, complain, parse, refuse, say

__all__ = ["profile"]

UNSEEN = [["train_step", 2, 1 << 20, 1 << 20]] * 3  # steps of a command that tells nothing
HARDWARE = {"hardware_crash", "hardware_blind"}
SIGNALS = {"sigterm": signal.SIGTERM, "sigkill": signal.SIGKILL}
WAIT_S = 0.01


def profile(release: str, version: Version, words: list[str]) -> int:
    """Run and record a command; return its exit code.

    ``FAKE_NSYS_SCENARIO`` in the environment says what goes wrong:

    ==================  ==========================================================
    ``no_report``       nothing is written
    ``no_cuda``         neither kernels nor calls are recorded
    ``no_kernels``      only calls are
    ``fork``            a second process launches kernels of which none is recorded
    ``hardware_crash``  nsys crashes, unless CUDA is traced by software
    ``hardware_blind``  its analysis fails and only calls are recorded, likewise
    ``disk_full``       half of the report is written
    ``hang``            nsys does not end once its report is written
    ``newer``           the report is too new for `nsys export`
    ``xla``             nothing: steps are those of the module of `tests.profiles.modules`,
                        a tenth shorter where they tell of bytes
    ==================  ==========================================================
    """
    options, command = parse("profile", version, words)
    if not command:
        refuse("profile", "No application was specified.")
    _check(options)
    report = Report(release, version, options)
    recording = Recording(options)
    seen = Seen(command, recording)
    for _ in seen.until_the_end():
        if recording.over and not report.written:
            report.write(recording.steps)
            seen.shut_down(options)
    if not seen.any_line:
        recording.steps, recording.begun = list(UNSEEN), True
    if not report.written and recording.begun:
        report.write(recording.steps)
    if not recording.begun:
        say("The target application ended before the collection started.")
        say("No reports were generated.")
    if report.scenario == "hang":
        time.sleep(600)
    return seen.status


def _check(options: Parsed) -> None:
    by_nvtx = options.get("--capture-range") == "nvtx"
    if by_nvtx != ("--nvtx-capture" in options):
        refuse("profile", "--capture-range=nvtx and --nvtx-capture must be given together.")
    trace = options.get("--trace", "cuda").split(",")
    graphs = options.get("--cuda-graph-trace", "")
    if {"cuda", "cuda-sw"} <= {*trace}:
        refuse("profile", "--trace takes either cuda or cuda-sw.")
    if "node:host-and-device" in graphs and "cuda-sw" in trace:
        refuse("profile", "--cuda-graph-trace=node:host-and-device needs hardware trace.")
    if options.get("--python-backtrace") == "cuda" and "--cudabacktrace" not in options:
        refuse("profile", "--python-backtrace needs --cudabacktrace.")


class Recording:
    """When it is recorded, and the steps that were."""

    def __init__(self, options: Parsed) -> None:
        self.by = options.get("--capture-range", "none")
        self.range = options.get("--nvtx-capture", "").partition("@")[0]
        self.delay_s = float(options.get("--delay", 0))
        self.duration_s = float(options.get("--duration", 0))
        self.ends = options.get("--capture-range-end") != "none"
        self.since = time.monotonic()
        self.begun = self.over = False
        self.steps: list[list[Any]] = []
        self.tick()

    def tick(self) -> None:
        """Look at the clock."""
        passed = time.monotonic() - self.since
        if self.by == "none" and passed >= self.delay_s:
            self.begun = True
        if self.duration_s and passed >= self.delay_s + self.duration_s:
            self.over = True

    def take(self, line: str) -> None:
        """Take a line of what the command tells."""
        what, _, rest = line.partition(" ")
        if self.by == "cudaProfilerApi":
            self._switch(what == "start", what == "stop")
        elif self.by == "nvtx" and rest == self.range and _hears_plain_strings():
            self._switch(what == "push", what == "pop")
        if what == "step" and self.begun and not self.over:
            name, *numbers = rest.rsplit(maxsplit=3)
            self.steps.append([name, *map(int, numbers)])

    def _switch(self, on: bool, off: bool) -> None:
        self.begun |= on
        self.over |= off and self.begun and self.ends


def _hears_plain_strings() -> bool:
    return os.environ.get("NSYS_NVTX_PROFILER_REGISTER_ONLY") == "0"


class Seen:
    """A command that runs, and what it tells."""

    def __init__(self, command: list[str], recording: Recording) -> None:
        self.recording = recording
        self.any_line = False
        self.read, write = os.pipe()
        os.set_blocking(self.read, False)
        environment = {**os.environ, "FAKE_NSYS_LINES": str(write)}
        try:
            self.child = subprocess.Popen(command, env=environment, pass_fds=[write])
        except OSError as error:
            complain(f"Failed to launch '{command[0]}': {error.strerror}.")
            raise SystemExit(1) from error
        os.close(write)

    @property
    def status(self) -> int:
        """Exit code of the command, as of a shell."""
        code = self.child.wait()
        return 128 - code if code < 0 else code

    def until_the_end(self) -> Iterator[None]:
        """Follow the command; yield now and then."""
        ended = False
        while not ended:
            ended = self.child.poll() is not None
            select.select([self.read], [], [], 0 if ended else WAIT_S)
            for line in self._lines():
                self.any_line = True
                self.recording.take(line)
                yield
            self.recording.tick()
            yield

    def _lines(self) -> list[str]:
        try:
            return os.read(self.read, 1 << 16).decode().splitlines()
        except BlockingIOError:
            return []

    def shut_down(self, options: Parsed) -> None:
        """End the command with its range, unless that was not asked for."""
        number = options.get("--kill", "sigterm")
        if number != "none" and options.get("--capture-range-end") != "stop":
            self.child.send_signal(SIGNALS.get(number) or int(number))


class Report:
    """The file that is written."""

    def __init__(self, release: str, version: Version, options: Parsed) -> None:
        self.release = release
        self.suffix = ".qdrep" if version < (2021, 4) else ".nsys-rep"
        self.options = options
        self.scenario = os.environ.get("FAKE_NSYS_SCENARIO", "")
        self.written = False
        if self.scenario in HARDWARE and "cuda-sw" in options.get("--trace", "").split(","):
            self.scenario = ""

    def write(self, steps: list[list[Any]]) -> None:
        """Write the report, as far as the scenario has it."""
        self.written = True
        path = self._path()
        if self.scenario == "hardware_crash":
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            os.kill(os.getpid(), signal.SIGSEGV)
        if self.scenario == "hardware_blind":
            complain("Analysis failed: GetNumTpcs: NotInitializedException")
        if self.scenario == "no_report":
            say("No reports were generated.")
        elif path.exists() and self.options.get("--force-overwrite") != "true":
            complain(f"Failed to create '{path}': File exists.")
        elif self.scenario == "disk_full":
            path.write_text('{"steps"')
            complain(f"Failed to write '{path}': No space left on device")
            raise SystemExit(1)
        else:
            content = {"version": BUILDS[self.release], "scenario": self.scenario, "steps": steps}
            path.write_text(json.dumps({**content, "options": self.options}))
            say(f"Generated:\n\t{path}")

    def _path(self) -> Path:
        name = re.sub(r"%(q\{\w+\}|.)", _expanded, self.options.get("--output", "report1"))
        return Path(name if name.endswith(self.suffix) else name + self.suffix)


def _expanded(match: re.Match[str]) -> str:
    form = match[1]
    if form.startswith("q{") and form[2:-1] in os.environ:
        return os.environ[form[2:-1]]
    known = {"%": "%", "h": socket.gethostname(), "p": str(os.getpid())}
    if form not in known:
        refuse("profile", f"Illegal --output argument '{match[0]}'.")
    return known[form]
