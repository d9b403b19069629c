import Foundation
import StorePlatform
import Testing

@testable import KeyCustody
@testable import TPM2Keys

/// Changes of the keyslot of a TPM that are killed: no slot is lost, and no half slot opens.
@Suite(
    "Killed changes of the keyslot of a TPM", .serialized,
    .enabled(if: SoftwareTPM.isUsable, "needs swtpm and the trait TPM2"))
struct KilledSlotTests {
    private let tpm: SoftwareTPM
    private let store: TPMStore

    init() throws { (tpm, store) = (try SoftwareTPM(), try TPMStore()) }

    /// The places of KeyChangeCrashTests. The change has happened from the fourth on.
    private static let places = [
        "keyChangeLocked", "keyChangeProved", "temporaryFileWritten", "fileRenamed", "sidecarMainWritten",
        "temporaryFileWritten:2", "fileRenamed:2", "sidecarWritten", "keyChangeEnded",
    ]

    private func expect(_ conditions: String?, _ comment: Comment) throws {
        // A killed program leaves objects in a TPM without a resource manager: the machine starts again.
        try tpm.restart()
        let slots = try TPMStore.unlock(store.path).sidecar().slots.filter { $0.kind == .tpm2 }
        #expect(slots.map { $0.token?.name.text } == (conditions.map { [$0] } ?? []), comment)
        let device = try KeySource.token(TPM2Device(address: tpm.address)).read()
        #expect(try store.opens(device) == (conditions != nil), comment)
        #expect(try store.opens(TPMStore.rawKey()), comment)
    }

    @Test(
        "a change that is killed while it is written leaves the slot before it or the one after it",
        arguments: TPMSlotChange.allCases, places)
    func written(change: TPMSlotChange, place: String) async throws {
        try change.prepare(store, at: tpm.address)
        await #expect(processExitsWith: .signal(SIGKILL)) {
            [
                change = change as TPMSlotChange, place = place as String, path = store.path as String,
                address = tpm.address as String
            ] in
            setenv("CIPHERSTORE_CRASH_AT", place, 1)
            try change.run(path, at: address)
        }
        let index = try #require(Self.places.firstIndex(of: place))
        try expect(index >= 3 ? change.conditions.after : change.conditions.before, "\(place)")
        // The next change goes through, and its slot opens.
        if index < 3 {
            try change.run(store.path, at: tpm.address)
            try expect(change.conditions.after, "again after \(place)")
        }
    }

    @Test(
        "a program that is killed while the TPM works has changed nothing, and can do it again",
        .enabled(if: BusRecorder.isPossible), arguments: [TPMSlotChange.add, .change])
    func asked(change: TPMSlotChange) async throws {
        try change.prepare(store, at: tpm.address)
        let before = try store.contents()
        let pidFile = store.folder.appending(path: "pid").path
        var number = 1
        var wasKilled = true
        while wasKilled {
            let killer = try BusKiller(of: tpm, after: number, pidFile: pidFile)
            let result = await #expect(processExitsWith: .failure) {
                [
                    change = change as TPMSlotChange, path = store.path as String, address = killer.address as String,
                    pidFile = pidFile as String
                ] in
                try "\(getpid())".write(toFile: pidFile, atomically: true, encoding: .utf8)
                try change.run(path, at: address)
                exit(3)
            }
            wasKilled = result?.exitStatus == .signal(SIGKILL)
            if wasKilled {
                #expect(try store.contents() == before, "command \(number)")
                try expect(change.conditions.before, "command \(number)")
                number += 1
            } else {
                #expect(result?.exitStatus == .exitCode(3))
                #expect(try killer.finish() < number)
            }
        }
        #expect(number > 20)
        try expect(change.conditions.after, "not killed")
    }
}
