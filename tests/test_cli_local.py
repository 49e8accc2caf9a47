"""`--policy local`: a model on this machine plays `run`, `eval` and `scale`; what makes no sense gets one line."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from paraagent.catalog.store import Catalog
from paraagent.cli.config import RunConfig, dialect_of
from paraagent.cli.main import app
from paraagent.errors import UsageError
from paraagent.trace.events import EpisodeEnd
from paraagent.trace.reader import load

HAS_TORCH = importlib.util.find_spec("torch") is not None
needs_torch = pytest.mark.skipif(not HAS_TORCH, reason="needs the libraries for local models")
COMMANDS = (("run",), ("eval", "toolenv"), ("scale",))


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Run in an empty folder, without a user's caches."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def where(catalog: Catalog) -> tuple[str, ...]:
    return ("--catalog", str(catalog.path), "--split", "train", "--kind", "single", "--limit", "2")


@pytest.fixture
def tiny(tmp_path: Path) -> str:
    """A model folder; what it writes makes no sense."""
    import tiny_model

    return str(tiny_model.folder(tmp_path / "tiny"))


def paraagent(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def complaint(result: Result, code: int) -> str:
    """Return the one line a failing command writes to stderr."""
    assert result.exit_code == code, result.output
    assert result.stderr.startswith("error:")
    assert "Traceback" not in result.output
    return " ".join(result.stderr.split())


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--model-dir", "d", "--policy", "rules"), "--model-dir is for --policy local, not for rules"),
        (("--adapter", "a", "--policy", "http", "--model", "m"), "--adapter is for a model on this machine"),
        (("--adapter", "none", "--model", "m"), "--adapter is for a model on this machine"),
        (("--policy", "local", "--model", "m"), "name it with --model-dir"),
    ],
)
def test_options_of_different_policies_do_not_mix(
    command: tuple[str, ...], options: tuple[str, ...], says: str
) -> None:
    assert says in complaint(paraagent(*command, *options), 2)


@pytest.mark.skipif(HAS_TORCH, reason="the libraries for local models are installed")
@pytest.mark.parametrize("command", [*COMMANDS, ("run", "do it")])
def test_missing_libraries_are_named(command: tuple[str, ...], where: tuple[str, ...]) -> None:
    result = paraagent(*command, "--policy", "local", *where)
    assert "pip install 'paraagent[local]'" in complaint(result, 3)


def test_the_dialect_is_the_trained_one_or_follows_from_the_folders(tmp_path: Path) -> None:
    def dialect(model_dir: str | None = None, adapter: str | None = None) -> str:
        return dialect_of(RunConfig(policy="local", model_dir=model_dir, adapter=adapter))

    assert dialect() == dialect(adapter="none") == dialect("m", "a") == "compact"
    assert dialect("m") == dialect("m", "none") == "tags"
    note = tmp_path / "paraagent.json"
    note.write_text('{"dialect": "tags", "more": 1}')
    assert dialect("m", str(tmp_path)) == dialect(adapter=str(tmp_path)) == "tags"
    note.write_text('{"dialect": "compact"}')
    assert dialect(str(tmp_path)) == "compact"
    note.write_text('{"dialect": "latin"}')
    with pytest.raises(UsageError, match="does not say"):
        dialect(str(tmp_path))


@needs_torch
@pytest.mark.filterwarnings("ignore")
def test_a_run_of_tasks_names_its_model_and_goes_on(where: tuple[str, ...], tiny: str) -> None:
    options = ("run", "--policy", "local", "--model-dir", tiny, "--turns", "2", "--out", "out", *where)
    result = paraagent(*options, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["episodes"] == 2
    views = [load(trace) for trace in Path("out/traces").iterdir()]
    assert all(view.start.config["model_dir"] == tiny for view in views)
    assert all(view.start.config["adapter"] is None for view in views)
    assert all(view.measures.output_tokens > 0 for view in views)
    assert {view.start.policy for view in views} == {"local:tiny"}
    assert paraagent(*options).exit_code == 0
    assert "other settings" in complaint(paraagent(*options, "--seed", "5"), 2)
    weights = Path(tiny) / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\1")
    assert "weights" in complaint(paraagent(*options), 2)


@needs_torch
@pytest.mark.filterwarnings("ignore")
def test_an_adapter_is_named_too_and_another_one_refused(where: tuple[str, ...], tiny: str, tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    import tiny_model

    for name in ("one", "two"):
        wrapped = peft.get_peft_model(tiny_model.model(), peft.LoraConfig(r=2, target_modules="all-linear"))
        wrapped.save_pretrained(tmp_path / name)
    options = ("eval", "toolenv", "--model-dir", tiny, "--turns", "2", "--out", "out", *where)
    result = paraagent(*options, "--adapter", "one", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["tasks"] == 2
    views = [load(trace) for trace in Path("out/traces").iterdir()]
    assert all((v.start.config["policy"], v.start.config["adapter"]) == ("local", "one") for v in views)
    assert "other settings" in complaint(paraagent(*options, "--adapter", "two"), 2)


@needs_torch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("paradigm", ["no-links", "plan-execute", "react-eae", "react-ete"])
def test_a_general_model_is_prompted_for_a_paradigm(where: tuple[str, ...], tiny: str, paradigm: str) -> None:
    options = ("--model-dir", tiny, "--turns", "2", "--paradigm", paradigm, "--out", "out", *where)
    result = paraagent("eval", "toolenv", *options, "--json")
    assert result.exit_code == 0, result.output
    (policy,) = {load(trace).start.policy for trace in Path("out/traces").iterdir()}
    assert policy == ("local:tiny" if paradigm == "no-links" else f"local:tiny as {paradigm}")


@needs_torch
@pytest.mark.filterwarnings("ignore")
def test_native_function_calling_needs_an_endpoint(where: tuple[str, ...], tiny: str) -> None:
    result = paraagent("eval", "toolenv", "--model-dir", tiny, "--paradigm", "native", *where)
    assert "no function calling" in complaint(result, 2)


@needs_torch
@pytest.mark.filterwarnings("ignore")
def test_samples_of_a_model_differ(where: tuple[str, ...], tiny: str) -> None:
    options = ("--model-dir", tiny, "--samples", "2", "--turns", "2", "--tokens", "20000", "--out", "out")
    result = paraagent("scale", *where, *options, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["config"]["model_dir"], found["config"]["temperature"]) == (tiny, 0.7)
    said = [[turn.text for turn in load(trace).turns] for trace in sorted(Path("out").glob("sample-*/traces/*"))]
    assert len(said) == 4
    assert said[0] != said[2]
    assert said[1] != said[3]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_guide_is_for_the_compact_dialect(command: tuple[str, ...], where: tuple[str, ...], tiny: str) -> None:
    result = paraagent(*command, "--model-dir", tiny, "--guide", "calls", *where)
    assert "this one writes tags" in complaint(result, 2)
    assert "--guide is for --policy local" in complaint(paraagent(*command, "--policy", "rules", "--guide", "off"), 2)


@needs_torch
@pytest.mark.filterwarnings("ignore")
def test_a_general_model_judges_its_own_samples(
    where: tuple[str, ...], tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from paraagent.agent.context import Context
    from paraagent.agent.policies.local import LocalPolicy
    from paraagent.types import Reply

    asked = []

    async def act(policy: LocalPolicy, context: Context) -> Reply:
        verdict = not context.request  # nobody asks a judge to do something
        asked.append((verdict, policy._local.config.temperature))
        return Reply("<answer>It is open.</answer>")

    monkeypatch.setattr(LocalPolicy, "act", act)
    options = ("--model-dir", tiny, "--samples", "2", "--turns", "2", "--judge", "self", "--out", "out")
    result = paraagent("scale", *where, *options, "--json")
    assert result.exit_code == 0, result.output
    assert {temperature for verdict, temperature in asked if verdict} == {0.0}
    assert {temperature for verdict, temperature in asked if not verdict} == {0.7}


@needs_torch
@pytest.mark.filterwarnings("ignore")
def test_a_model_that_was_trained_to_act_does_not_judge(where: tuple[str, ...]) -> None:
    says = complaint(paraagent("scale", "--policy", "local", "--judge", "self", *where), 2)
    assert "nor one that was trained to act" in says


@needs_torch
@pytest.mark.filterwarnings("ignore")
def test_a_request_is_played_and_goes_on(catalog: Catalog, tiny: str) -> None:
    options = ("--model-dir", tiny, "--turns", "3", "--out", "out", "--catalog", str(catalog.path))
    result = paraagent("run", "Where is my parcel?", *options)
    assert result.exit_code == 0, result.output
    trace = Path("out/traces/request.jsonl")
    whole = load(trace)
    lines = trace.read_bytes().splitlines(keepends=True)
    second = next(n for n, event in enumerate(whole.events) if getattr(event, "turn", None) == 1)
    trace.write_bytes(b"".join(lines[:second]))
    result = paraagent("resume", str(trace), "--catalog", str(catalog.path))
    assert result.exit_code == 0, result.output
    view = load(trace)
    assert isinstance(view.end, EpisodeEnd)
    assert [turn.text for turn in view.turns][:1] == [turn.text for turn in whole.turns][:1]
