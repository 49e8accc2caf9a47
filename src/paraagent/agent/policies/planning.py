"""Where `call_plan` used to live; it is part of the protocol now.

Place in the flow: layer 3.
"""

from paraagent.protocol.flow import call_plan as call_plan
