extension LockFile {
    /// Removes the lock file, unless a process is inside `FileCoordinator` for the file that it belongs to: others may wait
    /// for that turn, and each of them would make a new lock file and have the turn at once.
    ///
    /// Whoever calls holds the other locks of the file, as far as they matter. The coordinator byte is only tried, so
    /// that this may be done below it in the order of locks, also inside a coordination of the caller's own.
    ///
    /// - Returns: nil when it was removed or was not there; else who is coordinating, to begin a sentence.
    package func removeUnlessCoordinated() throws(SystemError) -> String? {
        guard try Files.entryExists(path) else { return nil }
        guard let turn = try tryLock(.coordinator, .exclusive) else {
            let isOwn = owners(of: .coordinator).contains(ProcessInspector.currentProcess)
            return isOwn ? "This process" : nameOwner(of: .coordinator)
        }
        // Given back after the name: whoever locked the removed file meanwhile finds that the path names it no more.
        defer { turn.release() }
        try Files.remove(path)
        return nil
    }

    /// Whether a file holds the table of holders, which a lock file has from the first opening of its store. One that has
    /// none is empty, as another program's may be.
    package static func isLibrarys(_ path: String) -> Bool {
        guard let file = try? FileDescriptor(opening: path, .readOnly, followsLinks: false) else { return false }
        let count = MemoryLayout.size(ofValue: TableLayout.magic)
        guard let found = try? file.read(at: Int(LockByte.mappedBase), byteCount: count) else { return false }
        return found == withUnsafeBytes(of: TableLayout.magic, Array.init)
    }
}
