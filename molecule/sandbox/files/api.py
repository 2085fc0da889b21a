# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-in for the API: writes down the token of each request, and accepts only those that begin with `good`.

An accepted request finds no objects.
"""

from __future__ import annotations

import http.server
import sys


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        token = self.headers.get("Authorization", "")
        with open(sys.argv[1], "a", encoding="utf-8") as file:
            file.write(f"{token}\n")
        body = b'{"kind": "List", "metadata": {"resourceVersion": "1"}, "items": []}'
        self.send_response(200 if token.startswith("Bearer good") else 401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_words):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", 6443), Handler).serve_forever()
