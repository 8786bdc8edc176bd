"""Lets Sigstore's RFC 3161 verifier and `openssl ts` judge the time-stamps of packets:  stamps.py ROOTS PACKET…

Both must accept each of them over the checkpoint beside it, and refuse it over another text and under another root. `openssl ts`
takes the moment at which certificates must be valid, so it also judges what a renewal is for: years later, the last time-stamp
is good, and each before it was good when the next one was made. It writes what it needs into the current directory.
"""

import base64
import json
import subprocess
import sys
from datetime import datetime, timedelta, timezone

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from rfc3161_client import VerificationError, VerifierBuilder, decode_timestamp_response


def another_root():
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "Test Root")])
    now = datetime.now(timezone.utc)
    root = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
    root = root.not_valid_before(now - timedelta(days=9999)).not_valid_after(now + timedelta(days=9999))
    return root.add_extension(x509.BasicConstraints(True, None), True).sign(key, hashes.SHA256())


# Both are given one root after the other: of two with the same name, they try only the first.
def client(response, text, roots):
    def accepts(root):
        try:
            verifier = VerifierBuilder().add_root_certificate(root).build()
            return verifier.verify_message(decode_timestamp_response(response), text)
        except VerificationError:
            return False

    return any(map(accepts, roots))


def openssl(response, text, roots, at):
    for root in roots:
        for name, data in (("stamp", response), ("text", text), ("root", root.public_bytes(Encoding.PEM))):
            with open(name, "wb") as file:
                file.write(data)
        command = ["openssl", "ts", "-verify", "-in", "stamp", "-data", "text", "-CAfile", "root", "-attime", str(int(at.timestamp()))]
        if subprocess.run(command, capture_output=True).returncode == 0:
            return True
    return False


def main(roots, *packets):
    with open(roots, "rb") as file:
        roots = x509.load_pem_x509_certificates(file.read())
    judged = renewed = 0
    # Neither judge knows PSS, nor asks for what purpose an authority between signer and root may vouch; docs/verifiers does.
    for path in (path for path in packets if not path.endswith(("-by-pss.json", "/stamped-under-another-purpose.json"))):
        with open(path, encoding="utf-8") as file:
            stamps = json.load(file).get("timestamps", [])
        read = [(base64.b64decode(one["response"]), one["checkpoint"].split("\n\n")[0].encode() + b"\n") for one in stamps]
        times = [decode_timestamp_response(response).tst_info.gen_time for response, _ in read]
        # Each is judged when the next was made, the last one years on.
        moments = times[1:] + [time + timedelta(days=3000) for time in times[-1:]]
        for (response, text), time, later in zip(read, times, moments):
            changed = text.replace(b"\n", b"\r", 1)
            for at in (time, later):
                assert openssl(response, text, roots, at), (path, at)
                assert not openssl(response, changed, roots, at) and not openssl(response, text, [another_root()], at), path
            assert client(response, text, roots), path
            assert not client(response, changed, roots) and not client(response, text, [another_root()]), path
            judged += 1
        for (response, text), later in zip(read[:-1], moments[1:]):
            assert not openssl(response, text, roots, later), f"{path}: the renewed time-stamp needed no renewal"
            renewed += 1
    assert judged >= 3 and renewed, (judged, renewed)
    print(f"two judges accepted {judged} time-stamps, {renewed} of them only because they were renewed")


main(*sys.argv[1:])
