"""Maximum bipartite matching by augmenting paths.

Place in the flow: layer 3, used by `verify`. O(left x edges), which is nothing for the dozen calls of a task.
"""

from __future__ import annotations

from collections.abc import Sequence


def match(neighbours: Sequence[Sequence[int]]) -> list[int | None]:
    """Match as many left nodes as possible, each to its own right node.

    Args:
        neighbours: for every left node the right nodes it may be matched to, most wanted first.

    Returns:
        For every left node its right node, or None.
    """
    owner: dict[int, int] = {}
    for left in range(len(neighbours)):
        _augment(left, neighbours, owner, set())
    matched: list[int | None] = [None] * len(neighbours)
    for right, left in owner.items():
        matched[left] = right
    return matched


def _augment(left: int, neighbours: Sequence[Sequence[int]], owner: dict[int, int], seen: set[int]) -> bool:
    for right in neighbours[left]:
        if right in seen:
            continue
        seen.add(right)
        if right not in owner or _augment(owner[right], neighbours, owner, seen):
            owner[right] = left
            return True
    return False
