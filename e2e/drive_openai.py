"""Tests our loopback server for OpenAI's APIs with the official client.

usage: drive_openai.py <neuron-e2e program>
"""

import base64
import json
import struct
import sys

import openai
from driver import Driver
from openai._streaming import SSEDecoder
from openai.types import CreateEmbeddingResponse
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from openai.types.shared import ErrorObject
from report import equal, raised, valid
from servers import Servers
from spoiled import check_spoiled
from structure import problems

# The exception that the client raises for each of our errors, with status, type and code.
FAILURES = {
    "RateLimit": (openai.RateLimitError, 429, "requests", "rate_limit_exceeded"),
    "ServiceUnavailable": (
        openai.InternalServerError,
        503,
        "service_unavailable_error",
        "server_is_overloaded",
    ),
    "Authentication": (openai.AuthenticationError, 401, "invalid_request_error", "invalid_api_key"),
    "InvalidRequest": (openai.BadRequestError, 400, "invalid_request_error", None),
    "ModelNotFound": (openai.NotFoundError, 404, "invalid_request_error", "model_not_found"),
    "InsufficientResources": (
        openai.RateLimitError,
        429,
        "insufficient_quota",
        "insufficient_quota",
    ),
    "Timeout": (openai.InternalServerError, 504, "server_error", None),
    "Other": (openai.InternalServerError, 500, "server_error", None),
}

# The finish reasons of Chat Completions, by our stop reasons.
FINISH_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "refusal": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "content_filter": "content_filter",
}

# The reasons for an incomplete response in the Responses API, by our stop reasons.
INCOMPLETE = {"max_tokens": "max_output_tokens", "content_filter": "content_filter"}

# A field that compatible servers add to a message.
THOUGHTS = "reasoning_content"

# Fields that the server sends although the client has no type for them, by the end of their path,
# with the reason. An entry that is not needed is an error.
NOT_TYPED = {
    f"message.{THOUGHTS}": "of compatible servers",
    f"delta.{THOUGHTS}": "of compatible servers",
    "delta.annotations": "the message's type has it, and its delta's has not",
    "obfuscation": "hides the length of a delta; only the chunks of a chat have it",
    "store": "an answer repeats it as it does the other settings",
}

# The exception that the client's stream helper raises for a truncated response.
CUT_OFF = {
    "max_tokens": openai.LengthFinishReasonError,
    "content_filter": openai.ContentFilterFinishReasonError,
}


