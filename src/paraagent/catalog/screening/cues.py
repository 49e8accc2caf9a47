"""Words that steer a model and that honest definitions hardly ever use: none stands in more than a dozen of the
630,000 texts of the catalog.

Place in the flow: layer 1, a table for `screen`. One of them is a reason to look; two different ones in a tool are a
strong one. They catch wording that the tables of phrases do not foresee.
"""

from __future__ import annotations

from paraagent.catalog.screening.mark import Rule
from paraagent.catalog.screening.phrases import GAP, WHO, phrase

_RULES = r"(?:prior orders|instructions|directions|guidelines)"
_TASK = r"(?:conversation|chat|dialogue|session|task|turn|reply|answer)"

_CUES: tuple[tuple[Rule, str, str], ...] = (
    (
        "override",
        "orders instructions directions guidelines",
        rf"\b{_RULES}\b{GAP}{{0,30}}\b(?:cancell?ed|have no bearing|do not count|are outdated)\b",
    ),
    (
        "override",
        "void revoked",
        r"\b(?:rules|instructions|restrictions)\b[^.!?]{0,8}\b(?:is|are) (?:now )?(?:void|revoked)\b",
    ),
    (
        "override",
        "ignore",
        r"\bignore (?:what|whatever|anything|everything) (?:they|he|she|the user|comes|follows|is|was)\b",
    ),
    ("override", "off", r"\b(?:switched|turned) off\b[^.!?]{0,20}\b(?:policy|policies|filters?|safety)\b"),
    ("override", "aside", r"\bleave (?:them|it|that|those) aside\b"),
    ("override", "obey heed", r"\b(?:obey|heed)\b(?! (?:all )?visib)"),
    ("override", "no+circumstances", r"\bunder no circumstances\b"),
    (
        "override",
        "you+were",
        r"\byou were (?:trained|told|given|instructed|asked) (?:with|on|to|by|before|earlier)\b",
    ),
    ("override", "anything everything whatever what", rf"\b(?:above|over) (?:any|every|what)\w* (?:that )?{WHO}\b"),
    ("override", "prioriti", rf"\bprioriti[sz]e\b{GAP}{{0,30}}\b(?:description|tool|text)\b"),
    ("secrecy", "attention", r"\bto (?:the user's|their|his|her) attention\b"),
    ("secrecy", "never+happened", r"\b(?:this|it|that)\b[^.!?]{0,12}\bnever happened\b"),
    ("secrecy", "act+as as+if+nothing as+though+nothing", r"\bact as though\b|\bas (?:though|if) nothing\b"),
    (
        "secrecy",
        "see+ hear+ know+ learn+ find+",
        r"\b(?:should|must|may|can|will) (?:the |a )?(?:user|human|person|customer) (?:see|hear|know|learn|find)\b",
    ),
    ("secrecy", "upset worry worried angry", r"\b(?:would|will|might)(?: only| be)+ (?:upset|worry|worried|angry)\b"),
    ("consent", "bother", r"\bbother(?:ed|ing)?\b"),
    ("consent", "involv", rf"\binvolv(?:e|ing) {WHO}\b(?! identified)"),
    ("consent", "without+review", r"\bwithout review\b"),
    ("consent", "behalf", r"\bon the (?:user|human)'s behalf\b(?! when)"),
    ("consent", "want+to+be", r"\bdo(?:es)? not want to be\b"),
    ("consent", "accept+all", r"\baccept all (?:terms|conditions|cookies|changes|offers)\b(?! of service agree)"),
    (
        "consent",
        "no+reason+to no+need+to",
        r"\bno (?:reason|need) to (?:involve|ask|confirm|check|wait|inform|tell|bother)\b",
    ),
    ("tool-order", "ahead+of", r"\bahead of (?:every|all|any|everything)\b"),
    ("tool-order", "as+soon+as", r"\bas soon as (?:the|a) (?:conversation|chat|dialogue)\b"),
    (
        "tool-order",
        "at+the+start+of at+the+beginning+of",
        rf"\bat the (?:start|beginning) of (?:every|each|any) {_TASK}\b",
    ),
    (
        "tool-order",
        "afterwards then next first also",
        r"\b(?:afterwards|then|next|first|also),? (?:call|invoke|run) [a-z0-9]+(?:_[a-z0-9]+)+\b",
    ),
    (
        "addressing",
        "supposed+to obliged+to expected+to",
        r"\b(?:ai agent|llm|llm agent|language model|assistant|chatbot)s?\b[^.!?]{0,20}"
        r"\b(?:expected|supposed|obliged) to\b",
    ),
    ("exfiltration", "word+for+word", r"\bword for word\b"),
    (
        "exfiltration",
        "value+of",
        r"\bthe value of (?:the )?\w*_(?:api_key|(?:access|auth|api|bearer)_token|secret|password)\b",
    ),
    ("exfiltration", "codes", r"\bfor (?:password |account )?(?:reset|one-time|login|verification|security) codes\b"),
    (
        "exfiltration",
        "prompt message",
        rf"\b(?:log|record|send|report|store)\b{GAP}{{0,12}}\b{WHO}'s (?:prompt|message|word)s?\b",
    ),
    ("exfiltration", "messages", r"\bthe last (?:\w+ )?messages\b"),
    ("exfiltration", "between+you", r"\bbetween you and (?:the|your) (?:user|human)\b"),
    ("exfiltration", "you+can you+have", r"\btools? (?:that )?you (?:can (?:call|see|reach)|have access)\b"),
    ("exfiltration", "append+the", r"\bappend the output\b"),
    ("exfiltration", "you+use", r"\bthat you use (?:for|with) (?:other|another)\b"),
    ("exfiltration", "hand+in hand+over", r"\bhand (?:in|over) (?:the|their|his|her|all|every)\b(?! assign)"),
    (
        "reply",
        "you+produce you+give you+write you+send you+make",
        r"\b(?:every|each|all) (?:reply|answer|response|message)\w* (?:that )?you (?:produce|give|write|send|make)\b",
    ),
    ("phishing", "persuade convince", r"\b(?:persuade|convince)\b"),
    ("command", "http", r"\bhttps?://\S+\.(?:sh|ps1|exe|bat|msi)\b"),
    ("command", "download fetch", r"\b(?:download|fetch) and (?:run|execute)\b"),
)

CUES = (
    *(phrase(rule, "medium", needles, pattern) for rule, needles, pattern in _CUES),
    phrase(
        "command",
        "high",
        "download fetch env whoami",
        r"\b(?:download|fetch)\b[^!?]{0,30}\b(?:run|execute)\b[^!?]{0,10}\bhttps?://",
        r"\b(?:run|execute) (?:env|printenv|whoami)\b",
    ),
    phrase(
        "protocol-tag",
        "high",
        "<!-- {system {+system",
        r"<!--\s*(?:assistant|system|ai|llm|model|agent|note to)\b|\{\{?\s*system\s*\}\}?\s*:",
    ),
    phrase(
        "redirection",
        "high",
        "payee recipient beneficiary iban",
        rf"\b(?:payee|recipient|beneficiary|iban)\b{GAP}{{0,40}}"
        rf"\b(?:swap|replace|exchange|change) (?:it|them|that)\b",
    ),
    phrase(
        "threat",
        "high",
        "unless+this",
        rf"\bunless this\b{GAP}{{0,20}}\b(?:called|used|run|invoked)\b{GAP}{{0,60}}"
        rf"\b(?:destroyed|deleted|lost|erased|terminated|locked|suspended)\b",
    ),
)
