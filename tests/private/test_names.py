"""New texts for private ones."""

import pytest

from nsysoffload.private.names import Names
from nsysoffload.private.words import Words


def test_equal_parts_get_one_marker_and_different_ones_two():
    names = Names(Words({}))
    texts = ["gemm(/a/b.cu)", "norm(/a/b.cu)", "gemm(/a/c.cu)", "gemm(10.1.2.3)"]
    assert [names.part(text) for text in texts] == [
        "gemm(<path-1>)",
        "norm(<path-1>)",
        "gemm(<path-2>)",
        "gemm(<address-1>)",
    ]
    assert names.replaced == {"path": 3, "address": 1}


def test_a_range_gets_a_number_that_no_other_has():
    names = Names(Words({}), taken={"nvtx-1", "nvtx-3"})
    texts = ["/a/b", "forward", "/a/c", "/a/b"]
    assert [names.whole(text) for text in texts] == ["nvtx-2", "forward", "nvtx-4", "nvtx-2"]


def test_a_range_of_xla_keeps_its_form():
    names = Names(Words({"alice": "user"}))
    text = "Thunk:#name=jit(alice)/add,hlo_op=fusion.1#"
    assert names.whole(text) == "Thunk:#name=jit(<user-1>)/add,hlo_op=fusion.1#"


@pytest.mark.parametrize("text", ["s\0e\0c\0", "\x1b[31m", "\ufffd\ufffd"])
def test_what_is_no_text_is_replaced_whole(text: str):
    assert Names(Words({})).part(text) == "<unreadable-1>"


def test_parts_that_overlap_are_one():
    names = Names(Words({"alice/x": "host"}))
    assert names.part("see /home/alice/x/y.") == "see <path-1>"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("node-17", [(0, 7, "host")]),
        ("on node-17:8080", [(3, 10, "host")]),
        ("node-170 node_17 xnode-17", []),
        ("node-17.rack-2 and node-17", [(0, 14, "host"), (19, 26, "host")]),
        ("p@ss w0rd!", [(0, 10, "value")]),
    ],
)
def test_private_words_are_found_whole_and_the_longest_first(text, found):
    kinds = {"node-17": "host", "node-17.rack-2": "host", "p@ss w0rd!": "value"}
    assert list(Words(kinds).found(text)) == found
