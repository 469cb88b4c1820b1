# SPDX-License-Identifier: ISC
"""tests/demo/origin.py - two small origins, each https and http, for the demo.

origin.py CERT KEY LOG NAME=ADDRESS…   https on 8443, http on 8080; prints "ready" once all listen.
LOG gets one line for each TCP connection, so that "nothing was dialled" can be seen.
"""
import http.server
import socketserver
import ssl
import sys
import threading

HTTPS, HTTP = 8443, 8080


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, name, address, port, log):
        self.name, self.log = name, log
        super().__init__((address, port), Handler)

    def verify_request(self, request, client_address):
        self.log.write(f"{self.name}:{self.server_address[1]}\n")
        self.log.flush()
        return True

    def handle_error(self, request, client_address):
        pass  # a client that gives up is no news


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = f"hello from {self.server.name} port {self.server.server_address[1]}\n".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


def main():
    cert, key, logname, *origins = sys.argv[1:]
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(cert, key)
    log = open(logname, "a", encoding="ascii")
    for origin in origins:
        name, address = origin.split("=")
        for port in (HTTPS, HTTP):
            server = Server(name, address, port, log)
            if port == HTTPS:
                server.socket = tls.wrap_socket(server.socket, server_side=True,
                                                do_handshake_on_connect=False)
            threading.Thread(target=server.serve_forever, daemon=True).start()
    print("ready", flush=True)
    threading.Event().wait()


main()
