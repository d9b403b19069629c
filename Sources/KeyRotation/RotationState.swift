/// What the steps of a rotation work on. Tests of the course put plain values in their place.
protocol RotationResources {
    /// What is to be announced: new keys, or those of a rotation that is resumed.
    associatedtype Announcement
    /// The keys of both epochs.
    associatedtype Keys
    /// The store as it is at one moment.
    associatedtype View
    /// The copy of the store under the next key.
    associatedtype Copy
    /// The time in which all processes have given the store up.
    associatedtype Pause
    /// The exchange of the files.
    associatedtype Switch
}

/// Which step of a rotation comes next, and what it works on: the whole course as a value, without any input or output.
///
/// Whoever rotates performs ``step`` and passes its outcome (``take(_:)``), which makes the next one the step, until it is
/// ``Step/ended``. Until the switch is announced everything can be taken back (``Step/undo(_:)``); after that there is only
/// the way forward.
struct RotationState<R: RotationResources> {
    /// What is to be done, with what it takes.
    enum Step {
        /// Look whether the rotation can begin.
        case examine
        /// Write the pending key to the sidecar.
        case announce(R.Announcement)
        /// Begin a view of the store that stays as it is.
        case freeze(R.Keys)
        /// Copy all pages of the view.
        case copy(R.Keys, R.View)
        /// Read the copy back.
        case verify(R.Copy, R.View)
        /// Carry over what was committed since the copy was last brought up to date.
        case catchUp(R.Copy, R.View)
        /// Ask all processes to pause, and wait for that within the budget; `insists` ends their long reads.
        case pause(R.Copy, R.View, insists: Bool)
        /// With everybody paused: carry over the rest, make the copy durable, close the view.
        case carryRest(R.Copy, R.View, R.Pause)
        /// Prove by SQLite's locks that nobody is connected, and by the WAL that it ends where the copy does.
        case prove(R.Copy, R.Pause)
        /// Open the view again where it is closed, let the processes go on, and wait longer each time.
        case withdraw(R.Copy, R.View?, R.Pause?, attempt: Int)
        /// Pass the commit point: the sidecar says that the switch has begun.
        case announceSwitch(R.Copy, R.Pause, R.Switch)
        /// Put the copy in the database's place. A step of that which has failed is repeated once.
        case switchOver(R.Copy, R.Pause, R.Switch, isRepeated: Bool)
        /// Let the processes go on with the new key.
        case finish(R.Copy, R.Pause, R.Switch)
        /// Drop the pending key, remove the copy, let the processes go on.
        case undo(Held)
        /// Release everything as it is: the next opening for writing completes or undoes the rotation.
        case leave(Held)
        case ended
    }

    /// What a rotation has in hand when it ends early.
    struct Held {
        /// Whether the pending key was announced.
        var isAnnounced = false
        var view: R.View?
        var copy: R.Copy?
        var pause: R.Pause?
        var databaseSwitch: R.Switch?
    }

    /// The outcome of a step.
    enum Event {
        case examined(R.Announcement)
        case announced(R.Keys)
        case frozen(R.View)
        case copied(R.Copy)
        case verified
        /// A round of carrying over has ended; another one would take so long.
        case caughtUp(left: Duration)
        case paused(R.Pause)
        /// The rest is carried over, and the view closed.
        case carried
        case proved(R.Switch)
        /// No pause was to be had: a process went on reading or writing, or something was committed in between.
        case withheld(isPatienceOver: Bool)
        /// Something has a connection to the database that no request reaches.
        case foreignHolder
        /// The processes go on.
        case withdrawn(R.View)
        /// The same, but what was committed since cannot be found any more: the WAL was reset while there was no view.
        case walLost(R.Keys, R.View)
        /// The switch could not be announced, and the sidecar says so.
        case notAnnounced
        /// A step without a result is done.
        case done
        /// The step failed, or the rotation was cancelled during it.
        case failed
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

    private(set) var step: Step = .examine
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

    /// Takes the outcome of the step, and makes the next one the step.
    ///
    /// - Returns: False when the step has no such outcome: nothing is changed then.
    mutating func take(_ event: Event) -> Bool {
        guard let next = next(after: event) else { return false }
        step = next
        return true
    }

