"""Lets another implementation of C2SP tlog-witness judge both roles of Bookguard.

As a log: a service with the setting `witnesses` shows its checkpoints to that implementation's witness while it grows, and a packet
must come to carry a cosignature that `evidence verify --witness-policy` accepts. As a witness: that implementation's log shows its
checkpoints to `bookguard witness serve`, learns from a 409 what was cosigned last, and must accept each cosignature.

It leaves the key of the log in own.vkey and the cosigned packet in own.json.
"""

import hashlib
import json
import os
import subprocess
import threading
import time
import urllib.request
from base64 import b64decode, b64encode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import witness_log

BOOKGUARD = os.environ["BOOKGUARD"]
BOOKING = {
    "talent": {"id": "t-7", "name": "The Night Owls"},
    "organizer": {"id": "o-42", "name": "Acme Events"},
    "eventType": "concert",
    "eventDate": "2031-06-20T19:00:00Z",
    "bookingValue": 1200.50,
}


def command(*arguments):
    ran = subprocess.run([BOOKGUARD, *arguments], capture_output=True, text=True)
    return ran.returncode, ran.stdout, ran.stderr


def serve(*arguments):
    """Starts a server. Returns it and its address, which it prints first."""
    server = subprocess.Popen([BOOKGUARD, *arguments], stdout=subprocess.PIPE, text=True)
    line = server.stdout.readline()
    assert line.startswith("listening on "), line
    return server, line.split()[-1]


def ask(url, body=None, key=None):
    headers = {"content-type": "application/json", **({"x-api-key": key} if key else {})}
    data = body and json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=30) as answer:
        return answer.read().decode()


def until(what, condition):
    end = time.monotonic() + 60
    while not (found := condition()):
        assert time.monotonic() < end, f"waited for {what}"
        time.sleep(0.1)
    return found


def as_a_log():
    database = ["--db", "own.db"]
    server, base = serve("serve", "--listen", "127.0.0.1:0", "--dev", *database)
    vkey = ask(f"{base}/v1/ledger/key").strip()
    server.terminate()
    server.wait()
    with open("own.vkey", "w", encoding="utf-8") as file:
        file.write(vkey)
    witness = witness_log.WitnessService.new("witness.example", os.urandom(32))
    witness.add_log(vkey.split("+")[0], vkey)
    answers = []

    class Asked(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            status, media_type, said = witness.handle_add_checkpoint_http(body)
            answers.append((self.path, status, body, said))
            self.send_response(status)
            self.send_header("content-type", media_type)
            self.send_header("content-length", str(len(said.encode())))
            self.end_headers()
            self.wfile.write(said.encode())

        def log_message(self, *_):
            pass

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Asked)
    threading.Thread(target=listener.serve_forever, daemon=True).start()
    with open("own.policy", "w", encoding="utf-8") as file:
        file.write(f"witness other {witness.vkey()} http://127.0.0.1:{listener.server_port}/\nquorum other\n")
    server, base = serve("serve", "--listen", "127.0.0.1:0", "--dev", *database, "--witnesses", "own.policy")
    partner = {"name": "Acme", "businessType": "venue", "contactEmail": "a@example.com"}
    key = json.loads(ask(f"{base}/v1/partners/register", partner))["apiKey"]
    sizes = []
    for bookings in (1, 300):
        for _ in range(bookings):
            booking = json.loads(ask(f"{base}/v1/bookings", BOOKING, key))["bookingId"]

        def cosigned():
            packet = ask(f"{base}/v1/bookings/{booking}/evidence", key=key)
            return packet if "\u2014 witness.example " in packet else None

        with open("own.json", "w", encoding="utf-8") as file:
            file.write(until("a cosigned packet", cosigned))
        code, said, why = command("evidence", "verify", "own.json", "--key", vkey, "--witness-policy", "own.policy")
        assert code == 0, said + why
        assert json.loads(said)["witnesses"][0]["witness"] == "other", said
        sizes.append(json.loads(said)["ledger"]["treeSize"])
    assert {path for path, *_ in answers} == {"/add-checkpoint"}
    assert all(status == 200 for _, status, *_ in answers), answers
    # Each request began with what was cosigned before.
    olds = [int(body.split("\n", 1)[0].removeprefix("old ")) for _, _, body, _ in answers]
    assert olds[0] == 0 and olds == sorted(olds) and olds[-1] > 0, olds
    server.terminate()
    server.wait()
    print(f"the other witness cosigned {len(answers)} checkpoints, up to {sizes[-1]} entries")


def as_a_witness():
    log = witness_log.open("other.jsonl")
    origin, public = f"witness-log/{log.identity_pubkey_hex()}", bytes.fromhex(log.identity_pubkey_hex())
    name = hashlib.sha256(origin.encode() + b"\n\1" + public).digest()[:4].hex()
    vkey = f"{origin}+{name}+{b64encode(bytes([1]) + public).decode()}"
    code, said, why = command("witness", "init", "w", "--name", "witness.example.com/one", "--log", vkey)
    assert code == 0, why
    key = json.loads(said)["key"]
    server, base = serve("witness", "serve", "w", "--listen", "127.0.0.1:0")
    witness = b64decode(key.split("+", 2)[2])[1:].hex()
    entry = json.loads(witness_log.witness_entry_independent("witness.example.com/one", "Another", base, witness))
    for entries in (1, 4, 300):
        for at in range(entries):
            log.append_intent(str(at).encode())
        round = witness_log.submit_round(log, {"witnesses": [entry]}, "state.json")
        assert round.ok and round.cosignatures == 1, round
        # What it knew of the witness is gone: the 409 says it again.
        os.remove("state.json")
    before = log.tree_size()
    status, said, _ = witness_log.witnessing._post(base, log.add_checkpoint_body_at(before, before - 1), 30)
    assert (status, said) == (409, f"{before}\n"), (status, said)
    wrong = log.add_checkpoint_body_at(before, before).replace(f"\n{before}\n", f"\n{before + 1}\n")
    status, said, _ = witness_log.witnessing._post(base, wrong, 30)
    assert status == 403, (status, said)
    server.terminate()
    assert server.wait() == 0
    print(f"the other log had its checkpoints cosigned, up to {before} entries")


as_a_log()
as_a_witness()
