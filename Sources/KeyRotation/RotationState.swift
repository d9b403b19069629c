/// The resources of the steps of a rotation. Tests of the state machine use plain values instead.
protocol RotationResources {
    /// The keys that become pending: new ones, or those of a resumed rotation.
    associatedtype PendingKeys
    /// The keys of both epochs.
    associatedtype Keys
    /// A snapshot of the store.
    associatedtype View
    /// The copy of the store under the next key.
    associatedtype Copy
    /// The period in which all processes have released the store.
    associatedtype Pause
    /// The replacement of the database by the copy.
    associatedtype Switch
}

/// The state machine of a rotation: a value that holds the next step and its resources. It does no I/O.
///
/// The caller performs ``step`` and passes its outcome to ``take(_:)``, which sets the next step, until the step is
/// ``Step/ended``. Until the commit point, ``Step/announceSwitch(_:_:_:)``, everything can be undone
/// (``Step/undo(_:)``). After that the rotation can only be completed.
struct RotationState<R: RotationResources> {
    /// A step, with its resources, and its number in Docs/Rotation.md.
    enum Step {
        /// 1: check whether the rotation can begin.
        case examine
        /// 2: write the pending key to the sidecar. This is not the commit point: see ``announceSwitch(_:_:_:)``.
        case writePendingKeys(R.PendingKeys)
        /// 3: begin a snapshot of the store.
        case freeze(R.Keys)
        /// 4: copy all pages of the snapshot.
        case copy(R.Keys, R.View)
        /// 5: read the copy back.
        case verify(R.Copy, R.View)
        /// 6: carry over the commits since the copy was last updated.
        case catchUp(R.Copy, R.View)
        /// 7: ask all processes to pause, and wait for that within the budget; `insists` ends their long reads.
        case pause(R.Copy, R.View, insists: Bool)
        /// 7: while all processes are paused, carry over the rest, make the copy durable, close the snapshot.
        case carryRest(R.Copy, R.View, R.Pause)
        /// 8: prove by SQLite's locks that no connection exists, and that the WAL ends where the copy does.
        case prove(R.Copy, R.Pause)
        /// After 7 or 8: reopen the snapshot if it is closed, let the processes resume, and wait, longer each time.
        case withdraw(R.Copy, R.View?, R.Pause?, attempt: Int)
        /// 9: pass the commit point: the sidecar says that the switch has begun.
        case announceSwitch(R.Copy, R.Pause, R.Switch)
        /// 9: replace the database by the copy. A failed step is repeated once.
        case switchOver(R.Copy, R.Pause, R.Switch, isRepeated: Bool)
        /// 10: let the processes resume with the new key.
        case finish(R.Copy, R.Pause, R.Switch)
        /// Before the commit point: let the processes resume, remove the copy, drop the pending key.
        case undo(Held)
        /// After it: release everything as it is. The next opening for writing completes or undoes the rotation.
        case leave(Held)
        case ended
    }

    /// The resources that a rotation holds when it ends early.
    struct Held {
        /// Whether the sidecar has the pending key.
        var hasPendingKeys = false
        var view: R.View?
        var copy: R.Copy?
        var pause: R.Pause?
        var databaseSwitch: R.Switch?
    }

    /// The outcome of a step.
    enum Event {
        case examined(R.PendingKeys)
        case pendingKeysWritten(R.Keys)
        case frozen(R.View)
        case copied(R.Copy)
        case verified
        /// A round has ended; another one would take `left`.
        case caughtUp(left: Duration)
        case paused(R.Pause)
        /// The rest is carried over, and the view closed.
        case carried
        case proved(R.Switch)
        /// No pause was possible: a process kept reading or writing, or a commit came in between.
        case withheld(isPatienceOver: Bool)
        /// A program that cannot be asked to pause has a connection to the database.
        case unleasedHolder
        /// The processes have resumed.
        case withdrawn(R.View)
        /// The same, but commits since the last round are lost to the view: the WAL was reset while there was no view.
        case walLost(R.Keys, R.View)
        /// The switch could not be announced, and the sidecar certainly does not announce it.
        case notAnnounced
        /// A step without a result is done.
        case done
        /// The step failed, or the rotation was cancelled during it.
        case failed
    }

