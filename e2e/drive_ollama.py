"""Tests our loopback server for Ollama's API with the official client.

usage: drive_ollama.py <neuron-e2e program>
"""

import json
import re
import sys

import httpx
import ollama
from driver import Driver
from ollama import ChatResponse, EmbedResponse
from report import equal, raised, valid
from servers import Servers
from spoiled import check_spoiled
from structure import problems

# The status of each of our errors.
FAILURES = {
    "RateLimit": 429,
    "ServiceUnavailable": 503,
    "Authentication": 401,
    "InvalidRequest": 400,
    "ModelNotFound": 404,
    "InsufficientResources": 402,
    "Timeout": 504,
    "Other": 500,
}

# Fields that the server sends and that version 0.6.3 of the client does not know.
NOT_KNOWN = {"id", "index"}

# The format of RFC 3339.
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")

DONE_REASONS = {"end_turn": "stop", "tool_use": "stop", "max_tokens": "length"}


class Ollama(Driver):
    def __init__(self, servers):
        super().__init__(servers)
        self.question = {
            "model": servers.model,
            "messages": [{"role": "user", "content": "Go on."}],
        }

    def client(self, case):
        return ollama.Client(host=case["url"], timeout=60)

    def answer(self, case):
        """Requests one response as a whole, as lines, and through the client's stream."""
        means, name = case["means"]["answer"], case["case"]

        with self.report.case(f"{name}, whole"):
            with httpx.Client() as http:
                body = {**self.question, "stream": False}
                response = http.post(case["url"] + "/api/chat", json=body)
            check_type(response, "application/json")
            check_line(response.json())
            check_answer([ChatResponse(**response.json())], means)

        with self.report.case(f"{name}, as lines"):
            with httpx.Client() as http:
                # The server streams unless the request has `"stream": false`.
                response = http.post(case["url"] + "/api/chat", json=self.question)
            check_type(response, "application/x-ndjson")
            lines = [json.loads(line) for line in response.text.splitlines()]
            for line in lines:
                check_line(line)
            ends = [line["done"] for line in lines]
            equal(ends, [False] * (len(lines) - 1) + [True], "which line is the last")

        with self.report.case(f"{name}, through the client"):
            check_answer(list(self.client(case).chat(**self.question, stream=True)), means)

    def failure(self, case):
        """Checks an error in place of a response, with and without a stream."""
        means = case["means"]
        for stream in (False, True):
            with self.report.case(f"{case['case']}, {'streamed' if stream else 'whole'}"):

                def read():
                    answer = self.client(case).chat(**self.question, stream=stream)
                    return list(answer) if stream else answer

                check_error(raised(read), FAILURES[means["failure"]])

    def broken(self, case):
        """Checks a stream that breaks after some of its text."""
        means = case["means"]
        with self.report.case(case["case"]):
            texts = []

            def read():
                for part in self.client(case).chat(**self.question, stream=True):
                    texts.append(part.message.content)

            error = raised(read)
            read_text = "".join(texts)
            assert read_text and means["of"].startswith(read_text), f"read {read_text!r}"
            assert read_text != means["of"], "the whole text came"
            if means["break"] == "Network":
                assert not isinstance(error, ollama.ResponseError), repr(error)
                return
            assert isinstance(error, ollama.ResponseError), repr(error)
            # An error within a stream has no status.
            equal(error.status_code, -1, "the status")
            assert error.error, "it does not say why"

    def embeddings(self, case):
        means = case["means"]
        with self.report.case(f"{case['case']}, strictly"):
            body = {"model": self.servers.model, "input": means["input"]}
            with httpx.Client() as http:
                response = http.post(case["url"] + "/api/embed", json=body)
            valid(problems(response.json(), EmbedResponse), "the answer")
        with self.report.case(f"{case['case']}, through the client"):
            answer = self.client(case).embed(model=self.servers.model, input=means["input"])
            equal(
                [list(vector) for vector in answer.embeddings], means["embeddings"], "the vectors"
            )
            equal(answer.prompt_eval_count or 0, means["prompt_tokens"], "the tokens")

    def right_requests(self):
        """Checks that the server accepts all requests that the client can send."""
        case = self.servers.named("valid requests are accepted")
        requests = right_requests()
        with self.report.case("the number of right requests"):
            equal(len(requests), case["replies"], "requests and replies")
        for name, more in requests.items():
            with self.report.case(f"right: {name}"):
                answer = self.client(case).chat(**{**self.question, **more})
                equal(answer.message.content, "ok", "the answer")

    def wrong_requests(self):
        case = self.servers.named("invalid requests are rejected")
        wrong = {
            "an unknown model": (404, {"model": "no-such-model"}),
            "a wrong role": (400, {"messages": [{"role": 5, "content": "hi"}]}),
            "a content in parts": (
                400,
                {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]},
            ),
        }
        for name, (status, more) in wrong.items():
            with self.report.case(f"wrong: {name}"):
                with httpx.Client() as http:
                    body = {**self.question, **more}
                    response = http.post(case["url"] + "/api/chat", json=body)
                equal(response.status_code, status, "the status")
                error = response.json()
                equal((list(error), type(error["error"])), (["error"], str), "the error")

    def spoiled_answers(self):
        """Checks that the strict check of responses finds mistakes."""
        call = {"function": {"name": "now", "arguments": {}}}
        right = {
            "model": "m",
            "created_at": "2026-01-01T00:00:00Z",
            "message": {"role": "assistant", "content": "", "tool_calls": [call]},
            "done": True,
        }
        spoiled = {
            "an unknown key": (lambda it: it["message"].update(text="hi"), "message.text"),
            "a missing key": (lambda it: it["message"].pop("role"), "message.role"),
            "a wrong type": (lambda it: it.update(done="yes"), "done"),
            "arguments as a text": (
                lambda it: it["message"]["tool_calls"][0]["function"].update(arguments="{}"),
                "message.tool_calls.0.function.arguments",
            ),
        }
        check_spoiled(self.report, right, ChatResponse, spoiled)


