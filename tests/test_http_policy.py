"""The HTTP policy against a real local server: turns, usage, faults, waits, concurrency, and the key's secrecy."""

from __future__ import annotations

import asyncio
import gc
import json
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from itertools import pairwise
from typing import Any

import pytest

from chat_server import BROKEN, KEY, MODEL, NO_MODEL, OVERFLOW, RATE_LIMITED, Answer, ChatServer, failure
from paraagent.agent.context import Context
from paraagent.agent.policies.http import HttpConfig, HttpPolicy
from paraagent.agent.policies.http_faults import retry_after
from paraagent.errors import ModelError, UsageError
from paraagent.types import Message, Reply, Usage

STREAM = {"content-type": "text/event-stream"}


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def context() -> Context:
    return Context("hi", messages=[Message("system", "Be brief."), Message("user", "hi")])


def ask(
    server: ChatServer,
    *,
    slept: list[float] | None = None,
    on_text: Callable[[str], None] | None = None,
    check: bool = False,
    **options: Any,
) -> Reply:
    """Ask once; waits are noted instead of waited."""

    async def sleep(seconds: float) -> None:
        if slept is not None:
            slept.append(seconds)

    async def main() -> Reply:
        config = HttpConfig(**{"model": MODEL, "base_url": server.base_url, **options})
        async with HttpPolicy(config, on_text=on_text, sleep=sleep) as policy:
            if check:
                await policy.check()
                return Reply("")
            return await policy.act(context())

    return asyncio.run(main())


def refusals(answers: list[Answer], **options: Any) -> list[ModelError]:
    """Ask once for each answer, with one policy, and return the errors: all of one line that names the endpoint."""

    async def sleep(seconds: float) -> None:
        pass

    async def main(server: ChatServer) -> list[ModelError]:
        errors = []
        async with HttpPolicy(HttpConfig(MODEL, server.base_url, retries=0, **options), sleep=sleep) as policy:
            for _ in answers:
                with pytest.raises(ModelError) as caught:
                    await policy.act(context())
                errors.append(caught.value)
        return errors

    with ChatServer(answers) as server:
        errors = asyncio.run(main(server))
    for error in errors:
        assert str(error).startswith(f"{MODEL} at http://127.0.0.1:")
        assert str(error).isprintable()
        assert KEY not in str(error)
    return errors


@pytest.fixture(params=[True, False], ids=["stream", "whole"])
def stream(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer() as server:
        yield server


def test_turn_and_usage_come_back_whole(stream: bool) -> None:
    with ChatServer([Answer("<think>é</think>\n<answer>42 ✓</answer>")], key=KEY) as server:
        reply = ask(server, stream=stream)
    assert reply.text == "<think>é</think>\n<answer>42 ✓</answer>"
    assert reply.usage == Usage(100, 20, 64)
    assert 0 < reply.seconds < 5


def test_request_says_what_the_config_says(server: ChatServer) -> None:
    ask(server, stream=False, temperature=0.5, seed=7, max_tokens=99, extra_body={"top_k": 20})
    ask(server, max_tokens=None)
    assert server.requests[0] == {
        "model": MODEL,
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}],
        "stream": False,
        "temperature": 0.5,
        "seed": 7,
        "max_tokens": 99,
        "top_k": 20,
    }
    assert server.requests[1].keys() == {"model", "messages", "stream", "stream_options"}


def test_base_url_and_key_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with ChatServer(key="sk-other-key") as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("MY_KEY", "sk-other-key\n")
        assert ask(server, base_url=None, api_key_env="MY_KEY").text == "<answer>ok</answer>"


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_separate_reasoning_becomes_a_think_block(stream: bool, field: str) -> None:
    with ChatServer([Answer("<answer>4</answer>", reasoning="2+2 </think> is 4", reasoning_field=field)]) as server:
        assert ask(server, stream=stream).text == "<think>\n2+2  is 4\n</think>\n\n<answer>4</answer>"


