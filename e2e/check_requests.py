"""Checks the requests of our providers against the types of the vendors' clients.

usage: check_requests.py <vendor> <file written by `neuron-e2e requests`>
       check_requests.py <vendor> --pairs <file written by `neuron-e2e pairs`>
"""

import copy
import importlib
import json
import re
import sys

import typing_extensions
from bedrock_requests import check_as_parameters
from report import Report, equal, valid
from structure import problems

# The type of a body, by path. The client sends the parameters in `SENT_AS_HEADERS` as headers, so
# they are not part of a body.
BODIES = {
    "/v1/messages": ("anthropic.types.message_create_params", "MessageCreateParams"),
    "/v1/messages, beta": ("anthropic.types.beta.message_create_params", "MessageCreateParams"),
    "/v1/chat/completions": (
        "openai.types.chat.completion_create_params",
        "CompletionCreateParams",
    ),
    "/v1/responses": ("openai.types.responses.response_create_params", "ResponseCreateParams"),
    "/v1beta/models/*:generateContent": ("gemini_requests", "GenerateContentRequest"),
    "/v1beta/models/*:streamGenerateContent": ("gemini_requests", "GenerateContentRequest"),
    "/v1beta/models/*:batchEmbedContents": ("gemini_requests", "BatchEmbedContentsRequest"),
    "/model/*/converse": ("bedrock_requests", "ConverseRequest"),
    "/model/*/converse-stream": ("bedrock_requests", "ConverseStreamRequest"),
    "/v1beta1/projects/my-project/locations/global/publishers/google/models/*:generateContent": (
        "gemini_requests",
        "GenerateContentRequest",
    ),
    "/v1/embeddings": ("openai.types.embedding_create_params", "EmbeddingCreateParams"),
    "/api/chat": ("ollama._types", "ChatRequest"),
    "/api/embed": ("ollama._types", "EmbedRequest"),
}
SENT_AS_HEADERS = frozenset({"betas", "user_profile_id", "workspace_id"})

NEWER_THAN_THE_CLIENT = "the server has it, and version 0.6.3 of the client has not"
OF_JSON_SCHEMA = "the server takes any JSON Schema; the client names its commonest words"

# Problems that are allowed, with the reason. The client's types do not have these fields, but our
# providers send them. An exception that is not needed is an error.
EXCEPTIONS = {
    "anthropic": {
        "temperature: is not known": "the API version 2023-06-01 has it, the newest has not",
        "top_p: is not known": "the API version 2023-06-01 has it, the newest has not",
    },
    "openai": {},
    "gemini": {},
    "bedrock": {},
    "ollama": {
        "messages.*.tool_calls.*.id: is not known": NEWER_THAN_THE_CLIENT,
        "messages.*.tool_call_id: is not known": NEWER_THAN_THE_CLIENT,
        "tools.*.function.parameters.$schema: is not known": OF_JSON_SCHEMA,
        "tools.*.function.parameters.title: is not known": OF_JSON_SCHEMA,
        "tools.*.function.parameters.properties.days.default: is not known": OF_JSON_SCHEMA,
        "tools.*.function.parameters.properties.days.minimum: is not known": OF_JSON_SCHEMA,
    },
}

