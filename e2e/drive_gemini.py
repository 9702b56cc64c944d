"""Tests our loopback server for the Gemini API with the official client.

usage: drive_gemini.py <neuron-e2e program>
"""

import base64
import copy
import json
import sys

import httpx
from driver import Driver
from google import genai
from google.genai import errors
from google.genai.types import EmbedContentResponse, GenerateContentResponse, HttpOptions
from google.oauth2.credentials import Credentials
from report import equal, raised, valid
from servers import Servers
from spoiled import check_spoiled
from structure import problems

# The class, the code and the status of each of our errors.
FAILURES = {
    "RateLimit": (errors.ClientError, 429, "RESOURCE_EXHAUSTED"),
    "ServiceUnavailable": (errors.ServerError, 503, "UNAVAILABLE"),
    "Authentication": (errors.ClientError, 401, "UNAUTHENTICATED"),
    "InvalidRequest": (errors.ClientError, 400, "INVALID_ARGUMENT"),
    "ModelNotFound": (errors.ClientError, 404, "NOT_FOUND"),
    "InsufficientResources": (errors.ClientError, 429, "RESOURCE_EXHAUSTED"),
    "Timeout": (errors.ServerError, 504, "DEADLINE_EXCEEDED"),
    "Other": (errors.ServerError, 500, "INTERNAL"),
}

FINISH_REASONS = {
    "end_turn": "STOP",
    "tool_use": "STOP",
    "max_tokens": "MAX_TOKENS",
    "content_filter": "SAFETY",
}

# The newest model of the default family. A rule of the server may depend on the name of the model.
MODEL = "gemini-3.8-flash"

# The case whose function calls the client sends back with their results.
CALLS = "parallel tool calls after a text"


