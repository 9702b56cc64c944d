"""Tests our loopback server for Amazon Bedrock with the official client.

usage: drive_bedrock.py <neuron-e2e program>
"""

import base64
import copy
import json
import os
import sys
from urllib.parse import quote

import botocore.config
import botocore.session
import httpx
from bedrock_requests import CONVERSE
from botocore.eventstream import EventStreamBuffer
from botocore.exceptions import ClientError, EventStreamError
from driver import Driver
from report import equal, raised, valid
from servers import Servers
from service_model import SERVICE
from spoiled import check_spoiled
from structure import problems

# The exception and the status of each of our errors.
FAILURES = {
    "RateLimit": ("ThrottlingException", 429),
    "ServiceUnavailable": ("ServiceUnavailableException", 503),
    "Authentication": ("AccessDeniedException", 403),
    "InvalidRequest": ("ValidationException", 400),
    "ModelNotFound": ("ResourceNotFoundException", 404),
    "InsufficientResources": ("ThrottlingException", 429),
    "Timeout": ("ModelTimeoutException", 408),
    "Other": ("InternalServerException", 500),
}

# Stop reasons for which the vendor has another word.
STOP_REASONS = {
    "content_filter": "content_filtered",
    "context_window_exceeded": "model_context_window_exceeded",
}

# The key that our server accepts in signed requests.
SIGNED = {
    "aws_access_key_id": "AKIDEXAMPLE",
    "aws_secret_access_key": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
}

# A model with rules of its own.
CLAUDE = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"

ANSWER = CONVERSE.output_shape
EVENT = SERVICE.operation_model("ConverseStream").output_shape.members["stream"]


