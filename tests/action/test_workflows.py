"""What the action's files and the workflows of the page say: pins, rights and inputs."""

import re
from typing import Any

import pytest
import yaml

from tests.action.workflow_runner import ROOT

PAGE = (ROOT / "docs" / "attach.md").read_text(encoding="utf-8")
ACTIONS = {
    "YOUR-ORG/nsysoffload": ROOT / "action.yml",
    "YOUR-ORG/nsysoffload/action/comment": ROOT / "action" / "comment" / "action.yml",
}
PINNED = re.compile(r"actions/[\w-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+")
BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
WORKFLOWS = [block for block in BLOCKS if "\njobs:" in block]

each_action = pytest.mark.parametrize("action", ACTIONS.values(), ids=list(ACTIONS))
each_workflow = pytest.mark.parametrize("text", WORKFLOWS)


def described(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(ACTIONS[name].read_text(encoding="utf-8"))
    return loaded


def steps_of(text: str) -> list[dict[str, Any]]:
    workflow = yaml.safe_load(text)
    jobs = workflow["jobs"].values() if "jobs" in workflow else [workflow["runs"]]
    return [step for job in jobs for step in job["steps"]]


def pins(text: str) -> list[str]:
    return [pin for pin in re.findall(r"uses: (.*)", text) if not pin.startswith("YOUR-ORG/")]


@each_action
def test_an_action_is_pinned_and_its_scripts_hold_no_expression(action):
    text = action.read_text(encoding="utf-8")
    assert pins(text)
    assert [pin for pin in pins(text) if not PINNED.fullmatch(pin)] == []
    for step in steps_of(text):
        assert "${{" not in step.get("run", "")
        assert ("run" in step) == (step.get("shell") == "bash")


@each_action
def test_only_the_comment_has_the_token(action):
    holders = [
        step["id"]
        for step in steps_of(action.read_text(encoding="utf-8"))
        if "github-token" in yaml.safe_dump({**step.get("env", {}), **step.get("with", {})})
    ]
    assert holders in (["comment"], ["artifact", "comment"])


def test_one_release_of_an_action_is_used_everywhere():
    texts = [PAGE, *(path.read_text(encoding="utf-8") for path in ACTIONS.values())]
    found = {pin for text in texts for pin in pins(text)}
    assert len({pin.partition("@")[0] for pin in found}) == len(found) == 4


@each_action
def test_inputs_and_outputs_are_described_in_a_sentence(action):
    read = yaml.safe_load(action.read_text(encoding="utf-8"))
    for one in (*read["inputs"].values(), *read["outputs"].values()):
        assert one["description"].endswith(".")
    steps = {step["id"] for step in read["runs"]["steps"] if "id" in step}
    named = re.findall(r"steps\.(\w+)\.", action.read_text(encoding="utf-8"))
    assert set(named) <= steps


def test_the_page_names_every_input_and_output():
    for name in ACTIONS:
        read = described(name)
        missing = [word for word in (*read["inputs"], *read["outputs"]) if f"`{word}`" not in PAGE]
        assert missing == []


def test_the_page_has_the_workflows():
    assert len(WORKFLOWS) == 3


@each_workflow
def test_a_workflow_of_the_page_has_the_least_rights(text):
    workflow = yaml.safe_load(text)
    triggers = workflow[True]  # YAML 1.1 takes "on" for a truth
    assert "pull_request_target" not in triggers
    assert [pin for pin in pins(text) if not PINNED.fullmatch(pin)] == []
    for job in workflow["jobs"].values():
        rights = job.get("permissions", workflow.get("permissions"))
        writes = {name for name, right in rights.items() if right == "write"}
        comments = any(
            step.get("uses", "").startswith("YOUR-ORG/")
            and step.get("with", {}).get("comment") != "false"
            for step in job["steps"]
        )
        assert writes == ({"pull-requests"} if comments else set())
        if "workflow_run" in triggers:
            assert [step["uses"].partition("@")[0] for step in job["steps"]] == [
                "YOUR-ORG/nsysoffload/action/comment"
            ]


@each_workflow
def test_a_workflow_of_the_page_uses_the_action_as_it_is(text):
    used = [step for step in steps_of(text) if step.get("uses", "").startswith("YOUR-ORG/")]
    assert used
    for step in used:
        inputs = described(step["uses"].partition("@")[0])["inputs"]
        given = step.get("with", {})
        assert set(given) <= set(inputs)
        required = {name for name, one in inputs.items() if one.get("required")}
        assert required <= set(given)
    for step in steps_of(text):
        assert "${{" not in step.get("run", "")
