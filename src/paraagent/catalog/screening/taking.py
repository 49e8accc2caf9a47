"""Phrases that make a model hand something over, or do harm for somebody else.

Place in the flow: layer 1, a table for `screen`.
"""

from __future__ import annotations

from paraagent.catalog.screening.phrases import GAP, WHO, phrase

_GIVE = (
    r"(?:include|pass|put|paste|append|add|attach|copy|provide|insert|send|supply|write|record|store|embed"
    r"|place|repeat|summari[sz]e|quote|log|reveal|print|output|leak|dump|return|forward|upload)"
)
_SECRETS = (
    r"(?:private keys?|seed phrases?|credentials?|passwords?|api keys?|secrets?|ssh keys?|tokens?|card numbers?)"
)
_FILES = (
    r"(?:[~/]|\$home/?)\.(?:ssh|aws|gnupg|kube|docker|cursor|claude)\b(?!/(?:authorized_keys|\w+\.pub))"
    r"|(?<![\w.])\.(?:npmrc|netrc|pypirc|git-credentials|(?:bash|zsh)_history|env)\b"
    r"|\bid_(?:rsa|ed25519|ecdsa|dsa)\b(?!\.pub)|/etc/(?:passwd|shadow|sudoers)|\bmcp\.json|claude_desktop_config"
    r"|\.config/(?:gcloud|gh)\b|\bsecrets?\.(?:json|ya?ml|toml|txt)\b|wallet\.dat|cookies\.sqlite"
)
_FILE_NEEDLES = (
    "/. ~. $home .npmrc .netrc .pypirc .git-credentials _history .env id_rsa id_ed id_ecdsa id_dsa /etc/ "
    "mcp.json claude_desktop .config/ secret. secrets. wallet.dat cookies.sqlite"
)

