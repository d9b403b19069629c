import Foundation
import Testing

/// Stands between a program and a TPM in software, and records every byte of both: a device on the bus of a real one.
final class BusRecorder {
    static let isPossible = FileManager.default.isExecutableFile(atPath: "/usr/bin/python3")

    /// Forwards two ports to two others. It prints a line when it listens, and the bytes when its input ends.
    private static let program = """
        import socket, sys, threading
        own, other = int(sys.argv[1]), int(sys.argv[2])
        recorded = bytearray()
        def pump(source, target):
            while data := source.recv(65536):
                recorded.extend(data)
                target.sendall(data)
            try:
                target.shutdown(socket.SHUT_WR)
            except OSError:
                pass
        def serve(server, port):
            while True:
                client = server.accept()[0]
                tpm = socket.create_connection(("127.0.0.1", port))
                for pair in (client, tpm), (tpm, client):
                    threading.Thread(target=pump, args=pair, daemon=True).start()
        for offset in 0, 1:
            server = socket.socket()
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind(("127.0.0.1", own + offset))
            server.listen()
            threading.Thread(target=serve, args=(server, other + offset), daemon=True).start()
        sys.stdout.buffer.write(b"\\n")
        sys.stdout.flush()
        sys.stdin.read()
        sys.stdout.buffer.write(recorded)
        """

    private let process = Process()
    private let input = Pipe()
    private let output = Pipe()
    private let port: Int

    var address: String { "swtpm:host=127.0.0.1,port=\(port)" }

    init(of tpm: SoftwareTPM) throws {
        port = Int.random(in: 10_000..<19_000)
        process.executableURL = URL(filePath: "/usr/bin/python3")
        process.arguments = ["-c", Self.program, "\(port)", "\(tpm.port)"]
        (process.standardInput, process.standardOutput) = (input, output)
        try process.run()
        try #require(output.fileHandleForReading.read(upToCount: 1) == Data("\n".utf8))
    }

    deinit {
        if process.isRunning { kill(process.processIdentifier, SIGKILL) }
    }

    /// All bytes so far, in both directions.
    func finish() throws -> Data {
        try input.fileHandleForWriting.close()
        return output.fileHandleForReading.readDataToEndOfFile()
    }
}
