// A partner's calls of the service, and a receiver of its webhooks.
import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";

import { serve } from "./watched.mjs";

export const RENOWNED = "فرقة النجوم 東京イベント 🎷";

export async function ask(base, key, path, body, method = "POST") {
  const headers = { "x-api-key": key, "content-type": "application/json" };
  const answer = await fetch(base + path, { headers, ...(body && { method, body: JSON.stringify(body) }) });
  assert(answer.ok, `${path} answers ${answer.status}: ${await answer.clone().text()}`);
  return answer;
}

export async function booked(base, key, organizer) {
  const made = await ask(base, key, "/v1/bookings", {
    talent: { id: "t-7", name: RENOWNED },
    organizer: { id: "o-42", name: organizer },
    eventType: "concert",
    eventDate: "2031-06-20T19:00:00",
    timeZone: "America/New_York",
    bookingValue: 1200.5,
    amountPaid: 600,
    policyId: "firm",
    metadata: { "😀": "a -->", "ﬁ": "x" },
  });
  return (await made.json()).bookingId;
}

// What registering a partner answers.
export async function registered(base, name) {
  const partner = { name, businessType: "tests", contactEmail: "tests@example.com" };
  return (await ask(base, "", "/v1/partners/register", partner)).json();
}

// Refuses until it is mended, and holds deliveries for as long as it is told to.
export async function receiver() {
  const state = { mended: false, tests: 0, held: undefined };
  const site = await serve(async (asked, answer) => {
    let body = "";
    for await (const piece of asked) body += piece;
    if (body.includes("endpoint.test")) state.tests++;
    await state.held;
    const refusal = asked.url === "/down" ? 500 : 413;
    answer.writeHead(state.mended ? 200 : refusal).end("Answered");
  });
  return Object.assign(state, site);
}

export async function settled(what, look) {
  for (let turn = 0; turn < 400; turn++) {
    const found = await look();
    if (found) return found;
    await pause(50);
  }
  throw new Error(`not within 20 s: ${what}`);
}
