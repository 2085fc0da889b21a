"""Ask URLs a number of times each and print how many answers came from whom, as JSON."""

from __future__ import annotations

import collections
import json
import sys
import urllib.request

TIMES = 10

counts = {}
for url in sys.argv[1:]:
    answers = collections.Counter()
    for _attempt in range(TIMES):
        with urllib.request.urlopen(url, timeout=5) as answer:
            answers[answer.read().decode().strip()] += 1
    counts[url] = answers
print(json.dumps(counts))
