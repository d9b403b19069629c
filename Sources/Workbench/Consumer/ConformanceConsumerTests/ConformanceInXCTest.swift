import CipherStore
import EncryptionConformance
import XCTest

final class ConformanceInXCTest: XCTestCase {
    func testStoreIsEncrypted() throws {
        let notes = try Notes()
        let report = try Conformance(of: StoreFile(notes.path, unlockedBy: notes.key)).run()
        XCTAssert(report.isConformant, "\(report)")
    }

    /// The program says how it opens its store: then its own connections are examined.
    func testConnectionsOfTheProgram() throws {
        let notes = try Notes()
        var file = StoreFile(notes.path, unlockedBy: notes.key)
        file.pool = { try SharedStore.open(at: notes.path, unlockedBy: notes.key) }
        let report = try Conformance(of: file).run()
        XCTAssertEqual(report[.connections]?.verdict, .pass, "\(report)")
    }
}
