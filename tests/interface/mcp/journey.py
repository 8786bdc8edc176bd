"""The protocol's own client goes through the story of a booking: over HTTP, through `bookguard mcp` to the server, and
through `bookguard mcp` on a database; with the newest revision and with the handshake of those before it. The client holds
every answer to the tool's output schema; every tool is called."""

import asyncio
import contextlib
import http.server
import json
import os
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
from jsonschema import Draft202012Validator
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

BASE, BOOKGUARD, WORK = os.environ["BASE"], os.environ["BOOKGUARD"], os.environ["WORK"]
# A journey is a few seconds; what does not answer is to fail, not to be waited for.
PATIENCE_S = 60
BOOKING = {
    "talent": {"id": "tal-7", "name": "The Night Owls"},
    "organizer": {"id": "org-3", "name": "Acme Events"},
    "eventType": "concert",
    "eventDate": "2031-06-20T19:00:00-04:00",
    "bookingValue": 1250.5,
    "currency": "USD",
}


class Place:
    """A partner of its own, and how it is reached."""

    def __init__(self, way: str) -> None:
        self.way = way
        self.args = ["--db", f"{WORK}/local.db", "--dev"] if way == "database" else ["--url", BASE]
        self.env: dict[str, str] = {}
        made = self.run("partners", "register", "--name", "A", "--business-type", "b", "--contact-email", "a@example.com")
        self.key = made["apiKey"]
        if way == "database":
            self.args += ["--partner", made["partnerId"]]
        else:
            self.env = {"BOOKGUARD_API_KEY": self.key}

    def run(self, *command: str) -> dict[str, Any]:
        """A command of the program, as this partner."""
        line = [BOOKGUARD, *command, *self.args, "--output", "json"]
        done = subprocess.run(line, env={**os.environ, **self.env}, capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == 0, (line, done.stderr)
        return json.loads(done.stdout)

    @contextlib.asynccontextmanager
    async def client(self, mode: str) -> AsyncIterator[Client]:
        """The protocol's client."""
        if self.way != "http":
            server = StdioServerParameters(command=BOOKGUARD, args=["mcp", *self.args], env=self.env)
            async with Client(server, mode=mode, read_timeout_seconds=PATIENCE_S) as client:
                yield client
            return
        async with http_client({"x-api-key": self.key}, mode) as client:
            yield client


@contextlib.asynccontextmanager
async def http_client(headers: dict[str, str], mode: str) -> AsyncIterator[Client]:
    async with httpx2.AsyncClient(headers=headers, trust_env=False, timeout=PATIENCE_S) as own:
        transport = streamable_http_client(f"{BASE}/mcp", http_client=own)
        async with Client(transport, mode=mode, read_timeout_seconds=PATIENCE_S) as client:
            yield client


@contextlib.contextmanager
def receiver() -> Iterator[str]:
    """Takes webhooks."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()


class Tools:
    """The tools as they were listed, each called with arguments that its schema allows."""

    def __init__(self, client: Client, listed: list[Any]) -> None:
        self.client, self.called = client, set[str]()
        self.inputs = {}
        for tool in listed:
            for schema in (tool.input_schema, tool.output_schema):
                Draft202012Validator.check_schema(schema)
            assert tool.title and tool.description and tool.annotations, tool
            self.inputs[tool.name] = Draft202012Validator(tool.input_schema)

    async def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        self.inputs[name].validate(arguments)
        self.called.add(name)
        # The client itself checks the answer against the output schema.
        result = await self.client.call_tool(name, arguments)
        assert not result.is_error, (name, result)
        assert json.loads(result.content[0].text) == result.structured_content, name
        return result.structured_content

    async def refused(self, name: str, **arguments: Any) -> dict[str, Any]:
        result = await self.client.call_tool(name, arguments)
        assert result.is_error, (name, result)
        return json.loads(result.content[0].text)


async def error(asked: Any) -> MCPError:
    try:
        answer = await asked
    except MCPError as told:
        return told
    raise AssertionError(f"no error: {answer}")


async def journey(way: str, mode: str, webhooks: str) -> None:
    place = Place(way)
    async with place.client(mode) as client:
        expected = "2026-07-28" if mode == "auto" else "2025-11-25"
        assert client.protocol_version == expected, client.protocol_version
        assert client.server_info and client.server_info.name == "bookguard", client.server_info
        assert client.instructions
        listed = (await client.list_tools()).tools
        tools = Tools(client, listed)
        booking = await tools.call("create_booking", **BOOKING, idempotencyKey="the-one")
        again = await tools.call("create_booking", **BOOKING, idempotencyKey="the-one")
        assert booking == again
        this = {"bookingId": booking["bookingId"]}
        await tools.call("protect_booking", **this)
        added = await tools.call("add_evidence_item", **this, kind="message", title="Agreed by mail", idempotencyKey="the-item")
        assert [i["itemId"] for i in (await tools.call("list_evidence_items", **this))["items"]] == [added["itemId"]]
        assert (await tools.call("get_booking", **this))["status"] == "protected"
        assert [b["bookingId"] for b in (await tools.call("list_bookings", status="protected"))["data"]] == [this["bookingId"]]
        shown = await tools.call("evaluate_policy", **this, canceledBy="organizer", reason="changed_plans")
        quote = {"refundMinorUnits": shown["refund"]["minorUnits"], "policyHash": shown["policy"]["policyHash"]}
        cancel = {**this, "canceledBy": "organizer", "reason": "changed_plans"}
        other = await tools.refused("cancel_booking", **cancel, expected={"refundMinorUnits": 1})
        assert other["code"] == "quote_changed" and other["evaluation"]["refund"] == shown["refund"], other
        canceled = await tools.call("cancel_booking", **cancel, expected=quote)
        assert canceled["evaluation"]["refund"] == shown["refund"]
        await events(place, tools, this, webhooks)
        await evidence(client, tools, this)
        assert tools.called == {tool.name for tool in listed}, "every tool"
        await errors(client, tools, way)
    print(f"mcp: {way}, {mode}: {len(tools.called)} tools called")


async def events(place: Place, tools: Tools, this: dict[str, str], webhooks: str) -> None:
    log = await tools.call("list_webhook_events", **this, after=0)
    assert [event["type"] for event in log["data"]] == ["booking.created", "booking.protected", "resolution.created"]
    place.run("webhook-endpoints", "create", webhooks)
    retried = await tools.call("retry_webhook_event", eventId=log["data"][0]["eventId"])
    # On a database alone it waits for the next server.
    assert retried["retryStatus"] == ("pending" if place.way == "database" else "delivered"), retried


async def evidence(client: Client, tools: Tools, this: dict[str, str]) -> None:
    packet = await tools.call("get_evidence", **this)
    assert (await tools.call("verify_evidence", **this))["verified"]
    assert (await tools.call("verify_evidence", packet=packet))["verified"]
    export = await tools.call("export_dispute", **this, **{"for": "stripe", "reason": "credit_not_processed"})
    assert export["request"]["submit"] is False and export["missing"], export
    packet["booking"]["bookingValue"] = 1
    assert not (await tools.call("verify_evidence", packet=packet))["verified"]
    templates = (await client.list_resource_templates()).resource_templates
    assert len(templates) == 1, templates
    uri = templates[0].uri_template.replace("{bookingId}", this["bookingId"])
    assert [resource.uri for resource in (await client.list_resources()).resources] == [uri]
    content = (await client.read_resource(uri)).contents[0]
    assert content.mime_type == "application/json"
    assert json.loads(content.text)["booking"]["bookingId"] == this["bookingId"]


async def errors(client: Client, tools: Tools, way: str) -> None:
    told = await error(client.read_resource("bookguard://bookings/bkg_0/evidence"))
    assert told.error.code in (-32002, -32602), told
    assert (await error(client.call_tool("no_such_tool", {}))).error.code == -32602
    assert (await tools.refused("get_booking", bookingId="bkg_0"))["error"] == "Not Found"
    faulty = await tools.refused("create_booking", **{**BOOKING, "bookingValue": -1, "surplus": 1})
    assert {"/bookingValue", "/surplus"} <= {fault["pointer"] for fault in faulty["details"]}, faulty
    if way == "http":
        async with http_client({}, "legacy") as stranger:
            assert (await stranger.list_tools()).tools
            await error(stranger.call_tool("list_bookings", {}))
        try:
            async with http_client({"x-api-key": "bgk_wrong"}, "legacy"):
                raise AssertionError("a wrong key was let in")
        except (MCPError, httpx2.HTTPError, ExceptionGroup):
            pass


async def main() -> None:
    with receiver() as webhooks:
        for way in ("http", "server", "database"):
            for mode in ("auto", "legacy"):
                await asyncio.wait_for(journey(way, mode, webhooks), 2 * PATIENCE_S)


asyncio.run(main())
