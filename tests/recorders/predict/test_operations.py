import pytest

from nsysoffload.recorders.predict.hlo import parse
from nsysoffload.recorders.predict.operations import operation
from nsysoffload.recorders.predict.program import Kind, Op

ROWS, ROW = "f32[6,4]{1,0}", "f32[1,4]{1,0}"  # 96 and 16 bytes
HOST_ROWS = "f32[6,4]{1,0:S(5)}"
OFFSETS = (
    'backend_config={"dynamic_slice_config":{"linear":{"byte_offset":"0","byte_stride":"16"}}}'
)


def op_of(line, *parameters, fused=""):
    """The operation of one line whose parameters are p0, p1, ... of the given shapes."""
    lines = "\n".join(f"  %p{n} = {shape} parameter({n})" for n, shape in enumerate(parameters))
    module = parse(
        "HloModule m, is_scheduled=true, num_partitions=4\n\n"
        f"{fused}\n\nENTRY %e () -> f32[] {{\n{lines}\n  ROOT %r.1 = {line}\n}}\n"
    )
    assert not module.unread
    return operation(module.entry.by_name["r.1"], module.entry, module)


def fused_op(body, *parameters, result=ROWS, opcode="fusion"):
    names = ", ".join(f"%p{n}" for n in range(len(parameters)))
    lines = "\n".join(f"  %q{n} = {shape} parameter({n})" for n, shape in enumerate(parameters))
    shape = f"(({', '.join(parameters)}), {result}, u32[])" if "-start" in opcode else result
    return op_of(
        f"{shape} {opcode}({names}), kind=kLoop, calls=%f",
        *parameters,
        fused=f"%f () -> f32[] {{\n{lines}\n{body}\n}}",
    )


@pytest.mark.parametrize(
    "line",
    [
        f"{ROWS} bitcast(%p0)",
        f"({ROWS}) tuple(%p0)",
        "token[] after-all()",
        f'{HOST_ROWS} custom-call(), custom_call_target="AllocateBuffer"',
        f'{ROWS} custom-call(%p0), custom_call_target="annotate_device_placement"',
    ],
)
def test_what_only_names_memory_runs_nothing(line):
    assert op_of(line, ROWS) is None


def test_a_fusion_is_timed_by_its_bytes_and_keeps_its_names():
    body = f'  ROOT %n = {ROWS} negate(%q0), metadata={{op_name="jit(step)/neg"}}'
    assert fused_op(body, ROWS) == Op("r.1", Kind.FUSION, "jit(step)/neg", 96 + 96)


def test_a_copy_is_done_by_the_driver():
    assert op_of(f"{ROWS} copy(%p0)", ROWS) == Op("r.1", Kind.COPY, size_bytes=192, is_kernel=False)


UPDATE = "dynamic-update-slice(%q0, %q1, %q2)"
SLICE = "dynamic-slice(%q0, %q1)"


