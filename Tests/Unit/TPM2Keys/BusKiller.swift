import Foundation
import Testing

/// Stands between a program and a TPM in software, counts commands, and kills the program after one of them.
final class BusKiller {
    /// Forwards two ports to two others. It prints a line when it listens, and the number of commands when its input ends.
    private static let program = """
        import os, signal, socket, sys, threading
        own, other, deadly, pid_file = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
        count = 0
        def pump(source, target, is_counted):
            global count
            while data := source.recv(65536):
                target.sendall(data)
                if is_counted:
                    count += 1
                    if count == deadly:
                        os.kill(int(open(pid_file).read()), signal.SIGKILL)
            try:
                target.shutdown(socket.SHUT_WR)
            except OSError:
                pass
        def serve(server, port):
            while True:
                client = server.accept()[0]
                tpm = socket.create_connection(("127.0.0.1", port))
                for source, target in (client, tpm), (tpm, client):
                    is_counted = source is client and port == other
                    threading.Thread(target=pump, args=(source, target, is_counted), daemon=True).start()
        for offset in 0, 1:
            server = socket.socket()
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind(("127.0.0.1", own + offset))
            server.listen()
            threading.Thread(target=serve, args=(server, other + offset), daemon=True).start()
        sys.stdout.write("\\n")
        sys.stdout.flush()
        sys.stdin.read()
        sys.stdout.write(str(count))
        """

    private let process = Process()
    private let input = Pipe()
    private let output = Pipe()
    private let port: Int

    var address: String { "swtpm:host=127.0.0.1,port=\(port)" }

    /// - Parameters:
    ///   - number: The command after which the program is killed, from 1; 0 for none.
    ///   - pidFile: The file into which the program has written its number.
    init(of tpm: SoftwareTPM, after number: Int, pidFile: String) throws {
        port = Int.random(in: 10_000..<19_000)
        process.executableURL = URL(filePath: "/usr/bin/python3")
        process.arguments = ["-c", Self.program, "\(port)", "\(tpm.port)", "\(number)", pidFile]
        (process.standardInput, process.standardOutput) = (input, output)
        try process.run()
        try #require(output.fileHandleForReading.read(upToCount: 1) == Data("\n".utf8))
    }

    deinit {
        if process.isRunning { kill(process.processIdentifier, SIGKILL) }
    }

    /// The commands that the program has sent.
    func finish() throws -> Int {
        try input.fileHandleForWriting.close()
        return Int(String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)) ?? 0
    }
}
