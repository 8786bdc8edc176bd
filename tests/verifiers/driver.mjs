// Stands behind the JavaScript of docs/webhooks.md: one case a line in, one verdict a line out.
import { readFileSync } from "node:fs";

for (const line of readFileSync(0, "utf8").trim().split("\n")) {
  const { secret, headers, body } = JSON.parse(line);
  const bytes = Buffer.from(body, "base64");
  let standard = "ours";
  try {
    verify(secret, headers, bytes);
  } catch {
    standard = "foreign";
  }
  console.log(standard, verifyBody(secret, headers["x-service-signature"], bytes) ? "ours" : "foreign");
}
