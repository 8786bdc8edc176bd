// Every operation once, through an SDK that @hey-api/openapi-ts generated. Its functions check each request and each answer
// against the document at run time, so an answer that is not what the document says ends this program.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { answered, given, refused, setting } from "./answers.js";
import { client } from "./sdk/client.gen.js";
import * as operations from "./sdk/index.js";

const called = new Set<string>();
/** The SDK, noting which of its functions were called. */
const sdk = new Proxy(operations, {
  get(all, name) {
    called.add(String(name));
    return Reflect.get(all, name);
  },
});

client.setConfig({ baseUrl: setting("BASE") });
answered("getHealth", 200, await sdk.getHealth());
answered("getLiveness", 200, await sdk.getLiveness());
answered("getReadiness", 200, await sdk.getReadiness());
const registration = answered(
  "registerPartner",
  201,
  await sdk.registerPartner({
    body: { name: "SDK", businessType: "talent marketplace", contactEmail: "sdk@example.com" },
  }),
);
client.setConfig({ baseUrl: setting("BASE"), auth: given("apiKey", registration.apiKey) });

answered("getPartner", 200, await sdk.getPartner());
answered("updatePartner", 200, await sdk.updatePartner({ body: { timeZone: "Europe/Berlin" } }));
const key = answered("createApiKey", 201, await sdk.createApiKey({ body: { name: "reader", scopes: ["bookings:read"] } }));
answered("listApiKeys", 200, await sdk.listApiKeys());
const audit = answered("listAudit", 200, await sdk.listAudit({ query: { action: "createApiKey" } }));
assert.equal(audit.data[0]?.subject.apiKeyId, key.apiKeyId);
const rotated = answered(
  "rotateApiKey",
  201,
  await sdk.rotateApiKey({ path: { apiKeyId: key.apiKeyId }, body: { overlapSeconds: 0 } }),
);
assert.equal(rotated.replacedApiKeyId, key.apiKeyId);
const login = answered("createConsoleLink", 201, await sdk.createConsoleLink({ body: { person: "Ada Lovelace" } }));
assert.match(login.url, /\/console\/link\/[\w-]{43}$/);
const sessions = answered("listConsoleSessions", 200, await sdk.listConsoleSessions());
assert.deepEqual([sessions.data[0]?.person, sessions.data[0]?.startedAt], ["Ada Lovelace", undefined]);
answered("endConsoleSession", 200, await sdk.endConsoleSession({ path: { consoleSessionId: login.consoleSessionId } }));
answered("revokeApiKey", 200, await sdk.revokeApiKey({ path: { apiKeyId: key.apiKeyId } }));

// Policies: the templates of the library are policies, so each can be one's own under another name.
const templates = answered("listPolicyTemplates", 200, await sdk.listPolicyTemplates());
assert.ok(templates.data.length > 0);
for (const { policy } of templates.data) {
  const check = answered("validatePolicy", 200, await sdk.validatePolicy({ body: policy }));
  assert.equal(check.valid, true);
}
const template = given("a template", templates.data[0]).policy;
const house = { path: { policyId: "house" } };
answered("putPolicy", 200, await sdk.putPolicy({ ...house, body: { ...template, policyId: "house" } }));
answered("getPolicy", 200, await sdk.getPolicy(house));
answered("listPolicies", 200, await sdk.listPolicies());
answered("listPolicyVersions", 200, await sdk.listPolicyVersions(house));

// An endpoint where nobody listens: its events are there, and fail.
const endpoint = answered(
  "createWebhookEndpoint",
  201,
  await sdk.createWebhookEndpoint({ body: { url: "http://127.0.0.1:9/webhooks", ownSecret: true } }),
);
const endpointPath = { path: { endpointId: endpoint.endpointId } };
answered("listWebhookEndpoints", 200, await sdk.listWebhookEndpoints());
answered("getWebhookEndpoint", 200, await sdk.getWebhookEndpoint(endpointPath));
answered("updateWebhookEndpoint", 200, await sdk.updateWebhookEndpoint({ ...endpointPath, body: { description: "none" } }));
answered("testWebhookEndpoint", 200, await sdk.testWebhookEndpoint(endpointPath));
answered(
  "rotateWebhookEndpointSecret",
  200,
  await sdk.rotateWebhookEndpointSecret({ ...endpointPath, body: { overlapSeconds: 0 } }),
);
answered("rotatePartnerSecret", 200, await sdk.rotatePartnerSecret({ body: {} }));

