import Foundation
import TestKit
import Testing

/// A key service on this machine that answers as the transit engine of Vault does. Its cipher is a mask: tests need no more.
// Safe because: each server is used by the one test that made it.
final class TransitServer: @unchecked Sendable {
    private let process = Process()
    let url: String
    static let token = "s.test-token"

    private static let script = """
        import base64, http.server, json, sys
        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_): pass
            def reply(self, status, body):
                data = json.dumps(body).encode()
                self.send_response(status)
                if status == 302: self.send_header("Location", "http://127.0.0.1:1/")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if self.headers["X-Vault-Token"] != "s.test-token": return self.reply(403, {"errors": ["permission denied"]})
                mask = lambda text: base64.b64encode(bytes(b ^ 0x5a for b in base64.b64decode(text))).decode()
                if self.path == "/v1/transit/encrypt/app":
                    return self.reply(200, {"data": {"ciphertext": "vault:v1:" + mask(body["plaintext"])}})
                if self.path == "/v1/transit/decrypt/app":
                    return self.reply(200, {"data": {"plaintext": mask(body["ciphertext"][9:])}})
                if self.path == "/v1/transit/decrypt/elsewhere": return self.reply(302, {})
                self.reply(404, {"errors": []})
        server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        print(server.server_port, flush=True)
        server.serve_forever()
        """

    init() throws {
        let output = Pipe()
        process.executableURL = URL(filePath: "/usr/bin/python3")
        process.arguments = ["-c", Self.script]
        process.standardOutput = output
        try process.run()
        var line = Data()
        while line.last != UInt8(ascii: "\n") {
            let more = output.fileHandleForReading.availableData
            guard !more.isEmpty else { break }
            line += more
        }
        let port = try #require(Int(String(decoding: line.dropLast(), as: UTF8.self)))
        url = "http://127.0.0.1:\(port)"
    }

    deinit { stop() }

    func stop() {
        kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
    }
}
