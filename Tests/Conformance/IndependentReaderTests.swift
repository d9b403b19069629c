import CipherStore
import Foundation
import TestKit
import Testing

/// `Keys/generators/open_slot.py`, written from the documents alone, reads what the library writes.
@Suite("A reader of another implementation")
struct IndependentReaderTests {
    private let folder = TemporaryFolder()
    private static let root = (0..<3).reduce(URL(filePath: #filePath)) { url, _ in url.deletingLastPathComponent() }

    /// Whether this machine has Python with the one module that the script takes.
    static let isPossible = (try? run(["-c", "import cryptography"]).status) == 0

    private static func run(_ arguments: [String]) throws -> (status: Int32, output: Data) {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = ["python3"] + arguments
        let output = Pipe()
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        try process.run()
        let data = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return (process.terminationStatus, data)
    }

    @Test(
        "it gives each conformance vector the expected verdict",
        .enabled(if: isPossible, "python3 with the module cryptography is not here"))
    func vectors() throws {
        #expect(try Self.run([Self.root.appending(path: "Keys/generators/read_conformance.py").path]).status == 0)
    }

    @Test(
        "it unwraps a slot, or derives the key of a direct store, and decrypts a page",
        .enabled(if: isPossible, "python3 with the module cryptography is not here"),
        arguments: KeyScheme.allCases, [true, false])
    func reads(scheme: KeyScheme, isRaw: Bool) throws {
        let path = folder.path("app.db")
        let keyFile = folder.path("key")
        let key = isRaw ? Data((0..<32).map { UInt8($0) * 7 }) : Data("Schlüssel der Straße".utf8)
        try key.write(to: URL(filePath: keyFile))
        var configuration = Configuration()
        configuration.keyScheme = scheme
        let source: KeySource = isRaw ? .rawKey(Array(key)) : .passphrase(bytes: Array(key))
        let store = try SharedStore.open(at: path, unlockedBy: source, configuration: configuration)
        try store.write {
            try $0.execute(sql: "CREATE TABLE greeting (words TEXT); INSERT INTO greeting VALUES ('hello, paper')")
        }
        try store.close()

        let script = Self.root.appending(path: "Keys/generators/open_slot.py").path
        let option = isRaw ? "--raw-key-file" : "--passphrase-file"
        let first = try Self.run([script, path, option, keyFile])
        #expect(first.status == 0 && first.output.count == 4096)
        #expect(first.output.prefix(16) == Data("SQLite format 3\0".utf8))
        #expect(first.output.holds(Data("CREATE TABLE greeting".utf8)))
        let second = try Self.run([script, path, option, keyFile, "--page", "2"])
        #expect(second.output.holds(Data("hello, paper".utf8)))
        // A wrong key, and a sidecar with one changed digit, give nothing.
        try Data(key.map { $0 ^ 1 }).write(to: URL(filePath: keyFile))
        #expect(try Self.run([script, path, option, keyFile]).status != 0)
        try key.write(to: URL(filePath: keyFile))
        let sidecar = try String(contentsOfFile: path + "-sidecar", encoding: .utf8)
        let changed = sidecar.replacingOccurrences(of: "\"epoch\":1", with: "\"epoch\":2")
        try Data(changed.utf8).write(to: URL(filePath: path + "-sidecar"))
        #expect(try Self.run([script, path, option, keyFile]).status != 0)
    }
}