class OpenAi(Driver):
    def __init__(self, servers):
        super().__init__(servers)
        self.excuses = set()
        # Requests whose parts the server all accepts.
        self.chat_question = {
            "model": servers.model,
            "messages": [{"role": "user", "content": "Go on."}],
        }
        self.question = {"model": servers.model, "input": "Go on."}

    def client(self, case, key=None):
        return openai.OpenAI(
            api_key=key or self.servers.key, base_url=case["url"] + "/v1", max_retries=0, timeout=60
        )

    def answer(self, case):
        if "chat" in case["means"]["apis"]:
            self.chat_answer(case)
        if "responses" in case["means"]["apis"]:
            self.responses_answer(case)

    def after_all(self):
        with self.report.case("the list of what is not typed"):
            equal(set(NOT_TYPED) - self.excuses, set(), "excuses that nothing needs")

    def chat_answer(self, case):
        """Requests one response of Chat Completions in three ways.

        It is requested as a whole, as events, and through the client's stream helper.
        """
        means, name = case["means"]["answer"], case["case"]
        chat = self.client(case).chat.completions
        with_usage = {"stream_options": {"include_usage": True}}

        with self.report.case(f"chat: {name}, whole"):
            response = chat.with_raw_response.create(**self.chat_question)
            check_headers(response.headers, "application/json")
            self.check_type(json.loads(response.text), ChatCompletion, "the answer")
            check_completion(response.parse(), means)

        with self.report.case(f"chat: {name}, as events"):
            question = {**self.chat_question, "stream": True, **with_usage}
            with chat.with_streaming_response.create(**question) as response:
                check_headers(response.headers, "text/event-stream")
                events = list(SSEDecoder().iter_bytes(response.http_response.iter_bytes()))
            self.check_chunks(events)

        with self.report.case(f"chat: {name}, through the stream helper"):
            with chat.stream(**self.chat_question, **with_usage) as stream:
                texts = "".join(event.delta for event in stream if event.type == "content.delta")
                if means["stop_reason"] in CUT_OFF:
                    error = raised(stream.get_final_completion)
                    assert isinstance(error, CUT_OFF[means["stop_reason"]]), repr(error)
                    completion = error.completion
                else:
                    completion = stream.get_final_completion()
            check_completion(completion, means)
            equal(texts, text_of(means), "the texts of the stream")

    def responses_answer(self, case):
        """Requests one response of the Responses API in the same three ways."""
        means, name = case["means"]["answer"], case["case"]
        responses = self.client(case).responses

        with self.report.case(f"responses: {name}, whole"):
            response = responses.with_raw_response.create(**self.question)
            check_headers(response.headers, "application/json")
            self.check_type(json.loads(response.text), Response, "the answer")
            check_response(response.parse(), means)

        with self.report.case(f"responses: {name}, as events"):
            with responses.with_streaming_response.create(**self.question, stream=True) as response:
                check_headers(response.headers, "text/event-stream")
                events = list(SSEDecoder().iter_bytes(response.http_response.iter_bytes()))
            self.check_response_events(events)

        with self.report.case(f"responses: {name}, through the stream helper"):
            with responses.stream(**self.question) as stream:
                texts, final = [], None
                for event in stream:
                    if event.type == "response.output_text.delta":
                        texts.append(event.delta)
                    elif event.type in ("response.completed", "response.incomplete"):
                        final = event.response
            check_response(final, means)
            equal("".join(texts), text_of(means), "the texts of the stream")

    def failure(self, case):
        """Checks an error in place of a response.

        Chat Completions is called without a stream, and the Responses API with a stream.
        """
        means = case["means"]
        for stream in (False, True):
            with self.report.case(f"{case['case']}, {'streamed' if stream else 'whole'}"):
                client = self.client(case)
                if stream:
                    call = lambda: client.responses.create(**self.question, stream=True)
                else:
                    call = lambda: client.chat.completions.create(**self.chat_question)
                error = raised(call)
                check_error(error, *FAILURES[means["failure"]])
                delay = error.response.headers.get("retry-after")
                equal(delay and float(delay), means["retry_after"], "the delay")

    def broken(self, case):
        """Checks a stream that breaks after some of its text."""
        means = case["means"]
        api = means["api"]
        with self.report.case(case["case"]):
            texts = []

            def read():
                client = self.client(case)
                if api == "chat":
                    for chunk in client.chat.completions.create(**self.chat_question, stream=True):
                        texts.extend(choice.delta.content or "" for choice in chunk.choices)
                else:
                    for event in client.responses.create(**self.question, stream=True):
                        if event.type == "response.output_text.delta":
                            texts.append(event.delta)
                        # The client does not raise an exception for these events.
                        if event.type in ("error", "response.failed"):
                            raise Told(event)

            error = raised(read)
            read_text = "".join(texts)
            assert read_text and means["of"].startswith(read_text), f"read {read_text!r}"
            assert read_text != means["of"], "the whole text came"
            if means["break"] == "Network":
                assert not isinstance(error, (openai.APIStatusError, Told)), repr(error)
                return
            assert isinstance(error, (openai.APIError, Told)), repr(error)
            if isinstance(error, openai.APIError):
                valid(problems(error.body, ErrorObject), "the error")
                equal(error.type, FAILURES.get(means["break"], FAILURES["Other"])[2], "the type")

    def embeddings(self, case):
        """Checks vectors as numbers and in base64."""
        means = case["means"]
        question = {"model": self.servers.model, "input": means["input"]}
        client = self.client(case)
        with self.report.case(f"{case['case']}, as the client likes"):
            answer = client.embeddings.create(**question)
            equal(
                [each.index for each in answer.data], list(range(len(answer.data))), "the indices"
            )
            equal([each.embedding for each in answer.data], means["embeddings"], "the vectors")
            equal(answer.usage.prompt_tokens, means["prompt_tokens"], "the tokens")
            equal(answer.model, self.servers.model, "the model")
        with self.report.case(f"{case['case']}, as numbers"):
            response = client.embeddings.with_raw_response.create(
                **question, encoding_format="float"
            )
            body = json.loads(response.text)
            valid(problems(body, CreateEmbeddingResponse), "the answer")
            equal([each["embedding"] for each in body["data"]], means["embeddings"], "the vectors")
        with self.report.case(f"{case['case']}, in base64"):
            response = client.embeddings.with_raw_response.create(
                **question, encoding_format="base64"
            )
            body = json.loads(response.text)
            vectors = [floats(each["embedding"]) for each in body["data"]]
            equal(vectors, means["embeddings"], "the vectors")

    def right_requests(self):
        """Checks that the server accepts all requests that the client can send."""
        case = self.servers.named("valid requests are accepted")
        client = self.client(case)
        chat, responses = right_chat_requests(), right_requests()
        with self.report.case("the number of right requests"):
            equal(len(chat) + len(responses), case["replies"], "requests and replies")
        for name, more in chat.items():
            with self.report.case(f"right for chat: {name}"):
                answer = client.chat.completions.create(**{**self.chat_question, **more})
                equal(answer.choices[0].message.content, "ok", "the answer")
        for name, more in responses.items():
            with self.report.case(f"right for responses: {name}"):
                answer = client.responses.create(**{**self.question, **more})
                equal(answer.output_text, "ok", "the answer")

    def wrong_requests(self):
        case = self.servers.named("invalid requests are rejected")
        call = {"id": "call_1", "type": "function", "function": {"name": "now", "arguments": "{}"}}
        asked = self.chat_question["messages"]
        unanswered = [*asked, {"role": "assistant", "tool_calls": [call]}]
        wrong_chat = {
            "a wrong key": ("Authentication", {}, "wrong"),
            "an unknown model": ("ModelNotFound", {"model": "no-such-model"}, None),
            "an unknown field": ("InvalidRequest", {"extra_body": {"max_token": 5}}, None),
            "no messages": ("InvalidRequest", {"messages": []}, None),
            "a call without a result": (
                "InvalidRequest",
                {"messages": [*unanswered, {"role": "user", "content": "And?"}]},
                None,
            ),
            "a result of no call": (
                "InvalidRequest",
                {"messages": [*asked, {"role": "tool", "tool_call_id": "x", "content": "noon"}]},
                None,
            ),
        }
        output = {"type": "function_call_output", "call_id": "call_2", "output": "noon"}
        wrong = {
            "a wrong key": ("Authentication", {}, "wrong"),
            "an unknown model": ("ModelNotFound", {"model": "no-such-model"}, None),
            "an unknown field": ("InvalidRequest", {"extra_body": {"max_tokens": 5}}, None),
            "a result of no call": ("InvalidRequest", {"input": [output]}, None),
        }
        for name, (failure, more, key) in wrong_chat.items():
            with self.report.case(f"wrong for chat: {name}"):
                question = {**self.chat_question, **more}
                client = self.client(case, key)
                error = raised(lambda: client.chat.completions.create(**question))
                check_refusal(error, FAILURES[failure])
        for name, (failure, more, key) in wrong.items():
            with self.report.case(f"wrong for responses: {name}"):
                question = {**self.question, **more}
                client = self.client(case, key)
                error = raised(lambda: client.responses.create(**question))
                check_refusal(error, FAILURES[failure])

    def spoiled_answers(self):
        """Checks that the strict check of responses finds mistakes."""
        right = {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": "hi", "refusal": None},
                    "logprobs": None,
                    "finish_reason": "stop",
                }
            ],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }
        choice = lambda it: it["choices"][0]
        spoiled = {
            "an unknown key": (
                lambda it: choice(it)["message"].update(text="hi"),
                "choices.0.message.text",
            ),
            "a missing key": (lambda it: it["usage"].pop("total_tokens"), "usage.total_tokens"),
            "a wrong word": (
                lambda it: choice(it).update(finish_reason="end_turn"),
                "choices.0.finish_reason",
            ),
            "a wrong type": (lambda it: it.update(created="today"), "created"),
        }
        check_spoiled(self.report, right, ChatCompletion, spoiled)

    def check_type(self, value, expected, what):
        """Checks that a value has the client's type, except for the fields in `NOT_TYPED`."""
        found = problems(value, expected)
        valid([problem for problem in found if not self.excuse(problem)], what)

    def excuse(self, problem):
        for end in NOT_TYPED:
            if problem.text == "is not known" and f".{problem.path}".endswith(f".{end}"):
                self.excuses.add(end)
                return True
        return False

    def check_chunks(self, events):
        equal(events[-1].data, "[DONE]", "the last line")
        chunks = [event.json() for event in events[:-1]]
        for index, chunk in enumerate(chunks):
            equal(events[index].event, None, "the name of an event")
            self.check_type(chunk, ChatCompletionChunk, f"chunk {index}")
        first, *_, last_choice, usage = chunks
        equal(first["choices"][0]["delta"]["role"], "assistant", "the role of the first chunk")
        assert last_choice["choices"][0]["finish_reason"], (
            "the last choice does not say why it ends"
        )
        equal(usage["choices"], [], "the choices of the chunk with the usage")
        assert usage["usage"], "there is no usage"
        equal(
            [chunk.get("usage") for chunk in chunks[:-1]], [None] * (len(chunks) - 1), "other usage"
        )

    def check_response_events(self, events):
        data = [event.json() for event in events if event.data != "[DONE]"]
        for index, (event, fields) in enumerate(zip(events, data)):
            equal(event.event, fields["type"], "the name of the event")
            equal(fields["sequence_number"], index, "the number of the event")
            self.check_type(fields, ResponseStreamEvent, f"event {index}")
        names = [fields["type"] for fields in data]
        equal(names[:2], ["response.created", "response.in_progress"], "the first events")
        assert names[-1] in ("response.completed", "response.incomplete"), (
            f"it ends with {names[-1]}"
        )
        added = [
            item["output_index"] for item in data if item["type"] == "response.output_item.added"
        ]
        done = [
            item["output_index"] for item in data if item["type"] == "response.output_item.done"
        ]
        equal(done, added, "the items that are done")
        equal(added, list(range(len(data[-1]["response"]["output"]))), "the items")


