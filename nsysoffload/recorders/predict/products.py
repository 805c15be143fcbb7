"""Multiplications and additions of matrix products, attention and convolutions.

Counted from shapes: ``2 x elements of the result x length of the contraction``. What a mask leaves
out is not counted, since the kernels skip it.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from nsysoffload.recorders.predict.hlo import Computation, Instruction
from nsysoffload.recorders.predict.shapes import Shape

__all__ = ["Product", "is_product", "product"]

_DOTS = ("dot", "ragged-dot", "scaled-dot")
_CALLS = ("__cublas$", "__cudnn$fmha")


@dataclass(frozen=True)
class Product:
    """Work of one matrix product, convolution or attention.

    Attributes
    ----------
    flops : int
        Multiplications and additions.
    dtype : str
        Element type of the left operand.
    is_attention : bool
        Whether it is a fused attention kernel.
    backward : bool
        Whether that kernel is of the backward pass.
    """

    flops: int
    dtype: str
    is_attention: bool = False
    backward: bool = False


def is_product(instruction: Instruction) -> bool:
    """Whether an instruction is a matrix product, a convolution or attention."""
    return instruction.opcode in (*_DOTS, "convolution") or instruction.target.startswith(_CALLS)


def product(instruction: Instruction, computation: Computation) -> Product | None:
    """Work of a product.

    Parameters
    ----------
    instruction : Instruction
        One for which `is_product` holds.
    computation : Computation
        The one that holds it.

    Returns
    -------
    Product or None
        None where operands or what is contracted are not written in a form that we know.
    """
    try:
        return _product(instruction, computation.shapes(instruction))
    except (LookupError, TypeError, ValueError):
        return None


def _product(instruction: Instruction, shapes: tuple[Shape, ...]) -> Product:
    """Work of a product; any error means that its form is not known."""
    result = next(instruction.shape.leaves)
    if instruction.opcode in _DOTS:
        return _dot(result, shapes[0], instruction.numbers("lhs_contracting_dims"))
    if instruction.opcode == "convolution":
        return _convolution(result, shapes, instruction.attributes["dim_labels"])
    if instruction.target.startswith("__cublas$"):
        numbers = instruction.config["gemm_backend_config"]["dot_dimension_numbers"]
        return _dot(result, shapes[0], map(int, numbers["lhs_contracting_dimensions"]))
    return _attention(instruction, result, shapes)


def _dot(result: Shape, left: Shape, contracting: Iterable[int]) -> Product:
    """Matrix product, with or without batch dimensions."""
    return Product(2 * result.size * math.prod(left.dims[dim] for dim in contracting), left.dtype)


def _convolution(result: Shape, shapes: tuple[Shape, ...], labels: str) -> Product:
    """Convolution: each element of the result takes the kernel of one output feature."""
    kernel = shapes[1]
    features = kernel.dims[labels.split("_")[1].split("->")[0].index("o")]
    return Product(2 * result.size * kernel.size // features, shapes[0].dtype)


def _attention(instruction: Instruction, result: Shape, shapes: tuple[Shape, ...]) -> Product:
    """Fused attention over a table of scores of ``[batch, heads, queries, keys]``.

    Forward: the scores, as wide as a query, and the output, as wide as a value. Backward: scores
    again and the gradients of query and key, then those of probabilities and value.
    """
    config = instruction.config["cudnn_fmha_backend_config"]
    keys = int(config["intermediate_tensor_shape"]["dimensions"][-1])
    query = shapes[0]
    backward = "Backward" in instruction.target
    # Backward, the fifth operand is as large as the output: (query, key, value, statistics, ...).
    widths = 3 * query.size + 2 * shapes[4].size if backward else query.size + result.size
    masked = 2 if "CAUSAL" in config.get("mask_type", "") else 1
    return Product(2 * keys * widths // masked, query.dtype, True, backward)
