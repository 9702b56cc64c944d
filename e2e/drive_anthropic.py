"""Tests our loopback server for Anthropic's API with the official client.

usage: drive_anthropic.py <neuron-e2e program>
"""

import json
import sys

import anthropic
from anthropic.types import ErrorResponse, Message, RawMessageStreamEvent
from anthropic.types.beta import BetaMessage, BetaRawMessageStreamEvent
from driver import Driver
from report import equal, raised, valid
from servers import Servers
from spoiled import check_spoiled
from structure import problems

# The exception that the client raises for each of our errors, with status and type.
FAILURES = {
    "RateLimit": (anthropic.RateLimitError, 429, "rate_limit_error"),
    "ServiceUnavailable": (anthropic.OverloadedError, 529, "overloaded_error"),
    "Authentication": (anthropic.AuthenticationError, 401, "authentication_error"),
    "InvalidRequest": (anthropic.BadRequestError, 400, "invalid_request_error"),
    "ModelNotFound": (anthropic.NotFoundError, 404, "not_found_error"),
    "InsufficientResources": (anthropic.PaymentRequiredError, 402, "billing_error"),
    "Timeout": (anthropic.GatewayTimeoutError, 504, "timeout_error"),
    "Other": (anthropic.InternalServerError, 500, "api_error"),
}

# Stop reasons for which the vendor has another word.
STOP_REASONS = {"context_window_exceeded": "model_context_window_exceeded"}

# Beta features of the responses that only the beta types have.
BETAS = ["compact-2026-01-12"]


class Anthropic(Driver):
    def __init__(self, servers):
        super().__init__(servers)
        # A request whose parts the server all accepts.
        self.question = {
            "model": servers.model,
            "max_tokens": 1000,
            "messages": [{"role": "user", "content": "Go on."}],
        }

    def client(self, case, key=None):
        return anthropic.Anthropic(
            api_key=key or self.servers.key, base_url=case["url"], max_retries=0, timeout=60
        )

    def answer(self, case):
        """Requests one response as a whole, as events, and through the client's stream helper."""
        means, beta = case["means"]["answer"], case["means"]["beta"]
        client = self.client(case)
        messages = client.beta.messages if beta else client.messages
        question = {**self.question, **({"betas": BETAS} if beta else {})}
        message_type, event_type = (
            (BetaMessage, BetaRawMessageStreamEvent) if beta else (Message, RawMessageStreamEvent)
        )

        with self.report.case(f"{case['case']}, whole"):
            response = messages.with_raw_response.create(**question)
            check_headers(response.headers, "application/json")
            valid(problems(json.loads(response.text()), message_type), "the answer")
            check_message(response.parse(), means)

        with self.report.case(f"{case['case']}, as events"):
            with messages.with_streaming_response.create(**question, stream=True) as response:
                check_headers(response.headers, "text/event-stream")
                events = anthropic.Stream.raw_events(response.http_response)
                check_events(list(events), event_type)

        with self.report.case(f"{case['case']}, through the stream helper"):
            with messages.stream(**question) as stream:
                texts = "".join(stream.text_stream)
                message = stream.get_final_message()
            check_message(message, means)
            said = [block["text"] for block in means["message"]["content"] if "text" in block]
            equal(texts, "".join(said), "the texts of the stream")

    def failure(self, case):
        """Checks an error in place of a response, with and without a stream."""
        means = case["means"]
        kind, status, word = FAILURES[means["failure"]]
        for stream in (False, True):
            with self.report.case(f"{case['case']}, {'streamed' if stream else 'whole'}"):
                error = raised(
                    lambda: self.client(case).messages.create(**self.question, stream=stream)
                )
                check_error(error, kind, status, word)
                delay = error.response.headers.get("retry-after")
                equal(delay and float(delay), means["retry_after"], "the delay")
                own_text = error.body["error"]["message"].removeprefix("model: ")
                says_it = means["text"].endswith(own_text) or own_text.startswith("the ")
                assert says_it, f"{own_text!r} does not say {means['text']!r}"

    def broken(self, case):
        """Checks a stream that breaks after some of its text."""
        means = case["means"]
        with self.report.case(case["case"]):
            texts = []

            def read():
                with self.client(case).messages.stream(**self.question) as stream:
                    texts.extend(stream.text_stream)

            error = raised(read)
            read_text = "".join(texts)
            assert read_text and means["of"].startswith(read_text), f"read {read_text!r}"
            assert read_text != means["of"], "the whole text came"
            if means["break"] == "Network":
                assert not isinstance(error, anthropic.APIStatusError), repr(error)
                return
            word = FAILURES.get(means["break"], FAILURES["Other"])[2]
            assert isinstance(error, anthropic.APIStatusError), repr(error)
            equal(error.type, word, "the type of the error")
            valid(problems(error.body, ErrorResponse), "the error")

    def right_requests(self):
        """Checks that the server accepts all requests that the client can send."""
        case = self.servers.named("valid requests are accepted")
        requests = right_requests()
        with self.report.case("the number of right requests"):
            equal(len(requests), case["replies"], "requests and replies")
        for name, (beta, more) in requests.items():
            with self.report.case(f"right: {name}"):
                client = self.client(case)
                messages = client.beta.messages if beta else client.messages
                message = messages.create(**{**self.question, **more})
                equal(message.content[0].text, "ok", "the answer")

    def wrong_requests(self):
        case = self.servers.named("invalid requests are rejected")
        call = {"type": "tool_use", "id": "call_1", "name": "now", "input": {}}
        result = {"type": "tool_result", "tool_use_id": "call_2", "content": "noon"}
        asked = self.question["messages"]
        unanswered = [*asked, {"role": "assistant", "content": [call]}]
        wrong = {
            "a wrong key": ("Authentication", {}, "wrong"),
            "an unknown model": ("ModelNotFound", {"model": "no-such-model"}, None),
            "an unknown field": ("InvalidRequest", {"extra_body": {"max_token": 5}}, None),
            "a temperature": ("InvalidRequest", {"extra_body": {"temperature": 0.5}}, None),
            "no messages": ("InvalidRequest", {"messages": []}, None),
            "a call without a result": (
                "InvalidRequest",
                {"messages": [*unanswered, {"role": "user", "content": "And?"}]},
                None,
            ),
            "a result of another call": (
                "InvalidRequest",
                {"messages": [*unanswered, {"role": "user", "content": [result]}]},
                None,
            ),
            "an edit without its beta": (
                "InvalidRequest",
                {"extra_body": {"context_management": {"edits": [{"type": "compact_20260112"}]}}},
                None,
            ),
        }
        for name, (failure, more, key) in wrong.items():
            with self.report.case(f"wrong: {name}"):
                question = {**self.question, **more}
                error = raised(lambda: self.client(case, key).messages.create(**question))
                check_error(error, *FAILURES[failure])

    def spoiled_answers(self):
        """Checks that the strict check of responses finds mistakes."""
        usage = {"input_tokens": 1, "output_tokens": 1}
        right = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [{"type": "text", "text": "hi", "citations": None}],
            "stop_reason": "end_turn",
            "usage": usage,
        }
        spoiled = {
            "an unknown key": (lambda it: it["content"][0].update(txt="hi"), "content.0.txt"),
            "a missing key": (lambda it: it["usage"].pop("input_tokens"), "usage.input_tokens"),
            "a wrong word": (lambda it: it.update(stop_reason="stop"), "stop_reason"),
            "a wrong type": (lambda it: it["content"][0].update(text=5), "content.0.text"),
            "an unknown block": (lambda it: it["content"][0].update(type="txt"), "content.0.type"),
        }
        check_spoiled(self.report, right, Message, spoiled)


