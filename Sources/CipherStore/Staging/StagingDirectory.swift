import Foundation
import KeyCustody
import StorePlatform
import StoreSharing

/// A directory in which files are created and verified before they are put in place: beside the target, so that putting
/// them in place is a link or a rename within one filesystem.
///
/// Its name is `<target>.<purpose>-<pid>-<8 hex digits>`. It belongs to the process that holds the lock of the lock
/// file in it: its maker during the work, and the process that removes it after a crash. A directory exists before it
/// can be locked, so another process may lock or remove it in between. The maker then leaves it and makes another one.
package final class StagingDirectory: Sendable {
    /// The kind of the staged content, as a part of the directory's name.
    package enum Purpose: String, CaseIterable, Sendable {
        case importing
        case adopting
        case exporting
        /// A backup; the directory itself gets the name of the target.
        case backup = "partial"

        /// The file in the directory whose lock shows that it is in use.
        package var lockName: String { self == .backup ? "backup.lock" : "import.lock" }

        /// Whether a file of this name may be removed with the directory. Files that a backup did not create are kept.
        fileprivate func owns(_ name: String) -> Bool { self != .backup || BackupBundle.isOwn(name) }
    }

    package let path: String
    private let purpose: Purpose
    private let lock: HeldLock

    /// - Parameters:
    ///   - target: The path that the finished work gets.
    ///   - afterMaking: Called when a directory exists and is not locked yet, where tests remove it.
    /// - Throws: `SystemError`; no directory is left then.
    package init(for target: String, _ purpose: Purpose, afterMaking: (String) throws -> Void = { _ in }) throws {
        self.purpose = purpose
        while true {
            let digits = String(UInt32.random(in: 0x1000_0000 ... .max), radix: 16)
            let path = "\(target).\(purpose.rawValue)-\(ProcessInspector.currentProcess)-\(digits)"
            try Files.makeDirectory(path)
            try afterMaking(path)
            guard let lock = try Self.lock(path, purpose) else { continue }
            self.path = path
            self.lock = lock
            return
        }
    }

    /// Locks a new directory; nil when another process has locked or removed it.
    private static func lock(_ path: String, _ purpose: Purpose) throws -> HeldLock? {
        do {
            return try LockFile(path: path + "/" + purpose.lockName, likeFile: nil).tryLock(.admin, .exclusive)
        } catch {
            if error.isNotFound { return nil }
            removeContents(of: path, purpose)
            throw error
        }
    }

    /// Removes the directory with all that was made in it.
    package func remove() {
        Self.removeContents(of: path, purpose)
        lock.release()
    }

    /// Releases the directory after it was renamed to the target, and removes its lock file there.
    package func releaseRenamed(to target: String) {
        // Not earlier: the lock file shows that a directory is being made.
        try? Files.remove(target + "/" + purpose.lockName)
        lock.release()
    }

    // MARK: Directories of processes that were killed

    /// Removes the directories for a target whose makers were killed.
    ///
    /// - Parameter beforeRemoving: Called with each directory, under its lock.
    /// - Returns: The directories that were removed.
    /// - Throws: `SystemError` where the parent directory of the target cannot be read; the errors of `beforeRemoving`.
    @discardableResult
    package static func removeAbandoned(
        for target: String, _ purpose: Purpose, beforeRemoving: (String) throws -> Void = { _ in }
    ) throws -> [String] {
        try directories(for: target, purpose).compactMap { path, _ in
            // A missing lock file is created: its maker was killed before it created one, or is about to create it and
            // then finds that the directory is not its own.
            let file = try? LockFile(path: "\(path)/\(purpose.lockName)", likeFile: nil)
            guard let lock = (try? file?.tryLock(.admin, .exclusive)) ?? nil else { return nil }
            defer { lock.release() }
            try beforeRemoving(path)
            removeContents(of: path, purpose)
            return path
        }
    }

    /// The directories for a target whose makers were killed. Nothing is locked or changed.
    package static func abandoned(for target: String, _ purpose: Purpose) throws -> [String] {
        try directories(for: target, purpose).compactMap { path, process in
            let lock = "\(path)/\(purpose.lockName)"
            guard Files.exists(lock) else { return ProcessInspector.isAlive(process) ? nil : path }
            return try LockFile(path: lock, likeFile: nil, allowsReadOnly: true).isHeld(.admin) ? nil : path
        }
    }

    private static func directories(for target: String, _ purpose: Purpose) throws -> [(path: String, process: Int32)] {
        let folder = Files.directory(of: target)
        return try Files.names(inDirectory: folder).sorted().compactMap { name in
            guard let process = process(ofName: name, target: Files.name(of: target), purpose) else { return nil }
            let path = folder == "/" ? "/\(name)" : "\(folder)/\(name)"
            return (try? Files.kind(path)) == .directory ? (path, process) : nil
        }
    }

    /// The process that made a directory, from its name; nil when it is not a staging directory of this target.
    static func process(ofName name: String, target: String, _ purpose: Purpose) -> Int32? {
        let beginning = "\(target).\(purpose.rawValue)-"
        guard name.hasPrefix(beginning) else { return nil }
        let parts = name.dropFirst(beginning.count).split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 2, parts[1].count == 8, parts[1].allSatisfy(\.isHexDigit) else { return nil }
        return Int32(parts[0])
    }

    /// Removes the files in a directory, its lock file last, and the directory if it is empty then.
    private static func removeContents(of path: String, _ purpose: Purpose) {
        for name in (try? Files.names(inDirectory: path)) ?? [] where name != purpose.lockName && purpose.owns(name) {
            removeTwice("\(path)/\(name)")
        }
        removeTwice("\(path)/\(purpose.lockName)")
        // Only if it is empty: a process that has created a lock file in it since is its owner now.
        try? Files.removeDirectory(path)
    }

    /// A disk may refuse a removal once and perform it the next time.
    private static func removeTwice(_ path: String) {
        for _ in 0..<2 where (try? Files.remove(path)) != nil { return }
    }

    // MARK: Putting in place

    /// Renames a finished file to a name that must be free.
    ///
    /// - Throws: `SystemError`, also where the name exists.
    package static func link(_ path: String, to newPath: String) throws {
        do {
            try FileManager.default.linkItem(atPath: path, toPath: newPath)
        } catch {
            if Files.exists(newPath) { throw systemError("link", newPath, error) }
            // A filesystem without hard links.
            do {
                try FileManager.default.moveItem(atPath: path, toPath: newPath)
            } catch {
                throw systemError("rename", newPath, error)
            }
        }
    }

    /// Foundation's error as the system's own error.
    private static func systemError(_ call: String, _ path: String, _ error: any Error) -> SystemError {
        let number = ((error as NSError).userInfo[NSUnderlyingErrorKey] as? NSError)?.code
        return SystemError(call: call, path: path, errorNumber: number.map { Int32(clamping: $0) } ?? EACCES)
    }
}

