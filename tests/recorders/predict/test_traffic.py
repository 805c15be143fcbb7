import pytest

from nsysoffload.recorders.predict.hlo import parse
from nsysoffload.recorders.predict.traffic import Traffic, traffic


def moved(line, *parameters, fused="", root="r"):
    """Traffic of one line whose parameters are p0, p1, ... of the given shapes."""
    lines = "\n".join(f"  %p{n} = {shape} parameter({n})" for n, shape in enumerate(parameters))
    module = parse(
        f"HloModule m, is_scheduled=true\n\n{fused}\n\n"
        f"ENTRY %e () -> f32[] {{\n{lines}\n  ROOT %r = {line}\n}}\n"
    )
    assert not module.unread
    return traffic(module.entry.by_name[root], module.entry, module)


def device(read, written):
    return Traffic(read, written, 0, 0)


ROWS, ROW = "f32[6,4]{1,0}", "f32[1,4]{1,0}"  # 96 and 16 bytes


@pytest.mark.parametrize(
    ("line", "parameters", "expected"),
    [
        (f"{ROWS} copy(%p0)", [ROWS], device(96, 96)),
        (f"{ROW} dynamic-slice(%p0, %p1)", [ROWS, "s32[]"], device(16 + 4, 16)),
        (f"{ROWS} dynamic-update-slice(%p0, %p1)", [ROWS, ROW], device(16, 16)),
        (f"{ROW} copy(%p0)", ["f32[1,4]{1,0:S(5)}"], Traffic(16, 16, 16, 0)),
        ("f32[1,4]{1,0:S(5)} copy(%p0)", [ROW], Traffic(16, 16, 0, 16)),
        (
            f'({ROW}, s8[999]{{0}}) custom-call(%p0), custom_call_target="__cublas$lt$matmul"',
            [ROWS],
            device(96, 16),
        ),
        (f'({ROW}, {ROW}) custom-call(%p0), custom_call_target="x"', [ROWS], device(96, 32)),
    ],
    ids=["copy", "slice", "update", "from host", "to host", "workspace is no traffic", "results"],
)
def test_an_instruction_reads_its_operands_and_writes_its_results(line, parameters, expected):
    assert moved(line, *parameters) == expected


def fusion(body, *parameters, result=ROWS):
    names = ", ".join(f"%p{n}" for n in range(len(parameters)))
    lines = "\n".join(f"  %q{n} = {shape} parameter({n})" for n, shape in enumerate(parameters))
    return moved(
        f"{result} fusion({names}), kind=kLoop, calls=%f",
        *parameters,
        fused=f"%f () -> f32[] {{\n{lines}\n{body}\n}}",
    )


def test_a_fusion_reads_each_parameter_once_and_nothing_of_what_stays_inside():
    body = f"""  %a = {ROWS} add(%q0, %q1)
  ROOT %b = {ROWS} multiply(%a, %q0)"""
    assert fusion(body, ROWS, ROWS) == device(96 + 96, 96)


def test_a_parameter_that_is_only_sliced_is_read_as_far_as_it_is_sliced():
    #  q0 -- bitcast -- slice --+
    #   +--------------- slice -+-- add
    body = f"""  %b = f32[6,1,4]{{2,1,0}} bitcast(%q0)
  %s = {ROW} dynamic-slice(%b, %q1)
  %t = {ROW} slice(%q0), slice={{[0:1], [0:4]}}
  ROOT %a = {ROW} add(%s, %t)"""
    assert fusion(body, ROWS, "s32[]", result=ROW) == device(16 + 16 + 4, 16)


def test_a_parameter_that_is_sliced_and_used_whole_is_read_whole():
    body = f"""  %s = {ROW} dynamic-slice(%q0, %q1)
  %n = {ROWS} negate(%q0)
  ROOT %t = ({ROW}, {ROWS}) tuple(%s, %n)"""
    assert fusion(body, ROWS, "s32[]", result=f"({ROW}, {ROWS})") == device(96 + 4, 16 + 96)


def test_a_buffer_updated_in_place_is_written_where_it_changes():
    body = f"""  %n = {ROW} negate(%q1)
  %u = {ROWS} dynamic-update-slice(%q0, %n, %q2)
  ROOT %b = f32[24]{{0}} bitcast(%u)"""
    assert fusion(body, ROWS, ROW, "s32[]") == device(16 + 4, 16)


def test_an_update_that_is_not_the_result_reads_its_whole_buffer():
    body = f"""  %u = {ROWS} dynamic-update-slice(%q0, %q1, %q2)
  ROOT %n = {ROWS} negate(%u)"""
    assert fusion(body, ROWS, ROW, "s32[]") == device(96 + 16 + 4, 96)


def test_a_fusion_with_several_results_writes_each():
    body = f"""  %n = {ROW} negate(%q1)
  %u = {ROWS} dynamic-update-slice(%q0, %n, %q2)
  ROOT %t = ({ROWS}, {ROW}) tuple(%u, %n)"""
    assert fusion(body, ROWS, ROW, "s32[]", result=f"({ROWS}, {ROW})") == device(20, 16 + 16)


def test_a_scatter_in_place_writes_its_updates():
    body = f"  ROOT %s = {ROWS} scatter(%q0, %q1, %q2), to_apply=%add"
    assert fusion(body, ROWS, "s32[1]{0}", ROW) == device(4 + 16, 16)


def test_the_workspace_of_a_library_call_inside_a_fusion_is_no_traffic():
    body = f"""  %c = ({ROW}, s8[9]{{0}}) custom-call(%q1), custom_call_target="__cublas$lt$matmul"
  %g = {ROW} get-tuple-element(%c), index=0
  %w = s8[999]{{0}} get-tuple-element(%c), index=1
  %u = {ROWS} dynamic-update-slice(%q0, %g, %q2)
  ROOT %t = ({ROWS}, s8[999]{{0}}) tuple(%u, %w)"""
    result = f"({ROWS}, s8[999]{{0}})"
    assert fusion(body, ROWS, ROWS, "s32[]", result=result) == device(96 + 4, 16)


def test_a_slice_inside_a_nested_fusion_counts_as_a_slice():
    fused = f"""%inner () -> f32[] {{
  %i0 = {ROWS} parameter(0)
  %i1 = s32[] parameter(1)
  ROOT %s = {ROW} dynamic-slice(%i0, %i1)
}}

%outer () -> f32[] {{
  %q0 = {ROWS} parameter(0)
  %q1 = s32[] parameter(1)
  ROOT %n = {ROW} fusion(%q0, %q1), kind=kCustom, calls=%inner
}}"""
    line = f"{ROW} fusion(%p0, %p1), kind=kCustom, calls=%outer"
    assert moved(line, ROWS, "s32[]", fused=fused) == device(16 + 4, 16)


def test_a_parameter_that_nothing_uses_is_not_read():
    assert fusion(f"  ROOT %n = {ROW} negate(%q1)", ROWS, ROW, result=ROW) == device(16, 16)