def right_requests():
    """Returns requests in the client's own types, with each part that our server has a rule for."""
    tool = {
        "name": "now",
        "description": "Returns the time",
        "input_schema": {"type": "object", "properties": {"zone": {"type": "string"}}},
    }
    call = {"type": "tool_use", "id": "call_1", "name": "now", "input": {"zone": "UTC"}}
    cache = {"type": "ephemeral", "ttl": "1h"}
    pixel = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    pdf = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjQK"}

    def user(*content):
        return [{"role": "user", "content": list(content)}]

    def text(text):
        return {"type": "text", "text": text}

    def after_call(*content):
        result = {"type": "tool_result", "tool_use_id": "call_1", "content": list(content)}
        return [
            *user(text("What time is it?")),
            {"role": "assistant", "content": [text("Let me see."), call]},
            *user(result, text("Briefly.")),
        ]

    stable = {
        "a system prompt in blocks": {"system": [{**text("Be brief."), "cache_control": cache}]},
        "tools and a choice": {
            "tools": [{**tool, "strict": True, "type": "custom", "cache_control": cache}],
            "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
        },
        "a tool of the vendor's": {
            "tools": [{"type": "web_search_20250305", "name": "web_search"}]
        },
        "a result with an image": {
            "tools": [tool],
            "messages": after_call(text("noon"), {"type": "image", "source": pixel}),
        },
        "an image and documents": {
            "messages": user(
                {"type": "image", "source": pixel, "cache_control": cache},
                {"type": "image", "source": {"type": "url", "url": "https://images.example/a.png"}},
                {"type": "document", "source": pdf, "title": "A", "citations": {"enabled": True}},
                {
                    "type": "document",
                    "source": {"type": "text", "media_type": "text/plain", "data": "One."},
                },
                text("What is this?"),
            )
        },
        "a search result": {
            "messages": user(
                {
                    "type": "search_result",
                    "source": "https://weather.example",
                    "title": "Weather",
                    "content": [text("sunny")],
                },
                text("So?"),
            )
        },
        "thoughts": {
            "thinking": {"type": "adaptive", "display": "summarized"},
            "messages": [
                *user(text("hi")),
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "", "signature": "c2ln"},
                        {"type": "redacted_thinking", "data": "ZW5j"},
                        text("Hello."),
                    ],
                },
                *user(text("And?")),
            ],
        },
        "thinking with a budget": {
            "max_tokens": 4000,
            "thinking": {"type": "enabled", "budget_tokens": 1024},
        },
        "an answer of a schema": {
            "output_config": {
                "effort": "max",
                "format": {"type": "json_schema", "schema": {"type": "object"}},
            }
        },
        "stop sequences": {"stop_sequences": ["END", "STOP"]},
        "small things": {
            "metadata": {"user_id": "u1"},
            "service_tier": "standard_only",
            "inference_geo": "us",
            "cache_control": {"type": "ephemeral"},
        },
        "a system message within": {
            "messages": [
                *user(text("hi")),
                {"role": "assistant", "content": "Hello."},
                {"role": "system", "content": "It is Monday."},
                *user(text("And?")),
            ]
        },
    }
    beta = {
        "all edits": {
            "betas": ["compact-2026-01-12", "context-management-2025-06-27"],
            "context_management": {
                "edits": [
                    {
                        "type": "clear_thinking_20251015",
                        "keep": {"type": "thinking_turns", "value": 2},
                    },
                    {
                        "type": "clear_tool_uses_20250919",
                        "trigger": {"type": "tool_uses", "value": 9},
                        "keep": {"type": "tool_uses", "value": 3},
                        "clear_at_least": {"type": "input_tokens", "value": 5000},
                        "exclude_tools": ["now"],
                        "clear_tool_inputs": True,
                    },
                    {
                        "type": "compact_20260112",
                        "trigger": {"type": "input_tokens", "value": 60000},
                        "pause_after_compaction": True,
                        "instructions": "Be brief.",
                    },
                ]
            },
        },
        "a summary": {
            "betas": BETAS,
            "messages": [
                *user(text("hi")),
                {
                    "role": "assistant",
                    "content": [{"type": "compaction", "content": "They met."}, text("Hello.")],
                },
                *user(text("And?")),
            ],
        },
    }
    return {
        **{name: (False, request) for name, request in stable.items()},
        **{name: (True, request) for name, request in beta.items()},
    }


