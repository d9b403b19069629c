import CipherStore
import Foundation
import KeyCustody
import TestKit
import Testing

/// A command that changes the files of a store, run once for each of its calls to the system with that call failing.
/// Its sentences are compared with the facts: exit code, message, hint and key log, and the place where the hint leads.
///
/// The report of a command about a failure is one of two things, and nothing in between: nothing was changed (the
/// meaning of every error that does not say otherwise), or the change is made.
struct FaultFixture {
    /// The place in which a run fails; a new one for each.
    let place: Workplace
    let run: FaultyRun
    let fault: CallFault

    var store: String { place.path("s.db") }
    var outcome: CommandRun.Outcome { run.outcome }

    /// For messages of tests.
    var story: Comment {
        "\(fault) \(run.number): \(run.call)\nexit \(outcome.status)\n\(outcome.output)\(outcome.errors)"
    }

    /// Phrases by which a command that fails says that the change is made.
    private static let madePhrases = [
        "were changed, but", "The file is converted", "was adopted as a direct store", "was imported and verified",
        "was created, but",
    ]

    var saysMade: Bool {
        outcome.status == 0 || Self.madePhrases.contains { outcome.errors.contains($0) }
    }

    /// Whether it says that nothing of the former state is lost or changed.
    var saysUnchanged: Bool {
        ["nothing was lost", "Nothing was changed", "nothing was changed", "was left as it", "try again", "Try again"]
            .contains { outcome.errors.contains($0) }
    }

    /// How many calls there are for one that fails in `make test`: each takes several processes. The cases of a test have
    /// faults of different ordinals, so that they judge different calls.
    private static let step = 37

    /// Runs a command with its calls failing in turn, a sample of them unless `CIPHERSTORE_FAULTS=all`, each time in a copy
    /// of a folder.
    ///
    /// - Parameters:
    ///   - template: The folder to copy.
    ///   - judge: Looks at one run.
    /// - Returns: How many calls there are.
    @discardableResult
    static func each(
        _ fault: CallFault, in template: Workplace, of pattern: String = "*",
        _ arguments: (Workplace) -> [String], judge: (FaultFixture) throws -> Void
    ) throws -> Int {
        try Workplace.forEachCall(oneIn: step, offset: 3 * fault.ordinal) { number in
            let place = try Workplace()
            for name in try template.names() where name != "raw.key" {
                try FileManager.default.copyItem(atPath: template.path(name), toPath: place.path(name))
            }
            let run = try place.run(arguments(place), failing: fault, at: number, of: pattern)
            if run.wasHit { try judge(FaultFixture(place: place, run: run, fault: fault)) }
            return run
        }
    }

    /// The rules for the report of a command, whether the change is made or not.
    func expectTrueWords(isMade: Bool) {
        #expect(saysMade == isMade, story)
        if isMade { #expect(outcome.status == 0 || !saysUnchanged, story) }
        #expect(outcome.status != 0 || outcome.errorJSON.isEmpty, story)
        #expect([0, 1, 65, 66, 69, 74, 75, 77].contains(outcome.status), story)
    }

    // MARK: What is there

    /// The rows of the store, opened with a key; nil when it does not open it.
    func rows(of table: String = "t", key: String? = nil) -> Int? {
        // Opening makes a store where there is none.
        guard place.exists("s.db"), place.exists("s.db-sidecar") || place.exists("s.db-sidecar.bak") else { return nil }
        guard
            let store = try? SharedStore.open(
                at: store, unlockedBy: .rawKeyFile(path: key ?? place.key))
        else { return nil }
        defer { try? store.close() }
        return try? store.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM \(table)") }
    }

    /// Whether a key opens what the newest sidecar holds; nothing is opened or mended.
    func opensSidecar(_ key: String) throws -> Bool {
        do {
            let key = try RawKey(bytes: [UInt8](Data(contentsOf: URL(fileURLWithPath: key))))
            _ = try KeyAdministration.unlock(databasePath: store, with: .rawKey(key))
            return true
        } catch let error as StoreError where error.code == .wrongKey {
            return false
        }
    }

    /// How often the key log has an event; a note reports a log that could not be written.
    func expectLogged(_ event: String, _ count: Int) throws {
        let events = try place.events()
        let found = events.filter { $0 == event }.count
        let saysMissing = outcome.errors.contains("key log") || outcome.errors.contains("-keylog")
        #expect(found == count || (found < count && saysMissing), "\(event) \(found) times of \(count); \(story)")
    }
}
