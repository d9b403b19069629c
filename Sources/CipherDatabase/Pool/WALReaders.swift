import PageFormat
import StorePlatform
import StoreSharing

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
