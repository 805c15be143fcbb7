"""Reports of a trace as it was recorded: nothing private in them, whatever text it stood in."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import nsysoffload
from nsysoffload.output import FORMATS, render
from nsysoffload.redaction.redact import redact
from nsysoffload.report import terminal
from nsysoffload.report.model import Report
from nsysoffload.trace.builder import TraceBuilder
from tests.redaction.planted import SECRETS, planted

# What is not told apart from a name by its look, and not learned from elsewhere in the trace.
PLAIN = {
    "command",
    "thread",
    "file contents",
    "diagnostic",
    "loose string",
    "text as number",
    "blob",
    "deleted row",
    "domain",
    "mark",
    "json",
    "uuid",
    "table",
    "column",
    "view",
    "trigger",
    "index",
    "default",
    "comment",
    "utf-16",
}

ANYWHERE = ("host", "token", "password", "proxy", "address", "file contents", "mark", "table")


def formats(report: Report) -> dict[str, str]:
    return {"terminal": terminal.render(report)} | {f: render(report, f) for f in FORMATS}


def told(report: Report) -> set[tuple[str, str]]:
    """Return which secrets stand in which format; HTML has some letters in another form."""
    plain = {form: text.replace("&#39;", "'") for form, text in formats(report).items()}
    plain["unescaped"] = plain["html"].replace("\\u002f", "/").replace("\\/", "/")
    return {
        (what, form)
        for form, text in plain.items()
        for what, secret in SECRETS.items()
        if secret in text
    }


def changed(path: Path, *statements: tuple[str, ...]) -> Path:
    with closing(sqlite3.connect(path)) as db:
        for sql, *values in statements:
            db.execute(sql, values)
        db.commit()
    return path


@pytest.fixture
def shown(tmp_path) -> Path:
    """Return a trace with secrets in all texts that are read: names, XLA's ranges, settings."""
    secrets = [secret for what, secret in SECRETS.items() if what not in PLAIN]
    path = planted(tmp_path / "trace.sqlite")
    made = TraceBuilder().nvtx("train_step", (0, 900))
    for number, secret in enumerate(secrets):
        at = 10 * number
        thunk = f"Thunk:#name=jit(f)/of {secret} now/add,hlo_op=copy.{number} {secret}#"
        made.nvtx(thunk, (at, at + 2))
        made.nvtx(f"XlaModule:#hlo_module=jit_f {secret}#", (at, at + 2))
        made.kernel((at + 2, at + 5), f"norm {secret} f32", call=(at, at + 1))
        issued = f"cudaHostAlloc {secret}"
        made.copy("h2d", (at + 3, at + 9), stream=20, call=(at + 1, at + 2), call_name=issued)
    made.write(tmp_path / "names.sqlite")
    tables = ("KERNEL", "MEMCPY", "RUNTIME")
    names = [f"CUPTI_ACTIVITY_KIND_{table}" for table in tables] + ["NVTX_EVENTS", "StringIds"]
    told = [["told", f"see {secret} of it"] for secret in secrets] + [[secrets[0], "and that"]]
    return changed(
        path,
        ("ATTACH ? AS other", str(tmp_path / "names.sqlite")),
        *((f"DROP TABLE main.{name}",) for name in names),
        *((f"CREATE TABLE main.{name} AS SELECT * FROM other.{name}",) for name in names),
        ("INSERT INTO StringIds VALUES (5000, ?)", f"HTTPS_PROXY={SECRETS['proxy']}"),
        ("UPDATE TARGET_INFO_GPU SET name = 'GH200 ' || ?", " ".join(secrets[:3])),
        (
            "UPDATE META_DATA_CAPTURE SET value = ? WHERE name = 'NSYSOFFLOAD:WARNINGS'",
            json.dumps(told),
        ),
    )