# Valid requests with one mistake each, by form. The form of a vendor may have its own. An entry has the name of the request, the path of
# the mistake, the wrong value (`...` removes the value), and a part of the expected problem.
SPOILED = {
    "messages": [
        ("one question", "max_completion_tokens", 5, "is not known"),
        ("one question", "workspace_id", "w", "is not known"),
        ("one question", "messages", ..., "is missing"),
        ("one question", "messages.0.role", "tool", "is not 'user'"),
        ("a limit", "max_tokens", "100", "is not a whole number"),
        ("a limit", "max_tokens", True, "is not a whole number"),
        ("tools as the model likes", "tool_choice.type", "required", "is not 'auto'"),
        ("tools as the model likes", "tools.0.parameters", {}, "is not known"),
        ("this tool", "tool_choice.name", ..., "is missing"),
        ("parallel calls and their results", "messages.1.content.1.inputs", {}, "is not known"),
        (
            "parallel calls and their results",
            "messages.1.content.1.input",
            "{}",
            "is not an object",
        ),
        ("parallel calls and their results", "messages.2.content.0.tool_use_id", ..., "is missing"),
        (
            "parallel calls and their results",
            "messages.2.content.0.content.0.text",
            5,
            "is not a text",
        ),
        ("an image", "messages.0.content.0.source.media_type", "image/tiff", "is not 'image/jpeg'"),
        ("a system prompt in blocks", "system.0.cache_control.ttl", "2h", "is not '5m'"),
        ("thinking with a budget", "thinking.budget_tokens", ..., "is missing"),
        ("json of a schema", "output_config.format.name", "city", "is not known"),
        ("context management: all edits", "context_management.edits.2.type", "compact_1", "is not"),
        ("raw blocks of its own", "messages.1.content.2.citations.0.title", 5, "is not a text"),
    ],
    "chat": [
        ("one question", "max_output_tokens", 5, "is not known"),
        ("one question", "model", ..., "is missing"),
        ("one question", "messages.0.role", "human", "is not 'developer'"),
        ("a limit", "max_completion_tokens", "100", "is not a whole number"),
        ("much effort", "reasoning_effort", "very", "is not 'none'"),
        ("tools as the model likes", "tools.0.function.input_schema", {}, "is not known"),
        ("tools as the model likes", "tools.0.function.name", ..., "is missing"),
        ("tools as the model likes", "tool_choice", "any", "is not 'none'"),
        ("this tool", "tool_choice.function.name", 5, "is not a text"),
        ("parallel calls and their results", "messages.1.tool_calls.0.name", "x", "is not known"),
        (
            "parallel calls and their results",
            "messages.1.tool_calls.1.function.arguments",
            {},
            "is not a text",
        ),
        ("parallel calls and their results", "messages.2.tool_call_id", ..., "is missing"),
        ("an image", "messages.0.content.0.image_url.detail", "much", "is not 'auto'"),
        ("an image", "messages.0.content.0.image_url", "data:", "is not an object"),
        ("json of a schema", "response_format.json_schema.name", ..., "is missing"),
        ("json of a schema", "response_format.type", "schema", "is not 'json_schema'"),
    ],
    "responses": [
        ("one question", "messages", [], "is not known"),
        ("a limit", "max_output_tokens", 1.5, "is not a whole number"),
        ("much effort", "reasoning.effort", "very", "is not 'none'"),
        ("tools as the model likes", "tools.0.function", {}, "is not known"),
        ("tools as the model likes", "tools.0.strict", ..., "is missing"),
        ("json of a schema", "text.format.schema", ..., "is missing"),
        ("json of a schema", "include.0", "everything", "is not"),
        ("parallel calls and their results", "input.2.arguments", {}, "is not a text"),
        ("parallel calls and their results", "input.2.call_id", ..., "is missing"),
        ("an image", "input.0.content.0.image", "data:", "is not known"),
        ("raw items of its own", "input.1.summary.0.type", "text", "is not 'summary_text'"),
        ("raw items of its own", "input.3.content.0.annotations.0.url", ..., "is missing"),
        ("context management", "context_management.0.type", ..., "is missing"),
    ],
    "generate content": [
        ("one question", "messages", [], "is not known"),
        ("one question", "contents", ..., "is missing"),
        ("one question", "contents.0.parts", "hi", "is not a list"),
        ("one question", "contents.0.parts.0.txt", "hi", "is not known"),
        ("a system prompt", "systemInstruction", "Be brief.", "is not an object"),
        ("a limit", "generationConfig.maxOutputTokens", "100", "is not a whole number"),
        ("a limit", "generationConfig.maxTokens", 100, "is not known"),
        ("much effort", "generationConfig.thinkingConfig.thinkingLevel", "VERY", "is not"),
        ("tools", "tools.0.functionDeclarations.0.inputSchema", {}, "is not known"),
        ("tools", "tools.0.functionDeclarations.0.name", 5, "is not a text"),
        ("this tool", "toolConfig.functionCallingConfig.mode", "REQUIRED", "is not"),
        (
            "this tool",
            "toolConfig.functionCallingConfig.allowedFunctionNames",
            "now",
            "is not a list",
        ),
        (
            "parallel calls and their results",
            "contents.1.parts.1.functionCall.args",
            "{}",
            "is not an object",
        ),
        (
            "parallel calls and their results",
            "contents.2.parts.0.functionResponse.response",
            "noon",
            "is not an object",
        ),
        (
            "parallel calls and their results",
            "contents.1.parts.1.thoughtSignature",
            5,
            "is not a text",
        ),
        ("an image", "contents.0.parts.0.inlineData.mediaType", "image/png", "is not known"),
        ("raw parts of its own", "contents.1.parts.0.executableCode.language", "RUST", "is not"),
        ("fields of its own", "safetySettings.0.threshold", "NONE", "is not"),
    ],
    "gemini embeddings": [
        ("two texts", "requests", ..., "is missing"),
        ("two texts", "requests.0.model", ..., "is missing"),
        ("two texts", "requests.1.content.text", "two", "is not known"),
        ("few dimensions", "requests.0.outputDimensionality", "3", "is not a whole number"),
    ],
    "converse": [
        ("one question", "max_tokens", 5, "is not known"),
        ("one question", "messages.0.role", "tool", "is not 'user'"),
        ("one question", "messages.0.content", ..., "is missing"),
        ("one question", "messages.0.content", "hi", "is not a list"),
        ("one question", "messages.0.content.0.type", "text", "is not known"),
        ("one question", "messages.0.content.0", {}, "has 0 fields"),
        ("a limit", "inferenceConfig.maxTokens", "100", "is not a whole number"),
        ("a limit", "inferenceConfig.maxTokens", 0, "is less than 1"),
        ("a limit", "inferenceConfig.topK", 5, "is not known"),
        ("a temperature", "inferenceConfig.temperature", 1.5, "is more than 1"),
        ("a system prompt", "system", "Be brief.", "is not a list"),
        ("a system prompt", "system.0.text", "", "is less than 1"),
        ("tools", "toolConfig.tools", ..., "is missing"),
        ("tools", "toolConfig.tools", [], "is less than 1"),
        ("tools", "toolConfig.tools.0.toolSpec.inputSchema", ..., "is missing"),
        ("tools", "toolConfig.tools.0.toolSpec.parameters", {}, "is not known"),
        ("tools", "toolConfig.tools.0.toolSpec.name", "get weather", "does not match"),
        ("this tool", "toolConfig.toolChoice.none", {}, "is not known"),
        (
            "parallel calls and their results",
            "messages.1.content.1.toolUse.toolUseId",
            "call/1",
            "does not match",
        ),
        (
            "parallel calls and their results",
            "messages.1.content.1.toolUse.input",
            ...,
            "is missing",
        ),
        (
            "parallel calls and their results",
            "messages.2.content.1.toolResult.status",
            "failure",
            "is not 'success'",
        ),
        ("an image", "messages.0.content.0.image.format", "image/png", "is not 'png'"),
        ("an image", "messages.0.content.0.image.source.bytes", "?", "is not base64"),
        ("an image", "messages.0.content.0.image.source.url", "https://a", "is not known"),
        ("a document", "messages.0.content.0.document.name", "", "is less than 1"),
        ("fields of its own", "serviceTier.type", "auto", "is not 'priority'"),
        (
            "json of a schema",
            "outputConfig.textFormat.structure.jsonSchema.schema",
            {},
            "is not a text",
        ),
    ],
    "native chat": [
        ("one question", "max_tokens", 5, "is not known"),
        ("one question", "model", ..., "is missing"),
        ("one question", "messages.0.role", ..., "is missing"),
        ("one question", "messages.0.content", [], "is not a text"),
        ("one question", "stream", "yes", "is not true or false"),
        ("a limit", "options.num_predict", "100", "is not a whole number"),
        ("a limit", "options.max_tokens", 100, "is not known"),
        ("an image", "messages.0.images.0", {}, "is not a text"),
        ("parallel calls and their results", "messages.1.tool_calls.0.name", "x", "is not known"),
        (
            "parallel calls and their results",
            "messages.1.tool_calls.0.function.arguments",
            "{}",
            "is not an object",
        ),
        ("json of a schema", "format", "schema", "is not"),
        (
            "tools as the model likes",
            "tools.0.function.parameters.type",
            "array",
            "is not 'object'",
        ),
    ],
    "embeddings": [
        ("two texts", "inputs", [], "is not known"),
        ("two texts", "input", ..., "is missing"),
        ("two texts", "input.1", {}, "is not"),
        ("few dimensions", "dimensions", "3", "is not a whole number"),
    ],
}


