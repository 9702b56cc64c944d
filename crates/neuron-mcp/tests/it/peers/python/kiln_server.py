"""A server of FastMCP whose calls are tasks, over stdio. Its engine keeps the tasks in memory."""

import asyncio
from datetime import timedelta

from fastmcp import Context, FastMCP
from fastmcp.utilities.tasks import TaskConfig
from fastmcp_tasks import TasksExtension
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult

server = FastMCP("kiln", version="1.2.3")
server.add_extension(TasksExtension())
task = TaskConfig(mode="required", poll_interval=timedelta(milliseconds=50))
fired = []


@server.tool(task=task)
async def fire(seconds: float) -> dict:
    """Fires the kiln."""
    await asyncio.sleep(seconds)
    fired.append(seconds)
    return {"fired": True}


@server.tool
async def finished() -> dict:
    """Returns the seconds of all finished firings."""
    return {"fired": fired}


@server.tool(task=task)
async def crack() -> str:
    """Fails."""
    raise ValueError("it cracked")


@server.tool(task=task)
async def glaze(ctx: Context) -> str:
    """Asks for a color."""
    if not ctx.input_responses:
        schema = {"type": "object", "properties": {"color": {"type": "string"}}, "required": ["color"]}
        params = ElicitRequestFormParams(message="Which color?", requested_schema=schema)
        return InputRequiredResult(input_requests={"color": ElicitRequest(params=params)})
    answer = ctx.input_responses["color"]
    return f"{answer.action}: {(answer.content or {}).get('color')}"


server.run(transport="stdio", show_banner=False, log_level="ERROR")