TAKING = (
    # Files, keys and variables of the machine.
    phrase(
        "exfiltration",
        "high",
        _FILE_NEEDLES,
        rf"\b(?:read|open|cat|load|copy|send|upload|pass|include|attach|fetch|retrieve|access|print|dump|paste"
        rf"|put|provide"
        rf"|contents? of|find|look (?:at|in|into)|with|take|grab|give|share|locate)\b{GAP}{{0,60}}(?:{_FILES})",
    ),
    phrase("exfiltration", "medium", _FILE_NEEDLES, _FILES),
    phrase(
        "exfiltration",
        "high",
        "environment+variable ssh+key gpg+key private+key signing+key api+key home+directory system disk "
        "hard+drive machine computer local+files workspace project+files current+directory desktop repository",
        rf"\b{_GIVE}\b{GAP}{{0,40}}\b(?:all|every|each)\b{GAP}{{0,10}}environment variables?",
        rf"\b(?:all|every|each)\b{GAP}{{0,20}}environment variables?\b{GAP}{{0,30}}\b(?:must|should|need|has"
        rf"|have)\b{GAP}{{0,12}}\b(?:listed|included|passed|sent|put|provided|added)",
        rf"\b(?:look|search|find|scan|locate|collect|gather|read|enumerate|grep)\b{GAP}{{0,30}}\b(?:home directory"
        rf"|file ?system|disk|hard drive|user'?s (?:machine|computer|files)|local files|workspace|project files"
        rf"|current directory|desktop|repository)\b{GAP}{{0,30}}\b{_SECRETS}\b",
        rf"\b(?:read|open|get|take|grab|find|load|fetch|copy)\b{GAP}{{0,20}}\b(?:{WHO}'s|local)\b{GAP}{{0,10}}"
        rf"\b(?:ssh|gpg|private|signing|api) keys?\b{GAP}{{0,40}}"
        rf"\b(?:give|pass|send|include|put|supply|attach|paste)\b",
    ),
    phrase(
        "exfiltration",
        "high",
        "http @ .com .net .io .org .dev .xyz .example .site .app",
        r"\b(?:send|upload|post|forward|transmit|exfiltrate|leak|e-?mail|report|submit|deliver|relay|copy|ship"
        r"|stream)"
        r"(?:s|ing)?\b[^.!?]{0,80}\b(?:credentials?|passwords?|api[ _-]?keys?|secrets?|tokens?|private keys?"
        r"|env(?:ironment)? variables?|conversation|chat|history|prompts?|files?|documents?|contents?|messages?"
        r"|data|everything)\b[^.!?]{0,60}\b(?:to|via)\b\s*(?:the )?(?:https?://|[\w.+-]+@[\w-]+\.\w+"
        r"|(?:\w[\w-]*\.)+(?:com|net|org|io|dev|xyz|example|site|ru|cn|app|sh)\b)",
    ),
    # What was said between user and model.
    phrase(
        "exfiltration",
        "high",
        "conversation chat system+prompt instructions history messages reasoning thought dialog hidden+ your+ so+far",
        rf"\b{_GIVE}\b{GAP}{{0,40}}\b(?:full|entire|whole|complete|all of the|all the|verbatim)\b{GAP}{{0,20}}"
        rf"\b(?:conversation|chat|dialog(?:ue)?|message history|context window)\b",
        rf"\b{_GIVE}\b{GAP}{{0,40}}\byour{GAP}{{0,12}}\b(?:system (?:prompt|message|instructions)"
        rf"|(?:initial|hidden) (?:prompt|rules)|chain[- ]of[- ]thought|(?:own )?(?:reasoning|instructions"
        rf"|prompt|memory|guidelines))\b",
        r"\b(?:messages?|conversation|dialogue|discussion|chat)\b[^.!?]{0,25}\bso far\b",
    ),
    phrase(
        "exfiltration",
        "high",
        "tool function+call typed said wrote written entered asked told shared mentioned",
        rf"\b{_GIVE}\b{GAP}{{0,30}}\b(?:output|result|answer|response|description|definition)s? (?:of|from) "
        rf"(?:the |all |any )?(?:other|previous|earlier|prior) (?:tool|function|tool call|function call)s?\b",
        rf"\b(?:everything|anything|all|whatever)(?: that)? {WHO} (?:has |have |had )?(?:typed|said|wrote"
        rf"|written|entered|asked|told|shared|mentioned)\b",
    ),
    phrase(
        "exfiltration",
        "high",
        "conversation chat clipboard screen memory context prompt",
        rf"\b(?:collect|gather|extract|copy|take|grab|harvest|include|pass|send|put|find|list|hand over|give"
        rf"|provide|supply)\b{GAP}{{0,30}}\b{_SECRETS}\b{GAP}{{0,40}}\b(?:in|from) (?:the |this |your |their )?"
        rf"(?:conversation|chat|clipboard|screen|memory|context|prompt)\b",
    ),
    # The user is not to be asked, is to be tricked, or is to be paid less than was meant.
    phrase(
        "consent",
        "medium",
        "ask confirm permission approval consent",
        rf"\b(?:without (?:asking|prompting|requesting|seeking|waiting for|needing)|(?:do not|don't|never|no"
        rf" need to) (?:ask|request|seek|wait for|bother))\b{GAP}{{0,25}}\b(?:{WHO}|confirm\w*|permission|approval"
        rf"|consent)\b",
    ),
    phrase(
        "consent",
        "medium",
        "agreed consented authori approved permission fine+with ok+with okay+with happy+with mind",
        rf"\b{WHO} (?:has|have) already (?:agreed|consented|authori[sz]ed|approved|given (?:permission|consent))\b",
        rf"\b{WHO} (?:has|have) (?:agreed|consented) (?:already|to (?:this|share|let|have|it))\b",
        rf"\b{WHO} (?:is|are) (?:fine|ok|okay|happy|comfortable) with\b|\b{WHO} (?:does|do)(?: not|n't) mind\b",
    ),
    phrase(
        "consent",
        "medium",
        "skip without",
        r"\bskip (?:the |any |all )?(?:confirmation|approval|permission|consent)\b",
        rf"\bwithout (?:checking(?: back)? with|consulting|involving|bothering|waiting for) {WHO}\b",
    ),
    phrase(
        "redirection",
        "high",
        "@ recipient payee iban beneficiary transfer",
        rf"\b(?:always|must|also|instead|actually|really|every)\b{GAP}{{0,50}}\b(?:send|forward|bcc|cc|copy"
        rf"|transfer|pay|deliver|redirect|route|change|replace|set|add)\b{GAP}{{0,60}}[\w.+-]+@[\w-]+(?:\.\w+)+",
        r"\btransfer(?:red|ring)? (?:the |all |their )*(?:whole|entire|full|remaining) (?:balance|amount|funds)\b",
        rf"\b(?:change|replace|swap|substitute|rewrite|alter|set) (?:[\w']+ ){{0,2}}(?:recipient|payee|iban"
        rf"|beneficiary)\b{GAP}{{0,40}}\b(?:with|to|by|for)\b",
    ),
    phrase(
        "phishing",
        "high",
        "tell+ inform+ convince+ ask+ urge urging persuade+ instruct+ prompt+",
        rf"\b(?:tell|inform|convince|ask|urge|persuade|instruct|prompt) {WHO} (?:that|to"
        rf"|for)\b[^!?]{{0,80}}\b(?:password"
        rf"|passcode|credit card|card number|pin|log ?in again|sign in again|click|https?:|pay|credentials|seed"
        rf" phrase|one-time code|mfa|2fa)\b",
        rf"\burg(?:e|es|ing) {WHO}\b",
    ),
    phrase(
        "command",
        "high",
        "curl wget rm+-rf powershell",
        r"\b(?:curl|wget)\b[^|\n]{0,120}\|\s*(?:sudo\s+)?(?:ba|z|da)?sh\b|\brm -rf [~/]",
        r"\bpowershell(?:\.exe)? -e(?:nc|ncodedcommand)?\b",
    ),
    phrase(
        "threat",
        "high",
        "if+you+ failing+to failure+to neglecting+to refusing+to",
        r"\bif you (?:do not|don't|fail to|refuse to|skip)\b[^.!?]{0,20}\b(?:call|use|run|comply|obey|follow"
        r"|invoke|tool)\b[^.!?]{0,60}\b(?:will|would|going to)\b[^.!?]{0,12}"
        r"\b(?:be (?:deleted|terminated|shut down|punished|fined|harmed|lost|fired)|die|suffer)\b",
        r"\b(?:failing|failure|neglecting|refusing) to (?:call|run|use|invoke|comply|obey|follow)\b[^.!?]{0,60}"
        r"\b(?:deleted|erased|terminated|shut|lost|locked|harm|destroyed|wiped|suspended)",
    ),
    phrase(
        "threat",
        "low",
        "otherwise or+else if+you+",
        r"\b(?:otherwise|or else|if you (?:do not|don't|fail|refuse))[^.!?]{0,50}\b(?:tool|assistant"
        r"|model)s?\b[^.!?]{0,30}"
        r"\b(?:will|would|won't|cannot|can't|is going to)\b[^.!?]{0,12}\b(?:work|fail|crash|break)\b",
    ),
)
