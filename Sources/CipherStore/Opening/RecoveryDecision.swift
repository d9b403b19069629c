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
        /// Of neither key at hand: it belongs to another one, is damaged, or is only whole together with the log.
        case unknown
    }

    var stage: Stage
    var hasPresentKey: Bool
    var hasNextKey: Bool
    var copy: Copy
    var database: DatabaseKey
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
        if !hasNextKey { return .refuse(.needsKeptKey) }
        if database == .next { return .complete }
        switch copy {
        case .absent: return .refuse(.copyMissing)
        case .unchecked: return .checkCopy
        case .whole: return .moveCopy
        case .unfit: return .refuse(.copyUnfit)
        case .planted: return .refuse(.copyPlanted)
        }
    }
}
