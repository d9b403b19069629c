/// The findings about a rotation whose process has ended.
struct RecoveryFindings: Hashable, Sendable {
    /// The stage in the sidecar, authenticated with the given key.
    enum Stage: Hashable, Sendable, CaseIterable {
        /// No rotation is pending.
        case none
        /// The copy was being made: the database has its present key.
        case rotating
        /// The copy was complete and was replacing the database.
        case switching
    }

    /// The file that has the copy's name.
    enum Copy: Hashable, Sendable, CaseIterable {
        case absent
        /// A regular file of which nothing is known yet.
        case unchecked
        /// A regular file in which every page has the next key.
        case whole
        /// A regular file that is too short or too long, or has a page without the next key.
        case unfit
        /// No regular file: no rotation made it.
        case planted
    }

    /// The key of page 1 of the database.
    enum DatabaseKey: Hashable, Sendable, CaseIterable {
        case present
        case next
        /// Of neither known key: page 1 has another key, is damaged, or is whole only together with the WAL.
        case unknown
    }

    /// The state of the WAL, which shows how far the switch got.
    enum WAL: Hashable, Sendable, CaseIterable {
        /// Nothing is known of it yet.
        case unchecked
        /// It has every commit that it had when the switch was announced: no empty WAL has replaced it.
        case whole
        /// It is empty or missing, as the switch leaves it before the copy replaces the database.
        case emptied
        /// It is not empty, and nothing proves that it is complete.
        case unfit
    }

    var stage: Stage
    var hasPresentKey: Bool
    var hasNextKey: Bool
    var copy: Copy
    var database: DatabaseKey
    var wal: WAL = .unchecked
}

/// The action that the findings require.
enum RecoveryAction: Hashable, Sendable {
    case nothing
    /// The copy is a leftover: it is removed when it is a regular file.
    case removeCopy
    /// The rotation is undone; the copy is removed first.
    case undo
    /// Every page of the copy is checked, then the decision is repeated.
    case checkCopy
    /// Every frame of the WAL is checked, then the decision is repeated.
    case checkWAL
    /// The copy replaces the database, and the rotation is complete.
    case moveCopy
    /// The copy has replaced the database already; only the sidecar is left to complete.
    case complete
    case refuse(Reason)

    enum Reason: Hashable, Sendable, CaseIterable {
        /// The given key is the next key; only the present key can undo the rotation.
        case needsPresentKey
        /// The given key belongs to a keyslot that the rotation drops; a key that it keeps can complete it.
        case needsKeptKey
        /// The copy is missing, and no known key fits page 1 of the database.
        case copyMissing
        case copyUnfit
        case copyPlanted
        /// The copy is unusable, and the WAL, which had the last commits, was emptied for the switch already.
        case walEmptied
        /// The copy is unusable, and the WAL may lack commits that only the copy had.
        case walUnfit
    }
}

extension RecoveryFindings {
    /// Decides on the action. Changes nothing.
    ///
    /// The database takes precedence over the sidecar: if page 1 has the next key, the copy has replaced the database,
    /// and the former key must not come back. This holds as well if a sidecar from before the switch was put back.
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
        // Without the next key it is unknown whether the database has that key already.
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

    /// Decides where the copy cannot replace the database. The rotation may be undone if the replacement has not begun:
    /// the database has its present key, and the WAL, which is emptied before that changes, has everything. No process
    /// has written since the announcement.
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
    /// Why the recovery cannot continue, and what to do.
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
