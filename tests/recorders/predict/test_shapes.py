import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysoffload.recorders.predict.shapes import HOST, Shape, read_shape


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        pytest.param("bf16[6,8,1024]{2,1,0}", 6 * 8 * 1024 * 2, id="array"),
        pytest.param("pred[]", 1, id="scalar"),
        pytest.param("f8e4m3fn[16,2]{1,0}", 32, id="eight-bit float"),
        pytest.param("s4[3]{0:E(4)}", 2, id="half bytes, rounded up"),
        pytest.param("f4e2m1fn[8]{0}", 4, id="four-bit float"),
        pytest.param("c64[2]{0}", 16, id="complex"),
        pytest.param("f32[<=4,2]{1,0}", 32, id="dynamic dimension"),
        pytest.param("token[]", 0, id="token"),
        pytest.param("()", 0, id="empty tuple"),
        pytest.param("((f32[2]{0}, s32[]), /*index=5*/u8[3]{0})", 8 + 4 + 3, id="nested tuple"),
        pytest.param("bf16[16,8]{1,0:T(8,128)(2,1)S(5)}", 256, id="tiles"),
    ],
)
def test_a_shape_has_the_bytes_of_its_elements(text, size_bytes):
    assert read_shape(text).size_bytes == size_bytes


@pytest.mark.parametrize(
    ("text", "space"),
    [
        ("f32[2]{0:S(5)}", HOST),
        ("f32[2]{0:T(8,128)S(5)}", HOST),
        ("f32[2]{0}", 0),
        ("f32[]{:S(5)}", HOST),
    ],
)
def test_a_layout_says_in_which_memory_an_array_lives(text, space):
    assert read_shape(text).memory_space == space


@pytest.mark.parametrize("text", ["", "f32", "f32[2", "(f32[2]", "f32[2] x", "what[2]", "f32[?]"])
def test_what_is_not_a_shape_is_refused(text):
    with pytest.raises(ValueError, match="not a"):
        read_shape(text)


def test_a_slice_is_one_piece_of_memory_if_only_its_outermost_dimension_is_cut():
    whole = read_shape("f32[4,8,16]{2,1,0}")

    def is_one_piece(text):
        return read_shape(text).is_contiguous_in(whole)

    assert is_one_piece("f32[2,8,16]{2,1,0}")
    assert is_one_piece("f32[1,3,16]{2,1,0}")
    assert is_one_piece("f32[1,1,5]{2,1,0}")
    assert not is_one_piece("f32[2,3,16]{2,1,0}")
    assert not is_one_piece("f32[4,8,15]{2,1,0}")
    # Column-major, the last dimension is the outermost.
    assert read_shape("f32[4,1]{0,1}").is_contiguous_in(read_shape("f32[4,8]{0,1}"))


arrays = st.builds(
    Shape,
    st.sampled_from(["pred", "s8", "bf16", "f32", "f8e5m2", "u64"]),
    st.lists(st.integers(0, 9), min_size=1, max_size=4).map(tuple),
    st.sampled_from([0, HOST]),
)
shapes = st.recursive(
    arrays, lambda inner: st.lists(inner, max_size=4).map(lambda s: Shape(parts=tuple(s)))
)


def written(shape):
    if not shape.dtype:
        return f"({', '.join(map(written, shape.parts))})"
    space = f":S({shape.memory_space})" if shape.memory_space else ""
    return f"{shape.dtype}[{','.join(map(str, shape.dims))}]{{{space}}}"


@given(shapes)
def test_a_written_shape_reads_back(shape):
    assert read_shape(written(shape)) == shape
    assert read_shape(written(shape)).size == sum(math.prod(s.dims) for s in shape.leaves)
