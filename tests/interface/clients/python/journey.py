"""A partner's whole way, through a client that openapi-python-client generated: register, record a booking, repeat that,
show and accept its terms, protect it, ask what a cancellation would mean, take the evidence, cancel it at that price, receive
and read the events; and three refusals.

That mypy passes this at its strictest is half of the test: every field read below is one that the generated types promise.
"""

import datetime
import hashlib
import hmac
import http.server
import json
import os
import queue
import threading
from http import HTTPStatus
from typing import Any, TypeVar

from bookguard_client import AuthenticatedClient, Client
from bookguard_client.api.bookings import (
    accept_terms,
    create_booking,
    evaluate_policy,
    get_booking,
    get_disclosure,
    list_bookings,
    protect_booking,
)
from bookguard_client.api.cancellation import cancel_booking
from bookguard_client.api.evidence import get_evidence
from bookguard_client.api.partners import register_partner
from bookguard_client.api.webhooks import create_webhook_endpoint, list_webhook_events
from bookguard_client.models import (
    Accepted,
    Actor,
    Booking,
    BookingCreated,
    BookingCreatedEvent,
    BookingDisclosure,
    BookingProtectedEvent,
    BookingStatus,
    EndpointKept,
    Error,
    EvaluationStatus,
    EventLog,
    EventType,
    EvidencePacket,
    ExpectedResult,
    NewAcceptance,
    NewAcceptanceParty,
    NewBooking,
    NewBookingMetadata,
    NewCancellation,
    NewEndpoint,
    NewPartner,
    Party,
    PolicyEvaluation,
    Protected,
    Reason,
    Registration,
    Resolution,
    ResolutionCreatedEvent,
    ResolutionStatus,
    Unauthorized,
)
from bookguard_client.types import Response, Unset

T = TypeVar("T")


def parsed(what: str, answer: Response[Any], status: int, kind: type[T]) -> T:
    """The body of an answer, which must have this status and be of this generated class."""
    assert answer.status_code == status, f"{what}: {answer.status_code} {answer.content!r}"
    assert isinstance(answer.parsed, kind), f"{what}: {answer.content!r} is no {kind.__name__}"
    return answer.parsed


def given(what: str, value: T | Unset | None) -> T:
    """A field that may be absent and here must not be."""
    assert value is not None and not isinstance(value, Unset), f"{what} is absent"
    return value


