import CipherStore
import StorePlatform

/// On which side of its commit point a rotation has ended that failed.
///
/// The commit point is the announcement of the switch: from then on the next opening for writing completes the rotation.
/// What is said of a failure is made from this value alone, so that nobody is told to try again, or throws a key away,
/// when the store has its next key already.
enum CommitSide: Hashable, Sendable, CaseIterable {
    /// The sidecar tells of no switch: the store has its present key, and the rotation may be tried again.
    case before
    /// The sidecar could be neither written nor restored, and a rename or an fsync may have taken effect all the same.
    case unknown
    /// The switch is announced: the store has its next key, and what is left to be done is done by the next opening for
    /// writing.
    case after
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
        case .after: unfinished(failure)
        }
    }

    /// Says of a failure of the system, which knows nothing of rotations, that it may be tried again.
    private func withdrawn(_ failure: any Error) -> any Error {
        guard let failure = failure as? SystemError else { return failure }
        let kept = "\"\(path)\" was not rotated and keeps its present key"
        return SystemError(
            call: failure.call, path: failure.path, errorNumber: failure.errorNumber,
            detail: [failure.detail, kept].compactMap(\.self).joined(separator: "; "))
    }

    private func unfinished(_ failure: any Error) -> StoreError {
        let repair = "Free space or repair the disk, then open the store for writing"
        return StoreError(
            .rotationPending,
            what: "The rotation of \"\(path)\" to epoch \(toEpoch) is not finished: a step failed after its switch was "
                + "announced.",
            why: "\(failure).",
            remedy: isDirect
                ? "The NEW key counts: keep it. The former one does not open the store any more. \(repair) with the new "
                    + "key, which finishes the rotation."
                : "The store opens with every key that the rotation keeps. \(repair) with one of them, which finishes the "
                    + "rotation.")
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