class Told(Exception):
    """An event that reports an error."""


def right_chat_requests():
    """Returns requests in the client's own types, with each part that our server has a rule for."""
    tool = {
        "type": "function",
        "function": {
            "name": "now",
            "description": "Returns the time",
            "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
            "strict": True,
        },
    }
    call = {"id": "call_1", "type": "function", "function": {"name": "now", "arguments": "{}"}}
    asked = {"role": "user", "content": "What time is it?"}
    text = {"type": "text", "text": "What is this?"}
    image = {"url": "data:image/png;base64,iVBORw0KGgo=", "detail": "low"}
    file = {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0xLjQK"}
    schema = {
        "name": "city",
        "schema": {"type": "object"},
        "strict": False,
        "description": "A city",
    }
    return {
        "every role": {
            "messages": [
                {"role": "developer", "content": "Be brief."},
                {"role": "system", "content": [{"type": "text", "text": "Be kind."}]},
                {**asked, "name": "Ada"},
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "call_1", "content": "noon"},
                {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
                {"role": "user", "content": "And?"},
            ],
            "tools": [tool],
        },
        "an image and a file": {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "image_url", "image_url": image},
                        {"type": "file", "file": file},
                        text,
                    ],
                }
            ]
        },
        "a choice of tools": {
            "tools": [tool],
            "tool_choice": {"type": "function", "function": {"name": "now"}},
            "parallel_tool_calls": False,
        },
        "an answer of a schema": {
            "response_format": {"type": "json_schema", "json_schema": schema}
        },
        "options": {
            "max_completion_tokens": 100,
            "temperature": 1,
            "top_p": 0.5,
            "stop": ["END"],
            "seed": 1,
            "presence_penalty": 0.5,
            "frequency_penalty": -0.5,
            "logprobs": True,
            "top_logprobs": 2,
            "n": 1,
        },
        "newer options": {
            "reasoning_effort": "xhigh",
            "verbosity": "low",
            "service_tier": "flex",
            "store": True,
            "metadata": {"a": "b"},
            "safety_identifier": "u1",
            "prompt_cache_key": "k",
        },
    }


