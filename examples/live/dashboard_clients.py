"""Clients of the dashboard that receive every snapshot: `dashboard_clients.py ADDRESS COUNT`.

Prints a line when all of them have received one, and ends at SIGTERM: with status 1 if a client was disconnected or received
fewer than half of the snapshots.
"""

import selectors
import signal
import socket
import sys

host, port = sys.argv[1].rsplit(":", 1)
count = int(sys.argv[2])
snapshots = dict.fromkeys(range(count), 0)
is_over = False


def end(*_: object) -> None:
    global is_over
    is_over = True


signal.signal(signal.SIGTERM, end)
ready = selectors.DefaultSelector()
clients: list[socket.socket] = []
for number in snapshots:
    client = socket.create_connection((host, int(port)))
    client.sendall(f"GET /events/0 HTTP/1.1\r\nHost: {sys.argv[1]}\r\n\r\n".encode())
    ready.register(client, selectors.EVENT_READ, number)
    clients.append(client)
is_told = False
while not is_over:
    for key, _ in ready.select(timeout=0.2):
        received = clients[key.data].recv(1 << 16)
        if not received:
            sys.exit(1)
        snapshots[key.data] += received.count(b"\n\n")
    if not is_told and min(snapshots.values()) > 0:
        is_told = True
        print("all receive snapshots", flush=True)
sys.exit(min(snapshots.values()) < max(snapshots.values()) / 2)