def test_think_tags_in_the_content_stay_as_they_are() -> None:
    answers = [Answer("<think>a</think>b", reasoning="c"), Answer("a</think>b")]
    with ChatServer(answers) as server:
        assert ask(server).text == "<think>a</think>b"
        assert ask(server).text == "<think>a</think>b"  # a template that opens the tag in the prompt


def test_lone_surrogates_do_not_get_in(stream: bool) -> None:
    with ChatServer([Answer("a\ud800b")]) as server:
        assert ask(server, stream=stream).text == "a?b"


def test_live_text_grows_to_the_whole_turn() -> None:
    seen: list[str] = []
    with ChatServer([Answer("<answer>a longer text</answer>", reasoning="hmm")]) as server:
        reply = ask(server, on_text=seen.append)
    assert len(seen) > 4
    assert seen[-1] == reply.text
    assert all(len(a) <= len(b) for a, b in pairwise(seen))


def test_error_of_the_live_display_is_not_blamed_on_the_model(server: ChatServer) -> None:
    def fail(text: str) -> None:
        raise RuntimeError("display is gone")

    with pytest.raises(RuntimeError, match="display is gone"):
        ask(server, on_text=fail)
    assert len(server.requests) == 1


def test_server_without_stream_options_is_asked_again_without(server: ChatServer) -> None:
    def respond(request: dict[str, Any]) -> Answer:
        return (
            failure(400, "Unrecognized request argument: stream_options") if "stream_options" in request else Answer()
        )

    with ChatServer(respond) as server:
        assert ask(server, retries=0).usage == Usage()
        assert [("stream_options" in request) for request in server.requests] == [True, False]


def test_server_that_wants_max_completion_tokens_gets_it() -> None:
    def respond(request: dict[str, Any]) -> Answer:
        return failure(400, "Use 'max_completion_tokens' instead.") if "max_tokens" in request else Answer()

    with ChatServer(respond) as server:
        ask(server, retries=0, max_tokens=50)
        assert server.requests[-1]["max_completion_tokens"] == 50


def test_wrong_key_says_where_the_key_belongs(stream: bool) -> None:
    with ChatServer(key="sk-the-right-one") as server, pytest.raises(ModelError, match="OPENAI_API_KEY") as caught:
        ask(server, stream=stream)
    assert not caught.value.retryable
    assert KEY not in str(caught.value)
    assert caught.value.__suppress_context__


def test_unknown_model_names_those_on_offer() -> None:
    with ChatServer([NO_MODEL]) as server, pytest.raises(ModelError, match="does not know this model") as caught:
        ask(server, model="tiny-chit")
    assert str(caught.value).endswith("name one that it offers: tiny-chat, tiny")
    assert not caught.value.retryable


def test_wrong_path_points_at_the_base_url(server: ChatServer) -> None:
    with pytest.raises(ModelError, match="most base URLs end in /v1") as caught:
        ask(server, base_url=server.base_url.removesuffix("/v1"))
    assert not caught.value.retryable


FAULTS = [
    (OVERFLOW, "longer than the model's context", False),
    (failure(403, "no access to this project"), "denies access", False),
    (failure(429, "You exceeded your current quota", code="insufficient_quota"), "no credit", False),
    (failure(402, "pay first"), "no credit", False),
    (failure(422, "temperature must be below 2"), "temperature must be below 2", False),
    (BROKEN, "internal error", True),
    (failure(503, "loading model"), "loading model", True),
    (Answer(cut=True, text="x" * 60), "peer closed connection", True),
    (Answer(body="{nope"), "no usable answer", True),
    (Answer(body="<html>Welcome</html>", headers={"content-type": "text/html"}), "no usable answer", True),
    (Answer(body='{"choices": 5}'), "no usable answer", True),
    (Answer(body="[]"), "no usable answer", True),
    (Answer(body='{"choices": [{"message": {"content": [1]}}]}'), "no usable answer", True),
    (Answer(body='{"error": {"message": "over\\u001b[31mload"}}'), "no usable answer", True),
]
STREAM_FAULTS = [
    (Answer(unfinished=True), "broke off", True),
    (Answer(body="data: {nope\n\n", headers=STREAM), "JSONDecodeError", True),
    (Answer(body='data: {"error": {"message": "overloaded"}}\n\n', headers=STREAM), "overloaded", True),
    (Answer(body="data: \xff\n\n", headers=STREAM), "no usable answer", True),
]


