"""A second implementation of the log-backed map, from docs/evidence-format.md alone.

map.py vectors FILE   makes every map of tests/vectors/map.json anew, with its proofs, and changes each proof in many ways
map.py log FOLDER     reads a mirror of a log, makes the map of each entry that commits to one, and compares
"""

import hashlib
import hmac
import json
import os
import re
import sys
from base64 import urlsafe_b64decode, urlsafe_b64encode

TYPE = b"bookguard.map/1"


def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def bit_of(key, bit):
    return key[bit // 8] >> (7 - bit % 8) & 1


def prefix(key, bits):
    return (int.from_bytes(key, "big") >> (256 - bits) << (256 - bits)).to_bytes(32, "big")


def leaf(key, count, head):
    return sha256(b"\2", key, count.to_bytes(8, "big"), head)


def node(bit, key, left, right):
    return sha256(b"\3", bytes([bit]), prefix(key, bit), left, right)


class Map:
    """A map made at once, from its definition: a nested tuple of (hash, bit, left, right) or (hash, key, count, head)."""

    def __init__(self, values):
        self.top = self.make(sorted((sha256(stream), *value) for stream, value in values.items()))
        self.root = self.top[0] if self.top else sha256(b"\4")

    def make(self, values):
        if len(values) < 2:
            return (leaf(*values[0]), *values[0]) if values else None
        first, last = values[0][0], values[-1][0]
        bit = next(bit for bit in range(256) if bit_of(first, bit) != bit_of(last, bit))
        left, right = ([value for value in values if bit_of(value[0], bit) == side] for side in (0, 1))
        left, right = self.make(left), self.make(right)
        return node(bit, first, left[0], right[0]), bit, first, left, right

    def prove(self, key):
        path, at = [], self.top
        while at and len(at) == 5:
            _, bit, first, left, right = at
            if prefix(first, bit) != prefix(key, bit):
                break
            at, other = (right, left) if bit_of(key, bit) else (left, right)
            path.insert(0, {"bit": bit, "hash": other[0].hex()})
        if not at:
            end = "empty"
        elif len(at) == 5:
            end = {"node": {"bit": at[1], "prefix": prefix(at[2], at[1]).hex(), "left": at[3][0].hex(), "right": at[4][0].hex()}}
        else:
            end = {"leaf": {"key": at[1].hex(), "value": {"count": at[2], "head": at[3].hex()}}}
        return {"path": path, "end": end}


def verify(root, key, proof):
    """What a map says of a key: (count, head), or None if it does not have the key. Raises ValueError if nothing is proven."""
    path, end = proof["path"], proof["end"]
    bits = [step["bit"] for step in path]
    if any(not 0 <= bit <= 255 for bit in bits) or any(low <= high for low, high in zip(bits, bits[1:])):
        raise ValueError("order")
    below = bits[0] + 1 if bits else 0
    if end == "empty":
        at, found = sha256(b"\4"), None
        if path:
            raise ValueError("end")
    elif "leaf" in end:
        other, value = bytes.fromhex(end["leaf"]["key"]), end["leaf"]["value"]
        count, head = value["count"], bytes.fromhex(value["head"])
        if prefix(other, below) != prefix(key, below):
            raise ValueError("end")
        at, found = leaf(other, count, head), (count, head) if other == key else None
    else:
        bit, begins, left, right = (end["node"][name] for name in ("bit", "prefix", "left", "right"))
        begins = bytes.fromhex(begins)
        if not below <= bit <= 255 or prefix(begins, bit) != begins or prefix(begins, below) != prefix(key, below) \
                or prefix(key, bit) == begins:
            raise ValueError("end")
        at, found = node(bit, begins, bytes.fromhex(left), bytes.fromhex(right)), None
    for step in path:
        other = bytes.fromhex(step["hash"])
        at = node(step["bit"], key, *((other, at) if bit_of(key, step["bit"]) else (at, other)))
    if at != root:
        raise ValueError("root")
    return found


def changed(value):
    """A proof with one number or hash changed, or a step left out or repeated."""
    if isinstance(value, int):
        yield value + 1
        yield value - 1
    elif isinstance(value, str) and value != "empty":
        for at in range(len(value)):
            yield value[:at] + ("1" if value[at] == "0" else "0") + value[at + 1:]
    elif isinstance(value, list):
        for at in range(len(value)):
            yield value[:at] + value[at + 1:]
            yield value[:at] + [value[at]] + value[at:]
            yield from (value[:at] + [other] + value[at + 1:] for other in changed(value[at]))
    elif isinstance(value, dict):
        for name in value:
            yield from (dict(value, **{name: other}) for other in changed(value[name]))


def vectors(file):
    for vector in json.load(open(file, encoding="utf-8"))["maps"]:
        values = {bytes.fromhex(one["stream"]): (one["count"], bytes.fromhex(one["head"])) for one in vector["streams"]}
        made = Map(values)
        assert made.root.hex() == vector["root"], "another root"
        for case in vector["proofs"]:
            stream = bytes.fromhex(case["stream"])
            key = sha256(stream)
            assert made.prove(key) == case["proof"], "another proof"
            assert verify(made.root, key, case["proof"]) == values.get(stream), "another value"
            for other in changed(case["proof"]):
                try:
                    found = verify(made.root, key, other)
                except (ValueError, OverflowError):
                    continue
                raise AssertionError(f"a changed proof shows {found}")


# --- A whole log

STREAM = sha256(TYPE)[:16]


def opened(size, root, written):
    """The commitment of an entry that commits to a map. Its salts are public."""
    seed = sha256(TYPE)
    salts = [sha256(seed, n.to_bytes(4, "big")) for n in range(4)]
    values = {"mapRoot": root.hex(), "treeSize": size, "writtenAt": written}
    digests = {}
    for salt, (name, value) in zip(salts, sorted(values.items())):
        text = json.dumps([name, value], separators=(",", ":")).encode()
        digests[name] = url64(hmac.digest(salt, text, "sha256"))
    body = json.dumps({"kind": "log.mapped", "sd": digests, "v": "bookguard.event/1"}, separators=(",", ":"), sort_keys=True)
    return url64(hmac.digest(salts[3], body.encode(), "sha256"))


def url64(data):
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def leaves(folder):
    """The leaves of a mirrored log, in order: C2SP tlog-tiles entry bundles."""
    bundles = {}
    for at, _, names in os.walk(os.path.join(folder, "tile", "entries")):
        for name in names:
            path = os.path.relpath(os.path.join(at, name), os.path.join(folder, "tile", "entries"))
            digits, _, partial = path.replace(os.sep, "/").partition(".p/")
            number = int(re.sub(r"[x/]", "", digits))
            width = int(partial) if partial else 256
            if width > bundles.get(number, (0, ""))[0]:
                bundles[number] = width, os.path.join(at, name)
    for number in sorted(bundles):
        data = open(bundles[number][1], "rb").read()
        while data:
            length = int.from_bytes(data[:2], "big")
            yield data[2:2 + length]
            data = data[2 + length:]


def log(folder):
    """Each entry in the map's stream must commit to the map of some number of the entries before it: never fewer than the last."""
    values, texts, covered, maps = {}, [], 0, 0
    for index, text in enumerate(leaves(folder)):
        said = json.loads(text)
        if said["stream"] == url64(STREAM):
            # All entries but the last few are covered already. The size is found by trying.
            for size in range(covered, index + 1):
                if size > covered:
                    before = json.loads(texts[size - 1])
                    stream = before["stream"]
                    values[stream] = before["seq"] + 1, sha256(b"\0", texts[size - 1])
                made = Map({decoded(stream): value for stream, value in values.items()})
                if size and opened(size, made.root, json.loads(texts[size - 1])["t"]) == said["commit"]:
                    covered, maps = size, maps + 1
                    break
            else:
                raise AssertionError(f"entry {index} commits to no map of the entries before it")
        texts.append(text)
    print(f"{maps} maps of {len(texts)} entries")
    assert maps, "the log has no map"


def decoded(text):
    return urlsafe_b64decode(text + "==")


{"vectors": vectors, "log": log}[sys.argv[1]](sys.argv[2])
