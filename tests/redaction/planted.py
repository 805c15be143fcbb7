"""An export with a secret in every place that one was ever found in, and some more."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from nsysoffload.trace.builder import TraceBuilder

__all__ = ["SECRETS", "planted"]

TOKEN = "ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4"
SECRETS = {
    "host": "gpu-node-0417",
    "user": "mallory",
    "home": "/home/mallory",
    "working folder": "/scratch/unreleased/model-x",
    "token": TOKEN,
    "cloud key": "AKIAQX7EXAMPLE4WZ9TR",
    "web token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl",
    "password": "correct-horse-battery",
    "proxy": "http://mallory:pr0xyPassw0rd@proxy.corp.example:3128",
    "proxy password": "pr0xyPassw0rd",
    "command": "train_secret_sauce.py",
    "argument": "--run-name=operation-nightfall",
    "argument word": "operation-nightfall",
    "process": "acme-telemetryd",
    "thread": "mallory-dataloader",
    "file contents": "BEGIN RSA PRIVATE MATERIAL 9c1f",
    "diagnostic": "cannot open /var/run/nightfall.sock",
    "loose string": "LAUNCH_CODE_00000000",
    "environment": "WANDB_API_KEY=0f3b9c2d7a",
    "url": "https://git.corp.example/nightfall",
    "email": "mallory@corp.example",
    "address": "10.41.7.23",
    "source": "src/nightfall/kernels.cu",
    "text as number": "n0t-a-number",
    "blob": "blob-of-nightfall",
    "deleted row": "deleted-row-nightfall",
    "domain": "nightfall-domain",
    "mark": "mark-of-nightfall",
    "json": "json-of-nightfall",
    "adapter path": "/proc/driver/nightfall/gpu0",
    "uuid": "no uuid but nightfall",
    "table": "nightfall_events",
    "column": "nightfall_column",
    "view": "nightfall_view",
    "trigger": "nightfall_trigger",
    "index": "nightfall_index",
    "default": "nightfall-default",
    "comment": "nightfall-comment",
    "utf-16": "sixteen-bits-of-nightfall",
    "prediction": "/home/mallory/xla_dump",
}
"""Secrets by what they are; each stands in the export of `planted`."""


def planted(path: Path) -> Path:
    """Write an export of two steps that holds all of `SECRETS`, also in pages not in use."""
    trace = TraceBuilder()
    for start in (0, 100):
        trace.nvtx("train_step", (start, start + 50))
        trace.nvtx(f"load {SECRETS['working folder']}/weights.bin", (start + 1, start + 4))
        trace.nvtx(f"push as {SECRETS['email']}", (start + 4, start + 5))
        trace.nvtx("forward", (start + 6, start + 40))
        name = f"gemm<{SECRETS['source']}>::{SECRETS['user']}({SECRETS['host']})"
        trace.kernel((start + 10, start + 20), name, call=(start + 6, start + 7))
        trace.kernel((start + 22, start + 30), f"norm {TOKEN}", call=(start + 7, start + 8))
        trace.copy("h2d", (start + 15, start + 21), stream=20, call=(start + 8, start + 9))
    trace.write(path)
    with closing(sqlite3.connect(path)) as db:
        _plant(db)
        db.commit()
    return path


def _plant(db: sqlite3.Connection) -> None:
    s = SECRETS
    db.execute("PRAGMA secure_delete = OFF")
    run = db.execute
    run(
        "CREATE TABLE TARGET_INFO_SYSTEM_ENV"
        " (globalVid INTEGER, devStateName TEXT, name TEXT, nameEnum INTEGER, value TEXT)"
    )
    for name, value in (
        ("Hostname", s["host"]),
        ("HOME", s["home"]),
        ("https_proxy", s["proxy"]),
        ("DB_PASSWORD", s["password"]),
        ("GITHUB_TOKEN", TOKEN),
    ):
        run("INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES (1, 'env', ?, 0, ?)", (name, value))
    for name, value in (
        ("PROCESS_0:WORKING_DIR", s["working folder"]),
        ("PROCESS_0:USER_NAME", s["user"]),
        ("PROCESS_0:COMMAND", s["command"]),
        ("PROCESS_0:ARGUMENT_0", s["argument"]),
        ("EXPORT_HOST", s["host"]),
        ("NSYSOFFLOAD:RECORDER", "nsys"),
        ("NSYSOFFLOAD:WARNINGS", json.dumps([["told", f"dumped to {s['prediction']}"]])),
    ):
        run("INSERT INTO META_DATA_CAPTURE VALUES (?, ?)", (name, value))
    run("UPDATE PROCESSES SET name = ?", (s["process"],))
    run("CREATE TABLE ThreadNames (nameId INTEGER NOT NULL, priority INTEGER, globalTid INTEGER)")
    run("CREATE TABLE ProcessStreams (globalPid INTEGER, filenameId INTEGER, contentId INTEGER)")
    loose = (
        s["thread"],
        s["file contents"],
        s["loose string"],
        s["environment"],
        f"HTTPS_PROXY={s['proxy']}",
        s["cloud key"],
        s["web token"],
    )
    for number, text in enumerate(loose, 1000):
        run("INSERT INTO StringIds VALUES (?, ?)", (number, text))
    run("INSERT INTO ThreadNames VALUES (1000, 0, 1)")
    run("INSERT INTO ProcessStreams VALUES (1, 1001, 1001)")
    run("CREATE TABLE DIAGNOSTIC_EVENT (timestamp INTEGER, severity INTEGER, text TEXT)")
    run("INSERT INTO DIAGNOSTIC_EVENT VALUES (1, 2, ?)", (s["diagnostic"],))
    run(
        "INSERT INTO DIAGNOSTIC_EVENT VALUES (1, 2, ?)",
        (f"{s['user']}: Not all CUDA events might have been collected.",),
    )
    _plant_in_rows(db)
    _plant_in_schema(db)
    _plant_in_free_pages(db)


def _plant_in_rows(db: sqlite3.Connection) -> None:
    s, run = SECRETS, db.execute
    nvtx = (
        "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid, domainId, jsonText)"
        " VALUES (?, ?, ?, ?, ?, 0, ?)"
    )
    thread = (1 << 48) | (1 << 24) | 1
    for kind, text in ((75, s["domain"]), (34, s["mark"]), (39, s["thread"])):
        run(nvtx, (5_000_000, None, kind, text, thread, None))
    for text in (s["url"], s["address"], s["utf-16"].encode("utf-16-le"), s["password"]):
        run(nvtx, (11_000_000, 12_000_000, 59, text, thread, s["json"]))
    run("UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET virtualAddress = ?", (s["text as number"],))
    run("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET graphNodeId = ?", (s["text as number"],))
    run("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET gridX = ?", (s["blob"].encode(),))
    run("UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET returnValue = ?", (f"0 {s['text as number']}",))
    run("UPDATE TARGET_INFO_GPU SET ctrlDevPath = ?, luid = ?", (s["adapter path"], s["blob"]))
    run("UPDATE TARGET_INFO_CUDA_DEVICE SET uuid = ?", (s["uuid"],))


def _plant_in_schema(db: sqlite3.Connection) -> None:
    s, run = SECRETS, db.execute
    run(f"CREATE TABLE {s['table']} (a DEFAULT '{s['default']}', b /* {s['comment']} */)")
    run(f"INSERT INTO {s['table']} (b) VALUES (?)", (s["blob"].encode(),))
    run(f"CREATE TABLE {s['table']}_of_numbers (a INTEGER)")
    run(f"ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL ADD COLUMN {s['column']} TEXT DEFAULT '{TOKEN}'")
    run(f"CREATE VIEW {s['view']} AS SELECT '{s['email']}' AS mail")
    run(f"CREATE INDEX {s['index']} ON StringIds (value)")
    run(
        f"CREATE TRIGGER {s['trigger']} AFTER INSERT ON PROCESSES"
        f" BEGIN SELECT '{s['loose string']}'; END"
    )


def _plant_in_free_pages(db: sqlite3.Connection) -> None:
    db.execute("CREATE TABLE gone (text TEXT)")
    rows = ((f"{SECRETS['deleted row']} {number} {'x' * 500}",) for number in range(100))
    db.executemany("INSERT INTO gone VALUES (?)", rows)
    db.execute("DROP TABLE gone")
