"""An agent of Pydantic AI that calls the tools of a server of neuron, and prints what its model sees as JSON.

Arguments: `agent`, and the server as JSON, which is its URL or the command that starts it.
"""

import asyncio
import json
import sys

from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelResponse, RetryPromptPart, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel

seen = {"progress": []}
calls = [("add", {"a": 2, "b": 40}), ("work", {}), ("fail", {}), ("ask", {}), ("think", {})]


async def on_progress(progress, total, message):
    seen["progress"].append([progress, total, message])


async def on_elicitation(message, response_type, params, context):
    fields = sorted(params.requested_schema["properties"])
    seen["elicitation"] = {"message": message, "fields": fields}
    return ElicitResult(action="accept", content={"name": "Ada", "age": 36})


def sampled(messages, info):
    parts = messages[0].parts
    seen["sampling"] = {"prompt": parts[-1].content, "system": info.instructions or parts[0].content}
    return ModelResponse(parts=[TextPart("forty-two")], model_name="python-model")


def model(messages, info):
    seen["tools"] = sorted(tool.name for tool in info.function_tools)
    for part in messages[-1].parts:
        if isinstance(part, (ToolReturnPart, RetryPromptPart)):
            retry = isinstance(part, RetryPromptPart)
            seen[part.tool_name] = ["retry" if retry else "result", part.content]
    done = sum(isinstance(message, ModelResponse) for message in messages)
    if done == len(calls):
        return ModelResponse(parts=[TextPart("done")])
    return ModelResponse(parts=[ToolCallPart(*calls[done])])


async def main(server):
    if isinstance(server, dict):
        server = StdioTransport(keep_alive=False, **server)
    toolset = MCPToolset(
        server,
        max_retries=3,
        progress_handler=on_progress,
        elicitation_handler=on_elicitation,
        sampling_model=FunctionModel(sampled),
        init_timeout=120,
        read_timeout=120,
    )
    agent = Agent(FunctionModel(model), toolsets=[toolset])
    async with agent:
        seen["output"] = (await agent.run("Begin.")).output
    print(json.dumps(seen))


asyncio.run(main(json.loads(sys.argv[2])))
