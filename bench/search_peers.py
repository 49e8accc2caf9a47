"""Other engines on the text that our index searches, with the interface of one function: best tool names for a text.

bm25s and tantivy get identifiers already split into words, since neither splits them; each then uses its own English
stop words and Snowball stemmer. tantivy searches separate fields with our weights as boosts.
"""

from __future__ import annotations

import importlib.util
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from paraagent.search.fields import FIELDS, NOTE, Weights, lead
from paraagent.search.tokens import parts
from paraagent.types import Tool

Top = Callable[[str, int], list[str]]


@dataclass(frozen=True, slots=True)
class Peer:
    """A built engine."""

    name: str
    top: Top
    build_seconds: float


def have(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def raw(tool: Tool, notes: bool = True) -> dict[str, str]:
    """Return the searched text of a tool by field, words split but neither stopped nor stemmed."""
    properties = tool.parameters.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    summary, rest = lead(tool.description)
    described = (
        str(schema.get("description", ""))[:NOTE] for schema in properties.values() if isinstance(schema, dict)
    )
    texts = {
        "name": tool.operation or tool.name,
        "service": " ".join(dict.fromkeys((tool.provider, tool.api_title, tool.api))),
        "summary": summary,
        "description": rest,
        "parameters": " ".join(properties),
        "notes": " ".join(described) if notes else "",
        "context": " ".join((tool.name, tool.path, tool.category, tool.resource)),
    }
    return {field: " ".join(parts(text)) for field, text in texts.items()}


def bm25s(tools: Sequence[Tool], backend: str, notes: bool) -> Peer:
    """Build bm25s (Lucene's BM25) with its NumPy or Numba back end."""
    import bm25s as library
    import Stemmer

    started = time.perf_counter()
    stemmer = Stemmer.Stemmer("english")
    texts = [" ".join(raw(tool, notes).values()) for tool in tools]
    index = library.BM25(method="lucene", backend=backend)
    tokenised = library.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False)
    index.index(tokenised, show_progress=False)
    seconds = time.perf_counter() - started
    names = [tool.name for tool in tools]

    def top(text: str, k: int) -> list[str]:
        terms = library.tokenize([text], stopwords="en", stemmer=stemmer, show_progress=False, return_ids=False)
        found, scores = index.retrieve(terms, k=k, show_progress=False, n_threads=0 if backend == "numpy" else 1)
        return [names[i] for i, score in zip(found[0], scores[0], strict=True) if score > 0]

    return Peer(f"bm25s {backend}{'' if notes else ', no notes'}", top, seconds)


def tantivy(tools: Sequence[Tool]) -> Peer:
    """Build tantivy with one field each and our weights as boosts."""
    import tantivy as library

    started = time.perf_counter()
    schema = library.SchemaBuilder().add_unsigned_field("number", stored=True)
    fields = [field for field in FIELDS if field != "effect"]
    for field in fields:
        schema.add_text_field(field, tokenizer_name="en_stem")
    index = library.Index(schema.build(), path=tempfile.mkdtemp())
    writer = index.writer(200_000_000, 1)
    for number, tool in enumerate(tools):
        writer.add_document(library.Document(number=number, **raw(tool)))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    seconds = time.perf_counter() - started
    boosts = {field: weight.weight for field, weight in zip(FIELDS, Weights().fields, strict=True) if field in fields}
    names, searcher = [tool.name for tool in tools], index.searcher()

    def top(text: str, k: int) -> list[str]:
        query = index.parse_query(" ".join(parts(text)), fields, field_boosts=boosts)
        return [names[searcher.doc(place)["number"][0]] for _, place in searcher.search(query, k).hits]

    return Peer("tantivy", top, seconds)
