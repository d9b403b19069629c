import CipherDatabase
import CipherStore
import Dispatch
import KeyCustody
import Synchronization

/// Gives an open store another data key and another salt while all its processes go on reading and writing.
///
/// ```swift
/// let report = try KeyRotation(store).run { print($0) }
/// print("epoch \(report.fromEpoch) -> \(report.toEpoch), longest pause \(report.longestPause)")
/// ```
///
/// The pages are copied and re-encrypted beside the store; what is written meanwhile is carried over in rounds. When a few
/// milliseconds are left, every `SharedStore` of every process is asked to pause, the copy takes the database's place,
/// and they go on with the new key by themselves. What happens step by step, and what each failure means, is told in
/// `Docs/Rotation.md`.
///
/// A rotation that fails before the switch leaves the store as it was. One that is killed is undone or finished by whoever
/// opens the store for writing next.
public struct KeyRotation: Sendable {
    let store: SharedStore
    /// How it is done.
    public let options: Options

    /// - Parameter store: The store to rotate, open for writing. It goes on with the new key like those of other processes.
    public init(_ store: SharedStore, options: Options = Options()) {
        self.store = store
        self.options = options
    }

    /// Looks whether and how the store can be rotated, and changes nothing.
    ///
    /// It measures the speed of re-encryption on some pages, and runs `integrity_check` unless the options say otherwise,
    /// which takes about as long as the copy.
    ///
    /// - Parameter isCancelled: Asked now and then, on any thread; true ends it.
    /// - Throws: `StoreError`, `SystemError` or `DatabaseError` where something could not be looked at;
    ///   `CancellationError`. What stands in the way of a rotation is in the plan (``RotationPlan/obstacles``).
    public func preflight(isCancelled: (@Sendable () -> Bool)? = nil) throws -> RotationPlan {
        try RotationPreflight(store, options, isCancelled: isCancelled ?? { false }).plan()
    }

    /// Rotates the store, on this thread and as many others as ``Options/workers`` says.
    ///
    /// - Parameters:
    ///   - isCancelled: Asked now and then, on any thread; true ends the rotation before the switch with
    ///     `CancellationError`, and the store stays as it was.
    ///   - progress: Told how far it is, on any thread, up to ten times a second.
    /// - Throws: `StoreError`: `storeInUse` when another rotation runs, when a process does not pause, or when writers are
    ///   faster than the copy; `pageDamaged`, `truncated`; `rotationPending` when something that is no copy has the copy's
    ///   name, and when a step failed after the switch was announced: opening the store for writing finishes the rotation
    ///   then, and the error says which keys of a direct store have to be kept: both, or the new one where the copy has the
    ///   database's place. `SystemError` when the disk is full: the store has its present key. `DatabaseError`
    ///   `SQLITE_CORRUPT` when `integrity_check` finds damage that is not that of a page.
    ///   `CancellationError`.
    @discardableResult
    public func run(
        isCancelled: (@Sendable () -> Bool)? = nil, progress: (@Sendable (RotationProgress) -> Void)? = nil
    ) throws -> RotationReport {
        try RotationBeginning(store, options, ProgressReporter(progress), isCancelled: isCancelled ?? { false }).run()
    }

    /// Rotates the store, and tells how far it is.
    @discardableResult
    public func run(progress: @escaping @Sendable (RotationProgress) -> Void) throws -> RotationReport {
        try run(isCancelled: nil, progress: progress)
    }

    /// Rotates the store; ends with `CancellationError` when the task is cancelled before the switch.
    @discardableResult
    public func run(progress: (@Sendable (RotationProgress) -> Void)? = nil) async throws -> RotationReport {
        let isCancelled = Atomic<Bool>(false)
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                // It takes seconds to hours, and waits for locks: no work for the threads of tasks.
                DispatchQueue.global().async {
                    continuation.resume(
                        with: Result {
                            try run(isCancelled: { isCancelled.load(ordering: .acquiring) }, progress: progress)
                        })
                }
            }
        } onCancel: {
            isCancelled.store(true, ordering: .releasing)
        }
    }
}

/// What a rotation did.
public struct RotationReport: Hashable, Sendable {
    /// The epoch of the former data key.
    public internal(set) var fromEpoch: UInt64
    /// The epoch of the new data key.
    public internal(set) var toEpoch: UInt64
    /// Pages of the store.
    public internal(set) var pages = 0
    /// Bytes of the store.
    public internal(set) var bytes = 0
    /// How often what was written meanwhile was carried over.
    public internal(set) var rounds = 0
    /// Pages that were carried over in these rounds.
    public internal(set) var carriedPages = 0
    /// How often the other processes were asked to pause.
    public internal(set) var attempts = 0
    /// The longest time from asking them to letting them go on.
    public internal(set) var longestPause: Duration = .zero
    /// How fast pages were copied, without their verification.
    public internal(set) var copyBytesPerSecond = 0
    /// How long all of it took.
    public internal(set) var duration: Duration = .zero
    /// Whether the rotation that was pending had only to be finished.
    public internal(set) var wasFinished = false
    /// Where the backup that was made before is; nil when none was asked for, or the switch had only to be finished.
    public internal(set) var backupPath: String?
    /// What went wrong without harm, such as a key log that could not be written: plain sentences.
    public internal(set) var notices: [String] = []

    init(fromEpoch: UInt64, toEpoch: UInt64) {
        self.fromEpoch = fromEpoch
        self.toEpoch = toEpoch
    }
}
