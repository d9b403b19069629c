import CipherStore
import StorePlatform

/// On which side of its commit point a rotation has ended that failed.
///
/// The commit point is the announcement of the switch: from then on the next opening for writing completes the rotation,
/// unless the copy is lost before it has the database's place.
/// What is said of a failure is made from this value alone, so that nobody is told to try again, or throws a key away,
/// when the store has its next key already.
enum CommitSide: Hashable, Sendable, CaseIterable {
    /// The sidecar tells of no switch: the store has its present key, and the rotation may be tried again.
    case before
    /// The sidecar could be neither written nor restored, and a rename or an fsync may have taken effect all the same.
    case unknown
    /// The switch is announced, and the database is still the former one. The next opening for writing completes the
    /// rotation, after which the next key counts; where the copy cannot be read any more it undoes it, with the former key.
    case announced
    /// The copy has the database's place: the store has its next key, whatever fails.
    case replaced
}

/// What a failed rotation was to do, as far as its error has to name it.
struct FailedRotation {
    let path: String
    let toEpoch: UInt64
    /// Whether its new key is one that its user keeps: the passphrase or raw key of a direct store.
    let isDirect: Bool

    /// What is thrown for a failure.
    func error(_ failure: any Error, on side: CommitSide) -> any Error {
        switch side {
        case .before: withdrawn(failure)
        case .unknown: unknown(failure)
        case .announced, .replaced: unfinished(failure, isReplaced: side == .replaced)
        }
    }

    /// What is thrown when the resumption of a switch failed before it changed anything.
    func untouched(_ failure: any Error) -> any Error {
        detailed(failure, "nothing was changed, the switch of \"\(path)\" is still pending")
    }

    /// Says of a failure of the system, which knows nothing of rotations, that it may be tried again.
    private func withdrawn(_ failure: any Error) -> any Error {
        detailed(failure, "\"\(path)\" was not rotated and keeps its present key")
    }

    private func detailed(_ failure: any Error, _ detail: String) -> any Error {
        guard let failure = failure as? SystemError else { return failure }
        return SystemError(
            call: failure.call, path: failure.path, errorNumber: failure.errorNumber,
            detail: [failure.detail, detail].compactMap(\.self).joined(separator: "; "))
    }

    private func unfinished(_ failure: any Error, isReplaced: Bool) -> StoreError {
        StoreError(
            .rotationPending,
            what: "The rotation of \"\(path)\" to epoch \(toEpoch) is not finished: a step failed after "
                + (isReplaced ? "its copy had taken the database's place." : "its switch was announced."),
            why: "\(failure).", remedy: remedy(isReplaced: isReplaced))
    }

    private func remedy(isReplaced: Bool) -> String {
        let repair = "Free space or repair the disk, then open the store for writing"
        return switch (isDirect, isReplaced) {
        case (true, true):
            "The NEW key counts: keep it. The former one does not open the store any more. \(repair) with the new key, "
                + "which finishes the rotation."
        case (true, false):
            "Keep BOTH keys until the store was opened for writing. \(repair) with the new key: that finishes the "
                + "rotation, and from then on the new key counts. Where it is refused because the copy is missing or "
                + "damaged, open the store with the former key, which undoes the rotation."
        case (false, true):
            "The store opens with every key that the rotation keeps. \(repair) with one of them, which finishes the "
                + "rotation."
        case (false, false):
            "The store opens with every key that the rotation keeps. \(repair) with one of them, which finishes the "
                + "rotation, or undoes it where the copy is missing or damaged."
        }
    }

    private func unknown(_ failure: any Error) -> StoreError {
        let repair = "Free space or repair the disk, then open the store for writing"
        return StoreError(
            .rotationPending,
            what: "It is not known whether the rotation of \"\(path)\" to epoch \(toEpoch) takes effect: its switch "
                + "could be neither announced for certain nor withdrawn.",
            why: "\(failure).",
            remedy: isDirect
                ? "Keep BOTH keys until the store was opened once. \(repair) with the new key, or with the former one where "
                    + "that is refused: this finishes or undoes the rotation."
                : "\(repair) with a key that the rotation keeps, which finishes or undoes it.")
    }
}
