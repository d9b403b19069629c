import CipherDatabase
import Foundation
import KeyCustody
import PageFormat
import StoreCrypto
import StorePlatform
import StoreSharing

/// The database and the copy that is to take its place, below SQLite.
struct RotationFiles {
    private let paths: StorePaths

    init(_ paths: StorePaths) { self.paths = paths }

    /// The copy that a rotation makes.
    var copyPath: String { paths.rotationCopy }

    // MARK: The copy

    /// What stands under the copy's name itself; a symbolic link is not followed.
    func copyKind() throws(SystemError) -> FileKind? { try Files.kindOfName(copyPath) }

    /// Removes the copy where it can be one (``RotationLeftover``). What anybody else put there stays, and is told.
    ///
    /// - Parameter isLeftover: Whether it is worth a word that there was one.
    func removeCopy(isLeftover: Bool = true) throws(SystemError) -> [String] {
        switch try RotationLeftover(at: copyPath) {
        case .absent: return []
        case .copy:
            try Files.remove(copyPath)
            try Files.synchronize(directory: Files.directory(of: copyPath))
            return isLeftover ? ["The copy \"\(copyPath)\", which a rotation had left behind, was removed."] : []
        case .foreign(let why):
            return ["\"\(copyPath)\" has the name of a rotation's copy and was left alone. \(why)"]
        }
    }

    /// Whether the copy has the length that the sidecar tells, and each of its pages the next key.
    ///
    /// A page of zeros, which SQLCipher leaves in databases with auto-vacuum, must be one in the database as well.
    func isCopyWhole(_ rotation: PendingRotation) throws -> Bool {
        guard let pending = rotation.sidecar.pending, let dataKey = try rotation.nextDataKey else { return false }
        let settings = rotation.sidecar.settings
        let copy = try OpenFile(FileDescriptor(opening: copyPath, .readOnly, followsLinks: false))
        guard try copy.status().kind == .regular,
            try copy.status().byteCount == Int(pending.pages) * settings.pageBytes
        else { return false }
        let keys = try dataKey.withSecret { try PageKeys(dataKey: $0, salt: pending.salt.bytes, settings: settings) }
        let report: PageScan.Report
        do {
            report = try PageScan.verifyPages(
                keys: keys, pageCount: pending.pages, workers: ProcessInfo.processInfo.activeProcessorCount,
                read: { try copy.read(at: $0, into: $1) })
        } catch let error as SystemError where error.isInputOutput {
            // A bad block is damage.
            return false
        }
        guard report.damaged.isEmpty, report.missing.isEmpty, !report.zero.isEmpty else { return report.isClean }
        let database = try LiveFiles.descriptor(of: paths.database)
        return try report.zero.allSatisfy { number in
            let page = try database.bytes(at: Int(number - 1) * settings.pageBytes, count: settings.pageBytes)
            return page.withUnsafeBytes { PageCodec.isZero($0) }
        }
    }

    /// Empties the log, gives the copy the database's name, and makes that durable, in this order: after a power cut a log
    /// of the former key must not meet the file with the next one.
    ///
    /// The empty log of a rotation that was killed before it had its name goes, too: rotations alone write such a file.
    func moveCopyIntoPlace() throws(SystemError) {
        try FileDescriptor(opening: copyPath, .readOnly, followsLinks: false).synchronize()
        if try Files.kindOfName(paths.wal) != nil {
            let log = try FileDescriptor(opening: paths.wal, .readWrite, followsLinks: false)
            try log.truncate(toByteCount: 0)
            try log.synchronize()
        }
        try AtomicFile.removeLeftovers(of: paths.wal)
        CrashPoint.reach(.recoveryLogEmptied)
        // Its folder is made durable before this returns.
        try AtomicFile.move(copyPath, to: paths.database)
        CrashPoint.reach(.recoveryMoved)
    }

    // MARK: The log

    /// Whether the log has everything that it had when the switch was announced.
    func log(_ rotation: PendingRotation) throws -> RecoveryFindings.Log {
        guard let pending = rotation.sidecar.pending, let key = try rotation.present?.dataKey(of: rotation.sidecar)
        else { return .unfit }
        let (salt, settings) = (rotation.sidecar.salt, rotation.sidecar.settings)
        let keys = try key.withSecret { try PageKeys(dataKey: $0, salt: salt.bytes, settings: settings) }
        return try RotationLog(paths).examine(keys: keys, databasePages: pending.pages)
    }

    // MARK: The database

    /// Whose key page 1 of the database has.
    func databaseKey(_ rotation: PendingRotation) throws -> RecoveryFindings.DatabaseKey {
        let settings = rotation.sidecar.settings
        let page = try LiveFiles.descriptor(of: paths.database).bytes(at: 0, count: settings.pageBytes)
        func has(_ key: DataKey?, _ salt: Salt?) throws -> Bool {
            guard let key, let salt else { return false }
            var codec = try key.withSecret { try PageCodec(dataKey: $0, salt: salt.bytes, settings: settings) }
            return page.withUnsafeBytes { codec.verify($0, number: 1) }
        }
        if try has(rotation.nextDataKey, rotation.sidecar.pending?.salt) { return .next }
        let present = try rotation.present?.dataKey(of: rotation.sidecar)
        return try has(present, rotation.sidecar.salt) ? .present : .unknown
    }

    /// Keeps every connection of every program away from the database, for as long as the lock is held.
    ///
    /// A lease only asks, SQLite's own locks prove: a process that has a lease and no connection is in nobody's way here.
    func lockDatabase(until deadline: ContinuousClock.Instant, isCancelled: (() -> Bool)?) throws -> DatabaseBytesLock {
        while true {
            let file = try LiveFiles.descriptor(of: paths.database)
            if try file.tryLockSQLiteBytes() { return DatabaseBytesLock(file) }
            if isCancelled?() == true { throw CancellationError() }
            guard ContinuousClock.now < deadline else { throw try inUse() }
            Pause.sleep(for: .milliseconds(20))
        }
    }

    private func inUse() throws -> StoreError {
        let processes = try Set(SystemLocks.posixLocks(on: paths.database)?.map(\.process) ?? []).sorted()
        let names = processes.map { "\($0) (\(ProcessInspector.commandName(of: $0) ?? "?"))" }
        return StoreError(
            .storeInUse, what: "A rotation of \"\(paths.database)\" that was cut short cannot be completed.",
            why: "A program has the database open"
                + (names.isEmpty ? "." : ": process \(names.joined(separator: ", "))."),
            remedy: "End it, then open the store again. Nothing is lost.")
    }
}

/// SQLite's bytes of the former database, held until it has given its name away.
final class DatabaseBytesLock {
    private let file: LiveFile

    fileprivate init(_ file: LiveFile) { self.file = file }

    /// To be called when another database durably has its name: nobody is to take it for the store any more.
    func spoil() throws { try file.spoil() }

    /// Closes the file as well where it is the former database, which nobody needs any more.
    func release() {
        if (try? Files.identity(file.path)) == file.identity {
            try? file.unlockSQLiteBytes()
        } else {
            file.giveUp()
        }
    }
}

extension LiveFile {
    /// What is there at a position, up to a number of bytes.
    fileprivate func bytes(at offset: Int, count: Int) throws -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        let filled = try bytes.withUnsafeMutableBytes { try read(at: offset, into: $0) }
        bytes.removeLast(count - filled)
        return bytes
    }
}
