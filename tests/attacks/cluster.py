"""PostgreSQL, nodes and nginx on loopback, and a load of requests: what several attacks start."""

import asyncio
import glob
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request

RATE, KEPT = 200, 24
DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs")
NOBODY = 65534                     # PostgreSQL does not run as root
BOOKING = json.dumps({
    "talent": {"id": "t", "name": "T"}, "organizer": {"id": "o", "name": "O"}, "eventType": "concert",
    "eventDate": "2031-03-01T20:00:00Z", "bookingValue": 1000, "currency": "EUR",
}).encode()
PARTNER = json.dumps({"name": "P", "businessType": "venue", "contactEmail": "a@example.com"}).encode()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def until(what, found, seconds=20):
    end = time.monotonic() + seconds
    while not found():
        if time.monotonic() > end:
            sys.exit(f"no {what} within {seconds} s")
        time.sleep(0.02)


def status(url):
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return answer.status
    except urllib.error.HTTPError as refusal:
        return refusal.code
    except OSError:
        return None


class Postgres:
    def __init__(self, folder):
        folders = glob.glob("/usr/lib/postgresql/*/bin")
        tools = max(folders, key=lambda path: int(path.split("/")[4])) if folders else ""
        self.port, data = free_port(), os.path.join(folder, "data")
        self.user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.getuid() == 0 else {}
        os.mkdir(data, 0o700)
        if self.user:
            os.chmod(folder, 0o755)
            os.chown(data, NOBODY, NOBODY)
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": data, **self.user}
        initdb = [os.path.join(tools, "initdb"), "-D", data, "-U", "bookguard", "-A", "trust", "-E", "UTF8", "--locale=C"]
        subprocess.run(initdb, check=True, **quiet)
        command = [os.path.join(tools, "postgres"), "-D", data, "-p", str(self.port), "-k", data, "-h", "127.0.0.1"]
        self.process = subprocess.Popen(command, **quiet)
        ready = [os.path.join(tools, "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        until("PostgreSQL", lambda: subprocess.run(ready).returncode == 0)
        self.url = f"postgres://bookguard@127.0.0.1:{self.port}/postgres"

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(30)


class Node:
    def __init__(self, binary, database, key, delay=0, *more):
        self.port, self.delay, self.key = free_port(), delay, key
        self.url = f"http://127.0.0.1:{self.port}"
        self.command = [
            binary, "serve", "--db", database, "--ledger-key", key, "--listen", f"127.0.0.1:{self.port}",
            "--trusted-proxy", "127.0.0.1", "--shutdown-delay-seconds", str(delay), *more,
        ]
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until("node that is ready", lambda: status(f"{self.url}/readyz") == 200)

    def stop(self):
        self.process.terminate()
        return self.process.wait(60)


class Nginx:
    """nginx with a configuration of the pages, on an address of this machine."""

    def __init__(self, folder, holding, change):
        """Takes the block of the pages that holds this text, as `change` changes it for this machine."""
        program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin") or sys.exit("install nginx-light")
        blocks = []
        for path in (f"{DOCS}/operate.md", f"{DOCS}/operate/cluster.md"):
            with open(path, encoding="utf-8") as page:
                blocks += re.findall(r"```nginx\n(.*?)```", page.read(), re.S)
        [self.block] = [block for block in blocks if holding in block]
        self.folder, self.port, self.log = folder, free_port(), os.path.join(folder, "nginx.log")
        file = self.write(change)
        self.process = subprocess.Popen([program, "-c", file, "-e", self.log, "-p", folder])
        until("nginx", lambda: status(f"http://127.0.0.1:{self.port}/livez"))

    def write(self, change):
        block, listens = re.subn(r"listen 443 ssl;", f"listen 127.0.0.1:{self.port};", self.block)
        assert listens == 1, block
        block = re.sub(r"^", "  ", change(block), flags=re.M)
        temporary = "".join(f"  {name}_temp_path {self.folder}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        root = "user root;\n" if os.getuid() == 0 else ""
        text = (f"{root}daemon off;\nworker_processes 1;\npid {self.folder}/nginx.pid;\nerror_log {self.log};\n"
                f"events {{ worker_connections 1024; }}\nhttp {{\n  access_log off;\n{temporary}{block}}}\n")
        with open(os.path.join(self.folder, "nginx.conf"), "w", encoding="utf-8") as file:
            file.write(text)
        return file.name

    def reload(self, change):
        self.write(change)
        self.process.send_signal(signal.SIGHUP)

    def stop(self):
        self.process.terminate()
        self.process.wait(30)


class Load:
    """So many requests a second, each on a kept connection or on a new one."""

    def __init__(self, port, key, booking, repeats, host="localhost", rate=RATE):
        self.port, self.key, self.booking, self.repeats = port, key, booking, repeats
        self.host, self.rate = host, rate
        self.idle, self.sent, self.failed, self.slowest, self.made, self.unknown = [], 0, [], 0.0, set(), 0
        self.repeated, self.running, self.began, self.took = 0, True, time.monotonic(), 0.0

    async def exchange(self, connection, request):
        reader, writer = connection
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
        body = await reader.readexactly(int(fields[b"content-length"]))
        return int(head[9:12]), body, fields.get(b"connection") == b"close"

    async def attempt(self, request, kept):
        connection = None
        try:
            connection = self.idle.pop() if kept and self.idle else await asyncio.open_connection("127.0.0.1", self.port)
            code, body, last = await asyncio.wait_for(self.exchange(connection, request), 30)
        except (OSError, asyncio.IncompleteReadError, asyncio.TimeoutError) as error:
            if connection:
                connection[1].close()
            return None, repr(error).encode()
        if kept and not last and len(self.idle) < KEPT:
            self.idle.append(connection)
        else:
            connection[1].close()
        return code, body

    async def one(self, number):
        kind, kept = number % 4, number % 3 != 0
        is_write, is_keyed = kind % 2 == 1, kind == 1
        path = "/v1/bookings" if is_write or kind == 2 else f"/v1/bookings/{self.booking}"
        body = BOOKING if is_write else b""
        head = f"{'POST' if is_write else 'GET'} {path} HTTP/1.1\r\nhost: {self.host}\r\nx-api-key: {self.key}\r\n"
        if is_keyed:
            head += f"idempotency-key: key-{number}\r\n"
        if not kept:
            head += "connection: close\r\n"
        if is_write:
            head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
        request, begun = f"{head}\r\n".encode() + body, time.monotonic()
        code, answer = await self.attempt(request, kept)
        while self.repeats and is_keyed and code in (None, 502, 503, 504) and time.monotonic() - begun < 20:
            self.repeated += 1
            await asyncio.sleep(0.1)
            code, answer = await self.attempt(request, False)
        self.slowest = max(self.slowest, time.monotonic() - begun)
        if code != (201 if is_write else 200):
            self.failed.append((time.monotonic() - self.began, ("read", "keyed write", "read", "write")[kind], code, answer[:120]))
            self.unknown += is_write and not is_keyed
        elif is_write:
            self.made.add(json.loads(answer)["bookingId"])

    async def run(self):
        tasks = set()
        while self.running:
            task = asyncio.create_task(self.one(self.sent))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            self.sent += 1
            await asyncio.sleep(max(self.began + self.sent / self.rate - time.monotonic(), 0))
        self.took = time.monotonic() - self.began
        await asyncio.gather(*tasks)
        for _, writer in self.idle:
            writer.close()


async def under_load(loads, work):
    """Runs blocking work beside these loads."""
    loading = [asyncio.create_task(load.run()) for load in loads]
    try:
        await asyncio.sleep(2)
        await asyncio.get_running_loop().run_in_executor(None, work)
        await asyncio.sleep(2)
    finally:
        for load in loads:
            load.running = False
    await asyncio.gather(*loading)


def post(url, body, key=None, host=None):
    headers = {"content-type": "application/json", **({"x-api-key": key} if key else {}), **({"host": host} if host else {})}
    with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=10) as answer:
        return json.load(answer)


def bookings(binary, database, node):
    command = [binary, "--db", database, "--ledger-key", node.key, "ledger", "verify", "--output", "json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["bookings"]
