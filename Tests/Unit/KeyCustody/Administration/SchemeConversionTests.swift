import Foundation
import StoreCrypto
import StorePlatform
import Testing

@testable import KeyCustody

@Suite("Changing between the schemes")
struct SchemeConversionTests {
    let folder: TemporaryFolder
    let files: SidecarFiles
    let sidecar: Sidecar

    init() throws {
        folder = try TemporaryFolder()
        files = SidecarFiles(databasePath: folder.file("app.db"))
        // A passphrase with few rounds: nothing here is about its cost.
        let settings = CipherSettings(plaintextHeaderBytes: 32, kdfRounds: 1000)
        sidecar = try Sidecar.creating(settings: settings).next(.ready)
        try files.write(sidecar, dataKey: dataKey("first"))
    }

    private func dataKey(_ passphrase: String) throws -> DataKey {
        try SlotFixture.material(passphrase).dataKey(salt: sidecar.salt, settings: sidecar.settings)
    }

    private func unlock(_ material: Secret) throws -> KeyAdministration {
        try KeyAdministration.unlock(databasePath: files.databasePath, with: material)
    }

    private func code(_ body: () throws -> Void) -> StoreError.Code? {
        let error = #expect(throws: StoreError.self) { try body() }
        return error?.code
    }

    @Test("a direct store gets slots around its data key, and goes back")
    func thereAndBack() throws {
        let direct = try unlock(SlotFixture.material("first"))
        #expect(code { try direct.add(SlotFixture.keyFile()) } == .slotNotFound)
        let slotted = try direct.convertToSlots([SlotFixture.passphrase("second"), SlotFixture.keyFile(0)])
        let choice = try slotted.choice()
        #expect(choice.dataKey.isEqual(to: try dataKey("first")))
        #expect(choice.sidecar.salt == sidecar.salt && choice.sidecar.storeID == sidecar.storeID)
        #expect(choice.sidecar.generation == sidecar.generation + 1)
        #expect(choice.sidecar.slotted?.dataKey.origin == .direct)
        #expect(code { _ = try unlock(SlotFixture.material("first")) } == .wrongKey)
        #expect(try unlock(SlotFixture.material("second")).keys.openedBy?.id == 1)
        #expect(code { _ = try slotted.convertToSlots([SlotFixture.keyFile()]) } == .settingsConflict)

        #expect(code { _ = try slotted.convertToDirect(provedBy: SlotFixture.material("second")) } == .wrongKey)
        let back = try slotted.convertToDirect(provedBy: SlotFixture.material("first"))
        #expect(try back.sidecar().generation == sidecar.generation + 2)
        #expect(try back.sidecar().slotted == nil)
        #expect(code { _ = try unlock(SlotFixture.material("second")) } == .wrongKey)
        _ = try unlock(SlotFixture.material("first"))
        #expect(code { _ = try back.convertToDirect(provedBy: SlotFixture.material("first")) } == .settingsConflict)
    }

    @Test("a store with a random data key becomes a direct one by that key as a raw key")
    func rawKey() throws {
        let fixture = try KeyFixture()
        let dataKey = try fixture.administration.choice().dataKey
        let raw = Secret.rawKey(dataKey)
        let direct = try fixture.administration.convertToDirect(provedBy: raw)
        #expect(try direct.choice().dataKey.isEqual(to: dataKey))
        #expect(try fixture.openedFromAnyFile("first") == [])
    }

    // Both directions, cut after the first file.
    @Test("a conversion that is cut between its files has happened, and each key opens at most that one state")
    func cut() throws {
        let before = try Files.contents(of: files.mainPath, limitBytes: 65_536)
        let slotted = try unlock(SlotFixture.material("first")).convertToSlots([SlotFixture.passphrase("second")])
        let between = try Files.contents(of: files.mainPath, limitBytes: 65_536)
        try files.write(before, to: .backup)
        #expect(try slotted.choice().notes == [.stale(.backup, generation: 2, current: 3)])
        #expect(try unlock(SlotFixture.material("second")).sidecar().slots.count == 1)
        // The former key opens the backup and cannot judge the newer copy. The data key is the same, so not even the
        // database may make an opener undo the conversion.
        let first = try #require(try files.choose(files.read()) { try SlotFixture.material("first").unlock($0) })
        #expect(first.copy == .backup && first.notes == [.restoredFromBackup, .otherKey(.main)])
        #expect(try files.repair(first, keyOpensDatabase: true) == [])

        try files.write(between, to: .backup)
        _ = try slotted.convertToDirect(provedBy: SlotFixture.material("first"))
        try files.write(between, to: .backup)
        #expect(code { _ = try unlock(SlotFixture.material("second")) } == .wrongKey)
        #expect(try unlock(SlotFixture.material("first")).sidecar().generation == 4)
    }
}
