"""Whether a plan finds the best: all placements of some names compiled, against what it compiles.

``python -m benchmarks.plan_exhaustive DIR`` compiles, beside the fixed policies, every placement of
a few names of a model, which takes from ten minutes to hours, and goes on where it was interrupted.
Then it plans under limits at which another program begins to fit, with finished runs only, and
prints for each by how much the plan's step is longer than that of the best of all.
"""

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import click

from nsysoffload.planning import plan
from nsysoffload.planning.model import Limits
from nsysoffload.planning.plan import COMPILES, FIXED
from nsysoffload.planning.space import space
from nsysoffload.recorders.predict.capture import Request
from nsysoffload.recorders.predict.kept import Asked, Outcome, predicted_runs
from nsysoffload.recorders.variants import folder_name
from nsysoffload.trace.prediction import Prediction
from workloads.config import model as model_named
from workloads.recompute import recompute_under

LIMITS = 12  # of device memory that are tried, spread over those at which something begins to fit


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--model", default="llama3.2-1b", show_default=True)
@click.option("--mesh", default="")
@click.option("--layers", type=int, default=4, show_default=True)
@click.option("--batch", type=int, default=4, show_default=True)
@click.option("--seq", type=int, default=4096, show_default=True)
@click.option("--target", default="gb200", show_default=True)
@click.option("--names", default="layer_input,attention_out,mlp_gate,mlp_up", show_default=True)
@click.option("--compiles", type=int, default=COMPILES, show_default=True)
def main(directory: Path, names: str, compiles: int, **size: object) -> None:
    """Compare plans with the best of all placements."""
    request = Request(**size, steps=1)  # type: ignore[arg-type]  # options are its fields
    chosen = tuple(names.split(","))
    every = _all(request, chosen, directory)
    _check_recompute(request, every, directory)
    rows = list(_compared(request, chosen, directory, every, compiles))
    for row in rows:
        click.echo(json.dumps(row))
    found = sum(row["gap"] == 0 for row in rows)
    click.echo(f"{found} of {len(rows)} plans are the best of {len(every)} programs")


def _all(request: Request, names: tuple[str, ...], directory: Path) -> dict[str, Prediction]:
    placements = space(request, names)
    policies = dict.fromkeys([*FIXED, *(placements.policy(row) for row in range(len(placements)))])
    asked = [Asked(request, policy, directory / folder_name(policy)) for policy in policies]

    def tell(outcome: Outcome) -> None:
        click.echo(f"{outcome.asked.variant}: {outcome.error or 'there'}", err=True)

    outcomes = predicted_runs(asked, tell)
    return {o.asked.variant: o.prediction for o in outcomes if o.prediction}


def _check_recompute(request: Request, every: dict[str, Prediction], directory: Path) -> None:
    """Compare what each program runs again with the formula."""
    config = model_named(request.model, request.layers)
    off = []
    for policy in every:
        told = json.loads((directory / folder_name(policy) / "manifest.json").read_text())
        counted = told["devices"] * told["flops"].get("recompute", 0)
        if counted != recompute_under(policy, config, request.batch or 1, request.seq or 1):
            off.append(policy)
    click.echo(f"recompute as by formula in {len(every) - len(off)} of {len(every)}: not in {off}")


def _compared(
    request: Request,
    names: tuple[str, ...],
    directory: Path,
    every: dict[str, Prediction],
    compiles: int,
) -> Iterator[dict[str, object]]:
    needs = [made.memory for made in every.values() if made.memory]
    device = sorted({need.device_bytes for need in needs})
    device = device[:: max(1, len(device) // LIMITS)]
    most = max(need.host_bytes for need in needs)
    for limit, host in product(device, (1, most // 2, most)):
        fitting = {p: m for p, m in every.items() if Limits(limit, host).admit(m)}
        if not fitting:
            continue
        best = min(fitting, key=lambda policy: fitting[policy].step.expected_ns)
        found = plan(
            request,
            directory,
            device_limit_bytes=limit,
            host_limit_bytes=host,
            compiles=compiles,
            names=names,
            presets=("default",),
        )
        yield {
            "device_limit_bytes": limit,
            "host_limit_bytes": host,
            "fitting": len(fitting),
            "best": best,
            "plan": found.best.policy if found.best else None,
            "compiled": sum(not c.is_fixed for c in found.candidates),
            "gap": (found.best.step_ns if found.best else float("inf"))
            / fitting[best].step.expected_ns
            - 1,
        }


if __name__ == "__main__":
    main()
