#!/usr/bin/env python3
"""Checks an evidence packet offline:  python3 verify.py PACKET KEYFILE [--timestamp-roots FILE] [--witness-policy FILE]

KEYFILE holds the log's verifier key as GET /v1/ledger/key returns it. Get it from the service, never from the packet.
With the roots of time-stamp authorities that you trust (PEM), it also checks who made the packet's time-stamps; with a trust
policy (C2SP tlog-policy), that the witnesses which it demands have cosigned the ledger.
Exit code: 0 verified, 1 not verified, 2 wrong usage, a file that cannot be read, or a document made of a packet.
Needs Python 3.9 or newer and the package `cryptography`, version 42 or newer. The format is described in docs/evidence-format.md.

It checks everything that was recorded. It does not recompute what the policy gives, nor the sentences: see the last line.
"""
import argparse, base64, hashlib, hmac, json, re, sys
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

WITHHELD = "ip|metadata|note|organizer|talent|userAgent"
# The values that can be erased of an entry, by its kind, and what stands in for those that an entry cannot be without.
ERASABLE = {"booking.created": {"eventType", "metadata", "organizer", "talent"}, "terms.accepted": {"ip", "method", "userAgent"},
            "booking.canceled": {"evidence", "note"}, "resolution.created": {"decidedBy", "rationale"},
            "evidence.added": {"note", "reference", "sha256", "title"}, "evidence.erased": {"requestRef"}}
ERASED = dict.fromkeys(("organizer", "talent"), {"id": "erased", "name": "erased"}) \
    | dict.fromkeys(("eventType", "method", "title", "decidedBy", "rationale"), "erased")
PARTIES = "organizer|talent|partner|mutual"
ASSUMED = "policy_assumed_from_library|time_zone_assumed_utc|backdated"
SOURCES = "booking|named|partner_default_for_event_type|partner_default|library"
EVENTS = "booking.created|booking.protected|resolution.created"
REASONS = ("changed_plans|schedule_conflict|illness|venue_unavailable|weather|force_majeure|no_show|non_payment|safety|other")
FAILURES = ("dns_error|blocked_address|connection_refused|connection_reset|timeout|tls_error|redirect_refused|http_4xx"
            "|http_5xx|gone|payload_too_large|throttled|protocol_error|headers_too_large|excessive_answer|our_fault")
# Decimals of the currencies that do not have two (ISO 4217).
DECIMALS = dict.fromkeys("BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF".split(), 0) \
    | dict.fromkeys("BHD IQD JOD KWD LYD OMR TND".split(), 3) | dict.fromkeys("CLF UYW".split(), 4)