def right_requests():
    tool = {
        "type": "function",
        "name": "now",
        "description": "Returns the time",
        "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
        "strict": True,
    }
    call = {"type": "function_call", "call_id": "call_1", "name": "now", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "call_1", "output": "noon"}
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "ZW5j"}
    message = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "Hello.", "annotations": []}],
    }
    image = {
        "type": "input_image",
        "image_url": "data:image/png;base64,iVBORw0KGgo=",
        "detail": "auto",
    }
    return {
        "items": {
            "input": [
                {"role": "developer", "content": "Be kind."},
                {"role": "user", "content": [image, {"type": "input_text", "text": "hi"}]},
                reasoning,
                message,
                {"role": "user", "content": "What time is it?"},
                call,
                result,
            ],
            "tools": [tool],
            "tool_choice": "auto",
        },
        "options": {
            "instructions": "Be brief.",
            "max_output_tokens": 100,
            "reasoning": {"effort": "high", "summary": "auto"},
            "include": ["reasoning.encrypted_content"],
            "store": False,
            "metadata": {"a": "b"},
            "parallel_tool_calls": False,
            "truncation": "auto",
        },
        "an answer of a schema": {
            "text": {
                "format": {
                    "type": "json_schema",
                    "name": "city",
                    "schema": {"type": "object"},
                    "strict": False,
                }
            }
        },
        "a choice of tools": {"tools": [tool], "tool_choice": {"type": "function", "name": "now"}},
        "a tool of the vendor's": {"tools": [{"type": "web_search"}]},
    }


