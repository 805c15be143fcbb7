"""The signature in both printed forms, as a loop over six layers of 100 bytes prints it."""

import pytest

from nsysoffload.recorders.predict.signature import Slice, State, check

BUFFER = "u8[6,100]"
FORWARD = "jit(step)/jvp()/while/body/dynamic_update_slice"
BACKWARD = "jit(step)/transpose(jvp())/while/body/dynamic_slice"

# Offset and stride as newer releases print them, and as those with the defect do.
FORMS = {
    "newer": '{{"loop_index":"0","byte_offset":"0","byte_stride":"0",'
    '"linear":{{"byte_offset":"{}","byte_stride":"{}"}}}}',
    "older": '{{"loop_index":"0","byte_offset":"{}","byte_stride":"{}"}}',
}
each_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())


def store(offset, stride, form=FORMS["newer"]):
    return f"""
%wrapped_store (param_0: u8[6,100], param_1: u8[1,100], param_2: s32[]) -> u8[6,100] {{
  %param_0 = u8[6,100]{{1,0:S(5)}} parameter(0)
  %param_1 = u8[1,100]{{1,0}} parameter(1)
  %param_2 = s32[] parameter(2)
  ROOT %store.1 = u8[6,100]{{1,0:S(5)}} dynamic-update-slice(%param_0, %param_1, %param_2, \
/*index=3*/%param_2), metadata={{op_name="{FORWARD}"}}, \
backend_config={{"operation_queue_id":"0","dynamic_slice_config":{form.format(offset, stride)}}}
}}

%body.1 (arg: (s32[], u8[6,100])) -> (s32[], u8[6,100]) {{
  %store-start = ((u8[6,100]{{1,0:S(5)}}, u8[1,100]{{1,0}}, s32[]), u8[6,100]{{1,0:S(5)}}, u32[]) \
fusion-start(%gte.1, %x.1, %gte.2), kind=kLoop, calls=%wrapped_store, metadata={{op_name="a"}}
}}
"""


def load(offset, stride, form=FORMS["newer"], op_name=BACKWARD):
    return f"""
%wrapped_load (param_0.1: u8[6,100], param_1.1: s32[]) -> u8[1,100] {{
  %param_0.1 = u8[6,100]{{1,0:S(5)}} parameter(0)
  %param_1.1 = s32[] parameter(1)
  ROOT %load.1 = u8[1,100]{{1,0}} dynamic-slice(%param_0.1, %param_1.1, %param_1.1), \
dynamic_slice_sizes={{1,100}}, metadata={{op_name="{op_name}"}}, \
backend_config={{"operation_queue_id":"0","dynamic_slice_config":{form.format(offset, stride)}}}
}}

%body.2 (arg: (s32[], u8[6,100])) -> (s32[], u8[6,100]) {{
  %load-start = ((u8[6,100]{{1,0:S(5)}}, s32[]), u8[1,100]{{1,0}}, u32[]) \
fusion-start(%gte.3, %gte.4), kind=kLoop, calls=%wrapped_load
}}
"""


@each_form
def test_reading_back_from_the_last_slice_to_the_first_is_right(form):
    verdict = check(store(0, 100, form) + load(500, -100, form))
    assert verdict.state is State.OK
    assert verdict.slices == (
        Slice("store-start", "d2h", FORWARD, BUFFER, 0, 100),
        Slice("load-start", "h2d", BACKWARD, BUFFER, 500, -100),
    )
    assert verdict.reason == "1 slices are read back in the reverse order of storing them"


@each_form
def test_reading_back_in_the_order_of_storing_is_the_defect(form):
    verdict = check(store(0, 100, form) + load(0, 100, form))
    assert verdict.state is State.WRONG
    assert verdict.slices == (Slice("load-start", "h2d", BACKWARD, BUFFER, 0, 100),)
    assert verdict.reason == (
        "1 of 1 slices are read back in the order they were stored: this build of the compiler "
        "returns wrong gradients (openxla/xla#46231)"
    )


def test_a_scan_in_reverse_is_read_back_forwards():
    assert check(store(500, -100) + load(0, 100)).state is State.OK


def on_device(text):
    return text.replace(":S(5)", "")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("HloModule jit_step, is_scheduled=true", id="no slices"),
        pytest.param(on_device(store(0, 100) + load(0, 100)), id="slices of device memory"),
        pytest.param(store(0, 100), id="never read back"),
        pytest.param(load(0, 100), id="never stored, as weights kept on the host"),
        pytest.param(store(0, 100) + load(0, 0), id="one slice, outside of a loop"),
        pytest.param(store(0, 100) + load(0, 50), id="another buffer"),
        pytest.param(
            store(0, 100) + load(0, 100, op_name="jit(step)/jvp()/while/body/dynamic_slice"),
            id="read in a forward loop",
        ),
    ],
)
def test_without_a_backward_loop_over_a_stored_buffer_there_is_no_verdict(text):
    verdict = check(text)
    assert verdict.state is State.NOT_APPLICABLE
    assert verdict.reason == "no backward loop reads slices of a host buffer that a loop has filled"