def right_requests():
    """Returns requests in the client's own types, with each part that our server has a rule for."""
    tool = {
        "type": "function",
        "function": {
            "name": "now",
            "description": "Returns the time",
            "parameters": {"type": "object", "properties": {"zone": {"type": "string"}}},
        },
    }
    call = {"function": {"name": "now", "arguments": {"zone": "UTC"}}}
    asked = {"role": "user", "content": "What time is it?"}
    return {
        "every role": {
            "messages": [
                {"role": "system", "content": "Be brief."},
                {**asked, "images": ["iVBORw0KGgo="]},
                {"role": "assistant", "content": "", "thinking": "Hmm.", "tool_calls": [call]},
                {"role": "tool", "content": "noon", "tool_name": "now"},
            ],
            "tools": [tool],
        },
        "any json": {"format": "json"},
        "json of a schema": {"format": {"type": "object", "properties": {}}},
        "thinking": {"think": True},
        "much thinking": {"think": "high"},
        "options": {
            "options": {
                "num_ctx": 4096,
                "num_predict": 5,
                "temperature": 0.5,
                "top_p": 0.9,
                "stop": ["END"],
            }
        },
        "a model that stays": {"keep_alive": "5m"},
        "a model that stays forever": {"keep_alive": -1},
    }


def check_line(line):
    found = problems(line, ChatResponse)
    valid([each for each in found if each.path.rpartition(".")[2] not in NOT_KNOWN], "a line")
    assert TIME.fullmatch(line["created_at"]), f"{line['created_at']!r} is no time"


def check_answer(parts, means):
    message = means["message"]["content"]
    text = "".join(block["text"] for block in message if block["type"] == "text")
    thoughts = "".join(block["thinking"] for block in message if block["type"] == "thinking")
    calls = [(block["name"], block["input"]) for block in message if block["type"] == "tool_use"]
    said = [part.message for part in parts]
    equal("".join(each.content or "" for each in said), text, "the text")
    equal("".join(each.thinking or "" for each in said), thoughts, "the thoughts")
    called = [call.function for each in said for call in each.tool_calls or []]
    equal([(call.name, dict(call.arguments)) for call in called], calls, "the calls")

    last = parts[-1]
    equal(last.model, means["model"], "the model")
    equal(last.done, True, "whether it is done")
    equal(last.done_reason, DONE_REASONS[means["stop_reason"]], "why it is done")
    equal(last.prompt_eval_count or 0, means["usage"]["input_tokens"], "the prompt's tokens")
    equal(last.eval_count or 0, means["usage"]["output_tokens"], "the answer's tokens")


def check_type(response, content_type):
    equal(response.status_code, 200, "the status")
    found = response.headers["content-type"]
    assert found.startswith(content_type), f"the content type is {found}"


def check_error(error, status):
    assert isinstance(error, ollama.ResponseError), f"{type(error).__name__} was raised: {error}"
    equal(error.status_code, status, "the status")
    assert isinstance(error.error, str) and error.error, "it does not say why"


if __name__ == "__main__":
    Ollama(Servers(sys.argv[1], "ollama")).run()