class Bedrock(Driver):
    def __init__(self, servers):
        super().__init__(servers)
        self.question = {
            "modelId": servers.model,
            "messages": [{"role": "user", "content": [{"text": "Go on."}]}],
        }

    def client(self, case, key=None, region="us-east-1", **signed):
        """Returns a client with a bearer key, or with `signed`, the parts of a key that signs."""
        config = botocore.config.Config(
            retries={"mode": "standard", "total_max_attempts": 1}, read_timeout=60
        )
        # The client reads a bearer key only from this variable, and prefers it to other keys.
        os.environ.pop("AWS_BEARER_TOKEN_BEDROCK", None)
        url = case["url"]
        if not signed:
            os.environ["AWS_BEARER_TOKEN_BEDROCK"] = key or self.servers.key
            # The client sends a bearer key only to servers with TLS, which ours do not have.
            url = url.replace("http://", "https://")
        client = botocore.session.Session().create_client(
            "bedrock-runtime", region, endpoint_url=url, config=config, **signed
        )
        client.meta.events.register("before-send.bedrock-runtime", without_tls)
        return client

    def answer(self, case):
        """Requests one response as a whole, as events, and through the client's stream."""
        means, name = case["means"]["answer"], case["case"]

        with self.report.case(f"{name}, whole"):
            client, bodies = self.client(case), []
            client.meta.events.register(
                "before-parse.bedrock-runtime.Converse",
                lambda response_dict, **_: bodies.append(json.loads(response_dict["body"])),
            )
            response = client.converse(**self.question)
            valid(problems(bodies[0], ANSWER), "the answer")
            check_headers(response["ResponseMetadata"]["HTTPHeaders"], "application/json")
            equal(response["output"]["message"]["role"], "assistant", "the role")
            check_content(response["output"]["message"]["content"], means)
            check_end(response["stopReason"], response, means)

        with self.report.case(f"{name}, as events"):
            response = self.post(case, "converse-stream", self.body())
            check_headers(response.headers, "application/vnd.amazon.eventstream")
            buffer = EventStreamBuffer()
            buffer.add_data(response.content)
            events = [event_of(event) for event in buffer]
            for index, event in enumerate(events):
                valid(problems(event, EVENT), f"event {index}")
            check_order(events)
            check_stream([decoded(event) for event in events], means)

        with self.report.case(f"{name}, through the client"):
            response = self.client(case, **SIGNED).converse_stream(**self.question)
            check_stream(list(response["stream"]), means)

    def failure(self, case):
        """Checks an error in place of a response, with and without a stream."""
        means = case["means"]
        for stream in (False, True):
            with self.report.case(f"{case['case']}, {'streamed' if stream else 'whole'}"):
                client = self.client(case)
                call = client.converse_stream if stream else client.converse
                error = raised(lambda: call(**self.question))
                check_error(error, *FAILURES[means["failure"]])
                delay = error.response["ResponseMetadata"]["HTTPHeaders"].get("x-amz-retry-after")
                equal(delay and int(delay) / 1000, means["retry_after"], "the delay")

    def broken(self, case):
        """Checks a stream that breaks after some of its text."""
        means = case["means"]
        with self.report.case(case["case"]):
            texts = []

            def read():
                response = self.client(case).converse_stream(**self.question)
                for event in response["stream"]:
                    delta = event.get("contentBlockDelta", {}).get("delta", {})
                    texts.append(delta.get("text", ""))

            error = raised(read)
            read_text = "".join(texts)
            assert read_text and means["of"].startswith(read_text), f"read {read_text!r}"
            assert read_text != means["of"], "the whole text came"
            if means["break"] == "Network":
                assert not isinstance(error, ClientError), repr(error)
                return
            assert isinstance(error, EventStreamError), repr(error)
            name, _ = FAILURES.get(means["break"], FAILURES["Other"])
            equal(error.response["Error"]["Code"], name[0].lower() + name[1:], "the exception")
            assert error.response["Error"]["Message"], "it does not say why"

    def right_requests(self):
        """Checks that the server accepts all requests that the client can send."""
        case = self.servers.named("valid requests are accepted")
        requests = right_requests()
        signed = {
            "a signature": {},
            "a signature with a session token": {"aws_session_token": "token/+=="},
            "a signature of another region": {"region": "eu-central-1"},
        }
        with self.report.case("the number of right requests"):
            equal(len(requests) + len(signed) + 1, case["replies"], "requests and replies")
        for name, more in requests.items():
            with self.report.case(f"right: {name}"):
                answer = self.client(case).converse(**{**self.question, **more})
                equal(text_of(answer), "ok", "the answer")
        for name, more in signed.items():
            with self.report.case(f"right: {name}"):
                client = self.client(case, **SIGNED, **more)
                # The id of this model has a colon, which is encoded twice in what is signed.
                answer = client.converse(**{**self.question, "modelId": CLAUDE})
                equal(text_of(answer), "ok", "the answer")
        with self.report.case("right: without the client"):
            response = self.post(case, "converse", self.body())
            equal(text_of(response.json()), "ok", "the answer")

    def wrong_requests(self):
        case = self.servers.named("invalid requests are rejected")
        for name, more in wrong_requests(self.question["messages"]).items():
            with self.report.case(f"wrong: {name}"):
                question = {**self.question, "modelId": CLAUDE, **more}
                error = raised(lambda: self.client(case).converse(**question))
                check_error(error, "ValidationException", 400)
        wrong_keys = {
            "a wrong key": ({"key": "wrong"}, "AccessDeniedException"),
            "an unknown access key": (
                {**SIGNED, "aws_access_key_id": "AKIDOTHER"},
                "UnrecognizedClientException",
            ),
            "a wrong secret": (
                {**SIGNED, "aws_secret_access_key": "other"},
                "InvalidSignatureException",
            ),
        }
        for name, (keys, exception) in wrong_keys.items():
            with self.report.case(f"wrong: {name}"):
                client = self.client(case, **keys)
                check_error(raised(lambda: client.converse(**self.question)), exception, 403)
        # The client validates these requests itself.
        messages = self.body()["messages"]
        for name, body, exception in [
            ("an unknown field", {"messages": messages, "max_tokens": 5}, "ValidationException"),
            (
                "an unknown field in a block",
                {"messages": [{"role": "user", "content": [{"text": "hi", "type": "text"}]}]},
                "ValidationException",
            ),
            ("no content", {"messages": [{"role": "user"}]}, "ValidationException"),
            (
                "a number as a text",
                {"messages": messages, "inferenceConfig": {"maxTokens": "5"}},
                "SerializationException",
            ),
            (
                "no tools",
                {"messages": messages, "toolConfig": {"tools": []}},
                "ValidationException",
            ),
        ]:
            with self.report.case(f"wrong: {name}"):
                response = self.post(case, "converse", body)
                equal(response.status_code, 400, "the status")
                found = response.headers["x-amzn-errortype"].split(":")[0]
                equal((found, list(response.json())), (exception, ["message"]), "the error")

    def spoiled_answers(self):
        """Checks that the strict check of responses finds mistakes."""
        call = {"toolUseId": "call_1", "name": "now", "input": {}}
        right = {
            "output": {
                "message": {"role": "assistant", "content": [{"text": "hi"}, {"toolUse": call}]}
            },
            "stopReason": "end_turn",
            "usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2},
            "metrics": {"latencyMs": 5},
        }
        content = "output.message.content"

        def block(answer, index):
            return answer["output"]["message"]["content"][index]

        spoiled = {
            "an unknown key": (lambda it: block(it, 0).update(type="text"), f"{content}.0.type"),
            "two kinds in a block": (lambda it: block(it, 0).update(cachePoint={}), f"{content}.0"),
            "a missing key": (lambda it: it.pop("metrics"), "metrics"),
            "a missing id": (
                lambda it: block(it, 1)["toolUse"].pop("toolUseId"),
                f"{content}.1.toolUse.toolUseId",
            ),
            "an id of other letters": (
                lambda it: block(it, 1)["toolUse"].update(toolUseId="a b"),
                f"{content}.1.toolUse.toolUseId",
            ),
            "a wrong word": (lambda it: it.update(stopReason="stop"), "stopReason"),
            "a wrong type": (
                lambda it: it["usage"].update(inputTokens="1"),
                "usage.inputTokens",
            ),
            "a negative number": (
                lambda it: it["usage"].update(outputTokens=-1),
                "usage.outputTokens",
            ),
            "bytes that are no base64": (
                lambda it: it["output"]["message"].update(
                    content=[{"reasoningContent": {"redactedContent": "?"}}]
                ),
                f"{content}.0.reasoningContent.redactedContent",
            ),
        }
        check_spoiled(self.report, right, ANSWER, spoiled)
        with self.report.case("an event that does not exist is noticed"):
            found = [problem.path for problem in problems({"messageEnd": {}}, EVENT)]
            assert "messageEnd" in found, found

    def body(self):
        return {"messages": self.question["messages"]}

    def post(self, case, method, body):
        """Sends a request without the client, which does not return the bytes of a stream."""
        url = f"{case['url']}/model/{quote(self.servers.model, safe='')}/{method}"
        with httpx.Client(timeout=60) as http:
            headers = {"authorization": f"Bearer {self.servers.key}"}
            return http.post(url, json=body, headers=headers)


