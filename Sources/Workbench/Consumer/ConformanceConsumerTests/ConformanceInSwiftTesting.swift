import CipherStore
import EncryptionConformance
import Testing

@Test func storeIsEncrypted() throws {
    let notes = try Notes()
    let report = try Conformance(of: StoreFile(notes.path, unlockedBy: notes.key)).run()
    #expect(report.isConformant, "\(report)")
}
