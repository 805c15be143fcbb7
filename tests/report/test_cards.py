"""The headline figures, from which HTML, Markdown and terminal take theirs."""

from dataclasses import replace
from typing import Any

import pytest

from nsysoffload.report import format as fmt
from nsysoffload.report.cards import Card, Figure, Words, by_steps, cards, unit, words
from nsysoffload.report.json import to_dict
from tests.report.examples import EXAMPLES, eight_devices, no_whole_step, one_device, stepped


def shown(said: Words) -> str:
    return "".join(map(str, said))


def named(found: list[Card], title: str) -> Card:
    (card,) = [card for card in found if card.title == title]
    return card


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_figure_is_the_value_of_the_json_at_its_path(name):
    report = EXAMPLES[name]()
    figures = [
        part
        for card in cards(report)
        for part in (*card.value, *card.note)
        if isinstance(part, Figure)
    ]
    assert len(figures) > 10
    for figure in figures:
        value: Any = to_dict(report)
        for key in figure.path.split("."):
            value = value[int(key)] if isinstance(value, list) else value[key]
        assert figure.text == fmt.figure(figure.path.rpartition(".")[2], value)


def test_where_steps_are_known_the_cards_are_medians_of_the_slowest_device():
    found = cards(stepped())
    assert [(card.title, shown(card.value)) for card in found] == [
        ("Step time", "198 ms"),
        ("Overlap", "61.1 %"),
        ("Stall per step", "18.9 ms"),
        ("Exposed per step", "18.7 ms"),
        ("H2D bandwidth", "151 GB/s"),
        ("D2H bandwidth", "181 GB/s"),
        ("Bytes per step", "4.80 GB / 4.80 GB"),
        ("Best step", "184 ms"),
    ]
    assert shown(found[0].note) == "GPU 0, the slowest of 2; median of 5 steps, 1 of them far off"
    assert shown(found[2].note) == "compute waits for transfers: 9.5 % of the step"


def test_of_one_device_and_one_step_nothing_is_compared():
    first = stepped().devices[1]
    assert first.per_step is not None
    alone = replace(first, per_step=replace(first.per_step, steps=1, outliers=()))
    assert shown(cards(replace(stepped(), devices=(alone,)))[0].note) == "one step"


def test_without_step_markers_the_cards_are_of_the_window():
    found = cards(one_device())
    assert not by_steps(one_device())
    assert unit(one_device()) == "in the window"
    assert shown(named(found, "Window").note) == "no step marker was found"
    assert shown(named(found, "Stall").value) == "7.81 ms"
    assert not [card.title for card in found if "step" in card.title]


def test_of_several_devices_it_is_said_which_one_waits():
    assert shown(named(cards(eight_devices()), "Stall").note).endswith(" on GPU 0")


def test_without_a_whole_step_nothing_is_said_of_steps():
    stall = named(cards(no_whole_step()), "Stall")
    assert (shown(stall.value), shown(stall.note)) == ("–", "no step was recorded whole")
    assert unit(no_whole_step()) == "per step"


def test_a_template_is_filled_with_figures_of_the_report():
    said = words(one_device(), "{both.busy_ns} and {h2d.copies}", "total.")
    assert said == (Figure("total.both.busy_ns", "44.0 ms"), " and ") + (
        (Figure("total.h2d.copies", "96"),)
    )
