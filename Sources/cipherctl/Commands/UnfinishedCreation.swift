import CipherStore
import KeyCustody
import StoreCrypto
import StorePlatform

/// What a creation leaves that failed before its store was complete: files without a row.
struct UnfinishedCreation {
    let paths: StorePaths

    private var sidecar: SidecarFiles { SidecarFiles(databasePath: paths.database) }

    /// Whether there is something of it.
    var isThere: Bool { [paths.database, paths.sidecar, paths.sidecarBackup].contains { Files.exists($0) } }

    /// Whether it was completed after all; nil when that cannot be read.
    var isComplete: Bool? {
        switch sidecar.read().main {
        case .present(let found): found.claimed.state == .ready
        case .absent: false
        case .damaged, .unreadable: nil
        }
    }

    /// Removes it, unless another process completes it or has completed it: then it is that one's store.
    func remove() {
        // Nobody makes anything without the lock file.
        guard Files.exists(paths.lock), let file = try? LockFile(path: paths.lock, likeFile: nil),
            let opening = try? file.tryLock(.opening, .exclusive)
        else { return }
        defer { opening.release() }
        guard let lease = try? file.tryLock(.lease, .exclusive) else { return }
        defer { lease.release() }
        guard isUnfinished else { return }
        // The sidecar after the database: a sidecar in state `creating` alone is a creation that has just begun, and a
        // database without one opens with no key. The lock file last: an opener that waits for it looks for it again.
        let files = [
            paths.wal, paths.sharedMemory, paths.journal, paths.database, paths.sidecarBackup, paths.sidecar,
            paths.lock,
        ]
        for path in files {
            guard (try? Files.remove(path)) != nil else { return }
        }
        try? Files.synchronize(directory: Files.directory(of: paths.database))
    }

    /// Whether no copy of the sidecar says that the store was ever complete, and the database has its first page at most.
    private var isUnfinished: Bool {
        let copies = sidecar.read()
        let isCreating = SidecarCopy.allCases.allSatisfy { copy in
            copies[copy] == .absent || copies[copy].parsed?.claimed.state == .creating
        }
        guard isCreating, let bytes = try? Files.byteCount(paths.database) ?? 0 else { return false }
        return bytes <= CipherSettings.plaintextHeader.pageBytes
    }
}