def without_tls(request, **_):
    request.url = request.url.replace("https://", "http://")


def right_requests():
    """Returns requests in the client's own types, with each part that our server has a rule for."""
    pixel = base64.b64decode("iVBORw0KGgo=")
    now = {"name": "now", "description": "Returns the time", "inputSchema": {"json": OBJECT}}
    other = {"name": "other", "inputSchema": {"json": OBJECT}, "strict": True}
    tools = [{"toolSpec": now}, {"toolSpec": other}]
    point = {"cachePoint": {"type": "default"}}
    schema = {"jsonSchema": {"schema": json.dumps(OBJECT), "name": "city"}}
    document = {"format": "pdf", "name": "a report (2)", "source": {"bytes": b"%PDF-1.4\n"}}
    calls = [{"toolUse": {"toolUseId": f"call_{n}", "name": "now", "input": {}}} for n in (1, 2)]
    results = [
        {"toolResult": {"toolUseId": "call_2", "content": [{"json": {"time": "noon"}}]}},
        {
            "toolResult": {
                "toolUseId": "call_1",
                "content": [{"text": "no clock"}],
                "status": "error",
            }
        },
    ]
    thought = {"reasoningText": {"text": "Hm.", "signature": "c2lnbmF0dXJl"}}
    encrypted = {"reasoningContent": {"redactedContent": b"encrypted"}}
    asked = {"role": "user", "content": [{"text": "What time is it?"}]}

    def chosen(choice):
        return {"toolConfig": {"tools": tools, "toolChoice": choice}}

    def said(*messages):
        return {"messages": [asked, *messages]}

    return {
        "a system prompt": {"system": [{"text": "Be brief."}, point]},
        "numbers and texts": {
            "inferenceConfig": {
                "maxTokens": 1000,
                "temperature": 0.5,
                "topP": 0.9,
                "stopSequences": ["END"],
            }
        },
        "fields of the model": {
            "modelId": CLAUDE,
            "inferenceConfig": {"maxTokens": 4000},
            "additionalModelRequestFields": {
                "thinking": {"type": "enabled", "budget_tokens": 2000}
            },
        },
        "tools": {"toolConfig": {"tools": [*tools, point]}},
        "any tool": chosen({"any": {}}),
        "this tool": chosen({"tool": {"name": "now"}}),
        "a schema": {
            "outputConfig": {"textFormat": {"type": "json_schema", "structure": schema}}
        },
        "settings": {
            "performanceConfig": {"latency": "standard"},
            "serviceTier": {"type": "priority"},
            "requestMetadata": {"team": "a"},
            "additionalModelResponseFieldPaths": ["/stop_sequence"],
        },
        "an image and a document": said(
            {
                "role": "user",
                "content": [
                    {"image": {"format": "png", "source": {"bytes": pixel}}},
                    {"document": document},
                    {"text": "What is this?"},
                    point,
                ],
            }
        ),
        "calls and their results": {
            **said(
                {"role": "assistant", "content": [{"reasoningContent": thought}, *calls]},
                {"role": "user", "content": results},
            ),
            **chosen({"auto": {}}),
        },
        "encrypted thoughts": said({"role": "assistant", "content": [encrypted]}, asked),
    }


