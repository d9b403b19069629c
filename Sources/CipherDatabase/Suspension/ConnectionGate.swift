import Dispatch
import StorePlatform
import Synchronization

/// Keeps two threads apart on one connection: the one whose access it is, and one that suspends.
///
/// While a connection writes, this gate brackets each C call of its thread: two atomic operations, no system call.
/// Between two calls a suspending thread may acquire the gate and roll the transaction back, although the program's
/// block is in the middle of its own code. Reads in WAL mode hold no lock that others wait for, so they bypass the
/// gate.
///
/// A suspending thread moves from `calling` to `wanted`, from `idle` to `taken`, and from `taken` to `rolledBack` or to
/// `idle` again. Only the access's own thread makes all other moves.
@usableFromInline
final class ConnectionGate: Sendable {
    /// Where the two threads are.
    enum Position: UInt32, CaseIterable {
        /// The connection does not write.
        case off
        /// Its thread is inside a C call.
        case calling
        /// Its thread is inside a C call, and a suspending one waits for its end.
        case wanted
        /// It may hold locks; its thread is in the program's own code.
        case idle
        /// As idle, but the program has SQLite's pointer and may be inside a C call of its own.
        case raw
        /// A suspending thread is rolling back.
        case taken
        /// A suspending thread has rolled back; the connection's thread does not know it yet.
        case rolledBack
    }

    /// The result of a suspending thread on a connection.
    enum Release: Equatable {
        /// There was nothing to release.
        case nothingHeld
        /// A running statement was interrupted.
        case interrupted
        /// An open transaction was rolled back.
        case rolledBack
        /// The connection's thread releases its locks at its next step.
        case stillHeld
    }

    private let position = Atomic<UInt32>(Position.off.rawValue)
    /// Whether calls that need a lock are refused.
    private let suspended = Atomic<Bool>(false)
    private let connection: Mutex<Connection>
    /// Ends the pause of a wait for a lock.
    private let alarm = DispatchSemaphore(value: 0)
    private let isPausing = Atomic<Bool>(false)
    /// The connection's write turn, which is released with its locks.
    private let writeTurn = Mutex<WriteTurn?>(nil)

    // Safe because: the handle is used only under the mutex that holds it, or by the connection's own thread.
    private struct Connection: @unchecked Sendable {
        var handle: ConnectionHandle?
        /// `ROLLBACK`, compiled by the connection's thread when it was opened.
        var rollback: StatementHandle?
    }

    init(_ handle: ConnectionHandle) { connection = Mutex(Connection(handle: handle)) }

    // MARK: The connection's own thread

    /// Whether calls that need a lock are refused.
    var isSuspended: Bool { suspended.load(ordering: .relaxed) }

    /// Whether a suspending thread waits for the call under way.
    var isWanted: Bool { position.load(ordering: .relaxed) == Position.wanted.rawValue }

    /// Moves from one position to another, unless a suspending thread has changed it.
    @inline(__always)
    func move(from old: Position, to new: Position) -> Bool {
        // Sequentially consistent: a suspending thread first sets the flag and then reads the position.
        position.compareExchange(
            expected: old.rawValue, desired: new.rawValue, ordering: .sequentiallyConsistent
        ).exchanged
    }

    /// Whether the connection's thread is inside a bracketed call.
    var isInCall: Bool {
        let position = position.load(ordering: .relaxed)
        return position == Position.calling.rawValue || position == Position.wanted.rawValue
    }

    /// Begins a call from the gate's resting position. Waits for a suspending thread that is at work.
    ///
    /// - Returns: False when that thread has rolled back; the gate is off then.
    func enter(from rest: Position) -> Bool {
        while !move(from: rest, to: .calling) {
            switch Position(rawValue: position.load(ordering: .acquiring)) {
            case .rolledBack:
                position.store(Position.off.rawValue, ordering: .sequentiallyConsistent)
                return false
            default: CurrentThread.pause(microseconds: 20)
            }
        }
        return true
    }

    /// Moves to a position once no suspending thread is at work on the connection.
    func waitIdle(at new: Position) {
        while true {
            let old = position.load(ordering: .acquiring)
            if old == Position.taken.rawValue {
                CurrentThread.pause(microseconds: 20)
            } else if position.compareExchange(
                expected: old, desired: new.rawValue, ordering: .sequentiallyConsistent
            ).exchanged {
                return
            }
        }
    }

    /// Pauses the thread while it waits for a lock, until the time has passed or another thread wakes it.
    func pause(for duration: Duration) {
        isPausing.store(true, ordering: .sequentiallyConsistent)
        defer { isPausing.store(false, ordering: .relaxed) }
        if isWanted { return }
        let nanoseconds = duration / .nanoseconds(1)
        _ = alarm.wait(timeout: .now() + .nanoseconds(Int(max(0, nanoseconds))))
    }

