import Foundation

/// The main job on real data: encrypt, share between four processes, verify, look at the file, change its key under load.
struct Demo {
    private let database: String
    private let folder: URL
    private let cipherctl: URL
    private let itself: URL
    private let started = Date()

    private var store: String { folder.appendingPathComponent("store.db").path }
    private var key: String { folder.appendingPathComponent("key").path }

    init(database: String) throws {
        guard FileManager.default.fileExists(atPath: database) else {
            throw DemoError("there is no \(database): install Debian's proj-data, or name another SQLite database")
        }
        guard let itself = Bundle.main.executableURL else { throw DemoError("the demo cannot find itself") }
        self.database = database
        self.itself = itself
        cipherctl = itself.deletingLastPathComponent().appendingPathComponent("cipherctl")
        guard FileManager.default.isExecutableFile(atPath: cipherctl.path) else {
            throw DemoError("the demo needs a program beside it, cipherctl: run `make demo`, or swift build")
        }
        folder = FileManager.default.temporaryDirectory.appendingPathComponent("cipherstore-demo-\(UUID().uuidString)")
    }

    func run() throws {
        try FileManager.default.createDirectory(
            at: folder, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
        let cleaner = removeFolderOnSignal()
        defer {
            cleaner.forEach { $0.cancel() }
            try? FileManager.default.removeItem(at: folder)
        }
        say("CipherStore: an encrypted SQLite store that many processes share")
        try encrypt()
        try share()
        try verify()
        try look()
        try rotate()
        say("\nAll as it should be, in \(String(format: "%.1f", Date().timeIntervalSince(started))) s.")
    }

    // MARK: Chapters

    private func encrypt() throws {
        title("1. Encrypt a real database: \(database)")
        try makeKey()
        let imported = try command("import", database, store)
        for line in imported where line.hasPrefix("rows") || line.hasPrefix("verified") { say("   \(line)") }
        let before = try contentHash("hash", "--plain", database)
        let after = try contentHash("hash", store)
        say("   content before   \(before)\n   content after    \(after)")
        guard before == after else { throw DemoError("the encrypted store does not hold the same content") }
        say("   the same")
    }

    private func share() throws {
        title("2. Share it: four processes open it at the same moment")
        let children = try Worker.Role.allCases.map { role in
            (role, try Child(itself, ["--worker", role.rawValue, store, key]))
        }
        defer { children.forEach { $0.1.kill() } }
        let reports = try children.map { role, child in
            let report = try Report(child.finish())
            say(
                "   \(padded(role.rawValue, 10))  process \(padded("\(child.processID)", 8))  \(padded(report.work, 34))"
                    + "  sees \(report.rows) rows, checksum \(report.checksum)")
            return report
        }
        guard let first = reports.first, first.rows == 2 * Worker.rowsOfEachWriter,
            reports.allSatisfy({ $0.rows == first.rows && $0.checksum == first.checksum })
        else { throw DemoError("the four processes do not agree") }
        say("   all four agree")
    }

    private func verify() throws {
        title("3. Verify every page")
        for line in try command("verify", store) { say("   \(line)") }
    }

    private func look() throws {
        title("4. Look at the file: 32 plain bytes, so that systems recognise SQLite, and then noise")
        let file = try FileHandle(forReadingFrom: URL(fileURLWithPath: store))
        defer { try? file.close() }
        let bytes = Array(try file.read(upToCount: 48) ?? Data())
        guard bytes.starts(with: Array("SQLite format 3\0".utf8)) else { throw DemoError("the header is not SQLite's") }
        for (index, line) in HexDump.lines(bytes).enumerated() {
            say("   \(line)   \(index < 2 ? "plain" : "encrypted")")
        }
    }

    private func rotate() throws {
        title("5. Change the key while four processes write and read without a pause")
        let stop = folder.appendingPathComponent("stop").path
        let before = try noise()
        let children = try Load.Role.allCases.map { role in
            (role, try Child(itself, ["--load", role.rawValue, store, key, stop]))
        }
        defer { children.forEach { $0.1.kill() } }
        for line in try command("rotate", store, "--no-backup") where !line.hasPrefix(store) { say("   \(line)") }
        try Data().write(to: URL(fileURLWithPath: stop))
        var writes = 0
        for (role, child) in children {
            let report = try Load.Report(child.finish())
            guard report.epoch == 2 else { throw DemoError("\(role.rawValue) has not come to the new key") }
            if role == .writerA || role == .writerB { writes += report.rows }
            let longest = String(format: "%.1f", report.longest / .milliseconds(1))
            say(
                "   \(padded(role.rawValue, 10))  process \(padded("\(child.processID)", 8))"
                    + "  \(padded("\(report.operations) operations, none failed,", 34))  longest \(longest) ms")
        }
        guard try noise() != before else { throw DemoError("the file has the same bytes as before") }
        let query = "SELECT count(*) FROM demo_visit WHERE writer LIKE 'during%'"
        let rows = try command("sql", store, query, "--mode", "csv")
        guard rows.last == "\(writes)" else { throw DemoError("\(writes) rows were written, not \(rows)") }
        say("   all \(writes) rows written meanwhile are there, under a key that is new")
        for line in try command("verify", store).suffix(1) { say("   \(line)") }
    }

    /// The first encrypted bytes of the file.
    private func noise() throws -> Data {
        let file = try FileHandle(forReadingFrom: URL(fileURLWithPath: store))
        defer { try? file.close() }
        try file.seek(toOffset: 32)
        return try file.read(upToCount: 16) ?? Data()
    }

    // MARK: Steps

    private func makeKey() throws {
        var generator = SystemRandomNumberGenerator()
        let passphrase = (0..<4).map { _ in String(generator.next(), radix: 36) }.joined(separator: "-")
        guard
            FileManager.default.createFile(
                atPath: key, contents: Data("\(passphrase)\n".utf8), attributes: [.posixPermissions: 0o600])
        else { throw DemoError("the key file could not be written") }
        say("   a random passphrase, in a file of mode 0600")
    }

    /// Runs cipherctl with the key and returns the lines that it printed.
    private func command(_ arguments: String...) throws -> [String] {
        let shown = arguments.map { $0.hasPrefix(folder.path) ? URL(fileURLWithPath: $0).lastPathComponent : $0 }
        say("   $ cipherctl \(shown.joined(separator: " ")) --key-file key")
        let text = try Child(cipherctl, arguments + ["--key-file", key], hidesProgress: true).finish()
        return text.split(whereSeparator: \.isNewline).map(String.init)
    }

    private func contentHash(_ arguments: String...) throws -> String {
        let keyOption = arguments.contains("--plain") ? [] : ["--key-file", key]
        let text = try Child(cipherctl, arguments + keyOption).finish()
        guard let hash = text.split(separator: " ").first else { throw DemoError("cipherctl hash printed nothing") }
        return String(hash)
    }

    private func removeFolderOnSignal() -> [any DispatchSourceSignal] {
        [SIGINT, SIGTERM].map { number in
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler { [folder] in
                try? FileManager.default.removeItem(at: folder)
                exit(128 + number)
            }
            source.resume()
            return source
        }
    }

    private func title(_ text: String) { say("\n\(text)") }

    /// Written at once, so that one sees what goes on even through a pipe.
    private func say(_ text: String) { FileHandle.standardOutput.write(Data("\(text)\n".utf8)) }

    private func padded(_ text: String, _ width: Int) -> String {
        text.padding(toLength: max(width, text.count), withPad: " ", startingAt: 0)
    }
}

/// The output of a worker at its end.
private struct Report {
    let rows: Int
    let checksum: String
    let work: String

    init(_ line: String) throws {
        let parts = line.trimmingCharacters(in: .whitespacesAndNewlines).components(separatedBy: "|")
        guard parts.count == 3, let rows = Int(parts[0]) else { throw DemoError("a process reported nothing") }
        (self.rows, checksum, work) = (rows, parts[1], parts[2])
    }
}
