"""Ask a URL again and again, with a new connection each time, until the file /run/asking is gone.

Then write the number of answers, and the error of each request without one, to /run/asked.json.

All the time one connection is kept on which a request is written, slowly; it is answered at the end.
"""

from __future__ import annotations

import json
import socket
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path

end = time.monotonic() + 900
answered, lost = 0, []
url = urllib.parse.urlsplit(sys.argv[1])
kept = socket.create_connection((url.hostname, url.port or 80), 5)
kept.send(f"GET {url.path} HTTP/1.0\r\nX-Still-There: ".encode())
while Path("/run/asking").exists() and time.monotonic() < end:
    try:
        with urllib.request.urlopen(sys.argv[1], timeout=5) as answer:
            answer.read()
        answered += 1
    except OSError as error:
        lost.append(str(error))
    try:
        kept.send(b"x")
    except OSError as error:
        lost.append(f"the connection that was kept: {error}")
        break
    time.sleep(0.1)
try:
    kept.send(b"\r\n\r\n")
    response = kept.recv(100).decode()
except OSError as error:
    response = str(error)
if " 200 " not in response:
    lost.append(f"the connection that was kept: {response!r}")
Path("/run/asked.json").write_text(json.dumps({"answered": answered, "lost": lost}))
