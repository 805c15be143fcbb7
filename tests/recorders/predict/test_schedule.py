import gzip
from pathlib import Path

import pytest

from nsysoffload.recorders.predict.hlo import parse
from nsysoffload.recorders.predict.program import Done, Item, Kind, Loop, Start
from nsysoffload.recorders.predict.schedule import program

ROWS, ROW = "f32[6,4]{1,0}", "f32[1,4]{1,0}"
HOST_ROWS = "f32[6,4]{1,0:S(5)}"

FUSED = f"""
%negate () -> f32[] {{
  %n0 = {ROW} parameter(0)
  ROOT %n1 = {ROW} negate(%n0)
}}

%store () -> f32[] {{
  %u0 = {HOST_ROWS} parameter(0)
  %u1 = {ROW} parameter(1)
  %u2 = s32[] parameter(2)
  ROOT %u3 = {HOST_ROWS} dynamic-update-slice(%u0, %u1, %u2, %u2)
}}

%load () -> f32[] {{
  %s0 = {HOST_ROWS} parameter(0)
  %s1 = s32[] parameter(1)
  ROOT %s2 = {ROW} dynamic-slice(%s0, %s1, %s1)
}}
"""


def read(entry, others=""):
    return program(
        parse(
            "HloModule jit_step, is_scheduled=true, num_partitions=4\n"
            f"{FUSED}\n{others}\nENTRY %e (x: f32[1,4]) -> f32[1,4] {{\n{entry}\n}}\n"
        )
    )


def written(items):
    """Items as short lines: ``name < what it needs``, starts with their streams."""
    lines = []
    for item in items:
        if isinstance(item, Done):
            lines.append(f"done {item.start}")
        elif isinstance(item, Loop):
            lines.append((f"{item.trips} x {item.name}", *written(item.body)))
        else:
            stream = f" on {item.stream}" if isinstance(item, Start) else ""
            needs = "".join(f" <{need}" for need in item.needs)
            lines.append(f"{item.op.name}{stream}{needs}")
    return lines


def neg(name, operand, more=""):
    return f"  %{name} = {ROW} fusion(%{operand}), kind=kLoop, calls=%negate{more}"


def test_items_need_those_whose_results_reach_them_through_what_is_free():
    #   0 a    1 b        x -> a -> (tuple, element, bitcast) -> c;  x -> b
    entry = f"""  %x = {ROW} parameter(0)
{neg("a", "x")}
{neg("b", "x")}
  %t = ({ROW}, {ROW}) tuple(%a, %x)
  %g = {ROW} get-tuple-element(%t), index=0
  %h = {ROW} bitcast(%g)
  ROOT {neg("c", "h").strip()}"""
    assert written(read(entry).items) == ["a", "b", "c <0"]


def test_a_control_edge_is_a_need_also_through_what_is_free():
    entry = f"""  %x = {ROW} parameter(0)
{neg("a", "x")}
  %h = {ROW} bitcast(%x), control-predecessors={{%a}}
{neg("b", "h")}
{neg("c", "x", ", control-predecessors={%a, %b}")}
  ROOT %z = {ROW} bitcast(%c)"""
    assert written(read(entry).items) == ["a", "b <0", "c <0 <1"]


def test_host_copies_start_on_their_own_streams_and_end_where_the_schedule_says():
    entry = f"""  %x = {ROW} parameter(0)
  %i = s32[] constant(3)
  %buffer = {HOST_ROWS} custom-call(), custom_call_target="AllocateBuffer"
{neg("a", "x")}
  %load-start = (({HOST_ROWS}), {HOST_ROWS}, u32[]) fusion-start(%buffer, %a, %i), calls=%store
{neg("b", "x")}
  %load-done = {HOST_ROWS} fusion-done(%load-start)
  %store-start = (({HOST_ROWS}, s32[]), {ROW}, u32[]) fusion-start(%load-done, %i), calls=%load
  %store-done = {ROW} fusion-done(%store-start)
  ROOT {neg("c", "store-done").strip()}"""
    # The names are the wrong way round on purpose: the direction is where the memory is.
    assert written(read(entry).items) == [
        "a",
        "load-start on d2h <0",
        "b",
        "done 1",
        "store-start on h2d <3",
        "done 4",
        "c <5",
    ]


