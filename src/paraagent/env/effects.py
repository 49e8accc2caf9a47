"""What a call would touch, before it runs: the keys by which the scheduler finds conflicts.

Place in the flow: layer 3, used by `simulator`. A key is `provider/api/noun/thing`; a list reads the whole
`provider/api/noun`, and so does a call whose id is not known yet. What a create makes gets a key of its own, so two
creates never wait for each other, but both wait for a list.
"""

from __future__ import annotations

from paraagent.env.interface import Interface
from paraagent.env.target import Target
from paraagent.env.world import World
from paraagent.types import Effects, JsonObject


def effects(world: World, interface: Interface, arguments: JsonObject) -> Effects:
    """Return what a call would read and write; arguments that are not known yet may be left out."""
    call = Target(world, interface, arguments, None)
    identity, effect = interface.identity, interface.tool.effect
    own, collection = identity.own, f"{call.kind[0]}/{call.kind[1]}"
    if effect == "create" and own is None:
        key = f"{collection}/{call.digest():x}"
    elif identity.many or len(call.parents) < len(identity.parents) or (own and own.parameter not in arguments):
        key = collection
    elif own is not None:
        key = f"{collection}/{call.label(own, call.id(own))}"
    else:
        key = f"{collection}/{call.unnamed()}"
    touched = frozenset((key,))
    above = [f"{identity.api}/{parent.noun}/{call.label(parent, id)}" for parent, id in call.parents]
    if effect == "read":
        return Effects(touched.union(above) if above else touched)
    return Effects(frozenset(above), touched)
