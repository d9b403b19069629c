/// What was found of a rotation whose process is gone.
struct RecoveryFindings: Hashable, Sendable {
    /// What the sidecar says, as the key at hand proves it.
    enum Stage: Hashable, Sendable, CaseIterable {
        /// No rotation is under way.
        case none
        /// The copy was being made: the database has its present key.
        case rotating
        /// The copy was complete and was taking the database's place.
        case switching
    }

    /// What stands under the name of the copy.
    enum Copy: Hashable, Sendable, CaseIterable {
        case absent
        /// A regular file of which nothing is known yet.
        case unchecked
        /// A regular file whose every page has the next key.
        case whole
        /// A regular file that is too short or too long, or not all of whose pages have the next key.
        case unfit
        /// No regular file: no rotation made it.
        case planted
    }

    /// Whose key page 1 of the database has.
    enum DatabaseKey: Hashable, Sendable, CaseIterable {
        case present
        case next
        /// Of neither key at hand: it belongs to another one, is damaged, or is only whole together with the WAL.
        case unknown
    }

    /// What the write-ahead log shows of the switch.
    enum WAL: Hashable, Sendable, CaseIterable {
        /// Nothing is known of it yet.
        case unchecked
        /// It has every commit that it had when the switch was announced: an empty one has not replaced it.
        case whole
        /// It is empty or gone, as the switch leaves it before the copy takes the database's place.
        case emptied
        /// It holds something, and nothing proves that all is there.
        case unfit
    }

    var stage: Stage
    var hasPresentKey: Bool
    var hasNextKey: Bool
    var copy: Copy
    var database: DatabaseKey
    var wal: WAL = .unchecked
}

/// What is to be done about it.
enum RecoveryAction: Hashable, Sendable {
    case nothing
    /// The copy is a leftover: it is removed when it is a regular file.
    case removeCopy
    /// The rotation is given up; the copy is removed before.
    case undo
    /// Every page of the copy is checked, and the question asked again.
    case checkCopy
    /// Every frame of the WAL is checked, and the question asked again.
    case checkWAL
    /// The copy takes the database's place, and the rotation is complete.
    case moveCopy
    /// The copy has the database's place already: what is left is to say so.
    case complete
    case refuse(Reason)

    enum Reason: Hashable, Sendable, CaseIterable {
        /// The key at hand is the one to come; the present one gives the rotation up.
        case needsPresentKey
        /// The key at hand belongs to a slot that the rotation drops; one that it keeps completes it.
        case needsKeptKey
        /// The copy is not there, and the database does not have its key.
        case copyMissing
        case copyUnfit
        case copyPlanted
        /// The copy is no use, and the WAL, with the last commits, was emptied for it already.
        case walEmptied
        /// The copy is no use, and the WAL may lack commits that only the copy had.
        case walUnfit
    }
}

extension RecoveryFindings {
    /// Decides, without doing anything.
    ///
    /// The database itself goes before what the sidecar says: where its page 1 has the next key, the copy has taken its
    /// place, and the former key must not come back. That is so too when somebody put a sidecar from before the switch back.
    func decide() -> RecoveryAction {
        switch stage {
        case .none: copy == .absent || copy == .planted ? .nothing : .removeCopy
        case .rotating: decideRotating()
        case .switching: decideSwitching()
        }
    }

    private func decideRotating() -> RecoveryAction {
        if database == .next { return .complete }
        if !hasPresentKey { return .refuse(.needsPresentKey) }
        // Without the next key nobody can tell whether the database has it already.
        if !hasNextKey, database != .present { return .refuse(.needsKeptKey) }
        return .undo
    }

    private func decideSwitching() -> RecoveryAction {
        if database == .next { return hasNextKey ? .complete : .refuse(.needsKeptKey) }
        return switch copy {
        case .unchecked: hasNextKey ? .checkCopy : .refuse(.needsKeptKey)
        case .whole: hasNextKey ? .moveCopy : .refuse(.needsKeptKey)
        case .absent: decideWithoutCopy(.copyMissing)
        case .unfit: decideWithoutCopy(.copyUnfit)
        case .planted: decideWithoutCopy(.copyPlanted)
        }
    }

    /// The copy can not take the database's place. It need not where it has not been able to begin: the database has its
    /// present key, and the WAL, which is emptied before that changes, has everything. Nobody has written meanwhile.
    private func decideWithoutCopy(_ reason: RecoveryAction.Reason) -> RecoveryAction {
        if !hasPresentKey { return .refuse(.needsPresentKey) }
        guard database == .present else { return .refuse(hasNextKey ? reason : .needsKeptKey) }
        return switch wal {
        case .unchecked: .checkWAL
        case .whole: .undo
        case .emptied: .refuse(.walEmptied)
        case .unfit: .refuse(.walUnfit)
        }
    }
}

extension RecoveryAction.Reason {
    /// Why it cannot go on, and what to do.
    func words(copy: String) -> (why: String, remedy: String) {
        let noKey = "and no known key fits page 1 of the database."
        let lost = "The complete copy \"\(copy)\" is missing or damaged, and"
        let restore = "Nothing was changed. Put the copy back if you have it, or restore the store from a backup."
        return switch self {
        case .needsPresentKey:
            (
                "The given key is the next key, and only the present key can undo the rotation.",
                "Open the store once with its present key."
            )
        case .needsKeptKey:
            (
                "The given key belongs to a keyslot that the rotation removes.",
                "Open the store with a key that the rotation keeps; this one opens nothing afterwards."
            )
        case .copyMissing: ("The complete copy \"\(copy)\" is missing, \(noKey)", restore)
        case .copyUnfit: ("\"\(copy)\" is not the complete copy that the sidecar describes, \(noKey)", restore)
        case .copyPlanted: ("\"\(copy)\" is not a regular file, so no rotation made it, \(noKey)", restore)
        case .walEmptied:
            ("\(lost) the WAL was emptied for the switch: the last commits are in that copy alone.", restore)
        case .walUnfit: ("\(lost) nothing proves that the WAL still has all commits that were in it.", restore)
        }
    }
}