class Gemini(Driver):
    def __init__(self, servers):
        super().__init__(servers)
        self.question = {"model": MODEL, "contents": "Go on."}
        # A client closes its connections when Python deletes it, even if its `models` is in use.
        self.clients = []
        # The parts of the response of the case `CALLS`, as the client received them.
        self.called = []

    def client(self, case, key=None):
        # The default version is `v1`.
        options = HttpOptions(base_url=case["url"], api_version="v1beta", timeout=60_000)
        return self.kept(genai.Client(api_key=key or self.servers.key, http_options=options))

    def vertex(self, case):
        client = genai.Client(
            vertexai=True,
            project="p",
            location="global",
            credentials=Credentials(token=self.servers.key),
            http_options=HttpOptions(base_url=case["url"], timeout=60_000),
        )
        return self.kept(client)

    def kept(self, client):
        self.clients.append(client)
        return client

    def answer(self, case):
        """Requests one response as a whole, as events, and through the client's stream."""
        means, name = case["means"]["answer"], case["case"]

        with self.report.case(f"{name}, whole"):
            response = self.client(case).models.generate_content(
                **self.question, config={"should_return_http_response": True}
            )
            equal(response.sdk_http_response.headers["content-type"], "application/json", "type")
            body = json.loads(response.sdk_http_response.body)
            valid(problems(body, GenerateContentResponse), "the answer")
            check_answer([GenerateContentResponse(**body)], means)

        with self.report.case(f"{name}, as events"):
            response = self.post(case, "streamGenerateContent?alt=sse", self.body())
            equal(response.headers["content-type"], "text/event-stream", "type")
            *events, end = response.text.split("\n\n")
            equal(end, "", "the end of the events")
            chunks = [json.loads(event.removeprefix("data: ")) for event in events]
            for index, chunk in enumerate(chunks):
                valid(problems(chunk, GenerateContentResponse), f"chunk {index}")
            check_answer([GenerateContentResponse(**chunk) for chunk in chunks], means)

        with self.report.case(f"{name}, through the client"):
            chunks = list(self.client(case).models.generate_content_stream(**self.question))
            check_answer(chunks, means)
            if name == CALLS:
                self.called = [part for chunk in chunks for part in parts_of(chunk)]

    def failure(self, case):
        """Checks an error in place of a response, with and without a stream."""
        means = case["means"]
        for stream in (False, True):
            with self.report.case(f"{case['case']}, {'streamed' if stream else 'whole'}"):

                def read():
                    models = self.client(case).models
                    if stream:
                        return list(models.generate_content_stream(**self.question))
                    return models.generate_content(**self.question)

                error = raised(read)
                check_error(error, *FAILURES[means["failure"]])
                details = error.details["error"].get("details", [])
                delays = [each["retryDelay"] for each in details if "retryDelay" in each]
                expected = means["retry_after"]
                equal(delays, [] if expected is None else [f"{expected}s"], "the delay")

    def broken(self, case):
        """Checks a stream that breaks after some of its text."""
        means = case["means"]
        with self.report.case(case["case"]):
            texts = []

            def read():
                for chunk in self.client(case).models.generate_content_stream(**self.question):
                    texts.append(chunk.text)

            error = raised(read)
            read_text = "".join(texts)
            assert read_text and means["of"].startswith(read_text), f"read {read_text!r}"
            assert read_text != means["of"], "the whole text came"
            if means["break"] == "Network":
                assert not isinstance(error, errors.APIError), repr(error)
                return
            check_error(error, *FAILURES.get(means["break"], FAILURES["Other"]))

    def embeddings(self, case):
        means = case["means"]
        with self.report.case(f"{case['case']}, strictly"):
            requests = [
                {"model": f"models/{MODEL}", "content": {"parts": [{"text": text}]}}
                for text in means["input"]
            ]
            response = self.post(case, "batchEmbedContents", {"requests": requests})
            valid(problems(response.json(), EmbedContentResponse), "the answer")
        with self.report.case(f"{case['case']}, through the client"):
            config = {"task_type": "RETRIEVAL_DOCUMENT", "output_dimensionality": 3}
            answer = self.client(case).models.embed_content(
                model=MODEL, contents=means["input"], config=config
            )
            vectors = [each.values for each in answer.embeddings]
            equal(vectors, means["embeddings"], "the vectors")
            tokens = answer.usage_metadata.prompt_token_count
            equal(tokens, means["prompt_tokens"], "the tokens")
        config["title"] = "a title"
        config["auto_truncate"] = True
        with self.report.case(f"{case['case']}, at Vertex AI"):
            # The client sends `embedContent` for one content, and `batchEmbedContents` for two.
            contents = [{"parts": [{"text": text}]} for text in means["input"]]
            answer = self.vertex(case).models.embed_content(
                model=MODEL, contents=contents, config=config
            )
            vectors = [each.values for each in answer.embeddings]
            equal(vectors, means["embeddings"], "the vectors")
            tokens = answer.usage_metadata.prompt_token_count
            equal(tokens, means["prompt_tokens"], "the tokens")
        with self.report.case(f"{case['case']}, predicted at Vertex AI"):
            # The client sends `predict` for a model that is not from Gemini.
            answer = self.vertex(case).models.embed_content(
                model=self.servers.model, contents=means["input"], config=config
            )
            vectors = [each.values for each in answer.embeddings]
            equal(vectors, means["embeddings"], "the vectors")
            tokens = sum(each.statistics.token_count for each in answer.embeddings)
            equal(tokens, means["prompt_tokens"], "the tokens")

    def right_requests(self):
        """Checks that the server accepts all requests that the client can send."""
        case = self.servers.named("valid requests are accepted")
        requests = right_requests(self.conversation())
        with self.report.case("the number of right requests"):
            # Two requests go to Vertex AI.
            equal(len(requests) + 2, case["replies"], "requests and replies")
        for name, more in requests.items():
            with self.report.case(f"right: {name}"):
                answer = self.client(case).models.generate_content(**{**self.question, **more})
                equal(answer.text, "ok", "the answer")
        with self.report.case("right: at Vertex AI"):
            answer = self.vertex(case).models.generate_content(**self.question)
            equal(answer.text, "ok", "the answer")
        with self.report.case("right: at Vertex AI, streamed"):
            chunks = self.vertex(case).models.generate_content_stream(**self.question)
            equal("".join(chunk.text for chunk in chunks), "ok", "the answer")

    def wrong_requests(self):
        case = self.servers.named("invalid requests are rejected")
        said = self.conversation()

        def spoil(change):
            contents = copy.deepcopy(said)
            change(contents)
            return {"contents": contents}

        def unsigned(contents):
            for part in contents[1]["parts"]:
                part.pop("thought_signature", None)

        def moved(contents):
            first, second = [part for part in contents[1]["parts"] if "function_call" in part][:2]
            contents[1]["parts"] = [{**second, "thought_signature": first["thought_signature"]}]
            del contents[2]["parts"][0], contents[2]["parts"][1:]

        def renamed(contents):
            contents[2]["parts"][0]["function_response"]["id"] = "call_9"

        def mixed(contents):
            contents[2]["parts"].append({"text": "Briefly."})

        thinking = {"thinking_config": {"thinking_budget": 5, "thinking_level": "LOW"}}
        tool = {"function_declarations": [{"name": "now"}]}
        some = {"function_calling_config": {"mode": "AUTO", "allowed_function_names": ["now"]}}
        wrong = {
            "an unknown model": ("ModelNotFound", {"model": "no-such-model"}),
            "a wrong role": (
                "InvalidRequest",
                {"contents": [{"role": "system", "parts": [{"text": "hi"}]}]},
            ),
            "calls without results": ("InvalidRequest", {"contents": said[:2]}),
            "a call without its signature": ("InvalidRequest", spoil(unsigned)),
            "a signature of another call": ("InvalidRequest", spoil(moved)),
            "a result of another call": ("InvalidRequest", spoil(renamed)),
            "a result beside a text": ("InvalidRequest", spoil(mixed)),
            "a budget and a level": ("InvalidRequest", {"config": thinking}),
            "no functions": (
                "InvalidRequest",
                {"config": {"tools": [{"function_declarations": []}]}},
            ),
            "names for a free choice": (
                "InvalidRequest",
                {"config": {"tools": [tool], "tool_config": some}},
            ),
            "many tokens at once": ("InvalidRequest", {"model": "the-model", "config": {"max_output_tokens": 40_000}}),
        }
        for name, (failure, more) in wrong.items():
            with self.report.case(f"wrong: {name}"):
                question = {**self.question, **more}
                error = raised(lambda: self.client(case).models.generate_content(**question))
                check_error(error, *FAILURES[failure])
        with self.report.case("wrong: a wrong key"):
            client = self.client(case, "wrong")
            error = raised(lambda: client.models.generate_content(**self.question))
            check_error(error, errors.ClientError, 400, "INVALID_ARGUMENT")
            equal(error.details["error"]["details"][0]["reason"], "API_KEY_INVALID", "the reason")
        with self.report.case("wrong: an unknown field"):
            response = self.post(case, "generateContent", {**self.body(), "max_tokens": 5})
            equal(response.status_code, 400, "the status")
            equal(response.json()["error"]["status"], "INVALID_ARGUMENT", "the status")

    def spoiled_answers(self):
        """Checks that the strict check of responses finds mistakes."""
        call = {"functionCall": {"name": "now", "args": {}}, "thoughtSignature": "c2ln"}
        right = {
            "candidates": [
                {"content": {"role": "model", "parts": [call]}, "finishReason": "STOP", "index": 0}
            ],
            "usageMetadata": {"promptTokenCount": 5},
        }
        part = "candidates.0.content.parts.0"

        def first(answer):
            return answer["candidates"][0]["content"]["parts"][0]

        spoiled = {
            "an unknown key": (lambda it: first(it).update(txt="hi"), f"{part}.txt"),
            "a wrong word": (
                lambda it: it["candidates"][0].update(finishReason="stop"),
                "candidates.0.finishReason",
            ),
            "a wrong type": (
                lambda it: it["usageMetadata"].update(promptTokenCount="5"),
                "usageMetadata.promptTokenCount",
            ),
            "a signature that is no text": (
                lambda it: first(it).update(thoughtSignature=5),
                f"{part}.thoughtSignature",
            ),
            "arguments as a text": (
                lambda it: first(it)["functionCall"].update(args="{}"),
                f"{part}.functionCall.args",
            ),
        }
        check_spoiled(self.report, right, GenerateContentResponse, spoiled)

    def conversation(self):
        """Returns a conversation with the calls of the case `CALLS` and their results."""
        parts = [part.model_dump(exclude_none=True) for part in self.called]
        calls = [part["function_call"] for part in parts if "function_call" in part]
        results = [
            {"function_response": {**each, "response": {"output": "noon"}}}
            for each in ({"id": call["id"], "name": call["name"]} for call in calls)
        ]
        return [
            {"role": "user", "parts": [{"text": "Go on."}]},
            {"role": "model", "parts": parts},
            {"role": "user", "parts": results},
        ]

    def body(self):
        return {"contents": [{"role": "user", "parts": [{"text": self.question["contents"]}]}]}

    def post(self, case, method, body):
        """Sends a request without the client, which does not return the JSON of every response."""
        url = f"{case['url']}/v1beta/models/{MODEL}:{method}"
        with httpx.Client(timeout=60) as http:
            return http.post(url, json=body, headers={"x-goog-api-key": self.servers.key})


