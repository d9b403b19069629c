import CipherStore
import Foundation
import TestKit
import Testing

@testable import KeyCustody

/// The remains of keys in the memory of a process.
@Suite(.serialized, .enabled(if: FileManager.default.fileExists(atPath: "/proc/self/mem"), "needs /proc"))
struct MemoryTests {
    private static let passphrase = "memory-probe-passphrase-51d8"
    private static let mask: UInt8 = 0xa5
    private let folder = TemporaryFolder()
    private var path: String { folder.path("app.db") }

    private struct Secret {
        let name: String
        let bytes: [UInt8]
    }

    /// Everything that opens the store, or its pages.
    private func secrets() throws -> [Secret] {
        let material = try KeySource.passphrase(Self.passphrase).read()
        let choice = try #require(
            try SidecarFiles(databasePath: path).choose(SidecarFiles(databasePath: path).read()) {
                try material.unlock($0)
            })
        let key = choice.dataKey.withBytes { Array($0) }
        let keyspec = Array("\(TestKeys.hex(key))\(choice.sidecar.salt.hex)".utf8)
        var secrets = [
            Secret(name: "passphrase", bytes: Array(Self.passphrase.utf8)), Secret(name: "data key", bytes: key),
            Secret(name: "digits of the keyspec", bytes: keyspec),
            Secret(name: "digits of the data key", bytes: Array(TestKeys.hex(key).utf8)),
        ]
        if case .slots(let master, _) = choice.keys {
            secrets.append(Secret(name: "master key", bytes: master.secret.withBytes { Array($0) }))
        }
        return secrets
    }

    @Test(
        "neither key, master key, passphrase nor keyspec is in memory once the store is closed",
        arguments: KeyScheme.allCases)
    func afterClose(_ scheme: KeyScheme) throws {
        var config = Configuration()
        config.keyScheme = scheme
        try SharedStore.open(at: path, unlockedBy: .passphrase(Self.passphrase), configuration: config).close()
        try Data(Self.passphrase.utf8).write(to: URL(fileURLWithPath: folder.path("key")))
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: folder.path("key"))
        let secrets = try secrets()
        let masked = secrets.map { TestKeys.hex($0.bytes.map { $0 ^ Self.mask }) }.joined(separator: " ")
        let process = try ActorProcess()
        func look() throws -> [String: Int] {
            let answer = try #require(process.ask("memory-holds \(TestKeys.hex([Self.mask])) \(masked)"))
            let counts = answer.split(separator: " ").dropFirst().compactMap { Int($0) }
            try #require(counts.count == secrets.count, "\(answer)")
            return Dictionary(uniqueKeysWithValues: zip(secrets.map(\.name), counts))
        }
        #expect(process.ask("open-key-file \(path) \(folder.path("key"))")?.hasPrefix("ok ") == true)
        #expect(process.ask("readers 5") == "ok 5")
        // The search finds what is there, in the locked heap too: an open store has its keys in memory.
        let open = try look()
        #expect(open["data key", default: 0] > 0 && open["passphrase", default: 0] > 0, "\(open)")
        if scheme == .slots { #expect(open["master key", default: 0] > 0, "\(open)") }
        #expect(process.ask("close") == "ok")
        let closed = try look()
        #expect(closed.values.allSatisfy { $0 == 0 }, "\(closed)")
    }

    @Test("a configuration can forbid core dumps of the process, and reading its memory")
    func noDumps() throws {
        let process = try ActorProcess()
        func limit() throws -> [Substring] {
            let limits = try String(contentsOfFile: "/proc/\(process.processIdentifier)/limits", encoding: .utf8)
            let line = try #require(limits.split(separator: "\n").first { $0.hasPrefix("Max core") })
            return Array(line.split(separator: " ").dropFirst(4).prefix(2))
        }
        #expect(process.ask("open \(path) raw")?.hasPrefix("ok ") == true)
        let before = try limit()
        #expect(process.ask("close") == "ok")
        #expect(process.ask("open-without-dumps \(path) raw")?.hasPrefix("ok ") == true)
        #expect(try limit() == ["0", "0"])
        #expect(process.ask("dumpable") == "ok 0")
        #expect(before.count == 2)
    }

    /// Whether the kernel writes core images into the working folder of a process, and does not hand them to a program.
    private static let writesCoreFiles: Bool = {
        let pattern = try? String(contentsOfFile: "/proc/sys/kernel/core_pattern", encoding: .utf8)
        return pattern.map { !$0.isEmpty && !$0.contains("/") && !$0.hasPrefix("|") } ?? false
    }()

    @Test(
        "a crash leaves a core image with the data key of an open store, and none where dumps are disabled",
        .enabled(if: writesCoreFiles, "the kernel writes no core files here"))
    func coreImage() throws {
        let material = TestKeys.source("raw")
        try SharedStore.open(at: path, unlockedBy: material).close()
        let files = SidecarFiles(databasePath: path)
        let secret = try material.read()
        let choice = try #require(try files.choose(files.read()) { try secret.unlock($0) })
        let key = choice.dataKey.withBytes { Data($0) }
        let leaking = try coreImages(of: "open \(path) raw")
        #expect(leaking.count == 1)
        // SQLCipher 4.19 was found to leave none of its key in the image.
        if SQLiteLibrary.cipherVersion?.compare("4.9", options: .numeric) == .orderedAscending {
            #expect(leaking.allSatisfy { $0.range(of: key) != nil })
        }
        #expect(try coreImages(of: "open-without-dumps \(path) raw").isEmpty)
    }

    /// The core images that a process leaves when it crashes after a command, although its limit allows them.
    private func coreImages(of command: String) throws -> [Data] {
        let dumps = TemporaryFolder()
        let (process, input, output) = (Process(), Pipe(), Pipe())
        process.executableURL = URL(fileURLWithPath: "/bin/sh")
        process.currentDirectoryURL = dumps.url
        process.arguments = [
            "-c", "ulimit -c unlimited && exec \"$0\"", try BuiltProducts.executable("StoreActor").path,
        ]
        process.environment = ProcessInfo.processInfo.environment.merging(["SWIFT_BACKTRACE": "enable=no"]) { $1 }
        process.standardInput = input
        process.standardOutput = output
        try process.run()
        defer { process.terminate() }
        try input.fileHandleForWriting.write(contentsOf: Data("\(command)\n".utf8))
        let answer = String(decoding: output.fileHandleForReading.availableData, as: UTF8.self)
        try #require(answer.hasPrefix("ok"), "\(answer)")
        kill(process.processIdentifier, SIGABRT)
        process.waitUntilExit()
        try #require(process.terminationReason == .uncaughtSignal)
        return try FileManager.default.contentsOfDirectory(atPath: dumps.url.path)
            .map { try Data(contentsOf: dumps.url.appendingPathComponent($0)) }
    }
}
