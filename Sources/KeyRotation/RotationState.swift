/// Which step of a rotation comes next: the whole course as a value, without any input or output.
///
/// Whoever rotates performs an action and tells what came of it; that gives the next action, until there is none. Until
/// the switch is announced everything can be taken back (``Action/undo``); behind that there is only forward.
struct RotationState: Equatable {
    /// Where a rotation stands.
    enum Phase: Hashable, Sendable, CaseIterable {
        case idle
        case examining
        case announcing
        case freezing
        case copying
        case verifying
        case catchingUp
        case asking
        case carryingRest
        case proving
        case withdrawing
        case announcingSwitch
        case switching
        /// The switch was announced and a step of it has failed: it is made once more.
        case finishing
        case lettingGo
        case undoing
        case ended
    }

    /// What came of an action.
    enum Event: Equatable {
        /// The rotation is to begin.
        case start
        /// The action has done what it is for.
        case done
        /// A round of carrying over has ended; another one would take so long.
        case caughtUp(left: Duration)
        /// No pause was to be had: a process went on reading or writing, or something was committed in between.
        case withheld(isPatienceOver: Bool)
        /// Something has a connection to the database that no request reaches.
        case foreignHolder
        /// What was committed since the last cut cannot be told any more: the log was begun anew behind a closed view.
        case logLost
        /// The switch could not be announced, and the sidecar says so.
        case notAnnounced
        case failed
        case cancelled
    }

    /// What is to be done next.
    enum Action: Equatable {
        /// Look whether the rotation can begin.
        case examine
        /// Write the pending key to the sidecar.
        case announce
        /// Begin a view of the store that stays as it is.
        case freeze
        /// Copy all pages of the view.
        case copy
        /// Read the copy back.
        case verify
        /// Carry over what was committed since the last cut.
        case catchUp
        /// Ask all processes to pause, and wait for that within the budget; `insists` ends their long reads.
        case ask(insists: Bool)
        /// With everybody paused: carry over the rest, make the copy durable, close the view.
        case carryRest
        /// Prove by SQLite's locks that nobody is connected, and by the log that it ends at the cut.
        case prove
        /// Open the view again where it is closed, let the processes go on, and wait longer each time.
        case withdraw(attempt: Int)
        /// Write to the sidecar that the switch has begun.
        case announceSwitch
        /// Empty the log, rename, complete the sidecar; what of that was done before is not done again.
        case switchOver
        /// Let the processes go on with the new key.
        case letGo
        /// Drop the pending key, remove the copy, let the processes go on.
        case undo
        /// Let go of everything as it is: the next opening for writing finishes or undoes it.
        case leave
    }

    /// Bounds of the course.
    struct Bounds: Equatable {
        /// The processes are asked to pause when what is left takes no longer than this.
        var shortRest: Duration = .milliseconds(5)
        /// Or this, after so many rounds: writers may keep it from becoming shorter.
        var longRest: Duration = .milliseconds(60)
        var roundsBeforeLongRest = 6
        /// A connection that no request reaches may come and go; so many are met before the rotation ends.
        var foreignHolders = 3
        /// How often a pause is asked for with insistence.
        var insistingAttempts = 3
    }

    private(set) var phase: Phase = .idle
    /// On which side of the commit point a failure leaves the store.
    private(set) var side: CommitSide = .before
    /// How often the processes were asked to pause.
    private(set) var attempts = 0
    private let endsLongReads: Bool
    private let bounds: Bounds
    /// Rounds since the copy was verified, or since the last request.
    private var rounds = 0
    private var foreignHolders = 0
    /// Attempts that end long reads; 0 while they are waited for.
    private var insistingAttempts = 0
    private var insists = false

    /// - Parameter endsLongReads: Whether long reads are ended once patience is over; otherwise the rotation is.
    init(endsLongReads: Bool, bounds: Bounds = Bounds()) {
        self.endsLongReads = endsLongReads
        self.bounds = bounds
    }

    /// Takes what came of the last action.
    ///
    /// - Returns: The next action; nil when there is none, and when the event does not belong here.
    mutating func take(_ event: Event) -> Action? {
        switch event {
        case .start: phase == .idle ? go(.examining, .examine) : nil
        case .done: advance()
        case .caughtUp(let left): caughtUp(left)
        case .withheld(let isPatienceOver): withheld(isPatienceOver)
        case .foreignHolder: foreignHolder()
        case .logLost: phase == .withdrawing ? go(.copying, .copy) : nil
        case .notAnnounced: phase == .announcingSwitch ? go(.undoing, .undo) : nil
        case .failed: fail()
        case .cancelled: canBeUndone ? fail() : nil
        }
    }

    /// Whether the store can still be left as it was, and is not being so.
    var canBeUndone: Bool {
        switch phase {
        case .idle, .announcingSwitch, .switching, .finishing, .lettingGo, .undoing, .ended: false
        default: true
        }
    }

    private mutating func go(_ phase: Phase, _ action: Action?) -> Action? {
        self.phase = phase
        return action
    }

    private mutating func advance() -> Action? {
        switch phase {
        case .examining: return go(.announcing, .announce)
        case .announcing: return go(.freezing, .freeze)
        case .freezing: return go(.copying, .copy)
        case .copying: return go(.verifying, .verify)
        case .verifying, .withdrawing:
            rounds = 0
            return go(.catchingUp, .catchUp)
        case .asking: return go(.carryingRest, .carryRest)
        case .carryingRest: return go(.proving, .prove)
        case .proving: return go(.announcingSwitch, .announceSwitch)
        case .announcingSwitch:
            side = .announced
            return go(.switching, .switchOver)
        case .switching, .finishing: return go(.lettingGo, .letGo)
        case .lettingGo, .undoing: return go(.ended, nil)
        case .idle, .catchingUp, .ended: return nil
        }
    }

    private mutating func caughtUp(_ left: Duration) -> Action? {
        guard phase == .catchingUp else { return nil }
        rounds += 1
        guard left <= bounds.shortRest || (rounds >= bounds.roundsBeforeLongRest && left <= bounds.longRest) else {
            return .catchUp
        }
        attempts += 1
        if insists { insistingAttempts += 1 }
        return go(.asking, .ask(insists: insists))
    }

    private mutating func withheld(_ isPatienceOver: Bool) -> Action? {
        guard [.asking, .carryingRest, .proving].contains(phase) else { return nil }
        if isPatienceOver && (!endsLongReads || insistingAttempts >= bounds.insistingAttempts) {
            return go(.undoing, .undo)
        }
        if isPatienceOver { insists = true }
        return go(.withdrawing, .withdraw(attempt: attempts))
    }

    private mutating func foreignHolder() -> Action? {
        guard [.asking, .carryingRest, .proving].contains(phase) else { return nil }
        foreignHolders += 1
        if foreignHolders >= bounds.foreignHolders { return go(.undoing, .undo) }
        return go(.withdrawing, .withdraw(attempt: attempts))
    }

    private mutating func fail() -> Action? {
        switch phase {
        case .idle, .ended: return nil
        case .announcingSwitch:
            side = .unknown
            return go(.ended, .leave)
        // Everybody waits, and the next opening would take the same steps: one that failed for a moment is repeated here.
        case .switching: return go(.finishing, .switchOver)
        case .finishing, .lettingGo, .undoing: return go(.ended, .leave)
        default: return go(.undoing, .undo)
        }
    }
}
