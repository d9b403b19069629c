import CipherStore
import Foundation
import StoreCrypto
import Synchronization
import TestKit
import Testing

/// Proof that no content and no key reaches a disk in readable form.
///
/// A child process writes rows that all hold a marker, through everything by which SQLite may write somewhere; then
/// every byte of every file it made is searched, and of every temporary file it had open, deleted ones too.
@Suite(.serialized) struct LeakTests {
    private static let marker = "PLAINTEXT-MARKER-5d41402abc4b"
    private static let passphrase = "leak-probe-passphrase-7c9e"
    private static let megabytes =
        ProcessInfo.processInfo.environment["CIPHERSTORE_LEAK_MEGABYTES"].flatMap { Int($0) } ?? 8

    /// The leftover of a run of the child.
    private struct Outcome {
        let store = TemporaryFolder()
        let temporary = TemporaryFolder()
        var openFiles: [String: Data] = [:]
        var path: String { store.path("app.db") }
        var errorFile: String { temporary.path("stderr.txt") }

        /// Names of files that hold these bytes.
        func files(holding bytes: Data) -> [String] {
            var found = openFiles.filter { $0.value.holds(bytes) }.map(\.key)
            for folder in [store, temporary] { found += FolderSnapshot(of: folder).names(holding: bytes) }
            return found.sorted()
        }
    }

    private func run(_ kind: String, key: String, megabytes: Int) throws -> (Outcome, ActorProcess) {
        var outcome = Outcome()
        let process = try ActorProcess(
            environment: ["TMPDIR": outcome.temporary.url.path, "SQLITE_TMPDIR": outcome.temporary.url.path],
            errorFile: outcome.errorFile)
        let watch = OpenFileWatch(process.processIdentifier, except: outcome.store.url.path)
        let answer = process.ask("leak-work \(outcome.path) \(key) \(Self.marker) \(megabytes << 20) \(kind)")
        outcome.openFiles = watch.stop()
        #expect(answer == "ok")
        return (outcome, process)
    }

    @Test("a marker in every row, and the key, are in no file, no temporary file and no error output")
    func encrypted() throws {
        let (outcome, process) = try run("encrypted", key: Self.passphrase, megabytes: Self.megabytes)
        defer { process.end() }
        // The child still has the store open: the log holds frames, the index lies beside it.
        for ending in ["", "-wal", "-shm", "-sidecar", "-sidecar.bak", "-lock"] {
            #expect(FileManager.default.fileExists(atPath: outcome.path + ending), "\(ending)")
        }
        for ending in ["", "-wal"] {
            let size = try FileManager.default.attributesOfItem(atPath: outcome.path + ending)[.size] as? Int
            #expect((size ?? 0) > Self.megabytes << 18, "nothing much was written to app.db\(ending)")
        }
        for needle in try needles(outcome.path) {
            #expect(outcome.files(holding: needle.bytes).isEmpty, "\(needle.name)")
        }
        // Its errors were written, without what was bound to the statements.
        let errors = try String(contentsOfFile: outcome.errorFile, encoding: .utf8)
        #expect(errors.contains("UNIQUE constraint failed"))
        // The first 32 bytes are the only readable ones.
        let main = try Data(contentsOf: URL(fileURLWithPath: outcome.path))
        #expect(main.prefix(15) == Data("SQLite format 3".utf8))
        #expect(main.dropFirst(32).range(of: Data("CREATE TABLE".utf8)) == nil)
        #expect(outcome.openFiles.isEmpty, "\(outcome.openFiles.keys)")
    }

    @Test("the same search finds the marker in a plain database, in its log and in deleted temporary files")
    func plain() throws {
        let (outcome, process) = try run("plain", key: "none", megabytes: min(8, Self.megabytes))
        defer { process.end() }
        let found = outcome.files(holding: Data(Self.marker.utf8))
        #expect(found.contains("app.db"))
        #expect(found.contains("app.db-wal"))
        #expect(found.contains { outcome.openFiles[$0] != nil }, "no temporary file was seen: \(found)")
    }

