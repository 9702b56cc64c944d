"""A server of FastMCP with a tool, a resource and a prompt of each kind.

Argument: `stdio` or `http`. Over HTTP it listens on a free port of the loopback interface, prints its URL as the first
line, and exits at the end of its input.
"""

import asyncio
import os
import socket
import sys
import threading

from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult
from pydantic import BaseModel

server = FastMCP("garden", version="1.2.3", instructions="Water it.", list_page_size=2)


class Bed(BaseModel):
    plant: str
    rows: int


@server.tool
def plant(bed: Bed, notes: list[str] | None = None) -> Bed:
    """Plants a bed."""
    return Bed(plant=bed.plant, rows=bed.rows + len(notes or []))


@server.tool(annotations={"readOnlyHint": True})
def count(text: str) -> int:
    """Counts the characters of a text."""
    return len(text)


@server.tool
async def grow(ctx: Context) -> str:
    """Reports progress and logs."""
    await ctx.report_progress(1, 2, "half")
    await ctx.info("growing")
    await ctx.report_progress(2, 2, "all")
    return "grown"


@server.tool
async def ask(ctx: Context) -> str | InputRequiredResult:
    """Asks the user for a bed. The client calls again with the response (MCP 2026-07-28)."""
    if ctx.input_responses is None:
        form = ElicitRequestFormParams(message="Which bed?", requested_schema=Bed.model_json_schema())
        requests = {"bed": ElicitRequest(params=form)}
        return InputRequiredResult(input_requests=requests, request_state="asked")
    answer = ctx.input_responses["bed"]
    return f"{ctx.request_state}, {answer.action}: {answer.content['plant']}"


@server.tool
def fail() -> str:
    """Fails."""
    raise ToolError("no rain")


@server.resource("garden://map", mime_type="text/plain")
def garden_map() -> str:
    return "north is up"


@server.resource("garden://bed/{name}")
def bed(name: str) -> str:
    return f"the bed of {name}"


@server.prompt
def advise(plant: str) -> str:
    """Asks for advice."""
    return f"How do I grow {plant}?"


async def serve_http():
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    await server.run_http_async(show_banner=False, log_level="error", sockets=[listener])


def exit_at_end_of_input():
    sys.stdin.buffer.read()
    os._exit(0)


if sys.argv[1] == "http":
    threading.Thread(target=exit_at_end_of_input, daemon=True).start()
    asyncio.run(serve_http())
else:
    server.run(transport="stdio", show_banner=False, log_level="error")
