// The published Standard Webhooks library for Node.js: one case a line in, one verdict a line out.
const { readFileSync } = require("node:fs");
const { Webhook, WebhookVerificationError } = require("standardwebhooks");

for (const line of readFileSync(0, "utf8").trim().split("\n")) {
  const { secret, headers, body } = JSON.parse(line);
  try {
    new Webhook(secret).verify(Buffer.from(body, "base64"), headers);
    console.log("ours");
  } catch (error) {
    if (!(error instanceof WebhookVerificationError)) throw error;
    console.log("foreign");
  }
}
