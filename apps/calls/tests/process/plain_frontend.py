"""A front end in another language: { "ok": true } for changes, and for a recording { "fileUrl", "length", "sha256" } of what it
stored. Called with --file-url-only it states nothing but the address.

Upserts entries by type and id, keeps recordings in memory, and refuses a whole batch if any payload in it says "poison".
GET /seen tells what it has. Prints the address it listens on.
"""

import email
import email.policy
import hashlib
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

lock = threading.Lock()
entities = {}
recordings = {}
requests = []


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/api/ingest/sync":
            self.sync(json.loads(body))
        elif self.path == "/api/ingest/recording-file":
            self.recording_file(body)
        else:
            self.answer(404, {"error": "no such place"})

    def do_GET(self):
        with lock:
            self.answer(200, {"entities": entities, "recordings": recordings, "requests": requests})

    def sync(self, body):
        entries = body["entries"]
        for entry in entries:
            if not {"entityType", "entityId", "payload", "createdAt"} <= entry.keys():
                return self.answer(400, {"error": "an entry is not complete"})
        with lock:
            requests.append(len(entries))
            if any(entry["payload"].get("poison") for entry in entries):
                return self.answer(500, {"error": "cannot stand it"})
            for entry in entries:
                entities.setdefault(entry["entityType"], {})[entry["entityId"]] = entry["payload"]
        self.answer(200, {"ok": True})

    def recording_file(self, body):
        head = ("Content-Type: " + self.headers["Content-Type"] + "\r\n\r\n").encode()
        form = email.message_from_bytes(head + body, policy=email.policy.HTTP)
        parts = {part.get_param("name", header="content-disposition"): part for part in form.iter_parts()}
        text = {name: parts[name].get_payload(decode=True) for name in ("callLogId", "recordingId", "audio", "meta")}
        call = text["callLogId"].decode()
        with lock:
            recordings[call] = {
                "recordingId": text["recordingId"].decode(),
                "sha256": hashlib.sha256(text["audio"]).hexdigest(),
                "audioType": parts["audio"].get_content_type(),
                "audioName": parts["audio"].get_filename(),
                "metaType": parts["meta"].get_content_type(),
                "meta": json.loads(text["meta"]),
            }
        receipt = {"fileUrl": f"http://frontend.example/storage/recordings/{call}/mixed.wav"}
        if "--file-url-only" not in sys.argv:
            receipt |= {"length": len(text["audio"]), "sha256": recordings[call]["sha256"]}
        self.answer(200, receipt)

    def answer(self, status, body):
        encoded = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(encoded)))
        self.end_headers()
        self.wfile.write(encoded)

    def log_message(self, *arguments):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
sys.stdout.close()
server.serve_forever()