    @Test("the errors of a wrong key and of a damaged store show neither key nor passphrase")
    func errorTexts() throws {
        let folder = TemporaryFolder()
        let path = folder.path("app.db")
        try SharedStore.open(at: path, unlockedBy: .passphrase(Self.passphrase)).close()
        let needles = try needles(path).filter { $0.name != "marker" }
        var texts: [String] = []
        func take(_ passphrase: String) {
            do {
                try SharedStore.open(at: path, unlockedBy: .passphrase(passphrase)).close()
                Issue.record("it opened")
            } catch {
                texts.append(
                    "\(error) \(String(reflecting: error)) \((error as? DatabaseError)?.expandedDescription ?? "")")
                dump(error, to: &texts[texts.count - 1])
            }
        }
        take("another-" + Self.passphrase)
        var bytes = try Data(contentsOf: URL(fileURLWithPath: path))
        bytes[200] ^= 1
        try bytes.write(to: URL(fileURLWithPath: path))
        take(Self.passphrase)
        try Data("{}".utf8).write(to: URL(fileURLWithPath: path + "-sidecar"))
        try Data("{}".utf8).write(to: URL(fileURLWithPath: path + "-sidecar.bak"))
        take(Self.passphrase)
        #expect(texts.count == 3)
        for needle in needles {
            #expect(!texts.contains { Data($0.utf8).range(of: needle.bytes) != nil }, "\(needle.name)")
        }
    }

    /// The secrets that must be found nowhere: the marker, the passphrase, and the derived key in its readable forms.
    private func needles(_ path: String) throws -> [(name: String, bytes: Data)] {
        let files = SidecarFiles(databasePath: path)
        let material = try KeySource.passphrase(Self.passphrase).read()
        let choice = try #require(try files.choose(files.read()) { try material.unlock($0) })
        let key = choice.dataKey.withBytes { Array($0) }
        let hex = key.map { String(format: "%02x", $0) }.joined()
        return [
            ("marker", Data(Self.marker.utf8)), ("passphrase", Data(Self.passphrase.utf8)), ("key", Data(key)),
            ("key in hexadecimal", Data(hex.utf8)), ("key in capitals", Data(hex.uppercased().utf8)),
            ("key in Base64", Data(Data(key).base64EncodedString().utf8)),
        ]
    }
}

/// Looks through the files that another process has open, until it must stop, and keeps the contents of those that lie
/// outside of a folder. SQLite deletes its temporary files as soon as it has them open.
// Safe because: what it saw is behind a lock.
private final class OpenFileWatch: @unchecked Sendable {
    private let process: Int32
    private let except: String
    private let isDone = Atomic<Bool>(false)
    private let seen = Mutex<[String: Data]>([:])
    private let thread: DispatchSemaphore = DispatchSemaphore(value: 0)

    init(_ process: Int32, except folder: String) {
        self.process = process
        except = folder
        Thread { [self] in
            _ = waitUntil(within: .seconds(600)) {
                look()
                return isDone.load(ordering: .relaxed)
            }
            thread.signal()
        }.start()
    }

    func stop() -> [String: Data] {
        isDone.store(true, ordering: .relaxed)
        thread.wait()
        return seen.withLock { $0 }
    }

    private func look() {
        let descriptors = "/proc/\(process)/fd"
        for number in (try? FileManager.default.contentsOfDirectory(atPath: descriptors)) ?? [] {
            let link = "\(descriptors)/\(number)"
            guard let target = try? FileManager.default.destinationOfSymbolicLink(atPath: link),
                target.hasSuffix(" (deleted)") || target.hasPrefix("/tmp/"), !target.hasPrefix(except),
                !target.contains("stderr.txt"), let file = FileHandle(forReadingAtPath: link),
                let bytes = try? file.read(upToCount: 1 << 20)
            else { continue }
            seen.withLock { $0[target, default: Data()] = bytes }
        }
    }
}
