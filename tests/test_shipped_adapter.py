"""The adapter that comes with the package is small, tells how it was made, and names no folder of the machine."""

from __future__ import annotations

import json
from pathlib import Path

import paraagent

FOLDER = Path(paraagent.__file__).parent / "agent" / "engine" / "adapters" / "smollm2-paraact"
FILES = ("adapter_model.safetensors", "adapter_config.json", "paraagent.json", "record.json")


def test_it_is_whole_and_small() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(FILES)
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) <= 25_000_000


def test_its_record_says_how_it_was_made() -> None:
    record = json.loads((FOLDER / "record.json").read_text())
    assert record["command"] == "python bench/adapter.py make"
    for stage in record["stages"]:
        assert stage["demonstrations"]["made_by"]
        assert len(stage["demonstrations"]["sha256"]) == 64
        assert stage["settings"]["optimisation"]["lora_rank"] == 16
    first = record["stages"][0]["curve"]
    assert first[-1]["loss"] < first[0]["loss"]
    assert record["evaluation"]["test_unseen"]["episodes"] >= 200


def test_it_names_no_folder() -> None:
    for name in FILES[1:]:
        text = (FOLDER / name).read_text()
        assert str(Path.home()) not in text
        assert "/" not in json.loads((FOLDER / "adapter_config.json").read_text())["base_model_name_or_path"]


def test_its_weights_are_those_of_the_default_model() -> None:
    content = (FOLDER / FILES[0]).read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    shapes = {tuple(entry["shape"]) for name, entry in header.items() if name.endswith("q_proj.lora_A.weight")}
    assert shapes == {(16, 576)}
    assert {entry["dtype"] for name, entry in header.items() if name != "__metadata__"} == {"BF16"}
