"""A tiny HTTP server for probes: ``answer.py PORT [delay] [status] [host]``.

It answers every connection with ``status`` and exits 0 on TERM; with status 0 it accepts and stays silent.
"""

import signal
import socket
import sys
import time

port, delay, status, host = (sys.argv[1:] + ["0", "0", "200", "127.0.0.1"][len(sys.argv) - 1 :])[:4]
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
time.sleep(float(delay))
listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind((host, int(port)))
listener.listen(64)
print("listening at", time.time(), flush=True)
held = []
while True:
    connection, _ = listener.accept()
    if status == "0":
        held.append(connection)
        continue
    connection.recv(65536)
    connection.sendall(f"HTTP/1.1 {status} x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
    connection.close()
