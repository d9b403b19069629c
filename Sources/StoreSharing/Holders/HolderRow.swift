import StorePlatform
import Synchronization

/// A row in the table of holders, held by a lock on a byte of its own while the object lives.
///
/// The kernel releases the byte when the process dies; a restart of the machine releases all bytes. Each connection has
/// a row and a descriptor of its own, so threads of one process exclude each other like processes.
package final class HolderRow: Sendable {
    /// The row, from 0.
    package let number: Int
    /// Distinguishes this holder from earlier holders of the row.
    let generation: UInt32
    let table: SharedTable
    private let forkCount: UInt32
    private let file: Mutex<FileDescriptor?>

    /// Acquires a free row.
    ///
    /// - Parameters:
    ///   - path: The lock file. It must exist.
    ///   - label: A name for messages; it is truncated to 32 bytes.
    ///   - isListed: Whether the table of holders shows it.
    /// - Returns: nil when all rows are in use, or when the file does not contain this table.
    /// - Throws: ``SystemError`` when the file cannot be opened for writing, extended or mapped.
    package static func take(
        path: String, label: String, roles: HolderRoles, isListed: Bool = true
    ) throws(SystemError) -> HolderRow? {
        while true {
            let file = try FileDescriptor(opening: path, .readWrite, followsLinks: false)
            guard let table = try SharedTable(of: file) else { return nil }
            guard let number = try lockFreeRow(file) else { return nil }
            // The path may name another file by now. That file's table is the valid one.
            guard try Files.identity(path) == file.status().identity else { continue }
            return HolderRow(file, number, table, label, roles, isListed: isListed)
        }
    }

    private static func lockFreeRow(_ file: borrowing FileDescriptor) throws(SystemError) -> Int? {
        for number in 0..<TableLayout.rowCount where try file.tryLock(LockByte.row(number), .exclusive) {
            return number
        }
        return nil
    }

    private init(
        _ file: consuming FileDescriptor, _ number: Int, _ table: SharedTable, _ label: String, _ roles: HolderRoles,
        isListed: Bool
    ) {
        self.number = number
        self.table = table
        ForkWatch.begin()
        forkCount = ForkWatch.count
        let row = table.row(number)
        generation = row.generation &+ 1
        self.file = Mutex(consume file)
        row.words.store32(TableLayout.Row.process, 0)
        table.clearWaiting(number)
        table.clearWatching(number)
        row.words.store32(TableLayout.Row.generation, generation)
        // The byte is locked by this process, so only a former holder can have left the word.
        let owner = table.owner
        if owner.row == number { _ = table.replaceOwner(owner, with: .free) }
        describe(row, label, roles, isListed: isListed)
    }

    private func describe(_ row: TableRow, _ label: String, _ roles: HolderRoles, isListed: Bool) {
        for offset in stride(from: TableLayout.Row.writingSince, to: TableLayout.Row.label, by: 8) {
            row.words.store64(offset, 0)
        }
        row.words.store32(TableLayout.Row.wake, WakeWord.quiet)
        row.words.store32(TableLayout.Row.roles, roles.rawValue)
        let process = ProcessInspector.currentProcess
        row.words.store64(TableLayout.Row.processStart, ProcessInspector.startTicks(of: process) ?? 0)
        row.words.store64(TableLayout.Row.pidNamespace, ProcessInspector.pidNamespace ?? 0)
        row.words.store64(TableLayout.Row.openedAt, UInt64(bitPattern: Int64(WallClock.millisecondsSince1970)))
        row.writeLabel(label)
        if isListed { row.words.store32(TableLayout.Row.process, UInt32(bitPattern: process)) }
    }

    deinit { release() }

    var row: TableRow { table.row(number) }

    /// Whether the process was forked since the row was acquired. The row then belongs to the parent.
    var isInherited: Bool { ForkWatch.count != forkCount }

    /// Changes the entry in the table.
    package func setRole(_ role: HolderRoles, _ isOn: Bool) {
        var roles = HolderRoles(rawValue: row.words.load32(TableLayout.Row.roles))
        if isOn { roles.insert(role) } else { roles.remove(role) }
        row.words.store32(TableLayout.Row.roles, roles.rawValue)
    }

    /// Releases the row (`leave()` of the writer queue releases the write turn); a second call does nothing. Afterwards the row may belong to another holder.
    package func release() {
        file.withLock { file in
            guard let descriptor = file.take(), !isInherited else { return }
            row.words.store32(TableLayout.Row.process, 0)
            table.clearWaiting(number)
            table.clearWatching(number)
            let owner = table.owner
            if owner.row == number { _ = table.replaceOwner(owner, with: .free) }
            // Unlocked explicitly: a forked child keeps the open file, and with it the lock, after this process closes
            // it.
            try? descriptor.unlock(LockByte.row(number))
        }
    }

    /// Unlocks the byte and leaves the table as it is, as a kill does; for tests.
    func abandon() {
        file.withLock { file in
            guard let descriptor = file.take() else { return }
            try? descriptor.unlock(LockByte.row(number))
        }
    }

    /// Runs a block while the row is not released; does nothing after the release.
    func whileHeld(_ body: () -> Void) {
        file.withLock { file in
            switch file {
            case .none: return
            case .some: body()
            }
        }
    }

    /// Whether a living process holds a row; this process is included.
    func isHeld(_ other: Int) -> Bool {
        if other == number { return true }
        return file.withLock { file in
            switch file {
            case .none: true
            case .some(let file): (try? file.isLocked(LockByte.row(other))) ?? true
            }
        }
    }
}
