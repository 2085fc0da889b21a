"""Ask a URL again and again, a new connection each time, until the file /run/asking is gone; then write down who was not answered."""

from __future__ import annotations

import json
import sys
import time
import urllib.request
from pathlib import Path

end = time.monotonic() + 900
answered, lost = 0, []
while Path("/run/asking").exists() and time.monotonic() < end:
    try:
        with urllib.request.urlopen(sys.argv[1], timeout=5) as answer:
            answer.read()
        answered += 1
    except OSError as error:
        lost.append(str(error))
    time.sleep(0.1)
Path("/run/asked.json").write_text(json.dumps({"answered": answered, "lost": lost}))