def right_requests(conversation):
    """Returns requests in the client's own types, with each part that our server has a rule for."""
    schema = {"type": "OBJECT", "properties": {"zone": {"type": "STRING"}}, "required": ["zone"]}
    now = {"name": "now", "description": "Returns the time", "parameters": schema}
    other = {"name": "other", "parameters_json_schema": {"type": "object", "const": {}}}
    functions = {"function_declarations": [now, other]}
    pixel = base64.b64decode("iVBORw0KGgo=")

    def chosen(mode, names=None):
        return {"function_calling_config": {"mode": mode, "allowed_function_names": names}}

    return {
        "a system prompt": {"config": {"system_instruction": "Be brief."}},
        "numbers and texts": {
            "config": {
                "temperature": 0.5,
                "top_p": 0.9,
                "top_k": 40,
                "max_output_tokens": 1000,
                "stop_sequences": ["END"],
                "seed": 7,
            }
        },
        "thinking with a level": {
            "config": {"thinking_config": {"include_thoughts": True, "thinking_level": "HIGH"}}
        },
        "thinking with a budget": {"config": {"thinking_config": {"thinking_budget": -1}}},
        "functions": {"config": {"tools": [functions], "tool_config": chosen("AUTO")}},
        "one function": {"config": {"tools": [functions], "tool_config": chosen("ANY", ["now"])}},
        "a tool of the vendor's": {"config": {"tools": [{"google_search": {}}]}},
        "json of a schema": {
            "config": {
                "response_mime_type": "application/json",
                "response_json_schema": {"type": "object", "properties": {}},
            }
        },
        "json of a schema of the vendor's": {
            "config": {"response_mime_type": "application/json", "response_schema": schema}
        },
        "safety settings": {
            "config": {
                "safety_settings": [
                    {"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}
                ]
            }
        },
        "an image and a file": {
            "contents": [
                {
                    "role": "user",
                    "parts": [
                        {"inline_data": {"mime_type": "image/png", "data": pixel}},
                        {"file_data": {"mime_type": "application/pdf", "file_uri": "gs://a/b"}},
                        {"text": "What is this?"},
                    ],
                }
            ]
        },
        "calls with their signatures and results": {"contents": conversation},
    }


def parts_of(chunk):
    """Returns the parts of a chunk, which may have no candidate, no content and no parts."""
    contents = [each.content for each in chunk.candidates or [] if each.content]
    return [part for content in contents for part in content.parts or []]


def check_answer(chunks, means):
    parts = [part for chunk in chunks for part in parts_of(chunk)]
    content = means["message"]["content"]
    raw = [block["json"] for block in content if block["type"] == "raw"]
    said = "".join(block["text"] for block in content if block["type"] == "text")
    thoughts = "".join(block["thinking"] for block in content if block["type"] == "thinking")
    texts = [part for part in parts if part.text is not None]
    equal("".join(part.text for part in texts if not part.thought), said, "the text")
    equal("".join(part.text for part in texts if part.thought), thoughts, "the thoughts")
    calls = [part.function_call for part in parts if part.function_call]
    equal(
        [(call.id, call.name, call.args) for call in calls],
        [
            (block["id"], block["name"], block["input"])
            for block in content
            if block["type"] == "tool_use"
        ],
        "the calls",
    )
    others = [part for part in parts if part.text is None and not part.function_call]
    found = [
        part.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"thought_signature"})
        for part in others
    ]
    equal(found, raw, "the other parts")
    check_signatures(parts)

    last = chunks[-1]
    equal(last.response_id, means["id"], "the id")
    equal(last.model_version, means["model"], "the model")
    check_usage(last.usage_metadata, means["usage"])
    reasons = [each.finish_reason for chunk in chunks for each in chunk.candidates or []]
    if means["stop_reason"] == "refusal" and not content:
        equal((last.candidates, bool(last.prompt_feedback.block_reason)), (None, True), "the block")
        return
    expected = [None] * (len(chunks) - 1) + [FINISH_REASONS[means["stop_reason"]]]
    equal([reason and reason.value for reason in reasons], expected, "the finish reasons")