def test_no_secret_stands_in_any_format_whatever_text_it_was_part_of(shown, tmp_path):
    report = nsysoffload.analyze(shown)
    assert told(report) == set()
    recognised = len(SECRETS) - len(PLAIN)
    assert sum(k.name.startswith("norm ") and "<" in k.name for k in report.kernels) == recognised
    assert sum("<" in group.op and "<" in group.op_name for group in report.transfers) == recognised
    assert (
        sum(w.message.startswith("see ") and "<" in w.message for w in report.trace.warnings)
        == recognised
    )
    assert report.devices[0].name == "GH200 <host-1> <user-1> <path-1>"
    redact(shown, tmp_path / "copy" / "trace.sqlite")
    copy = nsysoffload.analyze(tmp_path / "copy" / "trace.sqlite")
    assert formats(copy) == formats(report)


@pytest.mark.parametrize("secret", [SECRETS[what] for what in ANYWHERE], ids=ANYWHERE)
def test_what_stands_in_place_of_a_known_word_is_not_shown_whatever_it_is(secret, tmp_path):
    path = planted(tmp_path / "trace.sqlite")
    changed(
        path,
        *(
            ("INSERT INTO META_DATA_EXPORT VALUES (?, ?)", name, secret)
            for name in ("EXPORT_PRODUCT_VERSION", "EXPORT_SCHEMA_VERSION")
        ),
        (
            "UPDATE META_DATA_CAPTURE SET value = ? WHERE name IN"
            " ('NSYSOFFLOAD:RECORDER', 'NSYSOFFLOAD:KIND')",
            secret,
        ),
        ("UPDATE TARGET_INFO_GPU SET uuid = ?", secret),
        ("UPDATE TARGET_INFO_CUDA_DEVICE SET uuid = ?", secret),
        (f'ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME TO "of {secret}"',),
        ("ALTER TABLE CUPTI_ACTIVITY_KIND_MEMCPY RENAME TO of_copies",),
        (f'CREATE TABLE "no {secret}" AS SELECT * FROM CUPTI_ACTIVITY_KIND_RUNTIME',),
        ("DROP TABLE CUPTI_ACTIVITY_KIND_RUNTIME",),
    )
    report = nsysoffload.analyze(path)
    assert secret not in render(report, "json")
    codes = [warning.code for warning in report.trace.warnings]
    assert codes.count("table_renamed") == 3
    redact(path, tmp_path / "copy" / "trace.sqlite")
    copy = nsysoffload.analyze(tmp_path / "copy" / "trace.sqlite")
    assert (copy.devices, copy.kernels) == (report.devices, report.kernels)


def test_a_run_folder_tells_nothing_private_and_keeps_the_name_of_its_variant(tmp_path):
    path = planted(tmp_path / "trace.sqlite")
    secrets = [secret for what, secret in SECRETS.items() if what not in PLAIN]
    texts = [f"see {secret}" for secret in secrets]
    recording = {
        **dict.fromkeys(("nsys_version", "trace", "capture_range", "xla_preset"), texts[0]),
        **dict.fromkeys(("left_out", "xla_flags", "notes"), texts),
        "overhead_null_reason": texts[1],
        "numerics": {"agree": False, "against": texts[2], "text": texts[3]},
    }
    (tmp_path / "manifest.json").write_text(
        json.dumps(
            {
                "schema": "nsysoffload-run/1",
                "kind": "measured",
                "variant": "runs/of/src/offload.py",
                "recording": recording,
            }
        )
    )
    report = nsysoffload.analyze(path)
    assert told(report) == set()
    assert len(report.recording.notes) == len(secrets)
    assert report.recording.variant == "runs/of/src/offload.py"


def test_what_the_user_gives_stays(tmp_path):
    path = planted(tmp_path / "q7Rt2Lm9Xv4Bz8Kw1Np6Ys3Dc5.sqlite")
    report = nsysoffload.analyze(path, step_range="train_step|/home/me/x")
    assert report.trace.file == path.name
    assert report.tool.options == {"step_range": "train_step|/home/me/x"}
