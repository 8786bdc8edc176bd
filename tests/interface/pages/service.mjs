// A partner's calls of the service.
import assert from "node:assert/strict";

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
