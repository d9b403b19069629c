import CipherStore
import EncryptionConformance
import Foundation
import KeyCustody
import Synchronization
import TestKit
import Testing

/// A store in surroundings that do not let a program use it.
@Suite("Unusable surroundings")
struct SurroundingsTests {
    private let fixture = ConformanceFixture()

    private struct Refusal: Error, CustomStringConvertible {
        let description = "no reader for you"
    }

    private final class Counter: Sendable {
        private let value = Mutex(0)

        func next() -> Int {
            value.withLock { value in
                value += 1
                return value
            }
        }
    }

    /// A report about a store whose program opens it with this configuration.
    private func report(_ configuration: Configuration) throws -> Conformance.Report {
        let (path, source) = (fixture.path, fixture.source)
        return try fixture.run { file in
            file.pool = { try SharedStore.open(at: path, unlockedBy: source, configuration: configuration) }
        }
    }

    @Test("a pool that cannot be opened fails", arguments: ["temp_store = FILE", "wal_autocheckpoint = 1000"])
    func unopened(pragma: String) throws {
        try fixture.makeStore()
        var configuration = Configuration()
        configuration.prepareDatabase { try $0.execute(sql: "PRAGMA \(pragma)") }
        let report = try report(configuration)
        #expect(report.failed == [.connections], "\(report)")
        #expect(report.evidence(.connections).contains("the program's own pool could not be opened"))
        #expect(report[.temporaryFiles]?.verdict == .notApplicable)
    }

    @Test("readers that cannot be opened fail, though the writer is as it should be")
    func readers() throws {
        try fixture.makeStore()
        var configuration = Configuration()
        let connections = Counter()
        configuration.prepareDatabase { _ in if connections.next() > 1 { throw Refusal() } }
        let report = try report(configuration)
        #expect(report.failed == [.connections], "\(report)")
        #expect(report.evidence(.connections).contains("no reader for you"))
    }

    @Test("what is no regular file is to be moved away, and not given another mode")
    func pipe() throws {
        try fixture.makeStore()
        let path = KeyLog(databasePath: fixture.path).path
        try? FileManager.default.removeItem(atPath: path)
        try #require(mkfifo(path, 0o600) == 0)
        let report = try fixture.run()
        #expect(report.evidence(.fileModes).contains("the key log is not a regular file"))
        #expect(report[.fileModes]?.remedy?.contains("Move away what is not a regular file") == true)
        #expect(report[.fileModes]?.remedy?.contains("chmod") == false)
    }
}