async function record(policyId?: string): Promise<{ path: { bookingId: string } }> {
  const created = answered(
    "createBooking",
    201,
    await sdk.createBooking({
      headers: { "Idempotency-Key": crypto.randomUUID() },
      body: {
        talent: { id: "t-7", name: "The Night Owls" },
        organizer: { id: "o-42", name: "Acme Events" },
        eventType: "concert",
        eventDate: "2031-06-20T19:00:00",
        timeZone: "America/New_York",
        bookingValue: 1200.5,
        ...(policyId && { policyId }),
      },
    }),
  );
  return { path: { bookingId: created.bookingId } };
}

/** Everything that can be read about a booking, whatever became of it. */
async function read(booking: { path: { bookingId: string } }): Promise<void> {
  answered("getBooking", 200, await sdk.getBooking(booking));
  answered("getDisclosure", 200, await sdk.getDisclosure(booking));
  answered("evaluatePolicy", 200, await sdk.evaluatePolicy({ ...booking, query: { matrix: true } }));
  answered("getEvidence", 200, await sdk.getEvidence(booking));
  for (const form of ["stripe", "card"] as const) {
    answered("exportDispute", 200, await sdk.exportDispute({ ...booking, query: { for: form, reason: "general" } }));
  }
  answered("listBookingWebhookEvents", 200, await sdk.listBookingWebhookEvents(booking));
}

// Shown, accepted, protected, moved, and canceled at the price that was shown.
const kept = await record("house");
await read(kept);
const shown = answered("getDisclosure", 200, await sdk.getDisclosure(kept));
answered(
  "acceptTerms",
  201,
  await sdk.acceptTerms({
    ...kept,
    body: { party: "organizer", method: "checkbox", at: new Date().toISOString(), disclosureHash: shown.disclosureHash },
  }),
);
// What the partner adds to the evidence, with its file, and a link to all of it.
const file = new Uint8Array([0, 1, 2, 3, 254, 255]);
const item = answered(
  "addEvidenceItem",
  201,
  await sdk.addEvidenceItem({
    ...kept,
    body: { kind: "contract", title: "Contract", sha256: `sha256:${createHash("sha256").update(file).digest("hex")}` },
  }),
);
const itemPath = { path: { ...kept.path, itemId: item.itemId } };
// The generated checks take `format: binary` for text, unlike the generated types.
const unchecked = { requestValidator: async () => {}, responseValidator: async () => {} };
answered("putEvidenceItemFile", 200, await sdk.putEvidenceItemFile({ ...itemPath, ...unchecked, body: new Blob([file]) }));
answered("listEvidenceItems", 200, await sdk.listEvidenceItems(kept));
const fetched = answered("getEvidenceItemFile", 200, await sdk.getEvidenceItemFile({ ...itemPath, ...unchecked }));
assert.deepEqual(new Uint8Array(await (fetched as Blob).arrayBuffer()), file);
const deleted = answered("deleteEvidenceItemFile", 200, await sdk.deleteEvidenceItemFile(itemPath));
assert.deepEqual([deleted.itemId, deleted.sameFile], [item.itemId, []]);
const share = answered("createShare", 201, await sdk.createShare({ ...kept, body: { withhold: ["ip"] } }));
// The SDK sends what the packet's form is; whoever has the link needs no key.
const link = { path: { token: given("a token", share.url.split("/s/")[1]) } };
const opened = answered("openSharedEvidence", 200, await sdk.openSharedEvidence({ ...link, query: { form: "packet" } }));
assert.ok(typeof opened === "object" && opened.booking.bookingId === kept.path.bookingId);
const json = { headers: { Accept: "application/json" } };
assert.deepEqual(answered("getSharedEvidence", 200, await sdk.getSharedEvidence({ ...link, ...json })), opened);
answered("listShares", 200, await sdk.listShares(kept));
answered("revokeShare", 200, await sdk.revokeShare({ path: { ...kept.path, shareId: share.shareId } }));
answered("protectBooking", 200, await sdk.protectBooking(kept));
answered(
  "rescheduleBooking",
  200,
  await sdk.rescheduleBooking({ ...kept, body: { eventDate: "2031-07-20T19:00:00", agreedBy: ["organizer", "talent"] } }),
);
await read(kept);
// Another one: a hold, and after it an erasure.
const other = await record("house");
const hold = answered("placeHold", 201, await sdk.placeHold({ ...other, body: { reason: "Chargeback" } }));
const erasure = { ...other, body: { party: "organizer", legalBasis: "objection" } as const };
refused("an erasure under a hold", 409, await sdk.eraseValues(erasure));
answered("listHolds", 200, await sdk.listHolds(other));
answered("releaseHold", 200, await sdk.releaseHold({ path: { ...other.path, holdId: hold.holdId } }));
answered("eraseValues", 200, await sdk.eraseValues(erasure));
answered("listErasures", 200, await sdk.listErasures(other));
await read(other);
const stale = refused(
  "a cancellation at another price than shown",
  409,
  await sdk.cancelBooking({ ...kept, body: { canceledBy: "organizer", expected: { refundMinorUnits: 1 } } }),
);
assert.ok("code" in stale && stale.code === "quote_changed");
const price = given("the fresh price", given("the fresh evaluation", stale.evaluation).refund);
const canceled = answered(
  "cancelBooking",
  201,
  await sdk.cancelBooking({
    ...kept,
    body: { canceledBy: "organizer", reason: "illness", expected: { refundMinorUnits: Number(price.minorUnits) } },
  }),
);
answered("getResolution", 200, await sdk.getResolution({ path: { resolutionId: canceled.resolutionId } }));
await read(kept);