def check_signatures(parts):
    """Checks that the first call, or the last part that is no thought, has the only signature."""
    signed = [index for index, part in enumerate(parts) if part.thought_signature]
    calls = [index for index, part in enumerate(parts) if part.function_call]
    others = [index for index, part in enumerate(parts) if not part.thought]
    equal(signed, calls[:1] or others[-1:], "the signed parts")


def check_usage(usage, means):
    """Checks token counts. The vendor's count of the candidates excludes thoughts."""
    thoughts = usage.thoughts_token_count or 0
    output = (usage.candidates_token_count or 0) + thoughts
    equal(usage.prompt_token_count or 0, means["input_tokens"], "the prompt's tokens")
    equal(output, means["output_tokens"], "the answer's tokens")
    equal(usage.cached_content_token_count, means.get("cache_read_tokens"), "the tokens read")
    equal(usage.thoughts_token_count, means.get("reasoning_tokens"), "the thoughts' tokens")
    equal(usage.total_token_count, means["input_tokens"] + output, "all tokens")


def check_error(error, kind, code, status):
    assert isinstance(error, kind), f"{type(error).__name__} was raised: {error}"
    equal((error.code, error.status), (code, status), "the code and the status")
    assert isinstance(error.message, str) and error.message, "it does not say why"


if __name__ == "__main__":
    Gemini(Servers(sys.argv[1], "gemini")).run()
