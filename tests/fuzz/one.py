# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fuzz one target with atheris in a process of its own (called by run.py); the counters go to a file.

python tests/fuzz/one.py TARGET --seconds 60 --statistics FILE --finds DIRECTORY [--corpus DIRECTORY]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import atheris

FUZZ = Path(__file__).resolve().parent
PRODUCT = ["kubenode"]
_LOOK = 64  # inputs between two checks of the time


class Campaign:
    """Counts inputs and collects finds; ends the process after its time, because libFuzzer never returns."""

    def __init__(self, name: str, seconds: float, statistics: Path, finds: Path) -> None:
        self.name, self.statistics, self.directory = name, statistics, finds
        self.executions = 0
        self.finds: dict[str, str] = {}
        self.begun = time.monotonic()
        self.end = self.begun + seconds

    def found(self, signature: str, text: str, data: bytes) -> None:
        """Keep the shortest input of each find."""
        name = hashlib.sha256(signature.encode()).hexdigest()[:16]
        file = self.directory / self.name / name
        if signature in self.finds and file.stat().st_size <= len(data):
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        file.with_suffix(".txt").write_text(f"{signature}\n{text}\n", "utf-8", "backslashreplace")
        if signature not in self.finds:
            print(f"FIND in {self.name}: {signature}\n{text}\ninput: {file}", file=sys.stderr, flush=True)
        self.finds[signature] = str(file)

    def count(self) -> None:
        """Count one input; end the process when the time is over."""
        self.executions += 1
        if self.executions % _LOOK == 0 and time.monotonic() >= self.end:
            self.finish()

    def finish(self) -> None:
        """Write the counters and end this process."""
        seconds = time.monotonic() - self.begun
        result = {"executions": self.executions, "seconds": round(seconds, 1), "finds": self.finds}
        self.statistics.write_text(json.dumps(result))
        sys.stderr.flush()
        os._exit(0)


def main() -> None:
    """Fuzz until the time is over."""
    parser = argparse.ArgumentParser()
    parser.add_argument("target")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--statistics", type=Path, required=True)
    parser.add_argument("--finds", type=Path, required=True)
    parser.add_argument("--corpus", type=Path)
    options = parser.parse_args()
    sys.path[:0] = [str(FUZZ.parents[1] / "agent/src"), str(FUZZ.parent), str(FUZZ.parents[1] / "molecule")]
    with atheris.instrument_imports(include=PRODUCT):
        from fuzz.target import bounded, check
        from fuzz.targets import load

        target = load(options.target)
    options.finds.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="fuzz-", dir=options.statistics.parent))
    for number, seed in enumerate(target.seeds):
        (scratch / f"seed-{number:04}").write_bytes(seed)
    words = scratch.with_suffix(".words")
    words.write_text("".join(f'"{_quoted(word)}"\n' for word in target.words))
    corpora = [str(scratch), str(FUZZ / "corpus" / options.target)]
    if options.corpus:
        options.corpus.mkdir(parents=True, exist_ok=True)
        corpora.insert(0, str(options.corpus))
    campaign = Campaign(options.target, options.seconds, options.statistics, options.finds)

    def one(data: bytes) -> None:
        find = check(target, data)
        if find is not None:
            campaign.found(find.signature, find.text, data)
        campaign.count()

    arguments = [sys.argv[0], f"-seed={options.seed}", f"-max_len={target.longest}", "-len_control=20", "-reload=0"]
    # bounded() has stricter limits, and its errors have a traceback
    arguments += [
        "-timeout=3600",
        "-rss_limit_mb=8192",
        "-malloc_limit_mb=8192",
        f"-artifact_prefix={options.finds}/{options.target}-",
    ]
    arguments += [f"-dict={words}"] if target.words else []
    arguments += [path for path in corpora if os.path.isdir(path)]
    with bounded():
        atheris.Setup(arguments, one)
        atheris.Fuzz()


def _quoted(word: str) -> str:
    return "".join(chr(byte) if 32 < byte < 127 and byte not in b'"\\' else f"\\x{byte:02x}" for byte in word.encode())


if __name__ == "__main__":
    main()