def test_collectives_and_slices_of_weights_have_streams_of_their_own():
    entry = f"""  %x = {ROW} parameter(0)
  %w-start = (({ROW}), {ROW}, u32[]) fusion-start(%x), kind=kLoop, calls=%negate
  %v-start = (({ROW}), {ROW}, u32[]) fusion-start(%x), kind=kLoop, calls=%negate
  %v-done = {ROW} fusion-done(%v-start)
  %w-done = {ROW} fusion-done(%w-start)
  %g-start = (({ROW}), f32[4,4]{{1,0}}) all-gather-start(%w-done), dimensions={{0}}
  %g-done = f32[4,4]{{1,0}} all-gather-done(%g-start)
  ROOT %r = f32[4,4]{{1,0}} all-reduce(%g-done), to_apply=%add"""
    assert written(read(entry).items) == [
        "w-start on compute.1",
        "v-start on compute.2",
        "done 1",
        "done 0",
        "g-start on comm <3",
        "done 4",
        "r <5",
    ]


def test_an_asynchronous_operation_in_two_parts_ends_once():
    entry = f"""  %x = {ROW} parameter(0)
  %s = (({ROW}), {ROW}, u32[]) async-start(%x), calls=%negate
  %u = (({ROW}), {ROW}, u32[]) async-update(%s)
  ROOT %d = {ROW} async-done(%u)"""
    assert written(read(entry).items) == ["s on compute.1", "done 0"]


LOOP = f"""%cond () -> pred[] {{
  %q = ({ROW}) parameter(0)
  ROOT %t = pred[] constant(true)
}}

%body () -> f32[] {{
  %q = ({ROW}) parameter(0)
  %g = {ROW} get-tuple-element(%q), index=0
{neg("in", "g")}
{neg("out", "in")}
  ROOT %t = ({ROW}) tuple(%out)
}}
"""


def loop_entry(config):
    return f"""  %x = {ROW} parameter(0)
{neg("a", "x")}
  %t0 = ({ROW}) tuple(%a)
  %while.1 = ({ROW}) while(%t0), condition=%cond, body=%body{config}
  %g = {ROW} get-tuple-element(%while.1), index=0
  ROOT {neg("b", "g").strip()}"""


def test_a_loop_is_a_sequence_of_its_own_and_its_results_need_all_of_it():
    #   0 a    1 while  [0 in   1 out]    2 b
    config = ', backend_config={"known_trip_count":{"n":"6"}}'
    read_program = read(loop_entry(config), LOOP)
    loop = Loop("while.1", read_program.items[1].body, 6, (0,))
    assert read_program.items[1] == loop
    assert written(read_program.items) == ["a", ("6 x while.1", "in", "out <0"), "b <1"]
    assert [times for _, times in read_program.ops()] == [1, 6, 6, 1]
    assert read_program.notes == ()


def test_a_trip_count_that_depends_on_data_is_none_and_noted():
    read_program = read(loop_entry(""), LOOP)
    assert read_program.items[1].trips is None
    assert read_program.notes == ("The trip count of while.1 depends on data: one is assumed.",)


def test_a_call_is_issued_in_place():
    others = f"""%callee () -> f32[] {{
  %q = {ROW} parameter(0)
  %r = {ROW} parameter(1)
{neg("c0", "r")}
  ROOT %h = {ROW} bitcast(%c0)
}}
"""
    entry = f"""  %x = {ROW} parameter(0)
{neg("a", "x")}
{neg("b", "x")}
  %call.1 = {ROW} call(%a, %b), to_apply=%callee
  ROOT {neg("d", "call.1").strip()}"""
    assert written(read(entry, others).items) == ["a", "b", "c0 <1", "d <2"]


def test_of_a_conditional_the_branch_that_moves_most_is_issued_and_noted():
    others = f"""%small () -> f32[] {{
  %q = {ROW} parameter(0)
  ROOT %s0 = {ROW} copy(%q)
}}

%large () -> f32[] {{
  %q = {ROW} parameter(0)
{neg("l0", "q")}
  ROOT {neg("l1", "l0").strip()}
}}
"""
    entry = f"""  %x = {ROW} parameter(0)
  %p = s32[] constant(0)
{neg("a", "x")}
  %b = {ROW} conditional(%p, %x, %a), branch_computations={{%small, %large}}
  ROOT {neg("c", "b").strip()}"""
    read_program = read(entry, others)
    assert written(read_program.items) == ["a", "l0 <0", "l1 <1", "c <2"]
    assert "Which branch of b runs depends on data" in read_program.notes[0]


