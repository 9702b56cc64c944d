"""Uses every feature of a server of neuron with the client of FastMCP, and prints the results as JSON.

Arguments: the mode of the connection (`legacy` or `auto`), and the server as JSON, which is its URL or the command that
starts it.
"""

import asyncio
import json
import sys

from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport
from mcp.shared.exceptions import MCPError
from mcp_types import CreateMessageResult, PromptReference, TextContent

seen = {"progress": [], "log": []}


async def on_progress(progress, total, message):
    seen["progress"].append([progress, total, message])


async def on_log(params):
    seen["log"].append([params.level, params.logger, params.data])


async def on_elicitation(message, response_type, params, context):
    fields = sorted(params.requested_schema["properties"])
    seen["elicitation"] = {"message": message, "fields": fields}
    return ElicitResult(action="accept", content={"name": "Ada", "age": 36})


async def on_sampling(messages, params, context):
    seen["sampling"] = {
        "prompt": messages[0].content.text,
        "system": params.system_prompt,
        "tokens": params.max_tokens,
    }
    answer = TextContent(type="text", text="forty-two")
    return CreateMessageResult(role="assistant", content=answer, model="python-model")


def result(answer):
    text = "".join(block.text for block in answer.content)
    return {"error": answer.is_error, "text": text, "structured": answer.structured_content}


def content(contents):
    [item] = contents
    return [str(item.uri), item.mime_type, item.text]


async def use(client):
    seen["version"] = client.protocol_version
    info = client.server_info
    seen["server"] = {"name": info.name, "version": info.version}
    seen["instructions"] = client.instructions
    if client.protocol_version < "2026":
        await client.set_logging_level("info")

    seen["tools"] = sorted(tool.name for tool in await client.list_tools())
    for name, arguments in [("add", {"a": 2, "b": 40}), ("work", {}), ("fail", {}), ("ask", {}), ("think", {})]:
        answer = await client.call_tool(name, arguments, raise_on_error=False)
        seen[name] = result(answer)
    try:
        await client.call_tool("unknown", {})
    except MCPError as error:
        seen["unknown"] = error.error.code

    seen["resources"] = [str(item.uri) for item in await client.list_resources()]
    templates = await client.list_resource_templates()
    seen["templates"] = [item.uri_template for item in templates]
    seen["readme"] = content(await client.read_resource("docs://readme"))
    seen["other"] = content(await client.read_resource("docs://other"))

    seen["prompts"] = [prompt.name for prompt in await client.list_prompts()]
    [message] = (await client.get_prompt("review", {"file": "main.rs"})).messages
    seen["review"] = [message.role, message.content.text]
    reference = PromptReference(type="ref/prompt", name="review")
    completed = await client.complete(reference, {"name": "language", "value": "ru"})
    seen["completion"] = completed.values


async def main(mode, server):
    if isinstance(server, dict):
        server = StdioTransport(keep_alive=False, **server)
    client = Client(
        server,
        mode=mode,
        timeout=120,
        log_handler=on_log,
        progress_handler=on_progress,
        elicitation_handler=on_elicitation,
        sampling_handler=on_sampling,
    )
    async with client:
        await use(client)
    print(json.dumps(seen))


asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
