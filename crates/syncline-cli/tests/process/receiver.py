"""A receiver that knows nothing of ours: the plain contract, and webhooks as Standard Webhooks describes them.

POST /api/ingest/sync takes batches, POST /hook checks signatures, GET /seen tells what came. An entry whose payload has
{"poison": true} makes it fail with 500. PUT /down/500 has it answer everything so, PUT /down/reset close every connection without
an answer, PUT /down/silent never answer; PUT /up ends that. PUT /strict has it refuse every field that is not in the contract.
"""

import base64, hashlib, hmac, json, os, sys, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY = base64.b64decode(os.environ.get("HOOK_SECRET", "whsec_").removeprefix("whsec_"))
seen, arrived, hooks, refused, requests = [], {}, {}, [], [0]
down, strict, up = [None], [False], threading.Event()
FIELDS = {"entityType", "entityId", "payload", "createdAt"}


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        requests[0] += 1
        if down[0] in ("silent", "reset"):
            if down[0] == "silent":
                up.wait()
            self.close_connection = True
            return
        if down[0]:
            return self.answer(int(down[0]), {"error": "down"})
        if self.path == "/hook":
            return self.hook(body)
        posted = json.loads(body)
        entries = posted["entries"]
        if strict[0] and (set(posted) != {"entries"} or any(set(entry) != FIELDS for entry in entries)):
            return self.answer(400, {"error": "a field that is not in the contract"})
        if any(isinstance(entry["payload"], dict) and entry["payload"].get("poison") for entry in entries):
            return self.answer(500, {"error": "it broke"})
        for entry in entries:
            seen.append([entry["entityType"], entry["entityId"], entry["payload"]])
            arrived.setdefault(entry["entityId"], time.time())
        self.answer(200, {"ok": True})

    def hook(self, body):
        name, at = self.headers["webhook-id"], self.headers["webhook-timestamp"]
        mac = hmac.new(KEY, f"{name}.{at}.".encode() + body, hashlib.sha256).digest()
        mine = "v1," + base64.b64encode(mac).decode()
        good = any(hmac.compare_digest(mine, given) for given in self.headers["webhook-signature"].split(" "))
        if not good or abs(time.time() - int(at)) > 300:
            refused.append(name)
            return self.answer(401, {"error": "not signed by who I know"})
        hooks[name] = json.loads(body)
        self.send_response(204)
        self.end_headers()

    def do_PUT(self):
        if self.path == "/strict":
            strict[0] = True
        elif self.path == "/up":
            down[0] = None
            up.set()
        else:
            up.clear()
            down[0] = self.path.rsplit("/", 1)[-1]
        self.answer(200, {})

    def do_GET(self):
        self.answer(200, {"seen": seen, "arrived": arrived, "hooks": hooks, "refused": refused, "requests": requests[0]})

    def answer(self, status, body):
        encoded = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(encoded)))
        self.end_headers()
        self.wfile.write(encoded)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 0), Receiver)
server.daemon_threads = True
print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
