"""Lets witness-log judge proofs: inclusion.py FILE. It judges the way from the leaf to the root; what else a checkpoint says, only its signature
proves."""

import hashlib
import json
import sys
from base64 import b64decode

from witness_log import verify_inclusion


def accepts(leaf, proof):
    path, checkpoint = proof.split("\n\n", 1)
    _, index, *hashes = path.split("\n")
    _, size, root = checkpoint.split("\n")[:3]
    leaf_hash = hashlib.sha256(b"\0" + b64decode(leaf)).hexdigest()
    hashes = [b64decode(hash).hex() for hash in hashes]
    return verify_inclusion(leaf_hash, int(index.removeprefix("index ")), int(size), hashes, b64decode(root).hex())


count = {True: 0, False: 0}
for one in json.load(open(sys.argv[1], encoding="utf-8")):
    if one["change"] in ("origin", "size", "signature"):
        continue
    genuine = one["change"] is None
    assert accepts(one["leaf"], one["proof"]) == genuine, f"witness-log is wrong, or we are: {one}"
    count[genuine] += 1
assert all(count.values()), "nothing was judged"
print(f"witness-log: {count[True]} proofs accepted, {count[False]} changed ones refused")
