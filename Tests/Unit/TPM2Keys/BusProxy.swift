import Foundation
import Testing

/// A program between a program and a TPM in software. It forwards two ports to two others.
final class BusProxy {
    static let isPossible = FileManager.default.isExecutableFile(atPath: "/usr/bin/python3")

    /// It prints a line when it listens, and what `result()` returns when its input ends.
    private static let program = """
        for offset in 0, 1:
            server = socket.socket()
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind(("127.0.0.1", own + offset))
            server.listen()
            threading.Thread(target=serve, args=(server, other + offset), daemon=True).start()
        sys.stdout.buffer.write(b"\\n")
        sys.stdout.flush()
        sys.stdin.read()
        sys.stdout.buffer.write(result())
        """
    private static let forwarding = """
        import os, signal, socket, sys, threading
        own, other = int(sys.argv[1]), int(sys.argv[2])
        def pump(source, target, is_command):
            while data := source.recv(65536):
                target.sendall(data)
                note(data, is_command)
            try:
                target.shutdown(socket.SHUT_WR)
            except OSError:
                pass
        def serve(server, port):
            while True:
                client = server.accept()[0]
                tpm = socket.create_connection(("127.0.0.1", port))
                for source, target in (client, tpm), (tpm, client):
                    is_command = source is client and port == other
                    threading.Thread(target=pump, args=(source, target, is_command), daemon=True).start()
        """

    private let process = Process()
    private let input = Pipe()
    private let output = Pipe()
    private let port: Int

    var address: String { "swtpm:host=127.0.0.1,port=\(port)" }

    /// - Parameters:
    ///   - functions: `note(data, is_command)`, called after bytes were forwarded, and `result()`, in Python.
    ///   - arguments: `sys.argv[3]` and the following ones.
    init(of tpm: SoftwareTPM, _ functions: String, _ arguments: [String] = []) throws {
        port = Int.random(in: 10_000..<19_000)
        process.executableURL = URL(filePath: "/usr/bin/python3")
        let program = [Self.forwarding, functions, Self.program].joined(separator: "\n")
        process.arguments = ["-c", program, "\(port)", "\(tpm.port)"] + arguments
        (process.standardInput, process.standardOutput) = (input, output)
        try process.run()
        try #require(output.fileHandleForReading.read(upToCount: 1) == Data("\n".utf8))
    }

    deinit {
        if process.isRunning { kill(process.processIdentifier, SIGKILL) }
    }

    /// The bytes that `result()` returns.
    func finish() throws -> Data {
        try input.fileHandleForWriting.close()
        return output.fileHandleForReading.readDataToEndOfFile()
    }
}