def main(vendor, file):
    with open(file, encoding="utf-8") as lines:
        requests = [json.loads(line) for line in lines]
    assert requests, "there are no requests"
    report = Report()
    needed = set()
    for request in requests:
        with report.case(name_of(request)):
            found = [str(problem) for problem in problems_of(request)]
            excused = [text for text in found if pattern_of(text) in EXCEPTIONS[vendor]]
            needed.update(map(pattern_of, excused))
            valid([text for text in found if text not in excused], "the body")
            check_headers(request)
            if vendor == "bedrock":
                check_as_parameters(request)
    checked = report.passed

    with report.case("the list of exceptions"):
        equal(set(EXCEPTIONS[vendor]) - needed, set(), "exceptions that nothing needs")
    for form in sorted({request["form"] for request in requests}):
        for name, path, value, text in SPOILED.get(f"{vendor} {form}") or SPOILED[form]:
            with report.case(f"{form}: {name}, spoiled at {path} with {value!r}"):
                check_spoiled(requests, f"{form}: {name}", path, value, text)
    noticed = report.passed - checked - 1
    report.end(f"{checked} requests valid, {noticed} spoiled ones noticed")


def check_pairs(vendor, file):
    """Checks the requests of conversations that moved between wires.

    There are many requests, and a mistake is usually in many of them. For each kind of problem,
    only the shortest request is a failure of its own.
    """
    report = Report()
    shortest, failed = {}, 0
    with open(file, encoding="utf-8") as lines:
        for count, line in enumerate(lines, 1):
            request = json.loads(line)
            found = [str(problem) for problem in problems_of(request)]
            if vendor == "bedrock" and not found:
                found = objections_of_botocore(request)
            bad = [text for text in found if pattern_of(text) not in EXCEPTIONS[vendor]]
            failed += bool(bad)
            for text in bad:
                known = shortest.get(pattern_of(text))
                if known is None or len(line) < known[0]:
                    shortest[pattern_of(text)] = (len(line), request, text)
    for _, request, text in shortest.values():
        with report.case(request["request"]):
            valid([text], f"the body {json.dumps(request['body'])}")
    report.passed = count - failed
    report.end(f"{report.passed} moved conversations valid")