// Nobody can know whether it was force majeure: a person decides.
const disputed = await record();
const open = answered(
  "cancelBooking, claiming force majeure",
  201,
  await sdk.cancelBooking({ ...disputed, body: { canceledBy: "talent", reason: "force_majeure" } }),
);
assert.equal(open.status, "pending_review");
assert.equal(open.evaluation.refund ?? null, null);
await read(disputed);
const waiting = answered("listResolutions", 200, await sdk.listResolutions({ query: { status: "pending_review" } }));
assert.deepEqual(waiting.data, [open]);
answered(
  "decideResolution",
  201,
  await sdk.decideResolution({
    path: { resolutionId: open.resolutionId },
    body: { refund: 600, decidedBy: "J. Doe", rationale: "Half each." },
  }),
);
await read(disputed);

answered("listBookings", 200, await sdk.listBookings({ query: { status: "canceled", limit: 1 } }));
const found = answered("listBookings, searched", 200, await sdk.listBookings({ query: { search: open.bookingId.toUpperCase() } }));
assert.deepEqual(found.data.map((booking) => booking.bookingId), [open.bookingId]);
const events = answered("listWebhookEvents", 200, await sdk.listWebhookEvents());
answered("listWebhookEvents", 200, await sdk.listWebhookEvents({ query: { before: "latest", status: "failed" } }));
assert.equal(answered("getActivity", 200, await sdk.getActivity()).hours.length, 24);
const event = { path: { eventId: given("an event", events.data[0]).eventId } };
answered("getWebhookEvent", 200, await sdk.getWebhookEvent(event));
answered("retryWebhookEvent", 200, await sdk.retryWebhookEvent(event));
const recovery = answered(
  "recoverWebhookEvents",
  202,
  await sdk.recoverWebhookEvents({ body: { since: new Date(Date.now() - 3_600_000).toISOString(), dryRun: true } }),
);
answered("listWebhookRecoveries", 200, await sdk.listWebhookRecoveries());
answered("getWebhookRecovery", 200, await sdk.getWebhookRecovery({ path: { recoveryId: recovery.recoveryId } }));
answered("deleteWebhookEndpoint", 200, await sdk.deleteWebhookEndpoint(endpointPath));

answered("getLedgerKey", 200, await sdk.getLedgerKey());
const checkpoint = answered("getLedgerCheckpoint", 200, await sdk.getLedgerCheckpoint());
refused("getCosignedCheckpoint without witnesses", 404, await sdk.getCosignedCheckpoint());
const size = Number(checkpoint.split("\n")[1]);
assert.ok(size > 0 && size < 256, `the log of this program has ${size} entries, which is one tile`);
answered("getLedgerTile", 200, await sdk.getLedgerTile({ path: { path: `0/000.p/${size}` } }));

const missing = Object.keys(operations).filter((name) => !called.has(name));
assert.deepEqual(missing, [], "operations that this program does not call");
console.log(`clients: the SDK called all ${called.size} operations`);
