"""Prints every proof of packets as JSON, genuine and with each of its parts changed: proofs.py KEY PACKET…"""

import json
import sys


def flipped(text):
    """Base64 of other bytes, or another number."""
    if text.isdecimal():
        return str(int(text) + 1)
    middle = len(text) // 2
    return text[:middle] + ("B" if text[middle] == "A" else "A") + text[middle + 1 :]


def changed(leaf, proof):
    """Each with one part changed, and what that is. docs/evidence-format.md describes the proof's lines."""
    yield "leaf", flipped(leaf), proof
    lines = proof.split("\n")
    end = lines.index("")
    # Lines of other keys may follow the first signature; they prove nothing.
    parts = {1: "index", end + 1: "origin", end + 2: "size", end + 3: "root", lines.index("", end + 1) + 1: "signature"}
    parts |= {hash: "hash" for hash in range(2, end)}
    for line, part in parts.items():
        first, space, last = lines[line].rpartition(" ")
        yield part, leaf, "\n".join(lines[:line] + [first + space + flipped(last)] + lines[line + 1 :])
    yield "path", leaf, "\n".join(lines[:end] + [lines[end + 3]] + lines[end:])


def main(key, *packets):
    vkey = open(key, encoding="utf-8").read().strip()
    proofs = []
    for packet in packets:
        for entry in json.load(open(packet, encoding="utf-8"))["entries"]:
            leaf, proof = entry["leaf"], entry["proof"]
            for change, leaf, proof in [(None, leaf, proof), *changed(leaf, proof)]:
                proofs.append({"packet": packet, "vkey": vkey, "change": change, "leaf": leaf, "proof": proof})
    json.dump(proofs, sys.stdout)


main(*sys.argv[1:])