def test_what_is_not_understood_is_issued_and_listed():
    entry = f"""  %x = {ROW} parameter(0)
  %k = {ROW} custom-call(%x), custom_call_target="my_kernel"
  a line from a later version
  ROOT {neg("b", "k").strip()}"""
    read_program = read(entry)
    assert written(read_program.items) == ["k", "b <0"]
    assert read_program.notes == (
        "Lines of the compiled schedule that could not be read and are left out: 1; "
        "the first is: a line from a later version",
        "Operations that are not understood and are timed by their bytes: 1; k.",
    )


def test_a_ragged_exchange_is_noted_as_an_assumption():
    entry = f"""  %x = {ROW} parameter(0)
  ROOT %r = {ROW} ragged-all-to-all(%x, %x), replica_groups={{}}"""
    assert "depends on data" in read(entry).notes[0]


# Compiled train steps: a decoder of six layers on 8 x 1024 tokens, width 1024, 8 query and 4 key
# heads of 128, feed-forward 4096, in bf16; GEMMs by cuBLAS and attention by cuDNN.
LAYERS, TOKENS, WIDTH, KEYS, HIDDEN = 6, 8 * 1024, 1024, 512, 4096
PARAMETERS = LAYERS * (2 * WIDTH * WIDTH + 2 * WIDTH * KEYS + 3 * WIDTH * HIDDEN)
# Layer input, query, attention, key and value, gate and up: two bytes each.
OFFLOADED = LAYERS * TOKENS * (3 * WIDTH + 2 * KEYS + 2 * HIDDEN) * 2
# What the backward pass needs of the output projection is not offloaded but computed again.
OUTPUT_AGAIN = 2 * LAYERS * TOKENS * WIDTH * WIDTH
# Causal scores of 8 sequences and heads; forward, again, and backward, which is 2.5 times forward.
ATTENTION = LAYERS * 4 * 8 * 8 * 1024 * 1024 * 128 // 2 * 9 // 2


def real(name):
    path = Path(__file__).parent / "schedules" / f"{name}.hlo.gz"
    return program(parse(gzip.decompress(path.read_bytes()).decode()))


def total(items, kind, attribute):
    return sum(getattr(op, attribute) * times for op, times in items.ops() if op.kind is kind)


@pytest.mark.parametrize(
    ("name", "devices", "offloaded"),
    [("default-1", 1, OFFLOADED), ("pipelined-8", 8, OFFLOADED), ("remat-1", 1, 0)],
)
def test_the_bytes_of_a_step_are_those_of_the_offloaded_values(name, devices, offloaded):
    step = real(name)
    assert total(step, Kind.D2H, "size_bytes") == offloaded // devices
    assert total(step, Kind.H2D, "size_bytes") == offloaded // devices
    assert step.notes == ()


@pytest.mark.parametrize(
    ("name", "devices", "extra"),
    [
        ("default-1", 1, OUTPUT_AGAIN),
        # The first layer is peeled, and the gradient of the step's input falls away.
        ("pipelined-8", 8, OUTPUT_AGAIN - 2 * TOKENS * WIDTH * (WIDTH + 2 * KEYS)),
        # One forward pass again, but for the down projection, which nothing needs.
        ("remat-1", 1, 2 * TOKENS * (PARAMETERS - LAYERS * WIDTH * HIDDEN)),
    ],
)
def test_the_products_of_a_step_are_six_per_parameter_and_token(name, devices, extra):
    step = real(name)
    assert total(step, Kind.GEMM, "flops") * devices == 6 * PARAMETERS * TOKENS + extra
    assert total(step, Kind.ATTENTION, "flops") * devices == ATTENTION


def test_gathered_weights_and_scattered_gradients_are_sent_once_a_pass():
    # Seven of eight parts of the weights forward and backward, and of the gradients. The peeled
    # first layer needs no weights of query, key and value backward.
    step = real("pipelined-8")
    sizes = {"all-gather": 0, "reduce-scatter": 0, "all-reduce": 0}
    for op, times in step.ops():
        if op.kind is Kind.COLLECTIVE:
            assert op.ranks == 8
            sizes[op.collective] += op.size_bytes * times
    part = PARAMETERS * 2 * 7 // 8
    assert sizes == {
        "all-gather": 2 * part - WIDTH * (WIDTH + 2 * KEYS) * 2 * 7 // 8,
        "reduce-scatter": part,
        "all-reduce": 2 * 4 * 7 // 8,  # of the loss
    }


def issued(items):
    """As the runtime lists it: name, stream, and what does it."""
    for item in items:
        if isinstance(item, Done):
            yield f"done {items[item.start].op.name}"
        elif isinstance(item, Loop):
            yield item.name
        else:
            words = [item.op.name, "kernel" if item.op.is_kernel else "memcpy"]
            if isinstance(item, Start):
                words.insert(1, item.stream.partition(".")[0])
            yield " ".join(words)