OBJECT = {"type": "object", "properties": {"zone": {"type": "string"}}, "required": ["zone"]}


def wrong_requests(asked):
    """Returns requests that the client sends and Bedrock rejects."""
    call = {"toolUse": {"toolUseId": "call_1", "name": "now", "input": {}}}
    called = {"role": "assistant", "content": [call]}
    now = {"name": "now", "inputSchema": {"json": OBJECT}}
    tools = {"toolConfig": {"tools": [{"toolSpec": now}]}}
    point = {"cachePoint": {"type": "default"}}

    def results(*ids):
        blocks = [{"toolResult": {"toolUseId": each, "content": [{"text": "a"}]}} for each in ids]
        return {"role": "user", "content": blocks}

    def content(*blocks):
        return {"messages": [{"role": "user", "content": list(blocks)}]}

    def document(name):
        return {"document": {"format": "txt", "name": name, "source": {"bytes": b"a"}}}

    untyped = copy.deepcopy(tools)
    del untyped["toolConfig"]["tools"][0]["toolSpec"]["inputSchema"]["json"]["type"]
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 9}}
    return {
        "an unknown model": {"modelId": "no-such-model"},
        "no messages": {"messages": []},
        "an empty text": content({"text": ""}),
        "a text of spaces": content({"text": " "}),
        "no content": content(),
        "a wrong role": {"messages": [{"role": "tool", "content": [{"text": "a"}]}]},
        "a call without a result": {"messages": [*asked, called, *asked], **tools},
        "a call at the end": {"messages": [*asked, called], **tools},
        "a result of another call": {"messages": [*asked, called, results("call_2")], **tools},
        "two results of a call": {
            "messages": [*asked, called, results("call_1", "call_2")],
            **tools,
        },
        "a call without tools": {"messages": [*asked, called, results("call_1")]},
        "a schema without its type": untyped,
        "a tool that does not exist": {
            "toolConfig": {**tools["toolConfig"], "toolChoice": {"tool": {"name": "other"}}}
        },
        "a document without a text": content(document("a")),
        "documents of one name": content(document("a"), document("a"), {"text": "Go on."}),
        "a file name as the name": content(document("a.txt"), {"text": "Go on."}),
        "an image of another format": content(
            {"image": {"format": "jpeg", "source": {"bytes": b"\x89PNG\r\n\x1a\n"}}}
        ),
        "many cache points": content(*[{"text": "a"}, point] * 5),
        "a high temperature": {"inferenceConfig": {"temperature": 1.5}},
        "a small budget": {"additionalModelRequestFields": thinking},
        "an unknown field of the model": {"additionalModelRequestFields": {"topK": 5}},
    }


def text_of(answer):
    return answer["output"]["message"]["content"][0]["text"]


def event_of(event):
    """Returns an event in the form of the client's model, with the JSON of its payload."""
    headers = event.headers
    equal(headers[":message-type"], "event", "the type of the message")
    equal(headers[":content-type"], "application/json", "the type of the payload")
    return {headers[":event-type"]: json.loads(event.payload)}


def decoded(event):
    """Returns an event with the bytes of encrypted content, as the client returns them."""
    event = copy.deepcopy(event)
    reasoning = event.get("contentBlockDelta", {}).get("delta", {}).get("reasoningContent", {})
    if "redactedContent" in reasoning:
        reasoning["redactedContent"] = base64.b64decode(reasoning["redactedContent"])
    return event


