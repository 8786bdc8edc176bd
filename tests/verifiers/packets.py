"""Runs verify.py on many packets in one process, which spares the start of as many interpreters.

packets.py VERIFIER KEYFILE PACKET...   prints a line for each packet: its exit code and what it printed, as JSON
"""
import contextlib
import io
import json
import sys
import traceback

verifier, key, *packets = sys.argv[1:]
with open(verifier, encoding="utf-8") as source:
    program = compile(source.read(), verifier, "exec")
for packet in packets:
    sys.argv = [verifier, packet, key]
    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    code = 0
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            exec(program, {"__name__": "__main__"})
        except SystemExit as end:
            code = end.code
        except Exception:
            traceback.print_exc()
            code = 1
    print(json.dumps([code, printed.buffer.getvalue().decode()]))
