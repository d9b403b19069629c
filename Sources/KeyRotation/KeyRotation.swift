import CipherDatabase
import CipherStore
import Dispatch
import KeyCustody
import StorePlatform
import StoreSharing
import Synchronization

/// Changes the data key and the salt of an open store while all its processes keep reading and writing.
///
/// ```swift
/// let report = try KeyRotation(store).run { print($0) }
/// print("epoch \(report.fromEpoch) -> \(report.toEpoch), longest pause \(report.longestPause)")
/// ```
///
/// The pages are copied and re-encrypted next to the store. Changes made meanwhile are carried over in rounds. When a
/// few milliseconds of work are left, every `SharedStore` of every process is asked to pause, the copy replaces the
/// database, and the stores resume with the new key by themselves. `Docs/Rotation.md` describes each step and each
/// failure.
///
/// A rotation that fails before the switch leaves the store as it was. The next opening for writing undoes or completes
/// a rotation that was killed.
public struct KeyRotation: Sendable {
    let store: SharedStore
    /// How it is done.
    public let options: Options

    /// - Parameter store: The store to rotate, open for writing. It resumes with the new key, like the stores of other
    ///   processes.
    public init(_ store: SharedStore, options: Options = Options()) {
        self.store = store
        self.options = options
    }

    /// Checks whether and how the store can be rotated. Changes nothing.
    ///
    /// It measures the speed of re-encryption on some pages, and runs `integrity_check` unless the options say otherwise,
    /// which takes about as long as the copy. The key sources of the mode are read, as the rotation reads them again.
    ///
    /// - Parameter isCancelled: Called repeatedly, on any thread; true ends the check.
    /// - Throws: `StoreError`, `SystemError` or `DatabaseError` when something could not be examined;
    ///   `CancellationError`. Obstacles to a rotation are not thrown but listed in the plan
    ///   (``RotationPlan/obstacles``).
    public func preflight(isCancelled: (@Sendable () -> Bool)? = nil) throws -> RotationPlan {
        try RotationPreflight(store, options, isCancelled: isCancelled ?? { false }).plan()
    }

    /// Rotates the store, on this thread and as many others as ``Options/workers`` says.
    ///
    /// - Parameters:
    ///   - isCancelled: Called repeatedly, on any thread; true ends the rotation before the switch with
    ///     `CancellationError`, and the store stays as it was.
    ///   - progress: Called with the progress, on any thread, up to ten times a second.
    /// - Throws: `StoreError`: `storeInUse` when another rotation runs, when a process does not pause, or when writers
    ///   are faster than the copy; `pageDamaged`, `truncated`; `walDamaged` without a backup, if a copy of a damaged WAL
    ///   is beside the store that only the present key reads; `rotationPending` when a file that is no copy has the
    ///   copy's name, and when a step failed after the switch was announced. After a failed step, the next opening
    ///   for writing completes the rotation. The error says which keys of a direct store must be kept: both, or only
    ///   the new one if the copy has replaced the database. `SystemError` when the disk is full: the store keeps its
    ///   present key. `CancellationError`. A finding of `integrity_check` in a store whose pages are authentic is a notice
    ///   of the report.
    @discardableResult
    public func run(
        isCancelled: (@Sendable () -> Bool)? = nil, progress: (@Sendable (RotationProgress) -> Void)? = nil
    ) throws -> RotationReport {
        try RotationBeginning(store, options, ProgressReporter(progress), isCancelled: isCancelled ?? { false }).run()
    }

    /// Rotates the store and reports the progress.
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
                // A rotation takes seconds to hours and waits for locks, so it must not block a thread of the task
                // executor.
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

/// The result of a rotation.
public struct RotationReport: Hashable, Sendable {
    /// The epoch of the former data key.
    public internal(set) var fromEpoch: UInt64
    /// The epoch of the new data key.
    public internal(set) var toEpoch: UInt64
    /// Pages of the store.
    public internal(set) var pages = 0
    /// Bytes of the store.
    public internal(set) var bytes = 0
    /// Rounds in which changes made during the rotation were carried over.
    public internal(set) var rounds = 0
    /// Pages that were carried over in these rounds.
    public internal(set) var carriedPages = 0
    /// How often the other processes were asked to pause.
    public internal(set) var attempts = 0
    /// The longest time from a request to pause until the processes could resume.
    public internal(set) var longestPause: Duration = .zero
    /// The speed of copying, without the verification.
    public internal(set) var copyBytesPerSecond = 0
    /// The duration of the whole rotation.
    public internal(set) var duration: Duration = .zero
    /// Whether a pending switch only had to be completed.
    public internal(set) var wasFinished = false
    /// The keyslots that were removed, because their keys were not given to a rotation that renewed the master key.
    public internal(set) var removedSlots: [StoreKeys.Slot] = []
    /// Path of the backup that was made before; nil when none was requested, or when the switch only had to be
    /// completed.
    public internal(set) var backupPath: String?
    /// Failures that do not affect the store, such as a key log that could not be written: one sentence each.
    public internal(set) var notices: [String] = []

    init(fromEpoch: UInt64, toEpoch: UInt64) {
        self.fromEpoch = fromEpoch
        self.toEpoch = toEpoch
    }
}
