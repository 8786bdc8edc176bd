// Prints the evidence of a booking (its id is the argument) for every reason of a dispute, as a program that compiles only if
// Stripe's own types have all of its fields: those with a text, those that take a document, and those that are missing.
import createClient from "openapi-fetch";
import type Stripe from "stripe";
import { answered, given, setting } from "./answers.js";
import type { components, paths } from "./bookguard.js";

type Schemas = components["schemas"];

const api = createClient<paths>({ baseUrl: setting("BASE"), headers: { "x-api-key": setting("KEY") } });
const bookingId = given("the booking", process.argv[2]);
const reasons: Schemas["DisputeReason"][] = [
  "credit_not_processed",
  "duplicate",
  "fraudulent",
  "general",
  "product_not_received",
  "product_unacceptable",
  "subscription_canceled",
  "unrecognized",
];

console.log('import type Stripe from "stripe";');
console.log("type Field = keyof Stripe.DisputeUpdateParams.Evidence;");
for (const reason of reasons) {
  const dispute: Schemas["DisputeExport"] = answered(
    "exportDispute",
    200,
    await api.GET("/v1/bookings/{bookingId}/evidence/dispute", {
      params: { path: { bookingId }, query: { for: "stripe", reason } },
    }),
  );
  // What the document says can be sent to Stripe as it is.
  const update: Stripe.DisputeUpdateParams = given("the request", dispute.request);
  const fields = [...dispute.files, ...dispute.missing].map(({ field }) => field);
  console.log(`export const ${reason}: Stripe.DisputeUpdateParams = ${JSON.stringify(update)};`);
  console.log(`export const ${reason}_fields: Field[] = ${JSON.stringify(fields)};`);
}