class Receiver:
    """Takes deliveries on a free port of this machine, and hands on those that the secret has signed."""

    def __init__(self, secret: str) -> None:
        self.bodies: queue.Queue[bytes] = queue.Queue()
        bodies = self.bodies

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                signed = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
                ours = hmac.compare_digest(signed, self.headers.get("x-service-signature", ""))
                self.send_response(HTTPStatus.NO_CONTENT if ours else HTTPStatus.FORBIDDEN)
                self.end_headers()
                if ours:
                    bodies.put(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/webhooks"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def told(body: bytes) -> str:
    """What a partner's program would take from a delivery, through the generated class of its type."""
    fields = json.loads(body)
    match fields["type"]:
        case "booking.created":
            recorded = BookingCreatedEvent.from_dict(fields)
            worth = f"{recorded.payload.booking_value:.2f} {recorded.payload.currency}"
            return f"{recorded.seq} {recorded.booking_id} is worth {worth}"
        case "booking.protected":
            locked = BookingProtectedEvent.from_dict(fields)
            return f"{locked.seq} {locked.booking_id} is protected: {locked.payload.evidence_packet_url}"
        case "resolution.created":
            ended = ResolutionCreatedEvent.from_dict(fields)
            return f"{ended.seq} {ended.booking_id} ended: {ended.payload.resolution_id}"
        case other:
            raise AssertionError(f"nobody asked to hear of {other}")


base_url = os.environ["BASE"]
# A generated client meets no answer that the document does not name.
anyone = Client(base_url=base_url, raise_on_unexpected_status=True)
registration = parsed(
    "registerPartner",
    register_partner.sync_detailed(
        client=anyone,
        body=NewPartner(name="Python", business_type="talent marketplace", contact_email="py@example.com"),
    ),
    201,
    Registration,
)
client = AuthenticatedClient(
    base_url=base_url,
    token=given("apiKey", registration.api_key),
    prefix="",
    auth_header_name="x-api-key",
    raise_on_unexpected_status=True,
)
receiver = Receiver(given("signingSecret", registration.signing_secret))
parsed(
    "createWebhookEndpoint",
    create_webhook_endpoint.sync_detailed(client=client, body=NewEndpoint(url=receiver.url)),
    201,
    EndpointKept,
)

metadata = NewBookingMetadata()
metadata["order"] = "1001"
booking = NewBooking(
    talent=Party(id="t-7", name="The Night Owls"),
    organizer=Party(id="o-42", name="Acme Events"),
    event_type="concert",
    event_date="2031-06-20T19:00:00",
    time_zone="America/New_York",
    booking_value=1200.50,
    metadata=metadata,
)
first = create_booking.sync_detailed(client=client, body=booking, idempotency_key="order-1001")
created = parsed("createBooking", first, 201, BookingCreated)
again = create_booking.sync_detailed(client=client, body=booking, idempotency_key="order-1001")
assert parsed("createBooking, repeated", again, 201, BookingCreated) == created
assert "idempotent-replayed" not in first.headers and again.headers["idempotent-replayed"] == "true"
assert created.status is BookingStatus.CREATED

disclosure = parsed(
    "getDisclosure", get_disclosure.sync_detailed(created.booking_id, client=client), 200, BookingDisclosure
)
# A datetime of Python has microseconds and an offset written +00:00.
now = datetime.datetime.now(datetime.timezone.utc)
accepted = parsed(
    "acceptTerms",
    accept_terms.sync_detailed(
        created.booking_id,
        client=client,
        body=NewAcceptance(
            party=NewAcceptanceParty.ORGANIZER, method="checkbox", at=now, disclosure_hash=disclosure.disclosure_hash
        ),
    ),
    201,
    Accepted,
)
assert abs(accepted.at - now) < datetime.timedelta(milliseconds=1), (accepted.at, now)

protection = parsed(
    "protectBooking", protect_booking.sync_detailed(created.booking_id, client=client), 200, Protected
)
assert protection.protected is True
assert isinstance(protection.protected_at, datetime.datetime) and protection.protected_at >= created.created_at
assert isinstance(protection.receipt.leaf_index, int)

shown = parsed("getBooking", get_booking.sync_detailed(created.booking_id, client=client), 200, Booking)
assert isinstance(shown.booking_value, float) and shown.booking_value == 1200.50
assert shown.protected_at == protection.protected_at and shown.status is BookingStatus.PROTECTED
assert given("metadata", shown.metadata)["order"] == "1001"

as_of = datetime.datetime(2031, 6, 1, 12, tzinfo=datetime.timezone.utc)
evaluation = parsed(
    "evaluatePolicy",
    evaluate_policy.sync_detailed(created.booking_id, client=client, as_of=as_of),
    200,
    PolicyEvaluation,
)
assert evaluation.evaluation_status is EvaluationStatus.EVALUATED and evaluation.as_of == as_of
refund, penalty = given("refund", evaluation.refund), given("penalty", evaluation.penalty)
assert refund.minor_units + penalty.minor_units == 120050 and refund.currency == "USD"
assert isinstance(refund.amount, str)

packet = parsed("getEvidence", get_evidence.sync_detailed(created.booking_id, client=client), 200, EvidencePacket)
assert packet.booking.booking_id == created.booking_id
assert len(packet.entries) >= 3, "recorded, accepted, protected"

# Canceled at the price that was shown, and at no other.
quote = ExpectedResult(refund_minor_units=1)
cancellation = NewCancellation(canceled_by=Actor.ORGANIZER, reason=Reason.ILLNESS, expected=quote)
stale = parsed(
    "a cancellation at another price",
    cancel_booking.sync_detailed(created.booking_id, client=client, body=cancellation),
    409,
    Error,
)
assert stale.code == "quote_changed"
fresh = given("the fresh price", given("the fresh evaluation", stale.evaluation).refund)
quote.refund_minor_units = fresh.minor_units
resolution = parsed(
    "cancelBooking",
    cancel_booking.sync_detailed(created.booking_id, client=client, body=cancellation),
    201,
    Resolution,
)
assert resolution.status is ResolutionStatus.FINAL
assert given("what goes back", resolution.evaluation.refund) == fresh

events = parsed("listWebhookEvents", list_webhook_events.sync_detailed(client=client), 200, EventLog)
assert [event.type_ for event in events.data] == [
    EventType.BOOKING_CREATED,
    EventType.BOOKING_PROTECTED,
    EventType.RESOLUTION_CREATED,
]
assert [event.seq for event in events.data] == [1, 2, 3]

# The deliveries themselves; those that are on their way at once may come in any order.
assert sorted(told(receiver.bodies.get(timeout=30)) for _ in events.data) == [
    f"1 {created.booking_id} is worth 1200.50 USD",
    f"2 {created.booking_id} is protected: {base_url}/v1/bookings/{created.booking_id}/evidence",
    f"3 {created.booking_id} ended: {resolution.resolution_id}",
]

# Refusals, read through the classes of their statuses.
booking.event_type, booking.event_date = "", "some day"
faulty = parsed("a booking without a type", create_booking.sync_detailed(client=client, body=booking), 400, Error)
assert sorted(fault.pointer for fault in faulty.details) == ["/eventDate", "/eventType"]
assert all(fault.fix and fault.code for fault in faulty.details)

stranger = AuthenticatedClient(base_url=base_url, token="bgk_none", prefix="", auth_header_name="x-api-key")
unknown = parsed("a key that nobody has", list_bookings.sync_detailed(client=stranger), 401, Unauthorized)
assert unknown.error == "Unauthorized"

nowhere = get_booking.sync_detailed("bkg_" + 32 * "0", client=client)
assert parsed("a booking that is not there", nowhere, 404, Error).code == "not_found"

print(f"clients: Python went the whole way with {created.booking_id}")
