"""The application of this folder's files: put yours in its place."""

from framework import consumer


@consumer("orders", "billing")
async def bill(order: dict[str, object]) -> None:
    print("billed", order["number"], flush=True)
