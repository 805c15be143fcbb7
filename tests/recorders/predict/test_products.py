import pytest

from nsysoffload.recorders.predict.hlo import parse
from nsysoffload.recorders.predict.products import Product, is_product, product

GEMM = (
    'custom_call_target="__cublas$lt$matmul{f8}", backend_config={{"gemm_backend_config":'
    '{{"dot_dimension_numbers":{{"lhs_contracting_dimensions":["{dim}"]}}}}}}'
)


def read(line, *parameters):
    lines = "\n".join(f"  %p{n} = {shape} parameter({n})" for n, shape in enumerate(parameters))
    body = f"{lines}\n  ROOT %r = {line}"
    entry = parse(f"HloModule m, is_scheduled=true\n\nENTRY %e () -> f32[] {{\n{body}\n}}\n").entry
    return entry.by_name["r"], entry


def work(line, *parameters):
    instruction, entry = read(line, *parameters)
    assert is_product(instruction)
    return product(instruction, entry)


def test_a_dot_multiplies_and_adds_once_per_contracted_element():
    # [4, 8] x [8, 16]
    line = "f32[4,16]{1,0} dot(%p0, %p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    assert work(line, "bf16[4,8]{1,0}", "bf16[8,16]{1,0}") == Product(2 * 4 * 16 * 8, "bf16")


def test_a_dot_with_batch_dimensions_counts_each_batch():
    # three products of [4, 8] x [8, 16]
    line = "f32[3,4,16]{2,1,0} dot(%p0, %p1), lhs_batch_dims={0}, lhs_contracting_dims={2}"
    assert work(line, "f32[3,4,8]{2,1,0}", "f32[3,8,16]{2,1,0}").flops == 3 * 2 * 4 * 16 * 8


def test_a_cublas_call_says_what_it_contracts_in_its_config():
    # the left operand is transposed: [8, 4]
    line = "(bf16[4,16]{1,0}, s8[999]{0}) custom-call(%p0, %p1), " + GEMM.format(dim=0, f8="")
    assert work(line, "bf16[8,4]{1,0}", "bf16[8,16]{1,0}") == Product(2 * 4 * 16 * 8, "bf16")


def test_an_eight_bit_cublas_call_is_known_by_its_operands():
    line = "(bf16[4,16]{1,0}, s8[9]{0}) custom-call(%p0, %p1), " + GEMM.format(dim=1, f8="$f8")
    assert work(line, "f8e4m3fn[4,8]{1,0}", "f8e4m3fn[16,8]{1,0}").dtype == "f8e4m3fn"


def attention(mask, backward):
    # batch 2, 3 queries' heads of width 8 on 1 key's head, 16 queries, 32 keys, values 4 wide
    name = "Backward" if backward else ""
    results = (
        "f32[2,16,3,8]{3,2,1,0}, f32[2,32,1,8]{3,2,1,0}" if backward else "f32[2,3,16,4]{3,1,2,0}"
    )
    return work(
        f"({results}, u8[0]{{0}}) custom-call(%p0, %p1, %p2, %p3, %p4, %p5), "
        f'custom_call_target="__cudnn$fmhaSoftmax{name}", backend_config='
        '{"cudnn_fmha_backend_config": {"intermediate_tensor_shape": '
        f'{{"dimensions": ["2", "3", "16", "32"]}}, "mask_type": "{mask}"}}}}',
        "bf16[2,16,3,8]{3,2,1,0}",
        "bf16[2,32,1,8]{3,2,1,0}",
        "bf16[2,32,1,4]{3,2,1,0}",
        "f32[2,3,16]{2,1,0}",
        "bf16[2,16,3,4]{3,2,1,0}",
        "bf16[2,16,3,4]{3,2,1,0}",
    )


SCORES = 2 * 3 * 16 * 32  # as many scores, each of a product 8 long and into one 4 long


def test_attention_computes_scores_and_outputs():
    assert attention("NO_MASK", backward=False) == Product(
        2 * SCORES * (8 + 4), "bf16", is_attention=True
    )


def test_a_causal_mask_leaves_out_half():
    assert attention("CAUSAL", backward=False).flops == SCORES * (8 + 4)
    assert attention("PADDING_CAUSAL", backward=False).flops == SCORES * (8 + 4)


def test_backward_attention_has_five_products_of_which_three_are_as_wide_as_a_query():
    assert attention("NO_MASK", backward=True) == Product(
        2 * SCORES * (3 * 8 + 2 * 4), "bf16", is_attention=True, backward=True
    )


def test_a_convolution_takes_a_kernel_for_each_element():
    # 3 taps over 5 input features: 15 products for each of 10 x 7 results
    line = "f32[1,10,7]{2,1,0} convolution(%p0, %p1), window={size=3}, dim_labels=b0f_0io->b0f"
    flops = work(line, "f32[1,12,5]{2,1,0}", "f32[3,5,7]{2,1,0}").flops
    assert flops == 2 * 10 * 7 * 15


@pytest.mark.parametrize(
    "line",
    [
        'f32[4]{0} custom-call(%p0), custom_call_target="__cublas$new"',
        'f32[4]{0} custom-call(%p0), custom_call_target="__cudnn$fmhaNew", backend_config={}',
        "f32[4]{0} dot(%p0, %p0), lhs_contracting_dims={7}",
        "f32[4]{0} convolution(%p0, %p0)",
    ],
)
def test_a_product_in_a_form_not_known_has_no_work_rather_than_a_guess(line):
    assert work(line, "f32[4]{0}") is None


def test_other_instructions_are_no_products():
    assert not is_product(read("f32[4]{0} add(%p0, %p0)", "f32[4]{0}")[0])