def check_message(message, means):
    equal(message.id, means["id"], "the id")
    equal(message.model, means["model"], "the model")
    equal(message.role, "assistant", "the role")
    reason = STOP_REASONS.get(means["stop_reason"], means["stop_reason"])
    equal(message.stop_reason, reason, "the stop reason")
    equal([meaning(block) for block in message.content], means["message"]["content"], "the content")
    check_usage(message.usage, means["usage"])


def meaning(block):
    """Returns a block of the client in our form."""
    fields = block.model_dump(mode="json", exclude_unset=True)
    # The stream helper adds these fields.
    for key in ("parsed_output", "encrypted_content"):
        if fields.get(key, ...) is None:
            del fields[key]
    if block.type in ("text", "tool_use", "thinking", "redacted_thinking", "compaction"):
        return fields
    return {"type": "raw", "provider": "anthropic", "json": fields}


def check_usage(usage, means):
    """Checks token counts.

    The vendor's prompt tokens exclude cached tokens, and its totals exclude summaries.
    """
    cached = (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)
    prompt, answer = usage.input_tokens + cached, usage.output_tokens
    passes = getattr(usage, "iterations", None) or []
    for each in passes:
        if each.type == "compaction":
            prompt, answer = prompt + each.input_tokens, answer + each.output_tokens
    equal(prompt, means["input_tokens"], "the prompt's tokens")
    equal(answer, means["output_tokens"], "the answer's tokens")
    equal(usage.cache_read_input_tokens, means.get("cache_read_tokens"), "the tokens read")
    equal(
        usage.cache_creation_input_tokens, means.get("cache_creation_tokens"), "the tokens written"
    )
    details = getattr(usage, "output_tokens_details", None)
    equal(
        details and details.thinking_tokens, means.get("reasoning_tokens"), "the thoughts' tokens"
    )
    equal(
        [each.type for each in passes],
        [each["kind"] for each in means.get("iterations") or []],
        "passes",
    )


def check_events(events, event_type):
    """Checks that every event has a type of the client, and that the vendor's order is kept."""
    names = []
    for event in events:
        data = event.json()
        equal(event.event, data["type"], "the name of the event")
        if data["type"] == "ping":
            # The client has no type for a ping.
            equal(data, {"type": "ping"}, "a ping")
            continue
        valid(problems(data, event_type), f"event {len(names)}")
        names.append(data["type"])
    equal(names[0], "message_start", "the first event")
    equal(names[-2:], ["message_delta", "message_stop"], "the last events")
    equal(names.count("content_block_start"), names.count("content_block_stop"), "ends of blocks")


def check_headers(headers, content_type):
    found = headers["content-type"]
    assert found.startswith(content_type), f"the content type is {found}"
    assert headers["request-id"].startswith("req_"), "no request id"


def check_error(error, kind, status, word):
    assert isinstance(error, kind), f"{type(error).__name__} was raised: {error}"
    equal(error.status_code, status, "the status")
    equal(error.type, word, "the type of the error")
    assert error.request_id.startswith("req_"), "no request id"
    valid(problems(error.body, ErrorResponse), "the error")


if __name__ == "__main__":
    Anthropic(Servers(sys.argv[1], "anthropic")).run()
