import CipherDatabase
import CipherStore
import KeyCustody
import PageFormat
import StoreCrypto
import StorePlatform
import StoreSharing
import StoreTools

/// The leftover of a failed creation at its path.
///
/// Between the check of the path and the creation another program may have created a database or a store there. So only
/// what this creation's key authenticates counts as its own.
struct UnfinishedCreation {
    let paths: StorePaths
    let key: UnlockedKey

    enum Remains: Equatable {
        case nothing
        /// A file without a byte and without a sidecar: SQLite creates it first, and any creation uses it.
        case emptyFile
        /// The sidecar says `creating`, this key opens it, and the database has at most a first page of this key.
        case unfinished
        /// The sidecar says that the store was completed, and this key opens it.
        case complete
        /// This key does not authenticate it.
        case foreign
        /// It cannot be read now, or is damaged.
        case unreadable
    }

    private var sidecar: SidecarFiles { SidecarFiles(databasePath: paths.database) }

    /// The things that exist now.
    var remains: Remains {
        let isThere = [paths.database, paths.sidecar, paths.sidecarBackup].contains { Files.exists($0) }
        guard isThere else { return .nothing }
        do {
            let copies = sidecar.read()
            guard let choice = try sidecar.choose(copies, unlock: key.unlock) else {
                return try Files.byteCount(paths.database) == 0 ? .emptyFile : .foreign
            }
            guard choice.sidecar.state == .creating else { return .complete }
            return try holdsFirstPageAtMost(choice) ? .unfinished : .foreign
        } catch let error as StoreError where [.wrongKey, .foreignSidecar].contains(error.code) {
            return .foreign
        } catch {
            return .unreadable
        }
    }

    /// Removes it if it is unfinished, unless another process uses the path: then it belongs to that process.
    func remove() {
        // No process creates a store without the lock file.
        guard Files.exists(paths.lock), let file = try? LockFile(path: paths.lock, likeFile: nil),
            let opening = try? file.tryLock(.opening, .exclusive)
        else { return }
        defer { opening.release() }
        guard let lease = try? file.tryLock(.lease, .exclusive) else { return }
        defer { lease.release() }
        try? removeFiles(file)
    }

    private func removeFiles(_ lockFile: LockFile) throws {
        // The sidecar after the database: a sidecar in state `creating` alone is a creation that has just begun, and a
        // database without one opens with no key. The lock file last: an opening that waits for it opens it again.
        let names = try [
            paths.wal, paths.sharedMemory, paths.journal, paths.database, paths.sidecarBackup, paths.sidecar,
        ].compactMap { try OwnedName(at: $0) }
        // Other programs use neither lock: SQLite's own bytes show their connections, and their open files those that
        // have not read yet.
        let live = try Files.kind(paths.database) == .regular ? LiveFiles.descriptor(of: paths.database) : nil
        if let live, try !live.tryLockSQLiteBytes() { return }
        defer { try? live?.unlockSQLiteBytes() }
        guard StoreHolders.unleased(of: paths.database).isEmpty, remains == .unfinished else { return }
        // The files that were there before they were examined: another user may have exchanged a name meanwhile.
        for name in names { try name.remove() }
        // It stays where a program coordinates access to the file: others may be waiting for that lock.
        _ = try lockFile.removeUnlessCoordinated()
        try Files.synchronize(directory: Files.directory(of: paths.database))
    }

    /// Whether the database has no byte, or one page that this key authenticates. A program that uses an empty file for
    /// its own database may have written to it after the sidecar was created.
    private func holdsFirstPageAtMost(_ choice: AuthenticatedSidecar) throws -> Bool {
        let settings = choice.sidecar.settings
        guard let bytes = try Files.byteCount(paths.database), bytes > 0 else {
            return try Files.byteCount(paths.wal) ?? 0 == 0
        }
        guard bytes == settings.pageBytes else { return false }
        // Never closed while there may be connections: that would drop their locks.
        let file = try LiveFiles.descriptor(of: paths.database)
        var page = [UInt8](repeating: 0, count: bytes)
        guard try page.withUnsafeMutableBytes({ try file.read(at: 0, into: $0) }) == bytes else { return false }
        var codec = try choice.dataKey.withSecret { secret in
            try PageCodec(dataKey: secret, salt: choice.sidecar.salt.bytes, settings: settings)
        }
        return page.withUnsafeBytes { codec.verify($0, number: 1) }
    }
}
