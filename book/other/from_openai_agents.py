# ANCHOR: imports
import asyncio

from agents import Agent, Runner, function_tool
# ANCHOR_END: imports


# ANCHOR: agent
@function_tool
def refund(order: int) -> str:
    """Pays back the price of an order."""
    return f"order {order} is paid back"


billing = Agent(name="Billing", instructions="You handle refunds.", tools=[refund])
# ANCHOR_END: agent

# ANCHOR: handoff
triage = Agent(
    name="Triage",
    instructions="Transfer the customer to the right agent.",
    handoffs=[billing],
)


async def handoff() -> None:
    result = await Runner.run(triage, "I paid twice for order 42.")
    print(f"{result.last_agent.name}: {result.final_output}")
# ANCHOR_END: handoff


# ANCHOR: sub_agent
translator = Agent(name="Translator", instructions="Translate the text into French.")
writer = Agent(
    name="Writer",
    tools=[
        translator.as_tool(
            tool_name="translator",
            tool_description="Translates a text into French.",
        )
    ],
)


async def agent_as_tool() -> None:
    result = await Runner.run(writer, "Say good morning in French.")
    print(f"Writer: {result.final_output}")
# ANCHOR_END: sub_agent


async def main() -> None:
    await handoff()
    await agent_as_tool()


if __name__ == "__main__":
    asyncio.run(main())
