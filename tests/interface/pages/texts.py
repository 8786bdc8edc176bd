"""What programs read of the server's pages, judged by the programs that define how: llms-txt, and sectxt for RFC 9116.

Each judge is first shown something wrong, because one that never complains judges nothing.
"""

import json
import os
import re
import subprocess
import sys

import httpx
from llms_txt import create_ctx, parse_llms_file
from llms_txt.miniparse import parse_llms_txt
from sectxt import Parser

BASE = os.environ["BASE"]
PUBLIC = "https://bookings.example.com"


def demand(truth, complaint):
    if not truth:
        sys.exit(f"pages: {complaint}")


def get(path, base=BASE, **headers):
    answer = httpx.get(path if path.startswith("http") else base + path, headers=headers, timeout=20)
    demand(answer.status_code == 200, f"{path} answers {answer.status_code}")
    return answer


def refuses(call, *args):
    try:
        call(*args)
    except (AttributeError, KeyError, TypeError, ValueError):
        return True
    return False


def llms():
    text = get("/llms.txt").text
    parsed = parse_llms_file(text)
    demand(parsed.title == "Bookguard", f"llms.txt has the title {parsed.title!r}")
    demand(len(parsed.summary) > 50, f"llms.txt has the summary {parsed.summary!r}")
    for number in range(1, 11):
        demand(re.search(rf"^{number}\. \w+: ", parsed.info, re.MULTILINE), f"llms.txt has no rule {number}")
    document = get("/openapi.json").json()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            tells = f"- {method.upper()} {path}: {operation.get('summary')}" in parsed.info
            # The ledger's addresses are among the links.
            demand(tells or "ledger" in path, f"llms.txt does not tell of {method.upper()} {path}")
    sections = {name: [dict(link) for link in links] for name, links in parsed.sections.items()}
    demand(set(sections) >= {"Documentation", "Agents", "Optional"}, f"llms.txt has the sections {list(sections)}")
    for name, links in sections.items():
        demand(links, f"llms.txt has nothing under {name}")
        for link in links:
            demand(link["url"].startswith(BASE + "/") and link["desc"], f"llms.txt links {link}")
            get(link["url"])
    demand(parse_llms_txt(text)["sections"] == sections, "the two parsers of llms-txt read different links")
    broken = text.replace("\n- [", "\nand also ", 1)
    demand(broken != text and refuses(parse_llms_file, broken), "llms-txt takes whatever stands in a list of links")

    # What the tool makes of it for a model: everything that is linked, in one text.
    context = create_ctx(text, optional=False)
    demand(context.startswith('<project title="Bookguard"'), f"the context begins {context[:60]!r}")
    full = get("/llms-full.txt").text
    for part in ("## Operations", "## Agents", "## Webhooks", "## Evidence", '"openapi"'):
        demand(part in context, f"the context lacks {part}")
    demand(len(create_ctx(text, optional=True)) > len(context) > len(full), "the context lacks what is linked")
    for methods in document["paths"].values():
        for operation in methods.values():
            demand(f"`{operation['operationId']}`" in full, f"llms-full.txt lacks {operation['operationId']}")
    print(f"pages: llms.txt has {len(text)} characters, llms-full.txt {len(full)}, the context {len(context)}")


def catalogs():
    """Every address that a program is told answers with the type that was said."""
    catalog = get("/.well-known/ai-catalog.json").json()
    for entry in catalog["entries"]:
        answer = get(entry["url"], accept=entry["type"])
        demand(answer.headers["content-type"] == entry["type"], f"{entry['url']} is no {entry['type']}")
        demand(answer.json()["title"] == entry["displayName"], "card and catalog have different names")
    linkset = get("/.well-known/api-catalog").json()["linkset"]
    told = [(t["href"], t["type"]) for context in linkset for ts in context.values() if isinstance(ts, list) for t in ts if "type" in t]
    demand(len(told) >= 6, f"the API catalog tells of {told}")
    links = httpx.get(BASE + "/").headers["link"]
    told += re.findall(r'<([^>]+)>; rel="[^"]+"; type="([^"]+)"', links)
    for address, media_type in told:
        kind = get(address).headers["content-type"].split(";")[0]
        demand(kind == media_type, f"{address} is said to be {media_type} and is {kind}")
    print(f"pages: {len(told)} links lead where they say")


def security():
    demand(httpx.get(BASE + "/.well-known/security.txt").status_code == 404, "security.txt is there although nothing is configured")
    command = [os.environ["BOOKGUARD"], "serve", "--listen", "127.0.0.1:0", "--db", "published.db", "--public-url", PUBLIC]
    for contact in ("mailto:security@example.com", "https://example.com/report"):
        command += ["--security-contact", contact]
    command += ["--security-policy", "https://example.com/policy", "--security-encryption", "https://example.com/key.asc"]
    command += ["--security-languages", "en,de"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        try:
            found = next(filter(None, (re.search(r"listening on (http://127\.0\.0\.1:\d+)", line) for line in server.stdout)), None)
            demand(found, "the second server ended before it listened")
            text = get("/.well-known/security.txt", base=found.group(1)).content
        finally:
            server.terminate()
    judged = Parser(text, urls=PUBLIC + "/.well-known/security.txt")
    demand(judged.is_valid() and not judged.errors, f"security.txt: {judged.errors}")
    # A signature is the operator's to make, and recommended only.
    advised = {advice["code"] for advice in judged.recommendations + judged.notifications}
    demand(advised <= {"not_signed"}, f"security.txt: {advised}")
    wrong = Parser(text.replace(b"Contact:", b"Contract:"), urls=PUBLIC + "/.well-known/security.txt")
    demand({"no_contact"} == {error["code"] for error in wrong.errors}, f"sectxt says of no contact: {wrong.errors}")
    print("pages: security.txt is valid")


llms()
catalogs()
security()