def check_order(events):
    """Checks the names of the events in a stream, and the indexes of the blocks."""
    names = [name for event in events for name in event]
    equal(names[0], "messageStart", "the first event")
    equal(names[-2:], ["messageStop", "metadata"], "the last events")
    index, is_open = 0, False
    for event in events[1:-2]:
        [(name, fields)] = event.items()
        equal(fields["contentBlockIndex"], index, "the index")
        assert is_open or name != "contentBlockStop", "the end of a block that did not begin"
        assert not is_open or name != "contentBlockStart", "the start of a block that is open"
        is_open = name != "contentBlockStop"
        index += not is_open
    assert not is_open, "a block did not end"


def check_stream(events, means):
    """Joins the deltas of a stream, and checks the message that they make."""
    blocks = {}
    for event in events:
        for name in ("contentBlockStart", "contentBlockDelta"):
            if name in event:
                fields = event[name]
                block = blocks.setdefault(fields["contentBlockIndex"], [])
                block.append(fields["start" if name == "contentBlockStart" else "delta"])
    check_content([joined(parts) for _, parts in sorted(blocks.items())], means)
    [end] = [event["messageStop"] for event in events if "messageStop" in event]
    [last] = [event["metadata"] for event in events if "metadata" in event]
    check_end(end["stopReason"], last, means)


def joined(parts):
    """Returns the content block that these parts make."""
    first = parts[0]
    if "toolUse" in first:
        json_text = "".join(part["toolUse"]["input"] for part in parts[1:])
        return {"toolUse": {**first["toolUse"], "input": json.loads(json_text or "{}")}}
    if "reasoningContent" in first:
        reasoning = [part["reasoningContent"] for part in parts]
        if "redactedContent" in reasoning[0]:
            return {"reasoningContent": reasoning[0]}
        text = {"text": "".join(part.get("text", "") for part in reasoning)}
        for part in reasoning:
            text.update({key: part[key] for key in ("signature",) if key in part})
        return {"reasoningContent": {"reasoningText": text}}
    text = "".join(part.get("text", "") for part in parts)
    citations = [part["citation"] for part in parts if "citation" in part]
    if citations:
        return {"citationsContent": {"content": [{"text": text}], "citations": citations}}
    return {"text": text}


def check_content(content, means):
    equal(content, [expected_block(block) for block in means["message"]["content"]], "the content")


def expected_block(block):
    """Returns the block that the client returns for one of our blocks."""
    kind = block["type"]
    if kind == "text":
        return {"text": block["text"]}
    if kind == "thinking":
        text = {"text": block["thinking"], "signature": block["signature"]}
        return {"reasoningContent": {"reasoningText": text}}
    if kind == "redacted_thinking":
        return {"reasoningContent": {"redactedContent": block["data"].encode()}}
    if kind == "tool_use":
        call = {"toolUseId": block["id"], "name": block["name"], "input": block["input"]}
        return {"toolUse": call}
    equal(kind, "raw", "the kind of a block")
    return block["json"]


def check_end(reason, last, means):
    """Checks the stop reason and the token counts.

    The vendor's count of the prompt excludes cached tokens.
    """
    expected = STOP_REASONS.get(means["stop_reason"], means["stop_reason"])
    equal(reason, expected, "the stop reason")
    usage, expected = last["usage"], means["usage"]
    read, written = (usage.get(f"cache{kind}InputTokens") for kind in ("Read", "Write"))
    equal(read, expected.get("cache_read_tokens"), "the tokens read")
    equal(written, expected.get("cache_creation_tokens"), "the tokens written")
    prompt = usage["inputTokens"] + (read or 0) + (written or 0)
    equal(prompt, expected["input_tokens"], "the prompt's tokens")
    equal(usage["outputTokens"], expected["output_tokens"], "the answer's tokens")
    equal(usage["totalTokens"], prompt + usage["outputTokens"], "all tokens")
    assert isinstance(last["metrics"]["latencyMs"], int), "the latency is not a number"


def check_headers(headers, content_type):
    equal(headers["content-type"], content_type, "the content type")
    assert headers["x-amzn-requestid"], "the request has no id"


def check_error(error, exception, status):
    assert isinstance(error, ClientError), f"{type(error).__name__} was raised: {error}"
    equal(error.response["Error"]["Code"], exception, "the exception")
    equal(error.response["ResponseMetadata"]["HTTPStatusCode"], status, "the status")
    assert error.response["Error"]["Message"], "it does not say why"
    assert error.response["ResponseMetadata"]["RequestId"], "the request has no id"


if __name__ == "__main__":
    # The client must find no keys and no settings of the user.
    for variable in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        os.environ[variable] = os.devnull
    os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
    Bedrock(Servers(sys.argv[1], "bedrock")).run()
