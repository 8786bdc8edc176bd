# Stands behind the Python of docs/webhooks.md: one case a line in, one verdict a line out.
import json
import sys

for line in sys.stdin:
    case = json.loads(line)
    body = base64.b64decode(case["body"])
    try:
        verify(case["secret"], case["headers"], body)
        standard = "ours"
    except ValueError:
        standard = "foreign"
    short = "ours" if verify_body(case["secret"], case["headers"].get("x-service-signature"), body) else "foreign"
    print(standard, short)