def objections_of_botocore(request):
    try:
        check_as_parameters(request)
    except AssertionError as error:
        return [f"botocore: {error}"]
    return []


def name_of(request):
    form, name = request["form"], request["request"]
    return f"{form}: {name}" + (", streamed" if request["stream"] else "")


def problems_of(request):
    # The path of a request to Gemini or Bedrock has the name of the model.
    path = re.sub(r"(?<=/models/)[^:]+|(?<=/model/)[^/]+", "*", request["path"])
    if "anthropic-beta" in request["headers"]:
        path += ", beta"
    module, name = BODIES[path]
    expected = getattr(importlib.import_module(module), name)
    return problems(request["body"], expected, without=SENT_AS_HEADERS)


def pattern_of(text):
    """Returns a problem with a star for every index in its path."""
    path, colon, rest = text.partition(":")
    return re.sub(r"\b\d+\b", "*", path) + colon + rest


def check_headers(request):
    headers = request["headers"]
    equal(headers.get("content-type"), "application/json", "the content type")
    if "anthropic-beta" in headers:
        from anthropic.types.anthropic_beta_param import AnthropicBetaParam

        known = literals_of(AnthropicBetaParam)
        unknown = [beta for beta in headers["anthropic-beta"].split(",") if beta not in known]
        equal(unknown, [], "betas that do not exist")


def literals_of(expected):
    """Returns the texts of a union of literals."""
    args = typing_extensions.get_args(expected)
    return {text for arg in args for text in ([arg] if isinstance(arg, str) else literals_of(arg))}


def check_spoiled(requests, name, path, value, text):
    request = copy.deepcopy(next(each for each in requests if name_of(each) == name))
    *way, last = [int(key) if key.isdigit() else key for key in path.split(".")]
    place = request["body"]
    for key in way:
        place = place[key]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    found = [str(problem) for problem in problems_of(request)]
    noticed = [each for each in found if each.startswith(f"{path}: ") and text in each]
    assert noticed, f"`{path}` {text}: this is not said, but {found}"


if __name__ == "__main__":
    match sys.argv[1:]:
        case [vendor, "--pairs", file]:
            check_pairs(vendor, file)
        case [vendor, file]:
            main(vendor, file)