    /// Bounds of the state machine.
    struct Bounds: Equatable {
        /// The processes are asked to pause when what is left takes no longer than this.
        var shortRest: Duration = .milliseconds(5)
        /// Or this, after ``roundsBeforeLongRest`` rounds: writers may keep the rest from becoming shorter.
        var longRest: Duration = .milliseconds(60)
        var roundsBeforeLongRest = 6
        /// The rotation ends when this many attempts met a connection that cannot be asked to pause. Such a connection
        /// may be short, so one is not enough.
        var unleasedHolders = 3
        /// How many requests to pause may end long reads.
        var insistingAttempts = 3
    }

    private(set) var step: Step = .examine
    /// How often the processes were asked to pause.
    private(set) var attempts = 0
    private let endsLongReads: Bool
    private let bounds: Bounds
    /// Rounds since the copy was verified, or since the last request.
    private var rounds = 0
    private var unleasedHolders = 0
    /// Attempts that end long reads; 0 while the rotation waits for them.
    private var insistingAttempts = 0
    private var insists = false

    /// - Parameter endsLongReads: Whether long reads are ended when their time limit has passed; otherwise the rotation
    ///   ends.
    init(endsLongReads: Bool, bounds: Bounds = Bounds()) {
        self.endsLongReads = endsLongReads
        self.bounds = bounds
    }

    /// Accepts the outcome of the step and sets the next step.
    ///
    /// - Returns: False when the step has no such outcome: nothing is changed then.
    mutating func take(_ event: Event) -> Bool {
        guard let next = next(after: event) else { return false }
        step = next
        return true
    }

    private mutating func next(after event: Event) -> Step? {
        switch (step, event) {
        case (.examine, .examined(let pending)): return .writePendingKeys(pending)
        case (.writePendingKeys, .pendingKeysWritten(let keys)): return .freeze(keys)
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
        case (_, .unleasedHolder): return unleasedHolder()
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

    private mutating func unleasedHolder() -> Step? {
        guard let withdrawal else { return nil }
        unleasedHolders += 1
        return unleasedHolders >= bounds.unleasedHolders ? .undo(held) : withdrawal
    }

    /// The step that lets the processes resume with the present key until the next attempt; nil where they run anyway,
    /// or must not resume.
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
        // In `announceSwitch` it is unknown whether the announcement took effect.
        case .announceSwitch, .finish, .undo, .switchOver(_, _, _, isRepeated: true): .leave(held)
        // All processes wait, and the next opening would take the same steps: one that failed temporarily is repeated
        // here.
        case .switchOver(let copy, let pause, let databaseSwitch, isRepeated: false):
            .switchOver(copy, pause, databaseSwitch, isRepeated: true)
        default: .undo(held)
        }
    }

    private var held: Held {
        switch step {
        case .examine, .writePendingKeys, .ended: Held()
        case .freeze: Held(hasPendingKeys: true)
        case .copy(_, let view): Held(hasPendingKeys: true, view: view)
        case .verify(let copy, let view), .catchUp(let copy, let view), .pause(let copy, let view, _):
            Held(hasPendingKeys: true, view: view, copy: copy)
        case .carryRest(let copy, let view, let pause):
            Held(hasPendingKeys: true, view: view, copy: copy, pause: pause)
        case .prove(let copy, let pause): Held(hasPendingKeys: true, copy: copy, pause: pause)
        case .withdraw(let copy, let view, let pause, _):
            Held(hasPendingKeys: true, view: view, copy: copy, pause: pause)
        case .announceSwitch(let copy, let pause, let databaseSwitch),
            .switchOver(let copy, let pause, let databaseSwitch, _), .finish(let copy, let pause, let databaseSwitch):
            Held(hasPendingKeys: true, copy: copy, pause: pause, databaseSwitch: databaseSwitch)
        case .undo(let held), .leave(let held): held
        }
    }
}
