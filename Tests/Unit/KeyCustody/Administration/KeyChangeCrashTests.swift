import Foundation
import StoreCrypto
import StorePlatform
import Testing

@testable import KeyCustody

/// Changes of keys that are killed at every named place.
@Suite("Killed changes of keys", .serialized)
struct KeyChangeCrashTests {
    enum Change: String, Codable, CaseIterable, Sendable {
        case add, change, remove, toSlots, toDirect, addDevice, removeDevice

        /// The work; every store here can be unlocked by raw key 0, so that nothing is derived.
        func run(_ path: String) throws {
            let administration = try KeyAdministration.unlock(databasePath: path, with: SlotFixture.rawKey(0))
            switch self {
            case .add: try administration.add(SlotFixture.keyFile(2))
            case .change: try administration.change(2, to: SlotFixture.keyFile(2))
            case .remove: try administration.remove(2)
            case .addDevice: try administration.add(NewSlot(KeySource.token(DeviceDouble()).read()))
            case .removeDevice: try administration.remove(3)
            case .toSlots: _ = try administration.convertToSlots([SlotFixture.keyFile(0), SlotFixture.keyFile(2)])
            case .toDirect: _ = try administration.convertToDirect(provedBy: SlotFixture.rawKey(0))
            }
        }

        /// Raw keys of which exactly one side opens: those of the state before, and those of the state after.
        var keys: (before: [UInt8], after: [UInt8]) {
            switch self {
            case .add: ([0, 1], [0, 1, 2])
            case .change: ([0, 1], [0, 2])
            case .remove: ([0, 1], [0])
            case .toSlots: ([0], [0, 2])
            case .toDirect: ([0, 1], [0])
            case .addDevice, .removeDevice: ([0, 1], [0, 1])
            }
        }

        /// Whether the slot of a device opens the store before and after it.
        var device: (before: Bool, after: Bool) { (self == .removeDevice, self == .addDevice) }
    }

    /// Every place that a change passes, in their order: two files, each written, renamed and made durable.
    static let places = [
        "keyChangeLocked", "keyChangeProved", "temporaryFileWritten", "fileRenamed", "sidecarMainWritten",
        "temporaryFileWritten:2", "fileRenamed:2", "sidecarWritten", "keyChangeEnded",
    ]

    private func store(for change: Change, _ files: SidecarFiles) throws {
        switch change {
        case .toSlots: try files.write(Fixture.sidecar(), dataKey: Fixture.dataKey())
        case .toDirect:
            // A store whose data key is raw key 0, and one of whose slots has it as well.
            try files.write(Fixture.sidecar(), dataKey: Fixture.dataKey())
            let direct = KeyAdministration(databasePath: files.databasePath, keys: .direct(try Fixture.dataKey()))
            _ = try direct.convertToSlots([SlotFixture.keyFile(0), SlotFixture.keyFile(1)])
        default:
            let made = try SlotFixture.store()
            try files.write(made.sidecar, keys: made.keys)
            if change == .removeDevice { try Change.addDevice.run(files.databasePath) }
        }
    }

    private func opens(_ key: UInt8, _ files: SidecarFiles) throws -> Bool {
        try opens(SlotFixture.rawKey(key), files)
    }

    private func opens(_ secret: Secret, _ files: SidecarFiles) throws -> Bool {
        do {
            _ = try KeyAdministration.unlock(databasePath: files.databasePath, with: secret)
            return true
        } catch StoreError.wrongKey {
            return false
        }
    }

    @Test(
        "a change that is killed at any place leaves the state before it or the one after it, and the next opener mends it",
        arguments: Change.allCases, places)
    func killed(change: Change, place: String) async throws {
        let folder = try TemporaryFolder()
        let files = SidecarFiles(databasePath: folder.file("app.db"))
        try store(for: change, files)
        await #expect(processExitsWith: .signal(SIGKILL)) {
            [change = change as Change, place = place as String, path = files.databasePath as String] in
            setenv("CIPHERSTORE_CRASH_AT", place, 1)
            try change.run(path)
        }
        let index = try #require(Self.places.firstIndex(of: place))
        let hasHappened = index >= 3
        let expected = hasHappened ? change.keys.after : change.keys.before
        for key: UInt8 in 0...3 {
            #expect(try opens(key, files) == expected.contains(key), "raw key \(key)")
        }
        if change == .addDevice || change == .removeDevice {
            let device = try KeySource.token(DeviceDouble()).read()
            #expect(try opens(device, files) == (hasHappened ? change.device.after : change.device.before))
        }
        // The next opener makes both copies the same; the kill freed the locks, so a change goes through at once.
        let next = try KeyAdministration.unlock(databasePath: files.databasePath, with: SlotFixture.rawKey(0))
        let choice = try next.choice()
        #expect(choice.copy == .main)
        try files.repair(choice, keyOpensDatabase: true)
        let main = try Files.contents(of: files.mainPath, limitBytes: 65_536)
        #expect(try Files.contents(of: files.backupPath, limitBytes: 65_536) == main)
        guard choice.sidecar.slotted != nil else { return }
        try next.add(SlotFixture.keyFile(3))
        #expect(try opens(3, files))
    }
}