MEMBERS = {  # The members of every object that is checked here, with their types. "?" marks those that may be absent.
    # "~" is "or null", "*" an array, "|" stands between words, and the rest is in TYPES. A member without a type has the
    # one that its name tells, see type_of.
    "packet": "acceptances:*object booking:object completeness?:completeness createdAt deliveries:*delivery entries:*entry evaluation:~evaluation"
              " formerTerms:*terms items:*object log:log partnerName policy:~policy policyHash:~hash resolution:~object"
              " signature stream summary:summary terms:terms termsDisclosures:*text timestamps?:*timestamp type:bookguard.evidence/1 withheld:*"
              + WITHHELD,
    "timestamp": "anchor:~entry checkpoint consistency:*string response",
    "completeness": "entry:entry path:*step",
    "step": "bit:u8 hash",
    "map": "mapRoot:hex treeSize:integer writtenAt",
    "anchor": "anchoredAt responseHash treeSize:integer",
    "log": "origin vkey",
    "entry": "body:body disclosures:*disclosure leaf proof salt",
    "body": "kind sd:digests v:bookguard.event/1",
    "disclosure": "name salt value:any",
    "text": "disclosureHash text version",
    "terms": "adopted?:hash assumed:*" + ASSUMED + " date offsets:*whole schedule:*span source:~" + SOURCES + " until:whole zone",
    "former": "at previousEventDate reached:~amount",
    "delivery": "attempts:u32 endpointId:~end eventId history:*attempt recorded:*notification"
                " status:delivered|failed|pending|no_endpoints type:" + EVENTS + " url:~url",
    "attempt": "error:~string startedAt statusCode:~u16",
    "notification": "attempts:u32 bodySha256:hex endpointId error?:" + FAILURES + " eventId outcome:delivered|given_up"
                    " responseSha256?:hex seq:integer settledAt statusCode?:u16 type:" + EVENTS,
    "resolution": "bookingId canceledAt canceledBy:" + PARTIES + " decision?:decision effectiveAt? evaluation:evaluation"
                  " evidenceGrade:record_only|ledger_anchored partnerId reason?:" + REASONS + " resolutionId"
                  " status:final|pending_review|decided summary supersedes?",
    "decision": "decidedAt decidedBy rationale refund:amount",
    "summary": "headline offsets:*whole story:*string timeline:*moment version",
    "moment": "at entry:~integer text when",
    "person": "id:string name",
    "document": "kind mediaType? name? sha256",
    "amount": "amount currency minorUnits:integer",
    # Kinds of entries
    "booking.created": "amountPaid?:number bookingId bookingValue:number createdAt currency:code eventDate:time eventType"
                       " metadata?:strings organizer:person partnerId talent:person termsHash timeZone?",
    "booking.protected": "protectedAt termsHash",
    "booking.rescheduled": "agreedBy:*" + PARTIES + " at? eventDate:time former:former rescheduledAt terms:terms timeZone?",
    "terms.accepted": "acceptedAt at bookingId disclosureHash disclosureVersion ip? method party:" + PARTIES + " userAgent?",
    "booking.canceled": "agreedRefund?:amount bookingId canceledAt canceledBy:" + PARTIES + " effectiveAt?"
                        " evidence?:+document evidenceCount?:integer note? reason?:" + REASONS,
    "resolution.created": "resolution:resolution",
    "evidence.added": "addedAt amount?:amount at? bookingId itemId"
                      " kind:contract|message|photo|check_in|payment|refund|other note? party?:" + PARTIES +
                      " reference? sha256? title",
    "webhook.settled": "notification:notification",
    "evidence.erased": "bookingId erasedAt legalBasis:no_longer_needed|consent_withdrawn|objection|unlawful|legal_obligation|contract_ended|other"
                       " requestRef? values:*values",
    "values": "entry:integer names:*decidedBy|eventType|evidence|ip|metadata|method|note|organizer|rationale|reference|requestRef|sha256|talent|title"
              "|userAgent",
}
# Digits are spelled out: \d would match those of every script.
TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T(?!24)[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z")
NAME = r"[^\s+\0-\x1f\x7f-\x9f]+"  # of a key; at most 255 bytes
LEAF = re.compile(r'\{"commit":"([\w-]{43})","prev":"([0-9a-f]{64})","seq":(0|[1-9][0-9]{0,15}),'
                  r'"stream":"([\w-]{21}[AQgw])","t":"([0-9-]{10}T[0-9:]{8}\.[0-9]{3}Z)","v":"bookguard\.leaf/1"\}', re.ASCII)


# Points of small order, without the sign bit: a signature by or with one of them proves nothing.
SMALL = {bytes.fromhex(point) for point in (
    "00" * 32, "01" + "00" * 31, "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "ec" + "ff" * 30 + "7f", "ed" + "ff" * 30 + "7f", "ee" + "ff" * 30 + "7f")}


class Refused(Exception):
    pass


def need(holds, why):
    if not holds:
        raise Refused(why)


@contextmanager
def check(name):
    """Gives a refusal the name of the check. Whatever else goes wrong is a refusal too: the packet is not as it must be.

    Only the kind of such an error is told, because its text may hold the packet."""
    try:
        yield
    except InvalidSignature:
        raise Refused(name, "a signature is wrong") from None
    except Exception as why:
        named = isinstance(why, Refused) and len(why.args) == 2
        raise why if named else Refused(name, str(why) if isinstance(why, Refused) else f"this part does not have its form ({type(why).__name__})") from None


# --- JSON, hashes and base64

def number(text):
    """Numbers are doubles, as in RFC 8785. Those of a packet are integers, or have at most four decimals."""
    value = float(text)
    need(abs(value) < 2**53, "a number is too large")
    return int(value) if value.is_integer() else value


def members(pairs):
    need(len(dict(pairs)) == len(pairs), "a name occurs twice in one object")
    return dict(pairs)


def parse(data):
    need(len(data) <= 4 << 20, "the file has more than 4 MiB")
    try:
        value = json.loads(data.decode(), object_pairs_hook=members, parse_int=number, parse_float=number, parse_constant=number)
    except UnicodeDecodeError:
        raise Refused("the file is not text in UTF-8") from None
    except json.JSONDecodeError:
        raise Refused("the file is not a JSON document") from None
    canonical(value)  # fails for a lone surrogate, which is not text
    return value


def canonical(value):
    """The text of RFC 8785, as bytes. Names are sorted by their UTF-16 code units."""
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-16-be"))
        return b"{" + b",".join(canonical(name) + b":" + canonical(value[name]) for name in names) + b"}"
    if isinstance(value, list):
        return b"[" + b",".join(map(canonical, value)) + b"]"
    if isinstance(value, float) and 0 < abs(value) < 1e-4:  # where Python writes exponents, as 1e-05
        return (f"{Decimal(repr(value)):f}" if abs(value) >= 1e-6 else repr(value).replace("e-0", "e-")).encode()
    return json.dumps(value, ensure_ascii=False).encode()


def same(one, other):
    return canonical(one) == canonical(other)  # In Python, True == 1.


def has(kind, value):
    """The value, if it is an object of this kind: with its members, each of its type."""
    types = dict(member.partition(":")[::2] for member in MEMBERS[kind].split())
    required = {name for name in types if name[-1] != "?"}
    need(isinstance(value, dict) and required <= set(value) <= {name.rstrip("?") for name in types},
         f"this is not a {kind} with the members {MEMBERS[kind]}")
    for name, type_ in types.items():
        name = name.rstrip("?")
        need(name not in value or is_a(type_ or type_of(name), value[name]), f"{name} of a {kind} is not of its type")
    if kind == "amount":
        whole, point, fraction = value["amount"].partition(".")
        need(DECIMALS.get(value["currency"], 2) == len(fraction) and bool(point) == bool(fraction)
             and re.fullmatch("[A-Z]{3}", value["currency"]) and re.fullmatch("(0|[1-9][0-9]*)[0-9]{%d}" % len(fraction), whole + fraction)
             and int(whole + fraction) == value["minorUnits"] < 10**15, "amount and minorUnits are not one amount")
    if kind == "booking.created":
        for name in ("bookingValue", "amountPaid"):
            whole, _, fraction = str(value.get(name, 0)).partition(".")
            decimals = DECIMALS.get(value["currency"], 2)
            need(len(fraction) <= decimals and len(whole) + decimals <= 15, f"{name} has more decimals than its currency, or more than 15 digits with them")
    return value


def type_of(name):
    """The type of a member of an entry or the packet that has no type of its own."""
    if name in IDS:
        return IDS[name]
    return "time" if name == "at" or name.endswith("At") else "hash" if name == "sha256" or name.endswith("Hash") else "string"


def is_a(type_, value):
    if type_[0] == "~":
        return value is None or is_a(type_[1:], value)
    if type_[0] in "*+":
        return isinstance(value, list) and len(value) >= "*+".index(type_[0]) and all(is_a(type_[1:], one) for one in value)
    if type_ in MEMBERS:
        return bool(has(type_, value))
    if type_ in IDS.values():
        return isinstance(value, str) and bool(re.fullmatch(type_ + "_[0-9a-f]{32}", value))
    return TYPES[type_](value) if type_ in TYPES else isinstance(value, str) and value in type_.split("|")


IDS = {"bookingId": "bkg", "partnerId": "ptn", "resolutionId": "res", "supersedes": "res", "itemId": "itm", "eventId": "evt",
       "endpointId": "end"}
TYPES = {
    "any": lambda value: True,
    "string": lambda value: isinstance(value, str),
    "code": lambda value: bool(re.fullmatch("[A-Z]{3}", value)),
    "strings": lambda value: isinstance(value, dict) and value and all(isinstance(one, str) for one in value.values()),
    "digests": lambda value: all(re.fullmatch("[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]", one) for one in value.values()),
    "whole": lambda value: type(value) is int,
    "integer": lambda value: type(value) is int and value >= 0,
    "u8": lambda value: type(value) is int and 0 <= value < 2**8,
    "u16": lambda value: type(value) is int and 0 <= value < 2**16,
    "u32": lambda value: type(value) is int and 0 <= value < 2**32,
    "number": lambda value: type(value) in (int, float) and bool(re.fullmatch(r"[0-9]+(\.[0-9]{1,4})?", repr(value))),
    "object": lambda value: isinstance(value, dict),
    "policy": lambda value: isinstance(value["policyId"], str) and is_a("integer", value["version"]),
    "evaluation": lambda value: is_a("bkg", value["bookingId"]) and isinstance(value["evaluationStatus"], str),
    "span": lambda value: len(value) == 5 and isinstance(value[0], str) and is_a("*whole", value[1:3]) and is_a("*~integer", value[3:]),
    "time": lambda value: milliseconds(value) is not None,
    "hash": lambda value: bool(re.fullmatch("sha256:[0-9a-f]{64}", value)),
    "hex": lambda value: bool(re.fullmatch("[0-9a-f]{64}", value)),
    "url": lambda value: bool(re.fullmatch(r"[^:/\\?#@]+://[^/\\?#@]*", value)),
}


def sha256(data):
    return hashlib.sha256(data).digest()


def named(data):
    return "sha256:" + sha256(data).hex()


def base64_of(text, size=None):
    data = base64.b64decode(text, validate=True)
    if base64.b64encode(data).decode() != text or size not in (None, len(data)):
        raise Refused("not base64 of the right length")
    return data


def url64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def hmac_of(salt, text):
    key = base64.urlsafe_b64decode(salt + "=")
    if len(key) != 32 or url64(key) != salt:
        raise Refused("a salt has 32 bytes")
    return url64(hmac.new(key, text, "sha256").digest())


# --- Notes, checkpoints and proofs (C2SP signed-note, tlog-checkpoint, tlog-proof)

def is_small(point):
    return point[:31] + bytes([point[31] & 127]) in SMALL


class Key:
    """The key of a log (kind 1) or of a witness (kind 4)."""

    def __init__(self, text, kind=1):
        self.text = text
        self.name, key_id, key = text.split("+", 2)
        key = base64_of(key, 33)
        self.id = sha256(self.name.encode() + b"\n" + key)[:4]
        if key[0] != kind or is_small(key[1:]) or self.id.hex() != key_id or not re.fullmatch(NAME, self.name) or len(self.name.encode()) > 255:
            raise Refused("the key is not an Ed25519 key of the right kind, or its id is not its own")
        self.public = Ed25519PublicKey.from_public_bytes(key[1:])

    def find(self, note):
        """The text of a note, what this key is said to have signed it with, each time, and how many have signed it."""
        text, end, lines = note.rpartition("\n\n")
        lines = lines.removesuffix("\n").split("\n")
        if not end or note[-1] != "\n" or re.search(r"[\0-\x09\x0b-\x1f]", text):
            raise Refused("not a signed note")
        signatures = [re.fullmatch(rf"— ({NAME}) (\S+)", line).groups() for line in lines]
        signatures = [(name, base64_of(line)) for name, line in signatures]
        if len(note.encode()) > 256 << 10 or len(lines) > 100 or any(len(line) <= 4 or len(name.encode()) > 255 for name, line in signatures):
            raise Refused("not a signed note, or too long")
        return text + "\n", [line[4:] for name, line in signatures if (name, line[:4]) == (self.name, self.id)], len(lines)

    def verify(self, signature, text):
        need(not is_small(signature[:32]), "a signature proves nothing")
        self.public.verify(signature, text.encode())

    def open(self, note):
        """The text of a note that this key has signed, and how many have signed it."""
        text, own, count = self.find(note)
        need(len(own) == 1, f"{self.name} has not signed it with this key, or twice")
        self.verify(own[0], text)
        return text, count

    def cosigned(self, note):
        """When this witness cosigned the checkpoint, in seconds since 1970; None if it did not (C2SP tlog-cosignature)."""
        text, own, _ = self.find(note)
        if not own:
            return None
        [own] = own
        time = int.from_bytes(own[:8], "big")
        need(time < 2**63, "the time of a cosignature is too large")
        self.verify(own[8:], f"cosignature/v1\ntime {time}\n{text}")
        return time


class Policy:
    """Which witnesses must have cosigned (C2SP tlog-policy)."""

    def __init__(self, text):
        self.logs, self.witnesses, members, quorum = [], {}, {}, []
        need(len(text.encode()) <= 64 << 10 and not re.search(r"[\0-\x08\x0b-\x1f\x7f]", text), "the policy is too long, or no text")
        free = set()  # Each name is a member of one group at most, so that no witness counts twice.
        for line in text.split("\n"):
            keyword, *words = [word for word in re.split("[ \t]+", line) if word] or ["#"]
            if keyword[0] == "#":
                continue
            if keyword == "log" and 1 <= len(words) <= 2:
                self.logs.append(Key(words[0]))
                continue
            if keyword == "quorum" and len(words) == 1:
                quorum += words
                need(words[0] == "none" or words[0] in members, f"the quorum {words[0]} is not defined")
                continue
            need(words and words[0] != "none" and words[0] not in members, f"a line of the policy cannot be read: {line[:80]}")
            name = words[0]
            if keyword == "witness" and 2 <= len(words) <= 3:
                self.witnesses[name] = Key(words[1], 4)
                members[name] = (1, [])
            else:
                need(keyword == "group" and len(words) > 2 and set(words[2:]) <= free, f"a line of the policy cannot be read: {line[:80]}")
                least = {"any": 1, "all": len(words) - 2}.get(words[1]) or int(re.fullmatch("[0-9]+", words[1])[0])
                need(1 <= least <= len(words) - 2 == len(set(words[2:])), f"the number of the group {name} cannot be")
                members[name] = (least, words[2:])
                free -= set(words[2:])
            free.add(name)
        public = [key.public.public_bytes_raw() for key in self.witnesses.values()]
        logs = [key.public.public_bytes_raw() for key in self.logs]
        need(len(quorum) == 1 and len(set(public)) == len(public) and len(set(logs)) == len(logs), "a policy has one quorum, and each key once")
        need(max(len(logs), len(public), len(members) - len(public)) <= 256, "a policy has at most 256 logs, witnesses and groups each")
        self.members, self.quorum = members, quorum[0]

    def check(self, checkpoint, key):
        """The witnesses that have cosigned the checkpoint, each with its time, if they are enough."""
        need(not self.logs or any(log.text == key.text for log in self.logs), "the policy trusts other logs")
        cosigned = {name: witness.cosigned(checkpoint) for name, witness in self.witnesses.items()}
        cosigned = {name: time for name, time in cosigned.items() if time is not None}

        def reached(name):
            least, members = self.members[name]
            return name in cosigned if name in self.witnesses else sum(map(reached, members)) >= least

        need(self.quorum == "none" or reached(self.quorum),
             "too few witnesses of the policy have cosigned the ledger: " + (", ".join(cosigned) or "none"))
        return cosigned


def head_of(checkpoint, key):
    """Size and root of a log that this key signs for."""
    lines = key.open(checkpoint)[0].split("\n")[:-1]
    origin, size, root = lines[:3]
    if origin != key.name or not all(lines):
        raise Refused("not a checkpoint, or of another log")
    size = int(re.fullmatch("0|[1-9][0-9]{0,19}", size)[0])
    need(size < 2**64, "the log has more entries than it can have")
    return size, base64_of(root, 32)


def continues(old, new, path):
    """Whether a log (size, root) is the beginning of another one: RFC 9162, 2.1.4.2."""
    (at, root), (size, new_root) = old, new
    if at == size:
        return root == new_root and not path
    if not 0 < at < size:
        return False
    path = path if at & (at - 1) else [root, *path]  # A power of two is a subtree of its own.
    at, last = at - 1, size - 1
    while at % 2:
        at, last = at >> 1, last >> 1
    before = after = path[0] if path else b""
    for sibling in path[1:]:
        if last == 0:
            return False
        if at % 2 or at == last:
            before, after = sha256(b"\1" + sibling + before), sha256(b"\1" + sibling + after)
            while at % 2 == 0 and at > 0:
                at, last = at >> 1, last >> 1
        else:
            after = sha256(b"\1" + after + sibling)
        at, last = at >> 1, last >> 1
    return last == 0 and (before, after) == (root, new_root)


def prove(proof, leaf, key):
    """The index of a leaf, and the checkpoint of the log that it is proven to be in."""
    head, checkpoint = proof.split("\n\n", 1)
    first, index, *path = head.split("\n")
    index = int(re.fullmatch("index (0|[1-9][0-9]{0,19})", index)[1])
    size, root = head_of(checkpoint, key)
    if first != "c2sp.org/tlog-proof@v1" or index >= size or len(path) > 64:
        raise Refused("not a proof")
    node, at, last = sha256(b"\0" + leaf), index, size - 1
    for sibling in path:  # RFC 9162, 2.1.3.2
        sibling = base64_of(sibling, 32)
        if last == 0:
            raise Refused("the path is too long")
        if at % 2 or at == last:
            node = sha256(b"\1" + sibling + node)
            while at % 2 == 0 and at > 0:
                at, last = at >> 1, last >> 1
        else:
            node = sha256(b"\1" + node + sibling)
        at, last = at >> 1, last >> 1
    if last != 0 or node != root:
        raise Refused("the path does not lead to the root")
    return index, checkpoint


def milliseconds(time):
    need(TIME.fullmatch(time), f"{time} is not a time")
    since = datetime.fromisoformat(time[:-1] + "+00:00") - datetime(1970, 1, 1, tzinfo=timezone.utc)
    return since // timedelta(milliseconds=1)


def made_at(event_id):
    """The milliseconds in a UUIDv7."""
    return int(re.fullmatch("evt_([0-9a-f]{12})[0-9a-f]{20}", event_id)[1], 16)


# --- Time-stamps (RFC 3161)

DIGESTS = {"608648016503040201": hashes.SHA256, "608648016503040202": hashes.SHA384, "608648016503040203": hashes.SHA512}
PKCS, SIGNED_DATA, TST_INFO = "2a864886f70d01", "2a864886f70d010702", "2a864886f70d0109100104"


def der(data):
    """The elements of DER in a row: of each the tag, the content, and all of its bytes."""
    elements = []
    while data:
        need(len(data) > 1 and data[0] & 31 < 31, "the time-stamp is not DER")
        size, start = data[1], 2
        if size > 127:
            start, size = 2 + (size & 127), int.from_bytes(data[2:2 + (size & 127)], "big")
            need(size > 127 and data[2], "the time-stamp is not DER")
        need(len(data) >= start + size, "the time-stamp is cut")
        elements.append((data[0], data[start:start + size], data[:start + size]))
        data = data[start + size:]
    return elements


def inside(element, tag=0x30):
    need(element[0] == tag, "the time-stamp is not one of RFC 3161")
    return der(element[1])


def digest_of(algorithm):
    kind = inside(algorithm)[0][1].hex()
    need(kind in DIGESTS, "a digest of the time-stamp is too weak or not supported")
    return DIGESTS[kind]()


def hash_of(algorithm, data):
    digest = hashes.Hash(algorithm)
    digest.update(data)
    return digest.finalize()


def strong(key):
    """Whether a certificate's key is of a kind and length that proves something. Lengths of RSA are counted in whole bytes."""
    if isinstance(key, rsa.RSAPublicKey):
        return 2040 < key.key_size <= 8192
    return isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, (ec.SECP256R1, ec.SECP384R1))


class Stamp:
    """A response whose signature is that of the certificate in it. Whose certificate that is, only a path to a root shows."""

    def __init__(self, response, imprint):
        need(len(response) <= 32 << 10, "the time-stamp is too long")
        [outer] = der(response)
        status, token = inside(outer)
        need(inside(status)[0][2] in (b"\2\1\0", b"\2\1\1"), "the authority refused a time-stamp")
        kind, explicit = inside(token)
        [signed] = inside(explicit, 0xa0)
        version, _, content, *rest = inside(signed)
        [list_of] = [der(one[1]) for one in rest if one[0] == 0xa0] or [[]]
        [signer] = inside(rest[-1], 0x31)
        kind_of_content, explicit = inside(content)
        need((kind[1].hex(), version[1], kind_of_content[1].hex()) == (SIGNED_DATA, b"\3", TST_INFO), "this is not a time-stamp")
        [[tag, info, _]] = inside(explicit, 0xa0)
        need(tag == 4 and len(list_of) <= 16, "this is not a time-stamp")
        certificates = [one[2] for one in list_of if one[0] == 0x30]

        # RFC 5652: what is signed is the attributes, as a SET, and they name the content's digest and the certificate.
        version, name, algorithm, attributes, signing, signature, *_ = inside(signer)
        need(attributes[0] == 0xa0 and signature[0] == 4, "the signature covers no attributes")
        signed = {}
        for attribute in der(attributes[1]):
            oid, values = inside(attribute)
            [signed_value] = inside(values, 0x31)
            need(signed.setdefault(oid[1].hex(), signed_value) is signed_value, "an attribute is there twice")
        digest = digest_of(algorithm)
        need(signed[PKCS + "0903"][1].hex() == TST_INFO and signed[PKCS + "0904"][1] == hash_of(digest, info),
             "the time-stamp's signature is of another content")
        own = {one for one in certificates if self.names(version[1], name, one)}
        need(len(own) == 1, "the time-stamp does not hold one certificate of its signer")
        [own] = own
        ids = [(signed[oid], kind) for oid, kind in ((PKCS + "0910020c", hashes.SHA1), (PKCS + "0910022f", hashes.SHA256))
               if oid in signed]
        need(ids, "the certificate is not signed")
        for value, kind in ids:  # RFC 2634 and RFC 5035
            first = inside(inside(inside(value)[0])[0])
            kind = digest_of(first.pop(0)) if first[0][0] == 0x30 else kind()
            need(first[0][0] == 4 and first[0][1] == hash_of(kind, own), "the signed certificate is another")
        self.certificate = x509.load_der_x509_certificate(own)
        self.others = [x509.load_der_x509_certificate(one) for one in certificates if one != own]
        key, message = self.certificate.public_key(), b"\x31" + attributes[2][1:]
        need(strong(key), "the signer's key is too weak or not supported")
        if isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(signature[1], message, ec.ECDSA(digest))
        elif inside(signing)[0][1].hex() == PKCS + "010a":
            key.verify(signature[1], message, padding.PSS(padding.MGF1(digest), padding.PSS.AUTO), digest)
        else:
            key.verify(signature[1], message, padding.PKCS1v15(), digest)

        [info] = der(info)
        version, _, what, _, time, *more = inside(info)
        need(version[1] == b"\1", "the time-stamp is of another version")
        # DER leaves out what is false.
        need(all(field[1] == b"\xff" for field in more if field[0] == 1), "the time-stamp is not DER")
        need(all(field[0] != 1 for one in more if one[0] == 0xa1 for extension in der(one[1]) for field in inside(extension)),
             "it has an extension that must be understood and is not")
        algorithm, stamped = inside(what)
        need(isinstance(digest_of(algorithm), hashes.SHA256) and stamped[1] == imprint, "it is of another checkpoint")
        need(time[0] == 0x18, "the time-stamp is not one of RFC 3161")
        time = re.fullmatch(r"([0-9]{14})(\.[0-9]{0,8}[1-9])?Z", time[1].decode()).groups()
        self.time = datetime.strptime(time[0], "%Y%m%d%H%M%S").replace(tzinfo=timezone.utc)
        self.time += timedelta(seconds=float(time[1] or 0))

    @staticmethod
    def names(version, name, certificate):
        """Whether a signer's name is that of the certificate: its issuer and number, or the id of its key."""
        fields = inside(inside(der(certificate)[0])[0])
        number, _, issuer, *_ = fields[1:] if fields[0][0] == 0xa0 else fields
        if version == b"\1":
            return [one[2] for one in inside(name)] == [issuer[2], number[2]]
        try:
            id_of = x509.load_der_x509_certificate(certificate).extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
        except x509.ExtensionNotFound:
            return False
        return name[0] == 0x80 and id_of.value.digest == name[1]

    def trust(self, roots, until):
        """Checks that one of the roots vouches for the signer, at the stamped time and at `until`."""
        purpose = self.certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage)
        need(purpose.critical and list(purpose.value) == [x509.ExtendedKeyUsageOID.TIME_STAMPING],
             "its certificate is not for time-stamps alone")
        constraints, uses = (extension_of(self.certificate, kind) for kind in (x509.BasicConstraints, x509.KeyUsage))
        need(not (constraints and constraints.ca), "its certificate is one of an authority for certificates")
        need(not uses or (uses.digital_signature or uses.content_commitment) and not (
            uses.key_encipherment or uses.data_encipherment or uses.key_agreement or uses.key_cert_sign or uses.crl_sign),
             "its certificate is not for signatures alone")
        need(self.time <= until + timedelta(minutes=5), "it is of a later time than it can be")
        for at in (self.time, max(self.time, until)):
            need(path(self.certificate, self.others, roots, at),
                 f"no root that you trust vouches for its certificate at {at:%Y-%m-%dT%H:%M:%SZ}")


def extension_of(certificate, kind):
    """What an extension of a certificate says, if there is one."""
    return next((one.value for one in certificate.extensions if isinstance(one.value, kind)), None)


def serves(certificate):
    """Whether a certificate below a root may be used for time-stamps, and no critical extension is left out of account here."""
    purposes = extension_of(certificate, x509.ExtendedKeyUsage)
    return (purposes is None or x509.ExtendedKeyUsageOID.TIME_STAMPING in purposes) and not any(
        one.critical and not isinstance(one.value, (x509.BasicConstraints, x509.KeyUsage, x509.ExtendedKeyUsage)) for one in certificate.extensions)


def path(certificate, others, roots, at, below=0):
    """Whether certificates that are all valid, and may be used for this, lead from this one to a root."""
    def issued(issuer):
        constraints = issuer.extensions.get_extension_for_class(x509.BasicConstraints).value
        if not constraints.ca or constraints.path_length is not None and constraints.path_length < below:
            return False
        # Constraints on names are not compared here, so whoever has some vouches for nobody.
        uses = extension_of(issuer, x509.KeyUsage)
        if uses and not uses.key_cert_sign or extension_of(issuer, x509.NameConstraints):
            return False
        try:
            certificate.verify_directly_issued_by(issuer)
            known = strong(issuer.public_key())
        except Exception:
            return False
        return known and issuer.not_valid_before_utc <= at <= issuer.not_valid_after_utc

    def has(issuer):
        try:
            return issuer.subject == certificate.issuer and issued(issuer)
        except x509.ExtensionNotFound:
            return False

    if below > 5 or not serves(certificate) or not certificate.not_valid_before_utc <= at <= certificate.not_valid_after_utc:
        return False
    return any(map(has, roots)) or any(
        has(one) and path(one, [other for other in others if other is not one], roots, at, below + 1) for one in others)


def roots_of(pem):
    """The certificates of a file, all of which can be read and are authorities'."""
    blocks = re.findall(rb"-----BEGIN CERTIFICATE-----[^-]+^-----END CERTIFICATE-----", pem, re.MULTILINE)
    need(len(blocks) == pem.count(b"-----BEGIN CERTIFICATE-----"), "a root is not PEM")
    roots = x509.load_pem_x509_certificates(b"\n".join(blocks))
    need(all(root.extensions.get_extension_for_class(x509.BasicConstraints).value.ca for root in roots), "a root is not an authority's")
    return roots


# --- The checks, in the order of the page

def form(data):
    packet = has("packet", parse(data))
    need(packet.get("timestamps") != [], "it names no time-stamps, and says that it has some")
    return packet


def signature(packet, key):
    unsigned = {name: value for name, value in packet.items() if name != "signature"}
    last = packet["entries"][-1]
    text, count = key.open(packet["signature"])
    lines = ["bookguard.packet/1", base64.b64encode(sha256(canonical(unsigned))).decode(), packet["stream"],
             str(len(packet["entries"])), sha256(b"\0" + base64_of(last["leaf"])).hex(),
             last["proof"].split("\n\n")[1].split("\n")[1]]
    need(text == "".join(line + "\n" for line in lines), "the packet is not the one that was signed")
    need(count == 1, "it has more than one signature")


def prove_entry(entry, key):
    raw = base64_of(entry["leaf"])
    leaf = LEAF.fullmatch(raw.decode())
    need(leaf, "the leaf is not written as leaves are")
    _, prev, seq, _, time = leaf.groups()
    need(int(seq) < 2**53 and (seq == "0") == (prev == "0" * 64) and milliseconds(time) >= 0, "no such leaf can be")
    return (raw, leaf, *prove(entry["proof"], raw, key))


def commitment(entry, leaf):
    body = entry["body"]
    need(hmac_of(entry["salt"], canonical(body)) == leaf[1], "the leaf does not commit to the body")
    need(body["kind"] in MEMBERS and "." in body["kind"], f"{body['kind']} is not a kind of a booking's entry")


def erasures(entries):
    """The names of the values of each entry that later ones say were erased."""
    erased = [set() for _ in entries]
    for own, entry in enumerate(entries):
        if entry["body"]["kind"] == "evidence.erased":
            values = has("evidence.erased", {one["name"]: one["value"] for one in entry["disclosures"]})["values"]
            places = [one["entry"] for one in values]
            need(values and places == sorted(set(places)) and places[-1] < own, "an erasure names nothing before it, or not in order")
            for place, names in ((one["entry"], one["names"]) for one in values):
                body = entries[place]["body"]
                need(names and names == sorted(set(names)) and not set(names) & erased[place], "a value is erased twice")
                need(set(names) <= ERASABLE.get(body["kind"], set()) & set(body["sd"]), "what is erased was never there, or cannot be erased")
                need("evidence" not in names or "evidenceCount" in body["sd"], "what is erased is documents that were not counted")
                erased[place].update(names)
    return erased


def disclosures(entry, withheld, erased=()):
    """The values of an entry by name. What is withheld or erased has a fixed text instead, if the entry cannot be without it."""
    names, digests = [one["name"] for one in entry["disclosures"]], entry["body"]["sd"]
    need(names == sorted(set(names), key=str.encode), "the values are not in order, or one is given twice")
    need(withheld == sorted(set(withheld)) and not set(withheld) & set(names), "a value is withheld twice, or shown all the same")
    need(set(names) == set(digests) - set(withheld) - set(erased), "a value is missing, erased but shown, or was not recorded")
    for one in entry["disclosures"]:
        digest = hmac_of(one["salt"], canonical([one["name"], one["value"]]))
        need(digest == digests[one["name"]], f"{one['name']} is not as recorded")
    need("evidenceCount" not in digests or "evidence" in digests, "documents are counted that were never named")
    hidden = {"organizer", "talent"} & set(withheld) & set(digests)
    return {name: ERASED[name] for name in erased if name in ERASED} | {name: {"id": "withheld", "name": "withheld"} for name in hidden} \
        | {one["name"]: one["value"] for one in entry["disclosures"]}


def joined(fact, kind):
    """Joins a decision and its words, which are values of their own so that they can be erased."""
    words = {name: fact.pop(name) for name in ("decidedBy", "rationale") if kind == "resolution.created" and name in fact}
    if words:
        decision = fact["resolution"]["decision"]
        need(len(words) == 2 and not set(words) & set(decision), "a decision has its words twice, or not all of them")
        fact["resolution"] = fact["resolution"] | {"decision": decision | words}
    return fact


def chain(packet, proven):
    before, last_index, last_time = "0" * 64, -1, ""
    for place, (raw, leaf, index, checkpoint) in enumerate(proven):
        _, prev, seq, stream, time = leaf.groups()
        need(stream == packet["stream"], f"entry {place} belongs to another booking")
        need(int(seq) == place and prev == before, f"entry {place} does not follow the one before it")
        need(index > last_index and checkpoint == proven[0][3], f"entry {place} has another place or state of the ledger")
        need(last_time <= time <= packet["createdAt"], f"entry {place} has an earlier time than is possible")
        before, last_index, last_time = sha256(b"\0" + raw).hex(), index, time


def booking(packet, facts):
    """Folds the facts, (kind, members, time of the entry), into what the packet must show."""
    first = facts[0][1]
    need(facts[0][0] == "booking.created", "the first entry is not the booking's recording")
    state = {name: value for name, value in first.items() if name != "termsHash"}
    state.update(status="created", protected=False)
    if packet["policy"] is not None:
        state["policy"] = {"policyId": packet["policy"]["policyId"], "version": packet["policy"]["version"],
                           "policyHash": packet["terms"].get("adopted"), "policySource": packet["terms"]["source"]}
    told = {"terms_hash": first["termsHash"], "terms": [], "dates": [], "accepted": [], "items": [], "resolutions": [], "settled": [], "causes": []}
    in_force, counted, canceled = first["termsHash"], first["createdAt"], None
    for place, (kind, fact, time) in enumerate(facts):
        fact = has(kind, joined(fact, kind))
        open_ = canceled is None
        if kind == "booking.created":
            need(place == 0, "a booking is recorded once")
            happened = fact["createdAt"]
        elif kind == "booking.protected":
            need(state["status"] == "created", "a protection cannot stand here")
            need(fact["termsHash"] == in_force, "the terms locked are not those in force")
            happened = fact["protectedAt"]
            state.update(status="protected", protected=True, protectedAt=happened)
        elif kind == "booking.rescheduled":
            happened = fact["rescheduledAt"]
            counted = max(fact.get("at", happened), counted)[:19] + ".000Z"
            need(open_ and fact["former"]["at"] == counted, "a move does not follow what was before it")
            told["terms"].append(fact["terms"])
            told["dates"].append(fact["former"]["previousEventDate"])
            in_force = named(canonical(fact["terms"]))
            state.pop("timeZone", None)
            state.update({name: fact[name] for name in ("eventDate", "timeZone", "rescheduledAt") if name in fact})
        elif kind == "terms.accepted":
            need(open_ and fact["bookingId"] == state["bookingId"], "an acceptance cannot stand here")
            happened = fact["acceptedAt"]
            told["accepted"].append((fact, len(told["terms"])))
        elif kind == "booking.canceled":
            need(open_ and fact["bookingId"] == state["bookingId"], "a cancellation cannot stand here")
            canceled, happened = fact, fact["canceledAt"]
            count = fact.get("evidenceCount")
            need(count is None or count > 0 and len(fact.get("evidence", [0] * count)) == count, "a cancellation counts more or fewer documents than it names")
            state.update(status="canceled", canceledAt=happened)
        elif kind == "evidence.added":
            need(open_ or told["resolutions"], "an item cannot stand here")
            need(fact["bookingId"] == state["bookingId"], "an item is another booking's")
            need(all(fact["itemId"] != item["itemId"] for item in told["items"]), "an item was added twice")
            happened = fact["addedAt"]
            told["items"].append(fact)
        elif kind == "evidence.erased":
            need(open_ or told["resolutions"], "an erasure cannot stand here")
            need(fact["bookingId"] == state["bookingId"], "an erasure is another booking's")
            happened = fact["erasedAt"]
        elif kind == "resolution.created":
            need(not open_, "a resolution cannot stand here")
            happened = resolution(state, canceled, told["resolutions"], fact["resolution"])
            told["resolutions"].append(fact["resolution"])
            state["resolutionId"] = fact["resolution"]["resolutionId"]
        else:
            need(open_ or told["resolutions"], "the end of a delivery cannot stand here")
            happened = fact["notification"]["settledAt"]
            why = contradiction(told["settled"], fact["notification"], told["causes"])
            need(not why, f"the end of a delivery contradicts what is recorded: {why}")
            told["settled"].append(fact["notification"])
        if kind in ("booking.created", "booking.protected", "resolution.created"):
            told["causes"].append((kind, milliseconds(happened)))
        need(milliseconds(happened) <= milliseconds(time), f"a {kind} happened after its entry was written")
    need(canceled is None or told["resolutions"], "the cancellation has no resolution")
    need(same(packet["booking"], state), "the booking is not shown as recorded")
    return told


def resolution(state, canceled, before, new):
    """Checks a resolution against the cancellation, or a decision against what it decides; returns its time."""
    decision = new.get("decision")
    if before:
        need(decision, "a second resolution is a decision")
        expected = dict(before[0], status="decided", supersedes=before[0]["resolutionId"], decision=decision)
        need(len(before) == 1 and before[0]["status"] == "pending_review", "there was nothing to decide")
    else:
        expected = {name: canceled[name] for name in ("bookingId", "canceledAt", "canceledBy", "effectiveAt", "reason")
                    if name in canceled}
        open_ = new["evaluation"]["evaluationStatus"] == "review_required"
        expected.update(partnerId=state["partnerId"], status="pending_review" if open_ else "final",
                        evidenceGrade="ledger_anchored" if state["protected"] else "record_only")
    expected.update({name: new[name] for name in ("resolutionId", "summary", "evaluation")})
    need(all(one["resolutionId"] != new["resolutionId"] for one in before), "a decision has an id of its own")
    need(same(new, expected) and new["evaluation"]["bookingId"] == state["bookingId"],
         "the resolution neither results from the cancellation nor decides what the cancellation left open")
    return decision["decidedAt"] if decision else new["canceledAt"]


def contradiction(before, new, causes):
    """Why the end of a delivery cannot be recorded after those before it."""
    delivered, status, error = new["outcome"] == "delivered", new.get("statusCode"), new.get("error")
    if new["attempts"] < 1 or new["seq"] < 1:
        return "it counts from nothing"
    if delivered != (error is None) or delivered and not 200 <= (status or 0) <= 299:
        return "its outcome is not that of its last attempt"
    if status is None and "responseSha256" in new:
        return "it has the digest of an answer that never came"
    same_kind = {new["eventId"]}
    for known in before:
        same_event = known["eventId"] == new["eventId"]
        if same_event != (known["seq"] == new["seq"]) or same_event and any(
                known[name] != new[name] for name in ("type", "bodySha256")):
            return "the same event has another content or number"
        if (known["type"], made_at(known["eventId"])) == (new["type"], made_at(new["eventId"])):
            same_kind.add(known["eventId"])
        if same_event and known["endpointId"] == new["endpointId"] and (
                known["outcome"] == "delivered" or not delivered or known["attempts"] >= new["attempts"]):
            return "only a delivery that was given up can end again, by being accepted"
    if len(same_kind) > causes.count((new["type"], made_at(new["eventId"]))):
        return "no earlier entry shows what the event reports"


def frozen_policy(packet):
    need(packet["policyHash"] == packet["terms"].get("adopted"), "the policy is not the one that the terms name")
    own = None if packet["policy"] is None else named(canonical(packet["policy"]))
    need(own == packet["policyHash"], "the policy has another hash")
    need(all((one["source"] is None) == (own is None) for one in packet["formerTerms"] + [packet["terms"]]),
         "the terms name the source of a policy but the packet shows no policy, or the reverse")


def terms(packet, told):
    first, *moved = shown = packet["formerTerms"] + [packet["terms"]]
    need(named(canonical(first)) == told["terms_hash"] and same(moved, told["terms"]), "the terms are not those recorded")
    need(all(one.get("adopted") == packet["policyHash"] for one in shown), "the terms name another policy")
    need(told["dates"] == [one["date"] for one in shown[:-1]], "a move names a former date that is not the date in the terms before it")


def acceptances(packet, told):
    texts = packet["termsDisclosures"]
    accepted = [((moves, fact["disclosureVersion"]), fact["disclosureHash"]) for fact, moves in told["accepted"]]
    places = {place for place, _ in accepted}
    bare = set(range(len(packet["formerTerms"]) + 1)) - {moves for moves, _ in places}
    places = sorted(places | {(moves, "") for moves in bare})
    need(len(texts) == len(places), "there is not one text for each version of the terms and each wording that was accepted")
    for text, (moves, version) in zip(texts, places):
        need(text["disclosureHash"] == named(text["text"].encode()), "a text has another hash")
        need(text["version"] in ("bookguard-disclosure-1", "bookguard-disclosure-2"), "the wording of a text is of an unknown version")
        need(moves in bare or version == text["version"], "a text is in another wording than was accepted")
    need(same(packet["acceptances"], [fact for fact, _ in told["accepted"]]), "the acceptances are not those recorded")
    hashes = {place: text["disclosureHash"] for text, place in zip(texts, places)}
    need(all(hashes[place] == own for place, own in accepted), "what was accepted is not the text in force then")


def items(packet, told):
    need(same(packet["items"], told["items"]), "the items are not those recorded")


def latest_resolution(packet, told):
    latest = told["resolutions"][-1] if told["resolutions"] else None
    need(same(packet["resolution"], latest), "the resolution is not the latest one recorded")


def evaluation(packet):
    if packet["resolution"] is not None:
        need(same(packet["evaluation"], packet["resolution"]["evaluation"]), "it is not the one recorded")
    elif packet["evaluation"] is not None:
        need(packet["evaluation"]["bookingId"] == packet["booking"]["bookingId"], "it is another booking's")


def deliveries(packet, told):
    causes, events, places = told["causes"], {}, set()
    need(len(packet["deliveries"]) <= 50 * len(causes), "there are more than there can be")
    for one in packet["deliveries"]:
        event, endpoint, status = one["eventId"], one["endpointId"], one["status"]
        nowhere = status == "no_endpoints"
        need(events.setdefault(event, (one["type"], nowhere)) == (one["type"], nowhere), "an event is shown in two ways")
        need((event, endpoint) not in places, "a delivery is shown twice")
        places.add((event, endpoint))
        alike = [id for id, (kind, _) in events.items() if (kind, made_at(id)) == (one["type"], made_at(event))]
        need(len(alike) <= causes.count((one["type"], made_at(event))), "no entry shows what the event reports")
        own = [n for n in told["settled"] if (n["eventId"], n["endpointId"]) == (event, endpoint)]
        need(same(own, one["recorded"]), "how it ended is not shown as recorded")
        last = own[-1] if own else None
        need((endpoint is None) == nowhere and (one["url"] is None) == nowhere, "its endpoint does not go with its status")
        need(last is None or last["type"] == one["type"], "the ledger records another type")
        if status == "delivered":
            need(last and last["outcome"] == "delivered" and last["attempts"] == one["attempts"], "it was not accepted so")
        elif status == "failed":
            need(not last or last["outcome"] != "delivered" and last["attempts"] <= one["attempts"], "it did not fail")
        else:
            need(one["attempts"] == 0 and not last, "it cannot have this status")
        history = one["history"]
        if history:
            need(len(history) == min(one["attempts"], 20), "it does not show as many attempts as it counts")
            skipped = one["attempts"] - len(history) + 1
            for n in own:
                if n["attempts"] >= skipped:
                    shown = history[n["attempts"] - skipped]
                    need((shown["statusCode"], shown["error"]) == (n.get("statusCode"), n.get("error")),
                          "the attempt with which it ended is not the one recorded")
            accepted = [attempt["error"] is None for attempt in history]
            need(accepted == [False] * (len(history) - 1) + [status == "delivered"], "its attempts end in another way")
    need(all((n["eventId"], n["endpointId"]) in places for n in told["settled"]), "a recorded end is not shown")


MAP_STREAM = "c3hEd-Jl-3HeP3CERv8uYg"  # the first 16 bytes of SHA-256("bookguard.map/1")


def complete(packet, proven, key):
    """That no entry is missing of those that the ledger's map covers. Returns how many these are, and the time of the last."""
    shown, (last, last_leaf, last_index, checkpoint) = packet["completeness"], proven[-1]
    entry, path = shown["entry"], shown["path"]
    _, leaf, index, its_checkpoint = prove_entry(entry, key)
    need(hmac_of(entry["salt"], canonical(entry["body"])) == leaf[1], "the leaf does not commit to the body")
    said = has("map", disclosures(entry, []))
    size, written = said["treeSize"], said["writtenAt"]
    need(entry["body"]["kind"] == "log.mapped" and leaf[4] == MAP_STREAM, "the entry does not commit to a map, or not where maps are")
    need(its_checkpoint == checkpoint, "the entry is proven under another state of the ledger")
    need(last_index < size <= index and last_leaf[5] <= written <= leaf[5], "the map is older than the last entry, or covers itself")
    bits = [step["bit"] for step in path]
    need(bits == sorted(set(bits), reverse=True), "the steps are not in order")
    stream = sha256(base64.urlsafe_b64decode(packet["stream"] + "=="))
    number = int.from_bytes(stream, "big")
    node = sha256(b"\2" + stream + len(proven).to_bytes(8, "big") + sha256(b"\0" + last))
    for bit, sibling in zip(bits, (base64_of(step["hash"], 32) for step in path)):
        prefix = (number >> (256 - bit) << (256 - bit)).to_bytes(32, "big")
        pair = sibling + node if number >> (255 - bit) & 1 else node + sibling
        node = sha256(bytes([3, bit]) + prefix + pair)
    need(node.hex() == said["mapRoot"], "the map does not have exactly these entries of the booking")
    return size, written


def timestamps(packet, proven, key, roots):
    """Where the time-stamps are in the log, and, given roots, who made them. Returns what they show, in a sentence."""
    stamps, checkpoint = packet.get("timestamps", []), proven[0][3]
    need(len(stamps) <= 8 and all((stamp["anchor"] is None) == (stamp is stamps[-1]) for stamp in stamps),
         "there are too many, or one of them is not renewed by the next")
    anchor_index, read, size = -1, [], 0
    for place, stamp in enumerate(stamps):
        head, text = head_of(stamp["checkpoint"], key), key.open(stamp["checkpoint"])[0]
        path = [base64_of(one, 32) for one in stamp["consistency"]]
        need(continues(head, head_of(checkpoint, key), path), "the log does not continue the stamped checkpoint")
        need(head[0] > (anchor_index if place else proven[0][2]), "it covers none of the entries, or not the stamp before it")
        size = size or head[0]
        response = base64_of(stamp["response"])
        read.append(Stamp(response, sha256(text.encode())))
        if stamp["anchor"]:
            entry = stamp["anchor"]
            _, leaf, anchor_index, its_checkpoint = prove_entry(entry, key)
            need(hmac_of(entry["salt"], canonical(entry["body"])) == leaf[1], "the leaf does not commit to the body")
            said = has("anchor", disclosures(entry, []))
            need(entry["body"]["kind"] == "log.anchored" and its_checkpoint == checkpoint and said["treeSize"] == head[0]
                 and said["responseHash"] == named(response), "its anchor commits to something else")
    if not read:
        return "Not yet time-stamped: the packet holds no time-stamp, so only the service says when its entries were recorded."
    if roots is None:
        return ("Not checked: the time-stamps' authorities. To whoever trusts those, the time-stamps show when the entries existed"
                " (--timestamp-roots).")
    # Each time-stamp is judged at the time of the one that renewed it, the last one now.
    for stamp, until in zip(read, [stamp.time for stamp in read[1:]] + [datetime.now(timezone.utc)]):
        stamp.trust(roots, until)
    covered = sum(index < size for _, _, index, _ in proven)
    return (f"By {read[0].time:%Y-%m-%dT%H:%M:%SZ}, the first {covered} of {len(proven)} entries existed: a root that you trust vouches for"
            f" the authority that stamped them{f', renewed {len(read) - 1} times' if read[1:] else ''}.")


def verify(data, key, roots=None, policy=None):
    with check("form"):
        packet = form(data)
    with check("signature"):
        signature(packet, key)
    with check("key"):
        need(packet["log"] == {"origin": key.name, "vkey": key.text}, "the packet names another ledger or key")
    proven, facts, erased = [], [], None
    for place, entry in enumerate(packet["entries"]):
        with check("proof"):
            proven.append(prove_entry(entry, key))
        with check("commitment"):
            commitment(entry, proven[-1][1])
        with check("disclosures"):
            erased = erasures(packet["entries"]) if erased is None else erased
            facts.append((entry["body"]["kind"], disclosures(entry, packet["withheld"], erased[place]), proven[-1][1][5]))
    with check("chain"):
        chain(packet, proven)
    with check("booking"):
        told = booking(packet, facts)
    with check("policy"):
        frozen_policy(packet)
    with check("terms"):
        terms(packet, told)
    with check("acceptances"):
        acceptances(packet, told)
    with check("items"):
        items(packet, told)
    with check("resolution"):
        latest_resolution(packet, told)
    with check("evaluation"):
        evaluation(packet)
    with check("deliveries"):
        deliveries(packet, told)
    said = []
    if "completeness" in packet:
        with check("complete"):
            said.append("Complete: nothing recorded by {1} is missing, by the ledger's map of its first {0} entries."
                        .format(*complete(packet, proven, key)))
    else:
        said.append("Not shown: whether there is a later entry. The packet was made before the ledger was mapped with all of these.")
    with check("timestamps"):
        said.append(timestamps(packet, proven, key, roots))
    if policy:
        with check("witnesses"):
            cosigned = policy.check(proven[0][3], key)
            said.append("Cosigned as the policy demands: " + (", ".join(cosigned) or "it demands nobody") + ".")
    return packet, said


def content(what, file, read):
    """What a file holds that the reader trusts. Nothing of it is told: it may be a packet, given in the wrong place."""
    try:
        with open(file, "rb") as opened:
            return read(opened.read())
    except OSError as why:
        raise Refused(f"{file} cannot be read: {why.strerror}") from None
    except Exception as why:
        raise Refused(f"{file} is not {what}" + (f": {why}" if isinstance(why, Refused) else "")) from None


def file_name(text):
    if not text:
        raise argparse.ArgumentTypeError("names a file: give one after it")
    return text


if __name__ == "__main__":
    asked = argparse.ArgumentParser(usage="verify.py PACKET KEYFILE [--timestamp-roots FILE] [--witness-policy FILE]")
    for name in ("packet", "keyfile", "--timestamp-roots", "--witness-policy"):
        asked.add_argument(name, type=file_name)
    asked = asked.parse_args()
    try:
        data = content("a packet", asked.packet, bytes)
        for begin, what in ((b"<", "a page"), (b"%PDF", "a PDF"), (b"PK\3\4", "a ZIP archive")):
            if data.startswith(begin):
                raise Refused(f"{asked.packet} is {what} and not a packet: take its packet.json, and check that")
        # White space is that of Unicode, to which four control characters of Python's do not belong.
        key = content("a verifier key", asked.keyfile, lambda it: Key(re.sub(r"\A[^\S\x1c-\x1f]+|[^\S\x1c-\x1f]+\Z", "", it.decode())))
        roots = content("a file of roots", asked.timestamp_roots, roots_of) if asked.timestamp_roots else None
        policy = content("a trust policy", asked.witness_policy, lambda it: Policy(it.decode())) if asked.witness_policy else None
    except Refused as why:
        print(f"usage: verify.py PACKET KEYFILE [--timestamp-roots FILE] [--witness-policy FILE] ({why})", file=sys.stderr)
        sys.exit(2)
    try:
        packet, said = verify(data, key, roots, policy)
    except Refused as why:
        # The reason may quote the packet, and what a terminal takes for a command could make a verdict of it.
        print("NOT VERIFIED.", "".join(one if one.isprintable() else "?" for one in ": ".join(why.args)))
        sys.exit(1)
    print(f"Verified: {len(packet['entries'])} entries of {packet['booking']['bookingId']} in the ledger {key.name}.")
    print("\n".join(said))
    print("Not recomputed: deadlines, amounts and evaluations from the policy; the texts of the terms; the summary.")
