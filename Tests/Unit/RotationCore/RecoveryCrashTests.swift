import CipherStore
import Foundation
import StorePlatform
import TestKit
import Testing

/// A recovery that is killed itself, at each of its crash points.
@Suite("Killed recoveries", .serialized)
struct RecoveryCrashTests {
    /// The crash points of a rotation that is undone, in their order.
    static let undoingPlaces = [
        "recoveryBegun", "recoveryCopyRemoved", "temporaryFileWritten", "fileRenamed", "sidecarMainWritten",
        "temporaryFileWritten:2", "fileRenamed:2", "sidecarWritten",
    ]
    /// The crash points of a rotation that is completed.
    static let completingPlaces = [
        "recoveryBegun", "temporaryFileWritten", "fileRenamed", "recoveryWALReplaced", "recoveryRenamed",
        "recoveryDurable", "recoveryInvalidated", "temporaryFileWritten:2", "fileRenamed:2", "sidecarMainWritten",
        "temporaryFileWritten:3", "fileRenamed:3", "sidecarWritten",
    ]

    private func kill(_ fixture: RecoveryFixture, at place: String) async {
        await #expect(processExitsWith: .signal(SIGKILL)) { [path = fixture.path as String, place = place as String] in
            setenv("CIPHERSTORE_CRASH_AT", place, 1)
            _ = try? SharedStore.open(at: path, unlockedBy: Rotated.source(Rotated.present))
        }
    }

    /// Kinds of stores, or of bad copies, with the places at which a recovery is killed. In `make test` each place is taken with
    /// one in so many of the kinds, in `make soak` with each.
    private static func cases<Kind>(_ kinds: [Kind], _ places: [String]) -> [(Kind, String)] {
        places.enumerated().flatMap { number, place in
            Sweep.sample(kinds, oneIn: kinds.count, offset: number).map { ($0, place) }
        }
    }

    @Test(
        "an undoing that is killed at any place is undone by the next opening",
        arguments: cases(Rotated.allCases, undoingPlaces))
    func undoing(kind: Rotated, place: String) async throws {
        let fixture = try RecoveryFixture(kind).begin()
        try fixture.write(fixture.copy())
        await kill(fixture, at: place)
        try fixture.checkUndone()
    }

    @Test(
        "a completing that is killed at any place is completed by the next opening",
        arguments: cases(Rotated.allCases, completingPlaces))
    func completing(kind: Rotated, place: String) async throws {
        let fixture = try RecoveryFixture(kind).announceSwitch()
        await kill(fixture, at: place)
        try fixture.checkRotated()
    }

    @Test(
        "an undoing of a switch whose copy is lost that is killed at any place is undone by the next opening",
        arguments: cases(RecoveryFixture.BadCopy.allCases.filter { ![.link, .folder].contains($0) }, undoingPlaces))
    func undoingSwitch(bad: RecoveryFixture.BadCopy, place: String) async throws {
        let fixture = try RecoveryFixture(.compromised).announceSwitch()
        try fixture.spoil(bad, fixture.copy())
        await kill(fixture, at: place)
        try fixture.checkUndone()
    }

    @Test("every place of a recovery is killed at")
    func places() {
        for point in CrashPoint.ofRecovery {
            #expect(Self.undoingPlaces.contains(point.rawValue) || Self.completingPlaces.contains(point.rawValue))
        }
    }
}
