import Foundation
import StorePlatform
import Testing

@testable import KeyCustody

@Suite("Changes of keys that are not whole, or come too late")
struct UnfinishedKeyChangeTests {
    /// Has something under the second copy's name that cannot be written over.
    private func blockBackup(_ fixture: KeyFixture) throws {
        try Files.remove(fixture.files.backupPath)
        try FileManager.default.createDirectory(atPath: fixture.files.backupPath, withIntermediateDirectories: false)
    }

    // A second copy that cannot be written for another reason: KeyFaultTests.
    @Test("a change is not made while something else has the name of the second copy")
    func secondCopy() throws {
        let fixture = try KeyFixture()
        try blockBackup(fixture)
        let error = #expect(throws: StoreError.self) {
            try fixture.administration.change(1, to: SlotFixture.passphrase("second"))
        }
        #expect(error?.code == .alreadyExists)
        #expect(try fixture.opened("second") == nil)
        #expect(try fixture.opened("first") == 1)
        #expect(try KeyLog(databasePath: fixture.path).verify().entries.isEmpty)
        try FileManager.default.removeItem(atPath: fixture.files.backupPath)
        try fixture.administration.change(1, to: SlotFixture.passphrase("second"))
        #expect(try fixture.opened("second") == 1)
        #expect(try fixture.opened("first") == nil)
    }

    @Test("a change whose first copy cannot be written has not happened, and nothing is logged")
    func firstCopy() throws {
        let fixture = try KeyFixture()
        try Files.remove(fixture.files.mainPath)
        try FileManager.default.createDirectory(atPath: fixture.files.mainPath, withIntermediateDirectories: false)
        #expect(throws: StoreError.self) { try fixture.administration.change(1, to: SlotFixture.passphrase("second")) }
        #expect(try fixture.opened("second") == nil)
        #expect(try fixture.opened("first") == 1)
        #expect(try KeyLog(databasePath: fixture.path).verify().entries.isEmpty)
    }

    @Test("a change that was decided on for other slots is not made")
    func decidedOn() throws {
        let fixture = try KeyFixture()
        var administration = fixture.administration
        administration.decidedOn = try administration.sidecar().slots
        try fixture.administration.label(1, SlotLabel("other"))
        let before = try fixture.content(.main)
        let changed = #expect(throws: SlotsChanged.self) { try administration.remove(1) }
        #expect(try fixture.content(.main) == before)
        administration.decidedOn = changed?.sidecar.slots
        try administration.remove(1)
        #expect(try fixture.opened("first") == nil)
    }
}