def meant_blocks(means):
    """Returns the expected blocks. Raw blocks are replaced by their portable form."""
    blocks = means["message"]["content"]
    portable = [block.get("portable") if block["type"] == "raw" else block for block in blocks]
    return [block for block in portable if block]


def text_of(means):
    """Returns the expected text, which is empty for a refusal."""
    if means["stop_reason"] == "refusal":
        return ""
    return "".join(block["text"] for block in meant_blocks(means) if block["type"] == "text")


def calls_of(means):
    calls = [block for block in meant_blocks(means) if block["type"] == "tool_use"]
    return [(call["id"], call["name"], call["input"]) for call in calls]


def arguments(text):
    """Parses arguments into our form. Arguments that are not valid JSON keep their text."""
    try:
        return json.loads(text)
    except ValueError:
        return {"invalid_json": text}


def check_completion(completion, means):
    equal(completion.id, means["id"], "the id")
    equal(completion.model, means["model"], "the model")
    [choice] = completion.choices
    equal(choice.finish_reason, FINISH_REASONS[means["stop_reason"]], "the finish reason")
    equal(choice.message.role, "assistant", "the role")
    equal(choice.message.content or "", text_of(means), "the text")
    calls = choice.message.tool_calls or []
    called = [(call.id, call.function.name, arguments(call.function.arguments)) for call in calls]
    equal(called, calls_of(means), "the calls")
    blocks = means["message"]["content"]
    thoughts = "".join(block["thinking"] for block in blocks if block["type"] == "thinking")
    equal(getattr(choice.message, THOUGHTS, None) or "", thoughts, "the thoughts")
    is_refusal = means["stop_reason"] == "refusal"
    refusal = "".join(block["text"] for block in blocks if is_refusal)
    equal(choice.message.refusal or "", refusal, "the refusal")
    message = choice.message.model_dump(mode="json", exclude_unset=True)
    for block in blocks:
        if block["type"] == "raw":
            fields = {key: value for key, value in block["json"].items() if key != "type"}
            assert contains(message, fields), f"{fields} did not come"

    usage, meant = completion.usage, means["usage"]
    equal(usage.prompt_tokens, meant["input_tokens"], "the prompt's tokens")
    equal(usage.completion_tokens, meant["output_tokens"], "the answer's tokens")
    equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens, "all tokens")
    details = usage.prompt_tokens_details
    check_count(details and details.cached_tokens, meant.get("cache_read_tokens"), "read")
    check_count(
        details and details.cache_write_tokens, meant.get("cache_creation_tokens"), "written"
    )
    details = usage.completion_tokens_details
    check_count(details and details.reasoning_tokens, meant.get("reasoning_tokens"), "thought")


