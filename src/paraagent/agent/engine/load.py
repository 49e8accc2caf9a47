"""Opens a model folder, with or without an adapter, in the number format in which this machine is fastest.

Place in the flow: layer 3, optional; the local policy, training and benchmarks open models here, so that a missing
file or package is told the same way everywhere.
"""

from __future__ import annotations

import hashlib
import time
import warnings
from functools import lru_cache
from pathlib import Path
from typing import Literal

from paraagent.agent.engine.smollm2 import NAME, model_folder
from paraagent.errors import EnvironmentFault, UsageError

try:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
    from transformers.utils import logging
except ImportError as missing:
    raise EnvironmentFault(
        f"local models need the package {missing.name}: pip install 'paraagent[local]' (training: 'paraagent[train]')"
    ) from None

SHIPPED = Path(__file__).parent / "adapters" / "smollm2-paraact"
"""The adapter that comes with the package; `record.json` in it tells how it was trained."""
DType = Literal["auto", "float32", "bfloat16"]


def resolve_folder(model: str) -> Path:
    """Return the folder of a model: a path, or the name of the embedded default model.

    Raises:
        UsageError: there is no model in it.
        EnvironmentFault: the default model could not be fetched or written.
    """
    folder = model_folder() if model == NAME else Path(model)
    if not (folder / "config.json").is_file():
        raise UsageError(f"{folder} holds no model (no config.json): give the folder of one, or {NAME}")
    return folder


def resolve_adapter(model: str, adapter: str | None) -> Path | None:
    """Return the folder of an adapter: the one that is named, else the shipped one of the embedded default model.

    Args:
        adapter: a folder; `none` for the model as it is; None for the default.
    """
    if adapter is not None:
        return None if adapter == "none" else Path(adapter)
    return SHIPPED if model == NAME and (SHIPPED / "adapter_config.json").is_file() else None


def weights_digest(folder: Path, adapter: Path | None) -> str:
    """Return the digest of the weights that a model and its adapter have, which tells one training from another."""
    parts = [
        path
        for place in (folder, adapter)
        if place and place.is_dir()
        for path in sorted(place.iterdir())
        if _holds_weights(path)
    ]
    found = hashlib.sha256()
    for path in parts:
        about = path.stat()
        found.update(_file_digest(path, about.st_size, about.st_mtime_ns))
    return found.hexdigest()[:16]


def _holds_weights(path: Path) -> bool:
    return path.suffix in (".safetensors", ".bin", ".pt") and path.is_file()


@lru_cache
def _file_digest(path: Path, size: int, changed: int) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """Return the tokenizer that lies beside a model.

    Raises:
        UsageError: there is none.
    """
    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError) as error:
        raise UsageError(f"{folder} holds no tokenizer that can be read ({_first_line(error)})") from error


def load_model(
    folder: Path, *, adapter: Path | None = None, dtype: DType = "auto", device: str | None = None
) -> PreTrainedModel:
    """Return a model ready to be asked: on a GPU if there is one, an adapter merged into it.

    Raises:
        UsageError: the folder or the adapter cannot be read.
    """
    logging.disable_progress_bar()
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    number = fastest_dtype(device) if dtype == "auto" else getattr(torch, dtype)
    try:
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=number, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(f"{folder}: the model cannot be read ({_first_line(error)})") from error
    if adapter is not None:
        model = _merged(model, adapter)
    return model.to(device).eval()


def fastest_dtype(device: str) -> torch.dtype:
    """Return bfloat16 where it pays: on a GPU, and on a CPU that multiplies it at least twice as fast."""
    if device != "cpu":
        return torch.bfloat16
    plain, short = _seconds(torch.float32), _seconds(torch.bfloat16)
    return torch.bfloat16 if 2 * short < plain else torch.float32


def _seconds(dtype: torch.dtype) -> float:
    """Return the time of one small matrix product."""
    left, right = torch.ones(64, 1024, dtype=dtype), torch.ones(1024, 1024, dtype=dtype)
    best = float("inf")
    with torch.inference_mode():
        for _ in range(8):
            began = time.perf_counter()
            torch.nn.functional.linear(left, right)
            best = min(best, time.perf_counter() - began)
    return best


def _merged(model: PreTrainedModel, adapter: Path) -> PreTrainedModel:
    if not (adapter / "adapter_config.json").is_file():
        raise UsageError(f"{adapter} holds no adapter (no adapter_config.json)")
    try:
        from peft import PeftModel
    except ImportError:
        raise EnvironmentFault("an adapter needs the package peft: pip install 'paraagent[local]'") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of one library about another
            return PeftModel.from_pretrained(model, adapter, local_files_only=True).merge_and_unload()
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        raise UsageError(f"{adapter}: the adapter does not fit this model ({_first_line(error)})") from error


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0][:200]
