// A partner's whole way, through a client that openapi-typescript generated: register, record a booking, repeat that,
// protect it, ask what a cancellation would mean, take the evidence, read and receive the events; and three refusals.
//
// That this compiles is half of the test: every field read below is one that the generated types promise.
import assert from "node:assert/strict";
import createClient from "openapi-fetch";
import { answered, given, instant, refused, setting } from "./answers.js";
import type { components, paths } from "./bookguard.js";
import { listen, told } from "./receiver.js";

type Schemas = components["schemas"];

const baseUrl = setting("BASE");
const anyone = createClient<paths>({ baseUrl });

const registration: Schemas["Registration"] = answered(
  "registerPartner",
  201,
  await anyone.POST("/v1/partners/register", {
    body: { name: "TypeScript", businessType: "talent marketplace", contactEmail: "ts@example.com" },
  }),
);
const api = createClient<paths>({ baseUrl, headers: { "x-api-key": given("apiKey", registration.apiKey) } });

const receiver = await listen(given("signingSecret", registration.signingSecret));
const endpoint: Schemas["EndpointKept"] = answered(
  "createWebhookEndpoint",
  201,
  await api.POST("/v1/webhook-endpoints", { body: { url: receiver.url } }),
);
const { endpointId } = endpoint;
answered(
  "testWebhookEndpoint",
  200,
  await api.POST("/v1/webhook-endpoints/{endpointId}/test", { params: { path: { endpointId } } }),
);
assert.equal(told(await receiver.next()), `${endpointId} is heard, about null`);

const booking: Schemas["NewBooking"] = {
  talent: { id: "t-7", name: "The Night Owls" },
  organizer: { id: "o-42", name: "Acme Events" },
  eventType: "concert",
  eventDate: "2031-06-20T19:00:00",
  timeZone: "America/New_York",
  bookingValue: 1200.5,
  metadata: { order: "1001" },
};
const header = { "Idempotency-Key": "order-1001" };
const create = () => api.POST("/v1/bookings", { params: { header }, body: booking });
const first = await create();
const created: Schemas["BookingCreated"] = answered("createBooking", 201, first);
assert.equal(first.response.headers.get("idempotent-replayed"), null);
const again = await create();
assert.deepEqual(answered("createBooking, repeated", 201, again), created);
assert.equal(again.response.headers.get("idempotent-replayed"), "true");
assert.equal(created.status satisfies Schemas["BookingStatus"], "created");

const params = { path: { bookingId: created.bookingId } };
const protection: Schemas["Protected"] = answered(
  "protectBooking",
  200,
  await api.POST("/v1/bookings/{bookingId}/protect", { params }),
);
assert.equal(protection.protected, true);
assert.ok(instant(protection.protectedAt) >= instant(created.createdAt));
assert.ok(Number.isInteger(protection.receipt.leafIndex satisfies number));

const shown: Schemas["Booking"] = answered("getBooking", 200, await api.GET("/v1/bookings/{bookingId}", { params }));
assert.equal(shown.bookingValue satisfies number, 1200.5);
assert.equal(shown.protectedAt, protection.protectedAt);
assert.deepEqual(given("metadata", shown.metadata) satisfies Record<string, string>, { order: "1001" });

const evaluation: Schemas["PolicyEvaluation"] = answered(
  "evaluatePolicy",
  200,
  await api.GET("/v1/bookings/{bookingId}/policy-evaluation", {
    params: { ...params, query: { asOf: "2031-06-01T12:00:00Z", canceledBy: "organizer" } },
  }),
);
assert.equal(evaluation.evaluationStatus satisfies Schemas["EvaluationStatus"], "evaluated");
const refund = given("what goes back", evaluation.refund);
assert.equal(refund.minorUnits + given("what is kept", evaluation.penalty).minorUnits, 120050);
assert.match(refund.amount satisfies string, /^\d+\.\d{2}$/);
assert.equal(refund.currency, "USD");

const evidence = answered(
  "getEvidence",
  200,
  await api.GET("/v1/bookings/{bookingId}/evidence", { params }),
);
// Only who asks for a page or a PDF gets text.
assert.ok(typeof evidence !== "string");
const packet: Schemas["EvidencePacket"] = evidence;
assert.equal(packet.booking.bookingId, created.bookingId);
assert.ok(packet.entries.length >= 2, "a protected booking has two entries");

const events: Schemas["EventLog"] = answered(
  "listWebhookEvents",
  200,
  await api.GET("/v1/webhook-events"),
);
assert.deepEqual(events.data.map((event): Schemas["EventType"] => event.type), ["booking.created", "booking.protected"]);
assert.deepEqual(events.data.map((event): number => event.seq), [1, 2]);

// The deliveries themselves; two that are on their way at once may come in either order.
const deliveries = [told(await receiver.next()), told(await receiver.next())].sort();
receiver.close();
assert.deepEqual(deliveries, [
  `1 ${created.bookingId} is worth 1200.50 USD`,
  `2 ${created.bookingId} is protected: ${baseUrl}/v1/bookings/${created.bookingId}/evidence`,
]);

// Refusals, read through the types of their statuses.
const faulty = refused(
  "a booking of no type on some day",
  400,
  await api.POST("/v1/bookings", { body: { ...booking, eventType: "", eventDate: "some day" } }),
);
assert.ok("details" in faulty, "a 400 has details");
const pointers = faulty.details.map((fault: Schemas["FieldError"]): string => fault.pointer);
assert.deepEqual(pointers.sort(), ["/eventDate", "/eventType"]);
assert.ok(faulty.details.every((fault) => fault.fix.length > 0 && fault.code.length > 0));

const stranger = refused("a call without a key", 401, await anyone.GET("/v1/bookings"));
assert.equal(stranger.error satisfies string, "Unauthorized");

const nowhere = refused(
  "a booking that is not there",
  404,
  await api.GET("/v1/bookings/{bookingId}", { params: { path: { bookingId: "bkg_00000000000000000000000000000000" } } }),
);
assert.ok("code" in nowhere, "a 404 has a code");
assert.equal(nowhere.code satisfies string, "not_found");

// What has a default may be left out, and what is empty is.
answered(
  "putPolicy",
  200,
  await api.PUT("/v1/policies/{policyId}", {
    params: { path: { policyId: "house" } },
    body: { organizer: { tiers: [{ before: "P7D", outcome: { refundBps: 10_000 } }], late: { refundBps: 0 } } },
  }),
);
const { metadata: _, ...rest } = booking;
const bare: Schemas["BookingCreated"] = answered("createBooking", 201, await api.POST("/v1/bookings", { body: rest }));
const plain: Schemas["Booking"] = answered(
  "getBooking",
  200,
  await api.GET("/v1/bookings/{bookingId}", { params: { path: { bookingId: bare.bookingId } } }),
);
// @ts-expect-error: a program that takes references for granted does not compile.
assert.throws(() => plain.metadata.order, TypeError);

console.log(`clients: TypeScript went the whole way with ${created.bookingId}`);