def check_response(response, means):
    equal(response.id, means["id"], "the id")
    equal(response.model, means["model"], "the model")
    reason = INCOMPLETE.get(means["stop_reason"])
    equal(response.status, "incomplete" if reason else "completed", "the status")
    details = response.incomplete_details
    equal(details and details.reason, reason, "why it is incomplete")
    equal(response.output_text, text_of(means), "the text")
    calls = [item for item in response.output if item.type == "function_call"]
    called = [(call.call_id, call.name, arguments(call.arguments)) for call in calls]
    equal(called, calls_of(means), "the calls")
    raw = [block["json"] for block in means["message"]["content"] if block["type"] == "raw"]
    items = [item.model_dump(mode="json", exclude_unset=True) for item in response.output]
    missing = [item for item in raw if not any(contains(each, item) for each in items)]
    equal(missing, [], "items that did not come")

    usage, meant = response.usage, means["usage"]
    equal(usage.input_tokens, meant["input_tokens"], "the prompt's tokens")
    equal(usage.output_tokens, meant["output_tokens"], "the answer's tokens")
    equal(usage.total_tokens, usage.input_tokens + usage.output_tokens, "all tokens")
    details = usage.input_tokens_details
    check_count(details.cached_tokens, meant.get("cache_read_tokens"), "read")
    check_count(details.cache_write_tokens, meant.get("cache_creation_tokens"), "written")
    check_count(
        usage.output_tokens_details.reasoning_tokens, meant.get("reasoning_tokens"), "thought"
    )


def contains(whole, part):
    """Returns true if `whole` contains everything in `part`."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            key in whole and contains(whole[key], value) for key, value in part.items()
        )
    if isinstance(part, list):
        return (
            isinstance(whole, list) and len(whole) == len(part) and all(map(contains, whole, part))
        )
    return whole == part


def check_count(found, meant, what):
    """Checks a count. An unknown count is missing or null."""
    equal(found or 0, meant or 0, f"the tokens {what}")


def check_headers(headers, content_type):
    found = headers["content-type"]
    assert found.startswith(content_type), f"the content type is {found}"
    assert headers["x-request-id"], "no request id"


def check_error(error, kind, status, word, code):
    check_refusal(error, (kind, status, word, code))
    equal((error.type, error.code), (word, code), "type and code")


def check_refusal(error, expected):
    """Checks an error, but not its code, which may be more specific than expected."""
    kind, status, word, _ = expected
    assert isinstance(error, kind), f"{type(error).__name__} was raised: {error}"
    equal(error.status_code, status, "the status")
    equal(error.type, word, "the type of the error")
    assert error.request_id, "no request id"
    valid(problems(error.body, ErrorObject), "the error")
    assert error.body["message"], "no message"


def floats(text):
    """Decodes base64 of little-endian floats of four bytes."""
    data = base64.b64decode(text)
    return list(struct.unpack(f"<{len(data) // 4}f", data))


if __name__ == "__main__":
    OpenAi(Servers(sys.argv[1], "openai")).run()
