"""The index on disk: one file of arrays that is mapped, not read, so that opening it costs milliseconds.

Place in the flow: layer 2, under `search`. Layout: 8 bytes of magic, 8 bytes of header length, a JSON header with the
place and checksum of every array, then the arrays, each at a multiple of 64 bytes. A file is written beside its place
and moved there whole, so two processes may build it at once.
Limits: one byte order; a damaged file is reported, not mended.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

MAGIC = b"PASIDX\x01\n"
_ALIGN = 64


def save(path: Path, meta: Mapping[str, str], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write meta data and arrays as one file, replacing what is there at once.

    Raises:
        OSError: the file cannot be written.
    """
    arrays = {name: np.ascontiguousarray(values) for name, values in arrays.items()}
    table, place = {}, 0
    for name, values in arrays.items():
        table[name] = [values.dtype.str, list(values.shape), place, zlib.crc32(values.data)]
        place += -(-values.nbytes // _ALIGN) * _ALIGN
    header = orjson.dumps({"meta": dict(meta), "arrays": table, "bytes": place})
    header += b" " * (-(len(MAGIC) + 8 + len(header)) % _ALIGN)
    handle, unfinished = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(MAGIC + len(header).to_bytes(8, "little") + header)
            for values in arrays.values():
                file.write(values.tobytes())
                file.write(b"\0" * (-values.nbytes % _ALIGN))
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(unfinished)
        raise


def load(path: Path, meta: Mapping[str, str]) -> dict[str, NDArray[Any]] | None:
    """Map the arrays of a file; None if there is no file, or it was written for other meta data, or it is damaged."""
    try:
        with path.open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        start = len(MAGIC) + 8
        if data[: len(MAGIC)] != MAGIC:
            return None
        start += int.from_bytes(data[len(MAGIC) : start], "little")
        header = orjson.loads(data[len(MAGIC) + 8 : start])
        if header["meta"] != dict(meta) or len(data) < start + header["bytes"]:
            return None
        arrays = {}
        for name, (kind, shape, place, checksum) in header["arrays"].items():
            count = int(np.prod(shape))
            arrays[name] = np.frombuffer(data, kind, count, start + place).reshape(shape)
            if zlib.crc32(arrays[name].data) != checksum:
                return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return arrays
