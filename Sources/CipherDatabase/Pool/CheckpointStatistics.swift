import Foundation
import PageFormat
import StorePlatform
import StoreSharing
import Synchronization

/// The checkpoints of a database since it was opened, and the obstacle to a reset of its WAL.
public struct CheckpointStatistics: Sendable, Equatable {
    /// Checkpoints that ran, explicit ones included.
    public var count = 0
    /// Checkpoints that were due and were postponed, because another connection wrote.
    public var postponed = 0
    /// Frames that were copied into the database file.
    public var copiedFrames = 0
    /// How long the longest one took. No connection writes meanwhile.
    public var longest = Duration.zero
    /// Checkpoints that waited for readers to end, so that the WAL could be reset.
    public var waitCount = 0
    /// The length of the WAL at the last checkpoint, in frames.
    public var walFrames = 0
    /// How many of them were in the database file then.
    public var checkpointedFrames = 0
    /// The obstacle that kept the last checkpoint from copying everything; nil if there was none.
    public var blockage: WALBlockage?
}

/// Readers that keep frames of the WAL from being copied into the database file, and so the WAL from being reset: it
/// grows while they read.
public struct WALBlockage: Sendable, Equatable {
    /// The database file.
    public var path: String
    /// Frames that cannot be copied.
    public var frames: Int
    /// For how long checkpoints have been kept from completing; the readers are at least as old.
    public var age: Duration
    /// The processes that read an old snapshot, perhaps this one among them; empty where the system does not report
    /// them.
    public var readers: [WALReader]
}

/// A process that reads an old snapshot of a database.
public struct WALReader: Sendable, Hashable {
    public var processID: Int32
    /// The name of its program, where the system reports it.
    public var command: String?
}

extension WALBlockage: CustomStringConvertible {
    /// A sentence to be logged.
    public var description: String {
        let seconds = age.components.seconds
        let names = readers.map(\.description).joined(separator: ", ")
        return
            "The WAL of \"\(path)\" cannot shrink: for \(seconds) s, readers have kept \(CountText.text(frames, "frame")) in "
            + "it. " + (names.isEmpty ? "They cannot be identified." : "They are: \(names).")
    }
}

extension WALReader: CustomStringConvertible {
    public var description: String {
        let whose = processID == ProcessInspector.currentProcess ? "this process" : "process \(processID)"
        return command.map { "\(whose) (\($0))" } ?? whose
    }
}

extension WALReader {
    /// The processes that keep frames of a WAL from being copied: they hold the lock of a read mark before its end.
    ///
    /// - Parameters:
    ///   - index: The header of the wal-index.
    ///   - sharedMemory: The path of the -shm file.
    /// - Returns: One for each process; none where the system does not report the holders of locks.
    package static func blocking(_ index: WALIndex, sharedMemory: String) -> [WALReader] {
        let locks = (try? SystemLocks.posixLocks(on: sharedMemory)) ?? nil
        let bytes = (0..<WALIndex.readMarkCount).filter(index.blocksCheckpoints).map(WALLockByte.readMark)
        let processes = (locks ?? []).filter { lock in bytes.contains { lock.bytes.contains($0) } }.map(\.process)
        return Set(processes).sorted().map {
            WALReader(processID: $0, command: ProcessInspector.commandName(of: $0))
        }
    }
}