@pytest.mark.parametrize(
    ("body", "parameters", "result", "expected"),
    [
        pytest.param(
            f"  ROOT %u = {HOST_ROWS} {UPDATE}, {OFFSETS}",
            [HOST_ROWS, ROW, "s32[]"],
            HOST_ROWS,
            Op("r.1", Kind.D2H, size_bytes=16, is_kernel=False),
            id="a layer's value to the host",
        ),
        pytest.param(
            f"  ROOT %u = {HOST_ROWS} {UPDATE}",
            [HOST_ROWS, ROW, "s32[]"],
            HOST_ROWS,
            Op("r.1", Kind.D2H, size_bytes=16, is_kernel=True),
            id="peeled off the loop: no offsets",
        ),
        pytest.param(
            f"  ROOT %s = {ROW} {SLICE}, {OFFSETS}",
            [HOST_ROWS, "s32[]"],
            ROW,
            Op("r.1", Kind.H2D, size_bytes=16, is_kernel=False),
            id="a layer's value from the host",
        ),
        pytest.param(
            f"  ROOT %s = {ROW} {SLICE}, {OFFSETS}",
            [ROWS, "s32[]"],
            ROW,
            Op("r.1", Kind.COPY, size_bytes=16 + 16, is_kernel=False),
            id="a layer's weights: within the device",
        ),
        pytest.param(
            f"  %i = s32[] subtract(%q1, %q1)\n  ROOT %s = {ROW} dynamic-slice(%q0, %i), {OFFSETS}",
            [HOST_ROWS, "s32[]"],
            ROW,
            Op("r.1", Kind.H2D, size_bytes=16, is_kernel=False),
            id="an offset that is computed inside",
        ),
        pytest.param(
            f"  %s = {ROW} {SLICE}, {OFFSETS}\n  ROOT %n = {ROW} negate(%s)",
            [HOST_ROWS, "s32[]"],
            ROW,
            Op("r.1", Kind.H2D, size_bytes=16, is_kernel=True),
            id="a kernel that reads the host's memory",
        ),
        pytest.param(
            f"  ROOT %s = {ROW} slice(%q0), slice={{[2:3], [0:4]}}",
            [ROWS],
            ROW,
            Op("r.1", Kind.COPY, size_bytes=32, is_kernel=False),
            id="a row: one piece of memory",
        ),
        pytest.param(
            "  ROOT %s = f32[6,1]{1,0} slice(%q0), slice={[0:6], [2:3]}",
            [ROWS],
            "f32[6,1]{1,0}",
            Op("r.1", Kind.COPY, size_bytes=48, is_kernel=True),
            id="a column: a kernel",
        ),
        pytest.param(
            f"  ROOT %c = {HOST_ROWS} copy(%q0)",
            [HOST_ROWS],
            HOST_ROWS,
            Op("r.1", Kind.UNKNOWN, size_bytes=192),
            id="within the host's memory",
        ),
    ],
)
@pytest.mark.parametrize("opcode", ["fusion", "fusion-start", "async-start"])
def test_where_a_slice_lives_tells_its_direction(body, parameters, result, expected, opcode):
    assert fused_op(body, *parameters, result=result, opcode=opcode) == expected


@pytest.mark.parametrize(
    ("line", "parameter", "kind", "size_bytes"),
    [
        (f"({HOST_ROWS}, {ROWS}, u32[]) copy-start(%p0)", ROWS, Kind.D2H, 96),
        (f"({ROWS}, {HOST_ROWS}, u32[]) copy-start(%p0)", HOST_ROWS, Kind.H2D, 96),
        (f"({ROWS}, {ROWS}, u32[]) copy-start(%p0)", ROWS, Kind.COPY, 192),
        (f"{HOST_ROWS} copy(%p0)", ROWS, Kind.D2H, 96),
        ("s32[] copy(%p0)", "s32[]{:S(5)}", Kind.H2D, 4),
    ],
)
def test_a_whole_array_is_copied_like_a_slice(line, parameter, kind, size_bytes):
    expected = Op("r.1", kind, size_bytes=size_bytes, is_kernel=False)
    assert op_of(line, parameter) == expected


def test_an_older_start_without_a_fusion_is_the_slice_itself():
    line = f"(({HOST_ROWS}, s32[]), {ROW}, u32[]) dynamic-slice-start(%p0, %p1)"
    op = op_of(line, HOST_ROWS, "s32[]")
    assert (op.kind, op.size_bytes) == (Kind.H2D, 16)


GEMM = (
    'custom-call(%q1, %b), custom_call_target="__cublas$lt$matmul", '
    'metadata={op_name="jit(step)/dot"}, backend_config={"gemm_backend_config":'
    '{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"]}}}'
)


def test_a_product_with_a_sliced_weight_is_a_gemm_that_reads_one_layer():
    # [2, 4] x [4, 8], the weight one of six layers
    body = f"""  %s = bf16[1,4,8]{{2,1,0}} dynamic-slice(%q0, %q2)
  %b = bf16[4,8]{{1,0}} bitcast(%s)
  ROOT %c = (bf16[2,8]{{1,0}}, s8[999]{{0}}) {GEMM}"""
    assert fused_op(body, "bf16[6,4,8]{2,1,0}", "bf16[2,4]{1,0}", "s32[]") == Op(
        "r.1",
        Kind.GEMM,
        "jit(step)/dot",
        size_bytes=(4 * 8 + 2 * 4 + 2 * 8) * 2 + 4,
        flops=2 * 2 * 8 * 4,
        dtype="bf16",
    )