    /// Sets the write turn that is released with the connection's locks.
    func connect(_ writeTurn: WriteTurn) { self.writeTurn.withLock { $0 = writeTurn } }

    /// Sets the handle and the statement with which a suspending thread rolls back.
    func arm(_ handle: ConnectionHandle, rollback: StatementHandle?) {
        connection.withLock { $0 = Connection(handle: handle, rollback: rollback) }
    }

    /// Detaches the connection, which is about to be closed. Waits for a suspending thread.
    func disarm() {
        let rollback = connection.withLock { connection in
            defer { connection = Connection() }
            return connection.rollback
        }
        rollback?.finalize()
    }

    // MARK: Other threads

    /// Ends any wait of the connection's thread.
    func wake() {
        if isPausing.load(ordering: .sequentiallyConsistent) { alarm.signal() }
        writeTurn.withLock { $0 }?.interrupt()
    }

    /// Refuses calls that need a lock, or allows them again.
    func set(suspended isSuspended: Bool) { suspended.store(isSuspended, ordering: .sequentiallyConsistent) }

    /// Makes the connection release its locks.
    ///
    /// - Parameters:
    ///   - deadline: When to stop waiting for the connection's thread.
    ///   - isOwnThread: Whether this is that thread, inside its own access: it cannot wait for itself.
    func release(until deadline: ContinuousClock.Instant, isOwnThread: Bool) -> Release {
        var didInterrupt = false
        while true {
            switch attempt(isFirst: !didInterrupt) {
            case .done(let release): return didInterrupt && release == .nothingHeld ? .interrupted : release
            case .wait: didInterrupt = true
            }
            if isOwnThread || ContinuousClock.now >= deadline { return .stillHeld }
            CurrentThread.pause(microseconds: 100)
        }
    }

    private enum Attempt {
        case done(Release)
        case wait
    }

    private func attempt(isFirst: Bool) -> Attempt {
        connection.withLock { connection in
            // A closed connection holds nothing.
            guard let handle = connection.handle else { return .done(.nothingHeld) }
            switch Position(rawValue: position.load(ordering: .sequentiallyConsistent)) ?? .off {
            case .off:
                if isFirst {
                    handle.interrupt()
                    wake()
                }
                return .done(.nothingHeld)
            case .calling:
                if move(from: .calling, to: .wanted) {
                    handle.interrupt()
                    wake()
                }
                return .wait
            case .wanted, .raw:
                // Repeatedly: the call may have begun another statement since.
                handle.interrupt()
                wake()
                return .wait
            case .idle: return move(from: .idle, to: .taken) ? rollBack(handle, connection.rollback) : .wait
            case .taken: return .wait
            case .rolledBack: return .done(.rolledBack)
            }
        }
    }

    /// Rolls back on behalf of the connection's thread, which is kept out meanwhile.
    private func rollBack(_ handle: ConnectionHandle, _ rollback: StatementHandle?) -> Attempt {
        if handle.isInAutocommit, !handle.isWriting {
            position.store(Position.idle.rawValue, ordering: .sequentiallyConsistent)
            return .done(.nothingHeld)
        }
        _ = rollback?.step()
        _ = rollback?.reset()
        let isOver = handle.isInAutocommit && !handle.isWriting
        // The connection's thread uses its write turn only inside calls, and so not now.
        if isOver { writeTurn.withLock { $0 }?.leave(label: nil, reporting: false) }
        position.store((isOver ? Position.rolledBack : .idle).rawValue, ordering: .sequentiallyConsistent)
        return isOver ? .done(.rolledBack) : .wait
    }
}

/// The calls of a connection's own thread into SQLite, as its gate sees them.
final class GatedCalls {
    /// Keeps a suspending thread out of calls into SQLite.
    let gate: ConnectionGate
    /// Whether the connection may hold locks that other processes wait for.
    let usesGate: Bool
    /// Whether reading takes such locks: without WAL it does.
    // Unchecked, as those below: one thread at a time uses them, with each statement.
    @exclusivity(unchecked) var gatesReads = false
    /// Calls into SQLite, one inside the other.
    @exclusivity(unchecked) var callDepth = 0
    /// Where the gate rests between calls: `raw` once the program has SQLite's pointer.
    @exclusivity(unchecked) var gateRest = ConnectionGate.Position.idle
    /// Whether a suspension has rolled back and no call has reported it yet.
    @exclusivity(unchecked) var wasRolledBack = false
    /// Whether the file must still be at its path when a write transaction begins.
    @exclusivity(unchecked) var checksFile = false
    /// The WAL and its index, which must be in place too; nil without WAL.
    @exclusivity(unchecked) var wal: LiveWAL?

    init(_ handle: ConnectionHandle, usesGate: Bool) {
        gate = ConnectionGate(handle)
        self.usesGate = usesGate
    }
}
