from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysoffload.timeline.xla import fields, op_name

DOT = "jit(f)/transpose(jvp())/while/body/dot_general[a=1,b=2]"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            f"Thunk:#name={DOT},hlo_op=fusion.3#", {"name": DOT, "hlo_op": "fusion.3"}, id="thunk"
        ),
        pytest.param(
            f"Thunk:#name={DOT},hlo_op=fusion.3,unique_hlo_op_id=7#",
            {"name": DOT, "hlo_op": "fusion.3", "unique_hlo_op_id": "7"},
            id="thunk-with-id",
        ),
        pytest.param("Thunk:#hlo_op=copy.1#", {"hlo_op": "copy.1"}, id="no-name"),
        pytest.param(
            "XlaModule:#prefix=jit(f)/jit(main),hlo_module=jit_f,program_id=12#",
            {"prefix": "jit(f)/jit(main)", "hlo_module": "jit_f", "program_id": "12"},
            id="module",
        ),
        pytest.param("XlaModule:#hlo_module=jit_f#", {"hlo_module": "jit_f"}, id="module-alone"),
        pytest.param(
            "Thunk:#name=a/bsd,dhk->bshk/dot#1,hlo_op=f.1#",
            {"name": "a/bsd,dhk->bshk/dot#1", "hlo_op": "f.1"},
            id="commas-and-hashes",
        ),
        pytest.param(
            "Thunk:#name=a/p[x=1,name=n,hlo_op=h],hlo_op=f.1#",
            {"name": "a/p[x=1,name=n,hlo_op=h]", "hlo_op": "f.1"},
            id="keys-in-brackets",
        ),
        pytest.param(
            "Thunk:#name=a/transpose(jvp(,hlo_op=f.1#",
            {"name": "a/transpose(jvp(", "hlo_op": "f.1"},
            id="open-brackets",
        ),
        pytest.param("Thunk:#name=,hlo_op=f.1#", {"hlo_op": "f.1"}, id="empty-value"),
        pytest.param("Thunk:#name=a,hlo_op=f.1", {"name": "a", "hlo_op": "f.1"}, id="no-end"),
        pytest.param("Thunk:##", {}, id="nothing-in-it"),
        pytest.param("train_step", {}, id="another-range"),
        pytest.param("", {}, id="empty"),
    ],
)
def test_keys_and_values_of_a_range(text, expected):
    assert fields(text) == expected


@pytest.mark.parametrize("parts", [*permutations(["name=a/b", "hlo_op=c.1", "unique_hlo_op_id=3"])])
def test_the_order_of_keys_does_not_matter(parts):
    expected = {"name": "a/b", "hlo_op": "c.1", "unique_hlo_op_id": "3"}
    assert fields(f"Thunk:#{','.join(parts)}#") == expected


@given(st.text(alphabet="name=hlo_op,#()[]{} \n\0", max_size=60))
def test_any_text_has_values_that_are_in_it(rest):
    assert all(value and value in rest for value in fields(f"Thunk:#{rest}").values())


@pytest.mark.parametrize(
    ("name", "prefix", "expected"),
    [
        pytest.param("jvp()/dot", "jit(f)", "jit(f)/jvp()/dot", id="left-out"),
        pytest.param("jit(f)/jvp()/dot", "jit(f)", "jit(f)/jvp()/dot", id="whole"),
        pytest.param("jit(f)", "jit(f)", "jit(f)", id="the-prefix-itself"),
        pytest.param("jit(f2)/dot", "jit(f", "jit(f/jit(f2)/dot", id="another-that-begins-alike"),
        pytest.param("dot", "", "dot", id="no-prefix"),
        pytest.param("", "jit(f)", "", id="no-name"),
    ],
)
def test_the_prefix_of_a_module_completes_a_name(name, prefix, expected):
    assert op_name(name, prefix) == expected