def test_the_products_of_nested_fusions_add_up():
    fused = """%inner () -> f32[] {
  %i0 = f32[4,4]{1,0} parameter(0)
  ROOT %d = f32[4,4]{1,0} dot(%i0, %i0), lhs_contracting_dims={1}
}

%outer () -> f32[] {
  %q0 = f32[4,4]{1,0} parameter(0)
  %a = f32[4,4]{1,0} fusion(%q0), kind=kCustom, calls=%inner
  ROOT %d.1 = f32[4,4]{1,0} dot(%a, %q0), lhs_contracting_dims={1}
}"""
    op = op_of("f32[4,4]{1,0} fusion(%p0), calls=%outer", "f32[4,4]{1,0}", fused=fused)
    assert (op.kind, op.flops, op.size_bytes) == (Kind.GEMM, 2 * 2 * 64, 2 * 64)


def test_attention_says_its_pass():
    call = (
        "(bf16[1,1,2,4]{3,2,1,0}, bf16[1,1,2,4]{3,2,1,0}, u8[0]{0}) "
        "custom-call(%p0, %p0, %p0, %p0, %p0), "
        'custom_call_target="__cudnn$fmhaSoftmaxBackward", backend_config='
        '{"cudnn_fmha_backend_config":{"intermediate_tensor_shape":{"dimensions":["1","1","2","2"]}}}'
    )
    op = op_of(call, "bf16[1,2,1,4]{3,2,1,0}")
    assert (op.kind, op.backward, op.flops) == (Kind.ATTENTION, True, 2 * 4 * (3 * 4 + 2 * 4))


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (f"(({ROWS}), f32[24,4]{{1,0}}) all-gather-start(%p0), dimensions={{0}}", "all-gather"),
        ("f32[24,4]{1,0} all-gather(%p0), dimensions={0}", "all-gather"),
    ],
)
def test_a_collective_is_one_whether_it_is_asynchronous_or_not(line, name):
    expected = Op("r.1", Kind.COLLECTIVE, size_bytes=3 * 96, collective=name, ranks=4)
    assert op_of(line, ROWS) == expected


def test_a_collective_in_a_kernel_of_xlas_own_is_one_too():
    body = f"  ROOT %a = {ROWS} all-reduce(%q0), replica_groups={{{{0,1}},{{2,3}}}}, to_apply=%add"
    op = fused_op(body, ROWS, opcode="fusion-start")
    assert op == Op("r.1", Kind.COLLECTIVE, size_bytes=96, collective="all-reduce", ranks=2)


@pytest.mark.parametrize("target", ["__cub$DeviceRadixSortPairs", "__gpu$TopK"])
def test_sorts_and_their_kin_are_timed_by_their_bytes(target):
    op = op_of(f'{ROWS} custom-call(%p0), custom_call_target="{target}"', ROWS)
    assert (op.kind, op.size_bytes) == (Kind.FUSION, 192)


@pytest.mark.parametrize(
    "line",
    [
        f'{ROWS} custom-call(%p0), custom_call_target="my_kernel"',
        f'{ROWS} custom-call(%p0), custom_call_target="__cublas$new"',
        f"{ROWS} unheard-of(%p0)",
        f"{ROWS} dot(%p0, %p0), lhs_contracting_dims={{7}}",
    ],
)
def test_what_is_not_understood_has_its_bytes(line):
    op = op_of(line, ROWS)
    operands = 2 if "dot" in line else 1
    assert (op.kind, op.size_bytes, op.flops) == (Kind.UNKNOWN, 96 * operands + 96, 0)


def test_a_fusion_that_holds_a_call_we_do_not_know_is_not_understood():
    body = f'  ROOT %c = {ROWS} custom-call(%q0), custom_call_target="my_kernel"'
    assert fused_op(body, ROWS).kind is Kind.UNKNOWN