    private mutating func next(after event: Event) -> Step? {
        switch (step, event) {
        case (.examine, .examined(let announcement)): return .announce(announcement)
        case (.announce, .announced(let keys)): return .freeze(keys)
        case (.freeze(let keys), .frozen(let view)): return .copy(keys, view)
        case (.copy(_, let view), .copied(let copy)): return .verify(copy, view)
        case (.verify(let copy, let view), .verified):
            rounds = 0
            return .catchUp(copy, view)
        case (.catchUp(let copy, let view), .caughtUp(let left)): return caughtUp(copy, view, left)
        case (.pause(let copy, let view, _), .paused(let pause)): return .carryRest(copy, view, pause)
        case (.carryRest(let copy, _, let pause), .carried): return .prove(copy, pause)
        case (.prove(let copy, let pause), .proved(let databaseSwitch)):
            return .announceSwitch(copy, pause, databaseSwitch)
        case (.withdraw(let copy, _, _, _), .withdrawn(let view)):
            rounds = 0
            return .catchUp(copy, view)
        case (.withdraw, .walLost(let keys, let view)): return .copy(keys, view)
        case (.announceSwitch(let copy, let pause, let databaseSwitch), .done):
            return .switchOver(copy, pause, databaseSwitch, isRepeated: false)
        case (.announceSwitch, .notAnnounced): return .undo(held)
        case (.switchOver(let copy, let pause, let databaseSwitch, _), .done):
            return .finish(copy, pause, databaseSwitch)
        case (.finish, .done), (.undo, .done), (.leave, .done): return .ended
        case (_, .withheld(let isPatienceOver)): return withheld(isPatienceOver)
        case (_, .foreignHolder): return foreignHolder()
        case (_, .failed): return failed()
        default: return nil
        }
    }

    private mutating func caughtUp(_ copy: R.Copy, _ view: R.View, _ left: Duration) -> Step {
        rounds += 1
        guard left <= bounds.shortRest || (rounds >= bounds.roundsBeforeLongRest && left <= bounds.longRest) else {
            return .catchUp(copy, view)
        }
        attempts += 1
        if insists { insistingAttempts += 1 }
        return .pause(copy, view, insists: insists)
    }

    private mutating func withheld(_ isPatienceOver: Bool) -> Step? {
        guard let withdrawal else { return nil }
        if isPatienceOver && (!endsLongReads || insistingAttempts >= bounds.insistingAttempts) { return .undo(held) }
        if isPatienceOver { insists = true }
        return withdrawal
    }

    private mutating func foreignHolder() -> Step? {
        guard let withdrawal else { return nil }
        foreignHolders += 1
        return foreignHolders >= bounds.foreignHolders ? .undo(held) : withdrawal
    }

    /// What lets the processes go on with the present key, for a while; nil where they do so anyway, or must not.
    private var withdrawal: Step? {
        switch step {
        case .pause(let copy, let view, _): .withdraw(copy, view, nil, attempt: attempts)
        case .carryRest(let copy, let view, let pause): .withdraw(copy, view, pause, attempt: attempts)
        case .prove(let copy, let pause): .withdraw(copy, nil, pause, attempt: attempts)
        default: nil
        }
    }

    private func failed() -> Step? {
        switch step {
        case .ended: nil
        case .leave: .ended
        // Nobody can tell whether the announcement took effect.
        case .announceSwitch, .finish, .undo, .switchOver(_, _, _, isRepeated: true): .leave(held)
        // Everybody waits, and the next opening would take the same steps: one that failed for a moment is repeated here.
        case .switchOver(let copy, let pause, let databaseSwitch, isRepeated: false):
            .switchOver(copy, pause, databaseSwitch, isRepeated: true)
        default: .undo(held)
        }
    }

    private var held: Held {
        switch step {
        case .examine, .announce, .ended: Held()
        case .freeze: Held(isAnnounced: true)
        case .copy(_, let view): Held(isAnnounced: true, view: view)
        case .verify(let copy, let view), .catchUp(let copy, let view), .pause(let copy, let view, _):
            Held(isAnnounced: true, view: view, copy: copy)
        case .carryRest(let copy, let view, let pause):
            Held(isAnnounced: true, view: view, copy: copy, pause: pause)
        case .prove(let copy, let pause): Held(isAnnounced: true, copy: copy, pause: pause)
        case .withdraw(let copy, let view, let pause, _):
            Held(isAnnounced: true, view: view, copy: copy, pause: pause)
        case .announceSwitch(let copy, let pause, let databaseSwitch),
            .switchOver(let copy, let pause, let databaseSwitch, _), .finish(let copy, let pause, let databaseSwitch):
            Held(isAnnounced: true, copy: copy, pause: pause, databaseSwitch: databaseSwitch)
        case .undo(let held), .leave(let held): held
        }
    }
}
