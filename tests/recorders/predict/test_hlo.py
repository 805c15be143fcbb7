import time

import pytest

from nsysoffload.errors import OffloadError
from nsysoffload.recorders.predict.hlo import parse
from nsysoffload.recorders.predict.shapes import HOST

TEXT = r"""HloModule jit_step, is_scheduled=true, entry_computation_layout={(f32[4]{0})->f32[4]{0}}, num_partitions=8

FileNames
1 "step.py"

%body (p: f32[4]) -> f32[4] {
  %p = f32[4]{0} parameter(0)
  ROOT %neg.1 = f32[4]{0} negate(%p), metadata={op_name="jit(step)/neg" stack_frame_id=3}
}, execution_thread="main"

ENTRY %main.3 (x: f32[4]) -> f32[4] {
  %c = s32[2]{0} constant({1, 2})
  %x = f32[4]{0} parameter(0), sharding={mesh[], [{}, {'fsdp'}]}, metadata={op_name="w[\'a, b={(\'] \"q\""}
  %start = ((f32[4]{0:S(5)}, s32[]), f32[4]{0}, /*index=5*/u32[]) fusion-start(%x, /*index=1*/%c), kind=kLoop, calls=%body, control-predecessors={%c, %x}, backend_config={"a":{"n":"6"},"b":"} ) \" {"}
  %done = f32[4]{0} fusion-done(%start)
  this line is from a later version
  %odd = what[4]{0} negate(%done)
  ROOT %call.2 = f32[4]{0} custom-call(f32[4]{0} %done), custom_call_target="__x$y", output_to_operand_aliasing={{}: (0, {})}
}
"""  # noqa: E501 - lines as the compiler writes them


def test_instructions_keep_the_order_of_the_schedule():
    module = parse(TEXT)
    assert (module.name, module.entry.name) == ("jit_step", "main.3")
    assert [i.opcode for i in module.entry.instructions] == [
        "constant", "parameter", "fusion-start", "fusion-done", "custom-call",
    ]  # fmt: skip
    assert [i.name for i in module.computations["body"].instructions] == ["p", "neg.1"]
    assert module.attributes["num_partitions"] == "8"


def test_operands_are_names_without_types_and_comments():
    by_name = parse(TEXT).entry.by_name
    assert by_name["start"].operands == ("x", "c")
    assert by_name["call.2"].operands == ("done",)
    assert by_name["x"].operands == ("0",)


def test_brackets_in_quotes_and_layouts_do_not_end_an_attribute():
    start = parse(TEXT).entry.by_name["start"]
    assert start.attributes["kind"] == "kLoop"
    assert start.config == {"a": {"n": "6"}, "b": '} ) " {'}
    assert start.references("control-predecessors") == ("c", "x")
    assert next(start.shape.leaves).memory_space == HOST


def test_an_op_name_is_read_without_its_escapes():
    module = parse(TEXT)
    assert module.entry.by_name["x"].op_name == "w['a, b={('] \"q\""
    assert module.computations["body"].by_name["neg.1"].op_name == "jit(step)/neg"
    assert module.entry.by_name["done"].op_name == ""


def test_a_fusion_leads_to_its_computation_and_a_custom_call_names_its_target():
    module = parse(TEXT)
    start, call = (module.entry.by_name[name] for name in ("start", "call.2"))
    assert module.called(start) is module.computations["body"]
    assert module.called(call) is None
    assert call.target == "__x$y"
    assert module.entry.root is call


def test_lines_that_are_not_understood_are_kept_aside():
    assert parse(TEXT).unread == (
        "this line is from a later version",
        "%odd = what[4]{0} negate(%done)",
    )


def test_a_value_that_was_not_read_has_an_empty_shape():
    module = parse(TEXT.replace("%done = f32", "%done = what"))
    (shape,) = module.entry.shapes(module.entry.by_name["call.2"])
    assert shape.size_bytes == 0


def test_a_backend_config_that_is_not_json_is_empty():
    module = parse(TEXT.replace('backend_config={"a"', "backend_config={a"))
    assert module.entry.by_name["start"].config == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not HLO text"),
        ("SQLite format 3", "not HLO text"),
        (TEXT.replace("is_scheduled=true, ", ""), "jit_step has no schedule"),
        (TEXT.replace("is_scheduled=true", "is_scheduled=false"), "jit_step has no schedule"),
        (TEXT[: TEXT.index("ROOT %call.2")], "has no ENTRY"),
    ],
    ids=["empty", "other", "unscheduled", "scheduled is false", "cut off"],
)
def test_text_without_a_schedule_is_refused(text, message):
    with pytest.raises(OffloadError, match=message):
        parse(text)


def test_a_megabyte_is_read_in_two_seconds():
    head, _, rest = TEXT.partition("  %c = ")
    lines = ("  %c = " + rest).splitlines()[:4]
    copies = [line.replace(" %", f" %n{k}.", 1) for k in range(2600) for line in lines]
    text = head + "\n".join([*copies, "}", ""])
    assert len(text) > 1_000_000
    start = time.process_time()
    assert len(parse(text).entry.instructions) == len(copies)
    assert time.process_time() - start < 2