# The forward loop's body and the copies peeled off the loops, from the list of what XLA's runtime
# issues (its dumped thunk sequence, with the names of its metadata).
DEFAULT_FORWARD = """\
dynamic-update-slice-start.7 d2h memcpy
fusion.96 kernel
input_concatenate_fusion.1 kernel
custom-call.19 kernel
loop_slice_fusion.1 kernel
loop_slice_fusion kernel
dot_product_attention_fwd.5 kernel
copy.1 memcpy
dynamic_slice_fusion.12 kernel
fusion.97 kernel
dynamic_slice_fusion.14 kernel
dynamic-update-slice-start.6.0 d2h memcpy
dynamic_slice_fusion.13 kernel
dynamic-update-slice-start.5.0 d2h memcpy
dynamic-update-slice-start.4.0 d2h memcpy
dynamic-update-slice-start.3.0 d2h memcpy
dynamic-update-slice-start.2.0 d2h memcpy
dynamic-update-slice-start.1.0 d2h memcpy
loop_multiply_fusion kernel
done dynamic-update-slice-start.7
dynamic_slice_fusion.15 kernel
done dynamic-update-slice-start.6.0
done dynamic-update-slice-start.5.0
done dynamic-update-slice-start.4.0
done dynamic-update-slice-start.3.0
done dynamic-update-slice-start.2.0
done dynamic-update-slice-start.1.0
loop_add_fusion.1 kernel
copy.39 memcpy"""
PIPELINED_BETWEEN = """\
dynamic-update-slice-start.13.0 d2h kernel
dynamic-update-slice-start.12.0 d2h kernel
done dynamic-update-slice-start.13.0
dynamic-update-slice-start.11.0 d2h kernel
done dynamic-update-slice-start.12.0
dynamic-update-slice-start.10.0 d2h kernel
done dynamic-update-slice-start.11.0
dynamic-update-slice-start.9.0 d2h kernel
done dynamic-update-slice-start.10.0
dynamic-update-slice-start.8.0 d2h kernel
done dynamic-update-slice-start.9.0
dynamic-update-slice-start.7.0 d2h kernel
done dynamic-update-slice-start.8.0
dynamic-slice-start.13.0 h2d kernel
done dynamic-update-slice-start.7.0
dynamic-slice-start.12.0 h2d kernel
done dynamic-slice-start.13.0
dynamic-slice-start.11.0 h2d kernel
done dynamic-slice-start.12.0
dynamic-slice-start.10.0 h2d kernel
done dynamic-slice-start.11.0
dynamic-slice-start.9.0 h2d kernel
done dynamic-slice-start.10.0
dynamic-slice-start.8.0 h2d kernel
done dynamic-slice-start.9.0
dynamic-slice-start.7.0 h2d kernel
input_convert_reduce_fusion kernel
done dynamic-slice-start.8.0
done dynamic-slice-start.7.0
loop_broadcast_fusion.1 kernel
loop_broadcast_fusion kernel
loop_broadcast_fusion.2 kernel
loop_broadcast_fusion.3 kernel"""


def test_the_runtime_issues_the_same_in_the_same_order():
    loop = next(item for item in real("default-1").items if isinstance(item, Loop))
    assert list(issued(loop.body)) == DEFAULT_FORWARD.splitlines()


def test_copies_peeled_off_a_pipelined_loop_are_kernels_on_the_copy_streams():
    items = real("pipelined-8").items
    first, second = (at for at, item in enumerate(items) if isinstance(item, Loop))
    names = list(issued(items))
    assert names[first + 1 : second] == PIPELINED_BETWEEN.splitlines()


@pytest.mark.parametrize(
    ("name", "trips"), [("default-1", [6, 6]), ("pipelined-8", [5, 5]), ("remat-1", [6, 6])]
)
def test_every_start_has_one_end_behind_it(name, trips):
    def check(items):
        starts = [at for at, item in enumerate(items) if isinstance(item, Start)]
        ends = {item.start: at for at, item in enumerate(items) if isinstance(item, Done)}
        assert sorted(ends) == starts
        assert all(end > start for start, end in ends.items())
        for at, item in enumerate(items):
            if isinstance(item, Item | Start | Loop):
                assert all(need < at for need in item.needs)

    step = real(name)
    loops = [item for item in step.items if isinstance(item, Loop)]
    check(step.items)
    for loop in loops:
        check(loop.body)
    assert [loop.trips for loop in loops] == trips