def test_every_fault_has_its_line(stream: bool) -> None:
    faults = FAULTS + (STREAM_FAULTS if stream else [])
    errors = refusals([answer for answer, _, _ in faults], stream=stream)
    for error, (answer, words, retryable) in zip(errors, faults, strict=True):
        assert words in str(error), answer
        assert error.retryable is retryable, answer


def test_passing_faults_are_retried_with_growing_pauses(stream: bool) -> None:
    slept: list[float] = []
    with ChatServer([BROKEN, Answer(cut=True, text="x" * 60), Answer(body="{"), Answer("fine")]) as server:
        assert ask(server, stream=stream, slept=slept).text == "fine"
    assert [round(seconds, 0) for seconds in (2 * s for s in slept)] == [1, 2, 4]


def test_retries_end() -> None:
    slept: list[float] = []
    with ChatServer(default=BROKEN) as server, pytest.raises(ModelError, match="attempt 3"):
        ask(server, retries=2, slept=slept)
    assert len(server.requests) == 3
    assert len(slept) == 2


@pytest.mark.parametrize("answer", [Answer(hang=True), Answer(trickle=True)], ids=["silent", "trickling"])
def test_time_out_is_for_the_whole_answer_and_retried_once(answer: Answer) -> None:
    with ChatServer(default=answer) as server, pytest.raises(ModelError, match=r"within 0\.1 s") as caught:
        ask(server, timeout=0.1)
    assert caught.value.retryable
    assert len(server.requests) == 2


def test_dead_endpoint_is_said_to_be_dead() -> None:
    with ChatServer() as server:
        pass
    with pytest.raises(ModelError, match="check that the server runs") as caught:
        ask(server, retries=1)
    assert caught.value.retryable


def test_retry_after_is_honoured() -> None:
    slept: list[float] = []
    slow = failure(429, "slow down", headers={"retry-after": "7"})
    with ChatServer([slow, failure(503, "busy", headers={"retry-after": "3"})]) as server:
        ask(server, slept=slept, retries=1)
    assert 6.9 < slept[0] < 7.8
    assert 3 <= slept[1] < 3.4


def test_rate_limits_outlast_the_retries_but_not_the_patience() -> None:
    with ChatServer([RATE_LIMITED] * 5) as server:
        assert ask(server, retries=0).text == "<answer>ok</answer>"
    (error,) = refusals([failure(429, "slow down", headers={"retry-after": "600"})], max_wait=60)
    assert "rate limit" in str(error)
    assert error.retryable
    with ChatServer(default=RATE_LIMITED) as server, pytest.raises(ModelError, match="rate limit"):
        ask(server, max_wait=3)
    assert len(server.requests) == 5  # a server that says "now" for ever is not asked for ever


