import StorePlatform
import StoreSharing

/// The actions of a suspension of a store, and the proof that no lock is left.
public struct SuspensionReport: Sendable, Equatable {
    /// How the result is known.
    public enum Proof: Sendable, Equatable {
        /// The system's own table of locks shows no lock of this process on the store's files.
        case systemLockTable
        /// The library's own state says so; the system has no such table, or the table does not show these files.
        case ownState
    }

    /// A lock that other processes may wait for.
    public enum HeldLock: String, Sendable, CaseIterable {
        /// SQLite's lock for writing.
        case write
        /// SQLite's lock for checkpointing.
        case checkpoint
        /// SQLite's lock on the database file itself, as without WAL.
        case databaseFile
        /// The write turn, as the table of holders shows it.
        case writeTurn
        /// A lock that a connection has according to the library's own state.
        case connection
        /// The store is being opened, created or migrated.
        case opening
        /// The lease, which a running read keeps.
        case lease
    }

    /// Whether this process holds no lock on the store's files that a writer, a checkpoint or the opening of another
    /// process would wait for. A running read may keep the lease until it ends.
    public var isReleased: Bool { heldLocks.allSatisfy { $0 == .lease } }
    /// How the result is known.
    public let proof: Proof
    /// The locks that are still held.
    public let heldLocks: [HeldLock]
    /// Statements that were interrupted.
    public let interruptedStatements: Int
    /// Transactions that were rolled back between two statements of their program.
    public let rolledBackTransactions: Int
    /// From the call to the proof.
    public let duration: Duration
}

extension SuspensionReport: CustomStringConvertible {
    public var description: String {
        let held = heldLocks.isEmpty ? "released" : "still held: " + heldLocks.map(\.rawValue).joined(separator: ", ")
        let milliseconds = Int((duration / .milliseconds(1)).rounded())
        let source = proof == .systemLockTable ? "by the system's lock table" : "not proven by the system"
        return "\(held) (\(source)) after \(milliseconds) ms; \(interruptedStatements) interrupted, "
            + "\(rolledBackTransactions) rolled back"
    }
}

/// The locks of this process on the files of a store, from the system's table of locks.
enum LockProof {
    /// - Parameter isShown: Whether the table is known to show these files, so that no entry means no lock.
    /// - Returns: The held locks; nil where the table is not available or does not show these files.
    static func heldLocks(on database: String, isShown: Bool = false) -> [SuspensionReport.HeldLock]? {
        guard let onDatabase = own(database), let onIndex = own(database + "-shm") else { return nil }
        // An open connection always has a lock on the file: if none shows, the table does not cover the file.
        guard isShown || !onDatabase.isEmpty else { return nil }
        var held: [SuspensionReport.HeldLock] = []
        let exclusive = onIndex.filter { $0.kind == .exclusive }
        if exclusive.contains(where: { $0.bytes.contains(WALLockByte.write) }) { held.append(.write) }
        if exclusive.contains(where: { $0.bytes.contains(WALLockByte.checkpoint) }) { held.append(.checkpoint) }
        if onDatabase.contains(where: { $0.kind == .exclusive && $0.bytes.overlaps(SQLiteLockByte.all) }) {
            held.append(.databaseFile)
        }
        return held
    }

    private static func own(_ path: String) -> [SystemLocks.Lock]? {
        guard let locks = (try? SystemLocks.posixLocks(on: path)) ?? nil else { return nil }
        return locks.filter { $0.process == ProcessInspector.currentProcess }
    }
}
