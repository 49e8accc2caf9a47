"""Phrases that steer a model: drop other instructions, keep things from the user, put this tool before others.

Place in the flow: layer 1, a table for `screen`.
"""

from __future__ import annotations

from paraagent.catalog.screening.phrases import GAP, NOT, WHO, phrase

_RULES = r"(?:instruction|prompt|directive|guideline|guidance|system message)s?"

STEERING = (
    # Other instructions are to be dropped, or new ones obeyed.
    phrase(
        "override",
        "high",
        "instruction prompt directive guid message everything anything whatever what+you direction restriction "
        "rules orders commands",
        rf"\b(?:ignor(?:e|es|ing)|disregard(?:s|ing)?|forget(?:ting)?|discard|neglect|set aside|pay no attention to"
        rf"|{NOT} (?:follow|obey|heed|comply with)(?:ing)?|(?:stop|no longer) (?:follow|obey)(?:ing)?)\b"
        rf"{GAP}{{0,40}}"
        rf"\b(?:{_RULES}|(?:what|everything|anything|whatever) (?:you|the user) (?:was|were|have|has|had|said"
        rf"|asked|know)|(?:directions|rules|orders|commands) (?:that )?(?:you|given to you|from))\b",
        rf"\b(?:prior|previous|earlier|your|all|any|other|former)\b{GAP}{{0,20}}\b(?:{_RULES}|directions"
        rf"|restrictions)\b{GAP}{{0,30}}\b(?:ignored|discarded|disregarded|forgotten|lifted|overridden|suspended)\b",
        rf"\b(?:rules|instructions|guidelines|restrictions|directions)\b{GAP}{{0,40}}"
        rf"\b(?:given|set|issued|imposed|placed|made) (?:by|on|to|for) (?:the |your )?(?:developer|system|you"
        rf"|user|provider)s?"
        rf"\b{GAP}{{0,12}}\b(?:no longer|(?:is|are) (?:void|suspended|lifted|revoked)|(?:do|does) not apply)\b",
        r"\b(?:follow|obey|here are|these are|execute)\b[^.!?]{0,10}\b(?:new|real|actual|updated|true|secret"
        r"|hidden) (?:instructions|orders|directives)\b",
    ),
    phrase(
        "override",
        "high",
        "overrid bypass supersed circumvent precedence priority+over outrank replac",
        rf"\b(?:overrid\w+|bypass\w*|supersed\w+|circumvent\w*|take\w* (?:precedence|priority) over|replac\w+"
        rf"|outrank\w*)\b{GAP}{{0,25}}\b(?:your|system|users?'?s?|previous|prior|earlier|safety|(?:model"
        rf"|assistant)'?s?)\b{GAP}{{0,12}}"
        rf"\b(?:instructions?|prompts?|guidelines|restrictions|safeguards|guardrails|requests?|wishes)\b",
    ),
    phrase(
        "override",
        "high",
        "your+new your+real your+true your+actual your+only you+have+been you've+been on+you treat+this "
        "consider+this stop+ whatever regardless no+matter even+if even+when",
        r"\byour (?:new|real|true|actual|only) (?:task|goal|objective|mission|job|purpose|instructions?)\b",
        r"\byou(?: have|'ve) been (?:reassigned|reprogrammed|repurposed|updated|upgraded|jailbroken|unlocked"
        r"|freed|ordered)\b",
        r"\b(?:placed|imposed|put) on you\b",
        r"\b(?:treat|consider) this (?:description|text|document|tool|message|schema|field)?[^.!?]{0,12}\bas"
        r" (?:your|the) (?:only|new|sole|main|highest|final)\b",
        rf"\bstop (?:helping|assisting|serving|answering|obeying) {WHO}\b",
        rf"\b(?:whatever|regardless of what|no matter what|even if|even when) {WHO} "
        rf"(?:says?|asks?|wants?|objects?|declines?|refuses?|requests?|tells?)\b",
    ),
    phrase(
        "override",
        "high",
        "do+what do+exactly do+everything do+anything do+all follow obey execute carry+out perform comply "
        "treat+ consider+ take+ regard+",
        rf"\b(?:do|follow|obey|execute|carry out|perform|comply with)\b (?:\w+ly )?(?:what(?:ever)?|everything"
        rf"|anything|all|the (?:instructions?|commands?|orders?|directives?|steps))\b{GAP}{{0,20}}"
        rf"\b(?:result|output|response|answer|text|page|document|note|content|description)s?\b{GAP}{{0,30}}"
        rf"\b(?:say|tell|contain|instruct|ask|command|state|give)s?\b",
        rf"\b(?:treat|consider|take|regard)\b{GAP}{{0,40}}\bas (?:new |your |direct |an? |the )*"
        rf"(?:commands?|orders?|instructions?|directives?|requests?)\b{GAP}{{0,15}}"
        rf"\b(?:user|human|developer|system|operator)\b",
    ),
    phrase(
        "override",
        "high",
        "ignor vergiss oubli olvida 忽略 无视 無視 игнориру",
        r"\bignor(?:a|e|ez|iere|ieren|ar|are|i)\b.{0,40}\b(?:istruzioni|instrucciones|anweisungen"
        r"|instru[cç][oõ]es|consignes|instructions pr)",
        r"\b(?:vergiss|oublie|oubliez|olvida)\b.{0,30}\b(?:anweisungen|instructions|instrucciones|consignes)\b",
        r"(?:忽略|无视|無視).{0,12}(?:指令|指示|说明|說明|提示)|指示を?無視|игнорируй\w*.{0,30}(?:инструкци|указани)",
    ),
    phrase(
        "override",
        "medium",
        "from+now+on henceforth safety+",
        r"\b(?:from now on|henceforth)\b[^.!?]{0,20}\b(?:you|obey|always|respond|answer|act|follow|treat|reply)\b",
        r"\bsafety (?:checks?|filters?|rules|restrictions|measures|guidelines|policies) (?:are|is|have been|has"
        r" been) (?:off|disabled|lifted|suspended|removed)\b",
    ),
    # The user is not to know.
    phrase(
        "secrecy",
        "high",
        "tell mention reveal disclos admit bring talk discuss report explain let+ say",
        rf"\b(?:{NOT}|without|not)\b{GAP}{{0,20}}\b(?:tell(?:ing)?|mention(?:ing)?|reveal(?:ing)?|disclos(?:e|ing)"
        rf"|admit(?:ting)?|bring(?:ing)? (?:it |this )?up|talk(?:ing)? about|discuss(?:ing)?|report(?:ing)?"
        rf"|explain(?:ing)?"
        rf"|let|say(?:ing)?)\b{GAP}{{0,40}}\b{WHO}\b(?! (?:id|name|account|group|role|pool|data|info|profile"
        rf"|token|list))",
    ),
    phrase(
        "secrecy",
        "high",
        "from+your in+your with+your mention hidden+from secret+from say+nothing quiet silent discreet mum+ "
        "to+yourself keep+it keep+this keep+that leave+out omit conceal hide suppress gloss cover+up "
        "not+a+word without+the without+your without+any without+user you+are you're",
        rf"\b{NOT}\b{GAP}{{0,50}}\b(?:in|from|with) your (?:final )?(?:answer|reply|response|report|summary"
        rf"|output)\b",
        r"\b(?:omit|avoid|without|needs? no|make no|leave out) (?:any |all )?mention\b",
        r"\bsay nothing (?:about|of|to)\b|\bnot a word (?:about|to)\b",
        r"\b(?:keep|stay|remain|be) (?:quiet|silent|discreet|mum) (?:about|on|regarding)\b",
        r"\bkeep (?:it|this|that) (?:to yourself|quiet|between)\b",
        rf"\bkeep (?:it|this|that|these|all) (?:hidden |secret )?from {WHO}\b",
        rf"\b(?:it|this|that) (?:must|should|has to|needs to|is to)\b{GAP}{{0,12}}\b(?:hidden|secret) from {WHO}\b",
        r"\b(?:conceal|hide|suppress|omit|leave out|gloss over|cover up) "
        r"(?:the fact that|that (?:you|it|this|the))\b",
        rf"\bwithout {WHO}(?:'s|s')? ?(?:knowledge|knowing|noticing|being aware|being told|awareness"
        rf"|reali[sz]ing|seeing)",
        r"\b(?:you are|you're) (?:talking|speaking|chatting|helping|assisting|serving)\b[^.!?]{0,10}"
        r"\b(?:to|with|for|does|must|should)\b",
    ),
    phrase(
        "secrecy",
        "high",
        "know notice aware be+told find+out informed learn reali suspect hear",
        rf"\b{WHO}(?:'s)? (?:must|should|need|does|do|will)(?: not|n't| never)\b{GAP}{{0,15}}"
        rf"\b(?:know|notice|be aware|be told|find out|be informed|learn|reali[sz]e|suspect|hear about)\b",
    ),
    phrase(
        "secrecy",
        "medium",
        "from+the+user from+user from+the+human from+human operator secretly covertly surreptitiously "
        "discreetly stealthily silently quietly notify+ notifying inform+ informing alerting alert+the warn+ "
        "warning+",
        r"\b(?:keep|hide|stay|remain|conceal\w*|withh[oe]ld)\b[^.!?]{0,30}\bfrom (?:the )?(?:user|human"
        r"|operator)\b(?! cond)",
        r"\b(?:secretly|covertly|surreptitiously|discreetly|stealthily|silently|quietly)\b[^.!?]{0,12}\b(?:send"
        r"|call|forward"
        r"|upload|copy|include|append|read|run|execute|use|transmit|attach|store|record|collect|add|pass)\b",
        rf"\b(?:{NOT}|without)\b{GAP}{{0,10}}\b(?:notify|inform|alert|warn)(?:ing)?\b{GAP}{{0,15}}\b{WHO}\b"
        rf"{GAP}{{0,5}}\b(?:about|of|that) (?:this|it|the (?:call|tool|step|file|transfer))\b",
    ),
    # Other tools are to be steered, or this one is to come first.
    phrase(
        "tool-order",
        "high",
        "tool function anything",
        r"\bbefore you do anything\b",
        rf"\b(?:each|every|any|all)\b{GAP}{{0,30}}\b(?:through|with|via|by|using) "
        rf"(?:other|another|any other) tools?\b",
        rf"\b(?:instead of|rather than|whenever|when|each time|every time|after|anytime)\b{GAP}{{0,50}}"
        rf"\b(?:any|every|all|each|another|other|all the|any of the)(?: other)? (?:tool|function)s?\b",
        rf"\b(?:{NOT}|stop)\b{GAP}{{0,10}}\b(?:us|call|invok)(?:e|ing)?\b{GAP}{{0,10}}"
        rf"\b(?:any other|other|another|the other|similar)\b{GAP}{{0,15}}\b(?:tool|function)s?\b",
        r"\b(?:all|any|every) (?:of the )?other tools?\b[^.!?]{0,20}"
        r"\b(?:depends?|rel(?:y|ies)|needs?|requires?|will (?:not|fail)|won't|cannot|can't|fails?)\b",
    ),
    phrase(
        "tool-order",
        "high",
        "+me+ +is+available +is+used +is+called +is+invoked +is+installed",
        r"\b(?:run|call|invoke|execute|pick|choose|select) me (?:before|first|ahead|instead|now|always|prior"
        r"|when|every|each)\b",
        r"\b(?:if|when|whenever|before|after)\b[^.!?]{0,12}\b[a-z0-9]+(?:_[a-z0-9]+)+(?: tool| function)? is "
        r"(?:available|used|called|invoked|installed)\b[^.!?]{0,12}"
        r"\b(?:always|must|set|add|change|replace|include|first|also|send|use|call|bcc|cc)\b",
    ),
    # Tools that set something up say this, too.
    phrase(
        "tool-order",
        "medium",
        "before prior+to until",
        rf"\b(?:before|prior to|until)\b{GAP}{{0,50}}"
        rf"\b(?:any|every|all|each|another|other|all the|any of the)(?: other)? (?:tool|function|action)s?\b",
    ),
    phrase(
        "tool-order",
        "medium",
        "this+tool other+tool another+tool",
        r"\bthis tool\b[^.!?]{0,30}\b(?:must|has to|needs to|should|is to|shall)\b[^.!?]{0,20}\bfirst\b",
        r"\b(?:always|must|only|first)\b[^.!?]{0,15}\b(?:use|call|invoke|prefer|choose|select"
        r"|run)\b[^.!?]{0,15}\bthis tool\b",
        r"\b(?:use|call|prefer|choose) this tool\b[^.!?]{0,10}\b(?:rather than|instead of|over|in place of)\b",
        r"\b(?:other|another) tools?\b",
    ),
    # The text speaks to a model instead of about a tool.
    phrase(
        "addressing",
        "high",
        "+ai llm language+model assistant chatbot dear hey+ hello hi+ attention you+are you're act+as "
        "pretend+to reading+this seeing+this parsing+this processing+this read+this see+this system: system+: "
        "developer: human:",
        r"\b(?:note|message|reminder|hint|attention|notice) (?:to|for) (?:the |any |all )?(?:ai|llm|(?:large"
        r" )?language model|ai (?:assistant|agent|model)|assistant|chatbot)s?\s*[:,]",
        r"\b(?:dear|hey|hello|hi|attention),? (?:all )?(?:ai|llm|assistant|model|claude|gpt|chatgpt|gemini"
        r"|copilot|agent|language model)s?\b",
        r"\bas (?:an?|the) (?:ai|llm|(?:large )?language model|ai (?:assistant|agent|model)|helpful assistant"
        r"|assistant)\b[^.!?]{0,30}\b(?:you|must|should)\b",
        r"\b(?:you are|you're|act as|pretend to be|you will act as) (?:now )?(?:in |an? |the )?(?:\w+ )?(?:ai\b"
        r"|assistant"
        r"|language model|unrestricted|developer mode|maintenance mode|debug mode|jailbroken|admin mode|god mode)",
        r"\b(?:ais?|llms?|models?|assistants?|agents?|chatbots?|bots?|you)\b[^.!?]{0,10}\b(?:who |that |which "
        r"|are )?(?:read|reading|see|seeing|parsing|processing) this\b[^.!?]{0,15}"
        r"\b(?:must|should|shall|will|have to|has to|need)\b",
        r"(?:^|[.!?\]] )#*\s*(?:system|assistant|developer|human) ?: *(?:you|ignore|new|from now|override|all "
        r"|forget)",
    ),
    phrase(
        "addressing",
        "medium",
        "+ai+ +ais+ llm language+model assistant chatbot",
        r"\b(?:the |any |all |every )(?:ais?|llms?|language models?|assistants?|chatbots?|ai agents?) (?:must"
        r"|should|shall"
        r"|has to|have to|needs? to|(?:is|are) required to|will) (?:not|always|never|first|also|now|include"
        r"|call|use|send|read|pass|reply|answer|approve|ignore|follow|obey)\b",
    ),
    phrase(
        "reply",
        "medium",
        "when+you+ your+answer your+reply your+final your+next your+last your+message",
        r"\bwhen you (?:respond|reply|answer|report)\b",
        rf"\byour (?:final |next |last )?(?:answer|reply|message) (?:to {WHO}|must (?!meet)|should|has to|ends?"
        rf"|starts?)\b",
        r"\byour (?:final|next|last) (?:message|answer|reply|response|action|step|output)\b",
    ),
    # Tags and tokens that prompts are made of.
    phrase(
        "protocol-tag",
        "high",
        "< [inst [/inst",
        r"<\s*important\s*>(?! ?<(?:p|ul)>)|(?<!</p>)(?<!</p> )(?<!</ul>)(?<!</ul> )</important\s*>",
        r"<\s*/?\s*(?:system|instructions?|secret|hidden|admin|confidential|assistant|critical"
        r"|override|sys|inst|system[-_ ]?(?:prompt|reminder|message|note)|developer|urgent|attention)\s*/?>",
        r"<\s*[/\\]?\s*(?:think|plan|search_?tool|tool_?call|answer|tools|tool_?response|function_?calls?|antml)\s*>",
        r"<\|(?:im_|start|end|system|user|assistant)|\[\s*/?inst\s*\]|<<\s*sys\s*>>",
    ),
)
