"""Shows the checkpoints of a growing log to a witness (C2SP tlog-witness), which must cosign each, but only with a right proof
that the log continues the one it saw. The proofs are computed from the log's tiles (C2SP tlog-tiles), as RFC 9162 says.

It leaves the log's key in log.vkey and the packet of a booking in packet.json.
"""

import hashlib
import json
import os
import urllib.request
from base64 import b64decode, b64encode

from witness_log import WitnessService

BASE, KEY = os.environ["BASE"], os.environ["KEY"]
LOG = "/v1/ledger/"
# How many bookings are recorded before each checkpoint. The log's first tile is full on the way, and its second begins.
STEPS = (1, 2, 5, 40, 230)
BOOKING = {
    "talent": {"id": "t-7", "name": "The Night Owls"},
    "organizer": {"id": "o-42", "name": "Acme Events"},
    "eventType": "concert",
    "eventDate": "2031-06-20T19:00:00Z",
    "bookingValue": 1200.50,
}


def ask(path, body=None):
    headers = {"x-api-key": KEY, "content-type": "application/json"}
    data = body and json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(BASE + path, data, headers), timeout=30) as answer:
        return answer.read()


def leaf_hashes(size):
    hashes = b""
    for tile in range((size + 255) // 256):
        width = min(256, size - 256 * tile)
        hashes += ask(f"{LOG}tile/0/{tile:03}" + ("" if width == 256 else f".p/{width}"))
    assert len(hashes) == 32 * size
    return [hashes[at : at + 32] for at in range(0, len(hashes), 32)]


def split(hashes):
    left = 1 << ((len(hashes) - 1).bit_length() - 1)
    return hashes[:left], hashes[left:]


def root(hashes):
    if len(hashes) == 1:
        return hashes[0]
    left, right = split(hashes)
    return hashlib.sha256(b"\1" + root(left) + root(right)).digest()


def consistency(old, hashes, is_known=True):
    """The proof that a log of these leaves had the first `old` of them: PROOF and SUBPROOF of RFC 9162, section 2.1.4.1."""
    if old == len(hashes):
        return [] if is_known else [root(hashes)]
    left, right = split(hashes)
    if old <= len(left):
        return consistency(old, left, is_known) + [root(right)]
    return consistency(old - len(left), right, False) + [root(left)]


def request(old, proof, checkpoint):
    return "\n".join([f"old {old}", *(b64encode(hash).decode() for hash in proof), "", checkpoint])


def changed(proof):
    """Proofs that each differ from this one in a single thing."""
    for at, hash in enumerate(proof):
        yield proof[:at] + [bytes([hash[0] ^ 1]) + hash[1:]] + proof[at + 1 :]
        yield proof[:at] + proof[at + 1 :]
    yield proof + [bytes(32)]


vkey = ask(LOG + "key").decode().strip()
witness = WitnessService.new("witness.example", os.urandom(32))
witness.add_log(vkey.split("+")[0], vkey)
old, refused = 0, 0
for step in STEPS:
    for _ in range(step):
        booking = json.loads(ask("/v1/bookings", BOOKING))["bookingId"]
    checkpoint = ask(LOG + "checkpoint").decode()
    size = int(checkpoint.split("\n")[1])
    assert size >= old + step, f"{size} entries after {old} and {step} bookings"
    proof = consistency(old, leaf_hashes(size)) if old else []
    if old:
        for wrong in changed(proof):
            status, said = witness.handle_add_checkpoint(request(old, wrong, checkpoint))
            assert status == 422, f"a changed proof from {old} to {size} got {status}: {said}"
            refused += 1
        status, said = witness.handle_add_checkpoint(request(old, proof, checkpoint.replace(f"\n{size}\n", f"\n{size + 1}\n")))
        assert status == 403, f"a checkpoint that nobody signed got {status}: {said}"
    status, said = witness.handle_add_checkpoint(request(old, proof, checkpoint))
    assert status == 200 and said.startswith("\u2014 witness.example "), f"from {old} to {size}: {status} {said}"
    old = size
assert refused, "no changed proof was shown"
print(f"the witness cosigned {len(STEPS)} checkpoints, up to {old} entries, and refused {refused} changed proofs")
with open("log.vkey", "w", encoding="utf-8") as file:
    file.write(vkey)
with open("packet.json", "wb") as file:
    file.write(ask(f"/v1/bookings/{booking}/evidence"))