extension StorePaths {
    /// The database or store in the same folder to which a name belongs; nil if it is free for a store.
    ///
    /// - Throws: `SystemError` where the folder cannot be resolved.
    package static func owner(of path: String) throws -> String? {
        let path = try Files.resolvingLinks(of: path)
        let name = Files.name(of: path)
        let folder = path.dropLast(name.count)
        // Each suffix begins with "-" or "."; the name before it is that of the owner.
        for end in Array(name.indices.dropFirst()) where name[end] == "-" || name[end] == "." {
            let paths = StorePaths(String(folder) + String(name[..<end]))
            guard [paths.database, paths.sidecar, paths.sidecarBackup].contains(where: { Files.exists($0) }) else {
                continue
            }
            if try Files.kind(paths.database) != .directory, paths.owns(path) { return paths.database }
        }
        return nil
    }

    /// Whether a path is a name of the store's own files, or of those that a command makes beside it: what is put there
    /// is taken for a part of the store, and overwritten or removed.
    package func owns(_ path: String) -> Bool {
        // A directory that does not exist is not that of the store.
        guard let path = try? Files.resolvingLinks(of: path) else { return false }
        let own = [
            wal, sharedMemory, journal, lock, notifications, rotationCopy, destroying, sidecar, sidecarBackup,
            KeyLog(databasePath: database).path, database + "-restoring",
        ]
        let staged = StagingDirectory.Purpose.allCases.map { "\(database).\($0.rawValue)-" }
        // Such as -sidecar.damaged, -lock.tmp-1, -keylog.1 and -replaced-<time>.
        return own.contains { path == $0 || path.hasPrefix($0 + ".") }
            || (["\(database)-replaced-"] + staged).contains { path.hasPrefix($0) }
    }
}
