# The published Standard Webhooks library for Python: one case a line in, one verdict a line out.
import base64
import json
import sys

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

for line in sys.stdin:
    case = json.loads(line)
    try:
        Webhook(case["secret"]).verify(base64.b64decode(case["body"]), case["headers"])
        print("ours")
    except WebhookVerificationError:
        print("foreign")
