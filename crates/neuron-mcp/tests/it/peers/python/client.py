"""Client of the Python SDK for a server of neuron. Uses every feature of the server, and prints a report as JSON.

Arguments: the mode of the connection (`legacy` or `auto`), and the server as JSON. The server is a string with a URL,
or an object with the command that starts the server over stdio.
"""

import asyncio
import json
import sys

import mcp_types as types
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.shared.exceptions import MCPError

seen = {"progress": [], "log": []}


async def on_progress(progress, total, message):
    seen["progress"].append([progress, total, message])


async def on_log(params):
    seen["log"].append([params.level, params.logger, params.data])


async def on_elicitation(context, params):
    fields = sorted(params.requested_schema["properties"])
    seen["elicitation"] = {"message": params.message, "fields": fields}
    return types.ElicitResult(action="accept", content={"name": "Ada", "age": 36})


async def on_sampling(context, params):
    prompt = params.messages[0].content
    seen["sampling"] = {
        "prompt": prompt.text,
        "system": params.system_prompt,
        "tokens": params.max_tokens,
    }
    answer = types.TextContent(type="text", text="forty-two")
    return types.CreateMessageResult(role="assistant", content=answer, model="python-model")


def result(answer):
    text = "".join(block.text for block in answer.content)
    return {"error": answer.is_error, "text": text, "structured": answer.structured_content}


def content(answer):
    [item] = answer.contents
    return [item.uri, item.mime_type, item.text]


async def use(client):
    seen["version"] = client.protocol_version
    info = client.server_info
    seen["server"] = {"name": info.name, "version": info.version}
    seen["instructions"] = client.instructions
    if client.protocol_version < "2026":
        await client.set_logging_level("info")

    seen["tools"] = sorted(tool.name for tool in (await client.list_tools()).tools)
    seen["add"] = result(await client.call_tool("add", {"a": 2, "b": 40}))
    seen["work"] = result(await client.call_tool("work", {}, progress_callback=on_progress))
    for name in ["fail", "ask", "think"]:
        seen[name] = result(await client.call_tool(name, {}))
    try:
        await client.call_tool("unknown", {})
    except MCPError as error:
        seen["unknown"] = error.error.code

    seen["resources"] = [item.uri for item in (await client.list_resources()).resources]
    templates = (await client.list_resource_templates()).resource_templates
    seen["templates"] = [item.uri_template for item in templates]
    seen["readme"] = content(await client.read_resource("docs://readme"))
    seen["other"] = content(await client.read_resource("docs://other"))

    seen["prompts"] = [prompt.name for prompt in (await client.list_prompts()).prompts]
    [message] = (await client.get_prompt("review", {"file": "main.rs"})).messages
    seen["review"] = [message.role, message.content.text]
    reference = types.PromptReference(type="ref/prompt", name="review")
    completed = await client.complete(reference, {"name": "language", "value": "ru"})
    seen["completion"] = completed.completion.values


async def main(mode, server):
    if isinstance(server, dict):
        server = StdioServerParameters(**server)
    client = Client(
        server,
        mode=mode,
        read_timeout_seconds=120,
        log_level="info",
        logging_callback=on_log,
        elicitation_callback=on_elicitation,
        sampling_callback=on_sampling,
    )
    async with client:
        await use(client)
    print(json.dumps(seen))


asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