def test_one_rate_limit_pauses_all_episodes() -> None:
    """32 episodes meet one limit: the one that was refused and all that had not started yet wait it out."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    async def main(server: ChatServer) -> list[Reply]:
        config = HttpConfig(MODEL, server.base_url, max_connections=1)
        async with HttpPolicy(config, sleep=sleep) as policy:
            return await asyncio.gather(*(policy.act(context()) for _ in range(8)))

    with ChatServer([failure(429, "slow down", headers={"retry-after": "30"})]) as server:
        assert len(asyncio.run(main(server))) == 8
        assert len(server.requests) == 9
    assert len(slept) == 8
    assert all(29 < seconds < 34 for seconds in slept)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
def test_retry_after_header(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


def test_retry_after_may_be_a_date() -> None:
    wait = retry_after({"retry-after": formatdate(time.time() + 90, usegmt=True)})
    assert wait is not None
    assert 85 < wait <= 90
    assert retry_after({"retry-after": formatdate(time.time() - 90, usegmt=True)}) == 0


def test_32_episodes_share_one_client() -> None:
    async def main(server: ChatServer) -> list[Reply]:
        async with HttpPolicy(HttpConfig(MODEL, server.base_url, max_connections=16)) as policy:
            first = await asyncio.gather(*(policy.act(context()) for _ in range(32)))
            second = await asyncio.gather(*(policy.act(context()) for _ in range(32)))
            return first + second

    with ChatServer(default=Answer(delay=0.02)) as server:
        replies = asyncio.run(main(server))
    assert {reply.text for reply in replies} == {"<answer>ok</answer>"}
    assert len(server.requests) == 64
    assert 2 <= server.peak <= 16
    assert server.connections <= 16


def test_queueing_does_not_count_as_time_out() -> None:
    async def main(server: ChatServer) -> None:
        config = HttpConfig(MODEL, server.base_url, max_connections=1, timeout=0.3, retries=0)
        async with HttpPolicy(config) as policy:
            await asyncio.gather(*(policy.act(context()) for _ in range(6)))

    with ChatServer(default=Answer(delay=0.06)) as server:
        asyncio.run(main(server))


def test_cancelled_turn_frees_its_slot() -> None:
    async def main(server: ChatServer) -> Reply:
        async with HttpPolicy(HttpConfig(MODEL, server.base_url, max_connections=1)) as policy:
            hanging = asyncio.create_task(policy.act(context()))
            await asyncio.to_thread(server.busy.wait, 5)
            hanging.cancel()
            with pytest.raises(asyncio.CancelledError):
                await hanging
            return await policy.act(context())

    with ChatServer([Answer(hang=True)]) as server:
        assert asyncio.run(main(server)).text == "<answer>ok</answer>"


def test_policy_works_in_one_event_loop_after_another(server: ChatServer) -> None:
    policy = HttpPolicy(HttpConfig(MODEL, server.base_url))

    async def main() -> str:
        async with policy:
            await policy.check()
            return (await policy.act(context())).text

    assert [asyncio.run(main()) for _ in range(2)] == ["<answer>ok</answer>"] * 2
    gc.collect()


def test_check_asks_for_one_token_and_fails_early(server: ChatServer) -> None:
    ask(server, check=True)
    assert server.requests[0]["max_tokens"] == 1
    slept: list[float] = []
    with ChatServer(default=BROKEN) as broken, pytest.raises(ModelError, match="internal error"):
        ask(broken, check=True, slept=slept)
    assert slept == []
    with ChatServer(key="sk-the-right-one") as locked, pytest.raises(ModelError, match="key"):
        ask(locked, check=True)


@pytest.mark.parametrize(
    "url", ["localhost:8000", "ftp://host/v1", "http://", "http://host:port/v1", "http://[::1/v1"]
)
def test_base_url_that_is_none_is_a_usage_error(url: str) -> None:
    with pytest.raises(UsageError, match="give it in full"):
        HttpPolicy(HttpConfig(MODEL, url))


def test_no_secret_in_config_messages_or_name(server: ChatServer) -> None:
    url = server.base_url.replace("http://", "http://user:pa55word@")
    policy = HttpPolicy(HttpConfig(MODEL, url))
    assert policy.secrets == (KEY, "pa55word")
    assert policy.base_url == server.base_url
    echo = failure(400, f"bad header {'x' * 153} Bearer {KEY}")  # the key straddles the cut of a long message
    with ChatServer(default=echo) as server, pytest.raises(ModelError) as caught:
        ask(server)
    assert KEY[:8] not in str(caught.value)
    assert "[secret]" in str(caught.value)
    assert KEY not in json.dumps([policy.name, repr(policy.config)])
