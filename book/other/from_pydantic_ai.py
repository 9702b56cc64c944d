# ANCHOR: imports
from dataclasses import dataclass

from pydantic import BaseModel
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, RunContext, ToolApproved
# ANCHOR_END: imports


# ANCHOR: typed
@dataclass
class Shop:
    name: str


class Answer(BaseModel):
    advice: str
    refundable: bool


support = Agent(
    "anthropic:claude-sonnet-4-6",
    deps_type=Shop,
    output_type=Answer,
    instructions="You are a support agent in a shop.",
)


@support.tool
async def order_state(ctx: RunContext[Shop], order: int) -> str:
    """Returns the state of an order."""
    return f"{ctx.deps.name}: order {order} was delivered twice"


def typed() -> None:
    result = support.run_sync("Order 42 came twice.", deps=Shop("Corner shop"))
    print(f"{result.output.advice} (refundable: {result.output.refundable})")
# ANCHOR_END: typed


# ANCHOR: approval
billing = Agent("anthropic:claude-sonnet-4-6", output_type=[str, DeferredToolRequests])


@billing.tool_plain(requires_approval=True)
def refund(order: int) -> str:
    """Pays back the price of an order."""
    return f"order {order} is paid back"


def approval() -> None:
    result = billing.run_sync("Refund order 42.")
    while isinstance(result.output, DeferredToolRequests):
        decisions = DeferredToolResults()
        for call in result.output.approvals:
            print(f"approved: {call.tool_name} {call.args}")
            decisions.approvals[call.tool_call_id] = ToolApproved()
        result = billing.run_sync(
            message_history=result.all_messages(), deferred_tool_results=decisions
        )
    print(result.output)
# ANCHOR_END: approval


if __name__ == "__main__":
    typed()
    approval()
