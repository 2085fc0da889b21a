#!/usr/bin/python3
# steady.py serve: answer on port 8080.
# steady.py ask ADDRESS PORT DIRECTORY: new connections one after the other, and one that is kept; what fails is written
# to `failures` there, how many did not to `count`.
from __future__ import annotations

import pathlib
import socket
import socketserver
import sys
import time


class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        while data := self.request.recv(100):
            self.request.send(data)


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True


def say(talk, text):
    talk.send(text)
    if talk.recv(100) != text:
        raise OSError("another answer")


def ask(target, root):
    kept, count = socket.create_connection(target, 5), 0
    while True:
        try:
            with socket.create_connection(target, 5) as talk:
                talk.settimeout(5)
                say(talk, b"new")
            say(kept, b"kept")
            count += 1
            (root / "count.new").write_text(f"{count}\n")
            (root / "count.new").replace(root / "count")  # a reader always gets a number
        except OSError as error:
            with (root / "failures").open("a") as file:
                file.write(f"after {count}: {error!r}\n")
            kept = socket.create_connection(target, 5)
        time.sleep(0.15)


if sys.argv[1] == "serve":
    Server(("", 8080), Echo).serve_forever()
ask((sys.argv[2], int(sys.argv[3])), pathlib.Path(sys.argv[4]))
