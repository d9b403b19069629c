import Foundation
import StorePlatform
import Synchronization
import Testing

@testable import KeyCustody

@Suite("Changes of keys that are not whole, or come too late")
struct UnfinishedKeyChangeTests {
    /// Has something under the second copy's name that cannot be written over.
    private func blockBackup(_ bench: KeyBench) throws {
        try Files.remove(bench.files.backupPath)
        try FileManager.default.createDirectory(atPath: bench.files.backupPath, withIntermediateDirectories: false)
    }

    @Test("a change whose second copy cannot be written has happened, says so, and takes the former secret away")
    func secondCopy() throws {
        let bench = try KeyBench()
        let notices = Mutex<[String]>([])
        var administration = bench.administration
        administration.onNotice = { notice in notices.withLock { $0.append(notice) } }
        try blockBackup(bench)
        try administration.change(1, to: SlotFixture.passphrase("second"))
        #expect(try bench.opened("second") == 1)
        #expect(try bench.opened("first") == nil)
        #expect(notices.withLock { $0.count } == 1 && notices.withLock { $0[0].contains("next opening") })
        try administration.add(SlotFixture.passphrase("third"))
        #expect(try bench.opened("third") == 3)
        let log = try KeyLog(databasePath: bench.path).verify()
        #expect(log.entries.count == 2)
    }

    @Test("a change whose first copy cannot be written has not happened, and nothing is logged")
    func firstCopy() throws {
        let bench = try KeyBench()
        try Files.remove(bench.files.mainPath)
        try FileManager.default.createDirectory(atPath: bench.files.mainPath, withIntermediateDirectories: false)
        #expect(throws: SystemError.self) { try bench.administration.change(1, to: SlotFixture.passphrase("second")) }
        #expect(try bench.opened("second") == nil)
        #expect(try bench.opened("first") == 1)
        #expect(try KeyLog(databasePath: bench.path).verify().entries.isEmpty)
    }

    @Test("a change that was decided on for other slots is not made")
    func decidedOn() throws {
        let bench = try KeyBench()
        var administration = bench.administration
        administration.decidedOn = try administration.sidecar().slots
        try bench.administration.label(1, SlotLabel("other"))
        let before = try bench.content(.main)
        let changed = #expect(throws: SlotsChanged.self) { try administration.remove(1) }
        #expect(try bench.content(.main) == before)
        administration.decidedOn = changed?.sidecar.slots
        try administration.remove(1)
        #expect(try bench.opened("first") == nil)
    }
}
