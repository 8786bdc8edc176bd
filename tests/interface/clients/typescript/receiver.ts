// Takes deliveries on a free port of this machine, believes those that the secret has signed, and hands them on as the
// document's `webhooks` section types them.
import { createHmac, timingSafeEqual } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { webhooks } from "./bookguard.js";

/** The body of any webhook of the document; its `type` says which. */
export type Delivered = {
  [Event in keyof webhooks]: NonNullable<webhooks[Event]["post"]["requestBody"]>["content"]["application/json"];
}[keyof webhooks];

export interface Receiver {
  url: string;
  /** The next delivery, in the order of their coming. */
  next(): Promise<Delivered>;
  close(): void;
}

export async function listen(secret: string): Promise<Receiver> {
  const came: Delivered[] = [];
  const waiting: ((body: Delivered) => void)[] = [];
  const server = createServer(async (request, response) => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part);
    const bytes = Buffer.concat(parts);
    const given = Buffer.from(String(request.headers["x-service-signature"]));
    const ours = Buffer.from("sha256=" + createHmac("sha256", secret).update(bytes).digest("hex"));
    const signed = given.length === ours.length && timingSafeEqual(given, ours);
    response.writeHead(signed ? 204 : 403).end();
    if (!signed) return;
    const body: Delivered = JSON.parse(bytes.toString("utf8"));
    const waiter = waiting.shift();
    if (waiter) waiter(body);
    else came.push(body);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/webhooks`,
    next: () => new Promise((resolve) => {
      const body = came.shift();
      if (body) resolve(body);
      else waiting.push(resolve);
    }),
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}

/** What a partner's program would take from a delivery: each type has a payload of its own, which the types must know. */
export function told(body: Delivered): string {
  switch (body.type) {
    case "booking.created":
      return `${body.seq} ${body.bookingId} is worth ${body.payload.bookingValue.toFixed(2)} ${body.payload.currency}`;
    case "booking.protected":
      return `${body.seq} ${body.bookingId} is protected: ${body.payload.evidencePacketUrl}`;
    case "resolution.created":
      return `${body.seq} ${body.bookingId} ended: ${body.payload.resolutionPath}, ${body.payload.packetUrl}`;
    case "booking.rescheduled":
      return `${body.seq} ${body.bookingId} is moved to ${body.payload.eventDate}, from ${body.payload.previousEventDate}`;
    case "terms.accepted":
      return `${body.seq} ${body.bookingId}: ${body.payload.party} accepted ${body.payload.disclosureHash}`;
    case "resolution.decided":
      return `${body.seq} ${body.bookingId} is decided: ${body.payload.resolutionPath}, ${body.payload.packetUrl}`;
    case "endpoint.suspended":
      return `${body.seq} ${body.payload.endpointId} is suspended, failing since ${body.payload.failingSince}`;
    case "api_key.expiring":
      return `${body.seq} ${body.payload.apiKeyId} expires at ${body.payload.expiresAt}`;
    case "endpoint.test":
      return `${body.payload.endpointId} is heard, about ${body.bookingId}`;
  }
}
