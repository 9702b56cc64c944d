"""Server of the Python SDK with the two-endpoint HTTP transport of MCP 2024-11-05.

Prints the URL of its event stream to standard output. Stops at the end of its standard input.
"""

import asyncio
import socket
import sys

import uvicorn
from mcp.server.mcpserver import MCPServer

server = MCPServer("old")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
async def sleep() -> str:
    """Sleeps for an hour."""
    await asyncio.sleep(3600)
    return "awake"


async def main():
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(server.sse_app(), log_level="error", timeout_graceful_shutdown=0)
    serving = uvicorn.Server(config)
    port = listener.getsockname()[1]
    print(f"http://127.0.0.1:{port}/sse", flush=True)
    loop = asyncio.get_running_loop()
    ended = loop.run_in_executor(None, sys.stdin.read)
    served = asyncio.create_task(serving.serve(sockets=[listener]))
    await ended
    serving.force_exit = serving.should_exit = True
    await served


asyncio.run(main())
