import StorePlatform

/// How a process asks the users of a store to yield it for a moment, and how they notice.
///
/// A request lasts while the byte `intent` is locked, so it ends with the process that made it. The words in the shared
/// memory only wake sleepers and say how urgent it is: a process that may not write the lock file, or finds no table in
/// it, polls the byte.
package final class YieldNotifier: Sendable {
    private let path: String
    private let file: OpenFile
    private let table: SharedTable?

    /// Opens the lock file, which must exist.
    ///
    /// - Throws: ``SystemError`` when it cannot even be read.
    package init(path: String) throws(SystemError) {
        self.path = path
        var isWritable = true
        let descriptor = try Self.open(path, &isWritable)
        try LockFile.requireOwn(descriptor)
        // If the disk has no space for the table, only the byte is used.
        table = isWritable ? try? SharedTable(of: descriptor) : nil
        file = OpenFile(descriptor)
    }

    private static func open(_ path: String, _ isWritable: inout Bool) throws(SystemError) -> FileDescriptor {
        do {
            return try FileDescriptor(opening: path, .readWrite, followsLinks: false)
        } catch  where error.isPermission {
            isWritable = false
            return try FileDescriptor(opening: path, .readOnly, followsLinks: false)
        }
    }

    /// Whether sleepers are woken; otherwise they must poll.
    package var wakesSleepers: Bool { table != nil }

    /// Whether the path still names this lock file, and whether it was not truncated.
    package var isCurrent: Bool {
        guard table?.isLost != true, let here = try? file.status().identity else { return false }
        return (try? Files.identity(path)) == here
    }

    // MARK: For the users of the store

    /// Whether a process requests the store, or is about to switch it.
    package var isAsked: Bool {
        (try? file.isLocked(LockByte.intent.range, against: .shared)) ?? false
    }

    /// Whether the request also ends long reads.
    package var insists: Bool {
        if let table { return table.insists }
        let offset = Int(LockByte.mappedBase) + TableLayout.Header.insists
        var word: UInt32 = 0
        let count = withUnsafeMutableBytes(of: &word) { try? file.read(at: offset, into: $0) }
        return count == 4 && word != 0
    }

    /// Counts the changes of requests, to sleep until the next one.
    package var count: UInt32 { table?.requestCount ?? 0 }

    /// Sleeps until a request changes, the timeout passes or ``end(_:)`` is called.
    ///
    /// - Parameter count: The count that was seen; if it has changed, the call returns at once.
    package func wait(since count: UInt32, until end: SleepEnd, for timeout: Duration) {
        if table?.awaitNotification(since: count, until: end, for: timeout) == true { return }
        Pause.sleep(for: timeout)
    }

    /// Ends the waits for which `end` was given, now and later. Others who wait are woken only where the system cannot
    /// do without it.
    package func end(_ end: SleepEnd) {
        end.set()
        if !SleepEnd.endsSleeps { notify() }
    }

    // MARK: For the requesting process

    /// Sets how urgent the request is; for the process that holds the byte `intent`.
    func setInsists(_ insists: Bool) { table?.insists = insists }

    /// Wakes all sleepers, because a request has changed.
    func notify() { table?.notify() }
}
