"""What an export says of its machine and its owner."""

import sqlite3
from contextlib import closing

import pytest

from nsysoffload.private.learning import private_words
from nsysoffload.trace.builder import TraceBuilder
from nsysoffload.trace.export import Export


@pytest.fixture
def learned(tmp_path):
    """Return what is found in a text, once an export has a setting."""

    def found(name: str, value: str, text: str) -> list[str]:
        path = TraceBuilder().kernel((0, 1), "gemm").write(tmp_path / "trace.sqlite")
        with closing(sqlite3.connect(path)) as db:
            db.execute("INSERT INTO META_DATA_CAPTURE VALUES (?, ?)", (name, value))
            db.commit()
        return [kind for _, _, kind in private_words(Export.open(path)).found(text)]

    return found


@pytest.mark.parametrize(
    ("name", "value", "private"),
    [
        ("Hostname", "gpu17.cluster.example", "gpu17"),
        ("EXPORT_HOST", "gpu17", "gpu17"),
        ("SLURM_JOB_NODELIST", "rack2-n5,rack2-n6", "rack2-n6"),
        ("PROCESS_0:USER_NAME", "alice", "alice"),
        ("HOME", "/home/alice", "alice"),
        ("USERPROFILE", r"C:\Users\alice", "alice"),
        ("DB_PASSWORD", "correct horse", "correct horse"),
        ("WANDB_API_KEY", "swordfish", "swordfish"),
        ("https_proxy", "http://bob:swordfish@proxy:3128", "swordfish"),
        ("PROCESS_0:COMMAND", "/opt/acme-tool/bin/acme-train", "acme-train"),
        ("PROCESS_0:ARGUMENT_3", "--name=night-fall", "night-fall"),
        ("DeviceEnvironment", '{"LOGNAME": "alice"}', "alice"),
        ("ENVIRONMENT", "PATH=/bin\nLOGNAME=alice\n", "alice"),
    ],
)
def test_private_values_are_learned(learned, name, value, private):
    assert len(learned(name, value, f"range of {private} 3")) == 1


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("USER", "root", "root"),
        ("Hostname", "localhost", "localhost"),
        ("PROCESS_0:COMMAND", "python train.py --model llama --steps 10", "train.py llama steps"),
        ("PROCESS_0:COMMAND", "/usr/bin/python3.12 -m train_step", "python3.12 train_step"),
        ("PROCESS_0:ARGUMENT_1", "--lr=3.0e-04", "lr 3.0e-04"),
        ("TOKENIZERS_PARALLELISM", "parallel", "parallel"),
        ("MAX_TOKENS", "409600", "409600"),
        ("CUDA_VISIBLE_DEVICES", "GPU-12345678", "GPU-12345678"),
        ("NSYSOFFLOAD:KEY", "swordfish", "swordfish"),
    ],
)
def test_common_words_are_not(learned, name, value, text):
    assert learned(name, value, text) == []
